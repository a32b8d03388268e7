package pencil

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	lapack "gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// reduced is a symmetric matrix as Q T Q', T tridiagonal. Some of its eigenvalues are found by bisection, and their
// vectors by inverse iteration (Wilkinson 1965, chapter 5). A full decomposition spends nine tenths of its time on the
// vectors.
type reduced struct {
	n          int
	order      []int       // of the rows: descending diagonal
	v          [][]float64 // reflection k is I - tau v v' of the rows after the first k+1
	tau        []float64
	diag, next []float64 // T
	spectrum   *sturm    // of T
	size       float64   // the largest eigenvalue, whatever its sign
}

// reduce returns nil if s or its tridiagonal form is not finite, or if ctx ends. It starts at the largest of the
// diagonal: see grade. What it returns is in room, which it replaces if that is too short.
func reduce(ctx context.Context, s *mat.SymDense, room *[]float64) *reduced {
	n := s.SymmetricDim()
	order := grade(s)
	slices.Reverse(order)
	r := &reduced{n: n, order: order, v: make([][]float64, n-1), tau: make([]float64, n-1),
		diag: make([]float64, n), next: make([]float64, n-1)}
	size := (n + tile.Lanes - 1) / tile.Lanes * tile.Lanes
	if cap(*room) < size*size {
		*room = make([]float64, size*size)
	}
	a, raw := (*room)[:size*size], s.RawSymmetric()
	clear(a[n*size:])
	for i, p := range order {
		row := a[i*size:][:size]
		clear(row[n:])
		for j := i / tile.Lanes * tile.Lanes; j < n; j++ {
			row[j] = raw.Data[min(p, order[j])*raw.Stride+max(p, order[j])]
		}
	}
	if !r.reflect(ctx, a, size) {
		return nil
	}
	// Of a matrix that is not finite, and after an overflow, counts of signs are meaningless.
	if !linalg.AllFinite(r.diag) || !linalg.AllFinite(r.next) {
		return nil
	}
	r.spectrum = newSturm(r.diag, r.next)
	return r
}

// reflect sets T and the reflections, of rows of a that are size apart, as tile.RankTwo needs them: each step applies
// the update of the previous one while it computes its own product. It returns false if ctx ends.
func (r *reduced) reflect(ctx context.Context, a []float64, size int) bool {
	n, room := r.n, make([]float64, 4*size)
	v, w, x, y := room[:size], room[size:2*size], room[2*size:3*size], room[3*size:]
	for k := range n {
		if k%16 == 0 && ctx.Err() != nil {
			return false
		}
		row := a[k*size : k*size+n]
		for j := k; j < n; j++ {
			row[j] -= v[k]*w[j] + w[k]*v[j]
		}
		r.diag[k] = row[k]
		if k == n-1 {
			break
		}
		behind := row[k+1:]
		r.next[k], r.tau[k] = lapack.Implementation{}.Dlarfg(len(behind), behind[0], behind[1:], 1)
		behind[0] = 1
		r.v[k] = behind // this row is not written again
		v[k], w[k] = 0, 0
		copy(x[k+1:], behind)
		tile.RankTwo(a, size, k+1, v, w, x, y)
		v, x = x, v
		x[k+1] = 0
		own := blas64.Vector{N: n - k - 1, Data: v[k+1:], Inc: 1}
		made := blas64.Vector{N: n - k - 1, Data: y[k+1:], Inc: 1}
		half := -r.tau[k] * r.tau[k] / 2 * blas64.Dot(own, made)
		w, y = y, w
		clear(w[:k+1])
		blas64.Scal(r.tau[k], made)
		blas64.Axpy(half, own, made)
	}
	return true
}

// best are the count best eigenvalues, best first, and the smallest of all. It sets size.
func (r *reduced) best(end End, count int) (least float64, best []float64) {
	places := []int{0, r.n - 1}
	for i := range min(count, r.n) {
		if end == Max {
			i = r.n - 1 - i
		}
		places = append(places, i)
	}
	all := r.spectrum.values(places)
	r.size = max(math.Abs(all[0]), math.Abs(all[1]))
	return all[0], all[2:]
}

// vectors are the eigenvectors of neighbouring values, ascending, as columns; nil if they are not orthonormal or not
// accurate.
func (r *reduced) vectors(values []float64) *mat.Dense {
	count := len(values)
	rng := rand.New(rand.NewPCG(uint64(r.n), 0x2545f4914f6cdd1d)) // seeded by the order only
	v := mat.NewDense(count, r.n, nil)
	f := newShiftedFactor(r.n)
	group, shift := 0, 0.0
	for i := range count {
		value := values[i]
		at := value
		if i > 0 {
			if value-values[i-1] > 1e-3*r.size {
				group = i // further apart: orthogonal anyway
			}
			// Equal values need different shifts, or they would give one vector.
			if least := shift + 10*eps*r.size; at < least {
				at = least
			}
		}
		shift = at
		f.factor(r.diag, r.next, at, eps*r.size)
		x := v.RawRowView(i)
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		for range 4 {
			f.solve(x)
			largest := 0.0
			for _, w := range x {
				largest = max(largest, math.Abs(w))
			}
			own := blas64.Vector{N: r.n, Data: x, Inc: 1}
			blas64.Scal(1/largest, own)
			for range 2 {
				for p := group; p < i; p++ {
					other := blas64.Vector{N: r.n, Data: v.RawRowView(p), Inc: 1}
					blas64.Axpy(-blas64.Dot(own, other), other, own)
				}
			}
			norm := blas64.Nrm2(own)
			if !(norm > 0) { // also if largest is 0, infinite or NaN
				return nil
			}
			blas64.Scal(1/norm, own)
		}
	}
	if !r.good(v, values) {
		return nil
	}
	r.rotate(v)
	out := mat.NewDense(r.n, count, nil)
	for j, row := range r.order {
		to := out.RawRowView(row)
		for i := range to {
			to[i] = v.At(i, j)
		}
	}
	return out
}

// good reports whether the rows of v are orthonormal eigenvectors of T for these values.
func (r *reduced) good(v *mat.Dense, values []float64) bool {
	tol := 64 * float64(r.n) * eps
	for i, value := range values {
		x, worst := v.RawRowView(i), 0.0
		for j := range x {
			d := (r.diag[j] - value) * x[j]
			if j > 0 {
				d += r.next[j-1] * x[j-1]
			}
			if j+1 < r.n {
				d += r.next[j] * x[j+1]
			}
			worst = max(worst, math.Abs(d))
		}
		if !(worst <= tol*r.size) {
			return false
		}
		for p := range i {
			dot := blas64.Dot(blas64.Vector{N: r.n, Data: x, Inc: 1},
				blas64.Vector{N: r.n, Data: v.RawRowView(p), Inc: 1})
			if !(math.Abs(dot) <= tol) {
				return false
			}
		}
	}
	return true
}

// rotate sets each row x of v to Qx.
func (r *reduced) rotate(v *mat.Dense) {
	count, _ := v.Dims()
	for k := r.n - 2; k >= 0; k-- {
		own := blas64.Vector{N: r.n - k - 1, Data: r.v[k], Inc: 1}
		for i := range count {
			x := blas64.Vector{N: own.N, Data: v.RawRowView(i)[k+1:], Inc: 1}
			blas64.Axpy(-r.tau[k]*blas64.Dot(own, x), own, x)
		}
	}
}

// shiftedFactor is T - value I as LU with row exchanges.
type shiftedFactor struct {
	u0, u1, u2 []float64 // U: the diagonal and the two next to it
	l          []float64
	swapped    []bool
}

func newShiftedFactor(n int) *shiftedFactor {
	room := make([]float64, 4*n)
	return &shiftedFactor{u0: room[:n], u1: room[n : 2*n], u2: room[2*n : 3*n], l: room[3*n:], swapped: make([]bool, n)}
}

// factor replaces pivots smaller than tiny by tiny.
func (f *shiftedFactor) factor(diag, next []float64, value, tiny float64) {
	n := len(diag)
	u0, u1 := diag[0]-value, 0.0
	if n > 1 {
		u1 = next[0]
	}
	for i := range n - 1 {
		below, d, right := next[i], diag[i+1]-value, 0.0
		if i+2 < n {
			right = next[i+1]
		}
		if f.swapped[i] = math.Abs(below) > math.Abs(u0); f.swapped[i] {
			f.l[i] = u0 / below
			f.u0[i], f.u1[i], f.u2[i] = below, d, right
			u0, u1 = u1-f.l[i]*d, -f.l[i]*right
			continue
		}
		if math.Abs(u0) < tiny {
			u0 = tiny
		}
		f.l[i] = below / u0
		f.u0[i], f.u1[i], f.u2[i] = u0, u1, 0
		u0, u1 = d-f.l[i]*u1, right
	}
	if math.Abs(u0) < tiny {
		u0 = tiny
	}
	f.u0[n-1] = u0
}

// solve solves a system whose right side is x, in place.
func (f *shiftedFactor) solve(x []float64) {
	n := len(x)
	for i := range n - 1 {
		if f.swapped[i] {
			x[i], x[i+1] = x[i+1], x[i]-f.l[i]*x[i+1]
		} else {
			x[i+1] -= f.l[i] * x[i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		v := x[i]
		if i+1 < n {
			v -= f.u1[i] * x[i+1]
		}
		if i+2 < n {
			v -= f.u2[i] * x[i+2]
		}
		x[i] = v / f.u0[i]
	}
}
