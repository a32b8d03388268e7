package pencil

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	lapack "gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"
)

// reduced is a symmetric matrix as Q T Q', T tridiagonal: all of its eigenvalues are at hand, and of the vectors as many
// as are asked for, by inverse iteration (Wilkinson 1965, chapter 5). A decomposition in full spends nine tenths of
// its time on the vectors.
type reduced struct {
	n          int
	order      []int     // of the rows: see eigen
	a, tau     []float64 // the reflections that Q is made of
	diag, next []float64 // T
	values     []float64 // ascending
	size       float64   // a norm of T
}

// reduce is nil where s is not finite, or the values do not converge.
func reduce(s *mat.SymDense) *reduced {
	n := s.SymmetricDim()
	if finite(mat.NewDense(n, n, s.RawSymmetric().Data)) != nil {
		return nil
	}
	order, graded := grade(s)
	r := &reduced{n: n, order: order, a: graded.RawSymmetric().Data, tau: make([]float64, n-1),
		diag: make([]float64, n), next: make([]float64, n-1)}
	var best [1]float64
	lapack.Implementation{}.Dsytrd(blas.Upper, n, r.a, n, r.diag, r.next, r.tau, best[:], -1)
	work := make([]float64, int(best[0]))
	lapack.Implementation{}.Dsytrd(blas.Upper, n, r.a, n, r.diag, r.next, r.tau, work, len(work))
	r.values = slices.Clone(r.diag)
	if !(lapack.Implementation{}).Dsterf(n, r.values, slices.Clone(r.next)) {
		return nil
	}
	r.size = max(math.Abs(r.values[0]), math.Abs(r.values[n-1]))
	return r
}

// vectors are the eigenvectors of the count values from first on, as columns; nil where they do not come out
// orthonormal, or off.
func (r *reduced) vectors(first, count int) *mat.Dense {
	rng := rand.New(rand.NewPCG(uint64(r.n), 0x2545f4914f6cdd1d)) // the order alone seeds it
	v := mat.NewDense(count, r.n, nil)
	f := newShifted(r.n)
	group, shift := 0, 0.0
	for i := range count {
		value := r.values[first+i]
		at := value
		if i > 0 {
			if value-r.values[first+i-1] > 1e-3*r.size {
				group = i // further apart: orthogonal by themselves
			}
			// Equal values take shifts of their own, or they would give one vector.
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
			if !(largest > 0) || math.IsInf(largest, 0) {
				return nil
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
			if !(norm > 0) {
				return nil
			}
			blas64.Scal(1/norm, own)
		}
	}
	if !r.good(v, first) {
		return nil
	}
	out := mat.NewDense(r.n, count, nil)
	for i := range count {
		x := v.RawRowView(i)
		r.turn(x)
		for j, row := range r.order {
			out.Set(row, i, x[j])
		}
	}
	return out
}

// good says whether the rows of v are orthonormal eigenvectors of T.
func (r *reduced) good(v *mat.Dense, first int) bool {
	count, _ := v.Dims()
	tol := 64 * float64(r.n) * eps
	for i := range count {
		x, value, worst := v.RawRowView(i), r.values[first+i], 0.0
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

// turn sets x to Qx.
func (r *reduced) turn(x []float64) {
	for i := range r.n - 1 {
		column := blas64.Vector{N: i, Data: r.a[i+1:], Inc: r.n}
		if i == 0 {
			x[0] -= r.tau[0] * x[0]
			continue
		}
		own := blas64.Vector{N: i, Data: x, Inc: 1}
		f := r.tau[i] * (blas64.Dot(column, own) + x[i])
		blas64.Axpy(-f, column, own)
		x[i] -= f
	}
}

// shifted is T - value I as LU, with rows exchanged.
type shifted struct {
	u0, u1, u2 []float64 // U: the diagonal and the two beside it
	l          []float64
	swapped    []bool
}

func newShifted(n int) *shifted {
	room := make([]float64, 4*n)
	return &shifted{u0: room[:n], u1: room[n : 2*n], u2: room[2*n : 3*n], l: room[3*n:], swapped: make([]bool, n)}
}

// factor puts tiny where a pivot is less.
func (f *shifted) factor(diag, next []float64, value, tiny float64) {
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

// solve sets x to what the matrix takes to it.
func (f *shifted) solve(x []float64) {
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

// grade is s with its diagonal ascending, and the order of its rows. The reduction to tridiagonal form begins at the
// last column: the small end of a graded matrix (features in units far apart) so keeps its digits.
func grade(s mat.Symmetric) ([]int, *mat.SymDense) {
	n := s.SymmetricDim()
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.At(a, a), s.At(b, b)) })
	graded := mat.NewSymDense(n, nil)
	for i, a := range order {
		for j := i; j < n; j++ {
			graded.SetSym(i, j, s.At(a, order[j]))
		}
	}
	return order, graded
}
