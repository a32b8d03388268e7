package pencil

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// Metric is a factored denominator: Z (m x rank) with Z' (D + rho I) Z = I on the kept subspace. It is immutable, until
// Release.
type Metric struct {
	m    int
	rank int
	d    mat.Symmetric // the denominator as given, nil for the identity
	rho  float64

	// Cholesky form: Z = diag(e) U^-1 with U'U = E (D + rho I) E; e nil means ones.
	u *triangle
	e []float64

	room *[]float64 // of U; nil: it is not reused

	// Cut form: Z itself.
	z *mat.Dense
}

// Identity is the metric of the constraint A'A = I in m columns.
func Identity(m int) *Metric { return &Metric{m: m, rank: m} }

// Ridge factors D + rho I by Cholesky. rho is absolute and not negative; see Rho for the relative form. The error is
// ErrNotDefinite, unless rho is not valid. The metric keeps D, which must not change while the metric is used.
func Ridge(d mat.Symmetric, rho float64) (*Metric, error) {
	m := d.SymmetricDim()
	if !(rho >= 0) || math.IsInf(rho, 0) {
		return nil, fmt.Errorf("ridge %g is not a finite number >= 0", rho)
	}
	if m == 0 {
		return nil, fmt.Errorf("%w: order 0", ErrNotDefinite)
	}
	room := takeRoom()
	*room = slices.Grow((*room)[:0], m*m)[:m*m]
	c := mat.NewSymDense(m, *room)
	c.CopySym(d)
	for i := range m {
		c.SetSym(i, i, c.At(i, i)+rho)
	}
	u := cholesky(alone, c)
	if u == nil {
		rooms.Put(room)
		return nil, fmt.Errorf("%w: order %d, trace %.4g, ridge %.4g", ErrNotDefinite, m, mat.Trace(d), rho)
	}
	return &Metric{m: m, rank: m, d: d, rho: rho, u: u, room: room}, nil
}

// Release makes the memory of a factor of [Ridge] available to later ones. The metric must not be used afterwards.
func (q *Metric) Release() {
	if q.room != nil {
		rooms.Put(q.room)
	}
	*q = Metric{}
}

// Rho turns a relative ridge into an absolute one: r tr(D)/columns, where columns is the number of columns after any
// rank cut before.
func Rho(r float64, d mat.Symmetric, columns int) float64 {
	if columns < 1 {
		return 0
	}
	return r * mat.Trace(d) / float64(columns)
}

// wellConditioned is the condition number of the equilibrated matrix below which Cut uses the Cholesky factor: no
// eigenvalue is near the cut, so both forms are exact, and Cholesky costs a tenth of an eigendecomposition.
const wellConditioned = 1e10

// Cut factors D by a rank cut. Columns of D with zero variance are dropped, the others are equilibrated to unit
// diagonal, and eigenvalues of at most m eps s_max count as zero, so that a direction counts by its own scale and not
// by that of the largest feature. The null space is dropped, as a principal component analysis in front would do. The
// metric keeps D, which must not change while the metric is used.
func Cut(d mat.Symmetric) (*Metric, error) {
	m := d.SymmetricDim()
	e, q, err := equilibrate(d, new([]float64))
	if err != nil {
		return nil, err
	}
	k := q.SymmetricDim()
	if k == 0 {
		return &Metric{m: m, d: d, z: nil, e: nil, rank: 0}, nil
	}
	if k == m {
		c := mat.NewSymDense(m, nil)
		c.CopySym(q)
		if u := cholesky(alone, c); u != nil && u.conditionOf(q) < wellConditioned {
			return &Metric{m: m, rank: m, d: d, u: u, e: e}, nil
		}
	}
	keep := make([]float64, 0, k)
	for _, v := range e {
		if v != 0 {
			keep = append(keep, v)
		}
	}
	var small *mat.Dense
	if k > fewOrder {
		small = cutByPivots(q, keep)
	}
	if small == nil {
		if small, err = cutByValues(q, keep, float64(m)*eps); err != nil {
			return nil, err
		}
	}
	_, r := small.Dims()
	z := mat.NewDense(m, r, nil)
	for i, row := 0, 0; i < m; i++ {
		if e[i] != 0 {
			copy(z.RawRowView(i), small.RawRowView(row))
			row++
		}
	}
	if r < k {
		intoRange(z, e)
	}
	return &Metric{m: m, rank: r, d: d, z: z}, nil
}

// cutByValues is EZ with Z'qZ = I for an equilibrated matrix q, without its eigenvalues of at most cut times the
// largest.
func cutByValues(q *mat.SymDense, e []float64, cut float64) (*mat.Dense, error) {
	values, vectors, err := eigen(q)
	if err != nil {
		return nil, err
	}
	k := len(values)
	first := 0
	for first < k && values[first] <= cut*values[k-1] {
		first++
	}
	z := mat.NewDense(k, k-first, nil)
	for i := range k {
		for j := range k - first {
			// Largest first, so that leading columns are the most accurate.
			src := k - 1 - j
			z.Set(i, j, e[i]*vectors.At(i, src)/math.Sqrt(values[src]))
		}
	}
	return z, nil
}

// cutByPivots is cutByValues from a pivoted Cholesky factor U'U of the matrix, at a small fraction of the cost:
// U'(UU')^-1. It returns nil if the smallest eigenvalue that the factor keeps is near the cut.
func cutByPivots(q *mat.SymDense, e []float64) *mat.Dense {
	k := q.SymmetricDim()
	f := mat.NewSymDense(k, nil)
	f.CopySym(q)
	order, r := pivoted(alone, f, float64(k)*eps) // the diagonal is 1, and the largest eigenvalue at least that
	u := mat.NewDense(r, k, nil)                  // columns in the order of q
	for i := range r {
		row := u.RawRowView(i)
		for j := i; j < k; j++ {
			row[order[j]] = f.At(i, j)
		}
	}
	products := productsOfRows(alone, u)
	c := mat.NewSymDense(r, nil)
	c.CopySym(products)
	t := cholesky(alone, c)
	if t == nil || !(t.conditionOf(products) < wellConditioned) {
		return nil
	}
	t.solveTransposed(alone, u)
	t.solve(alone, u)
	z := mat.DenseCopyOf(u.T())
	scaleRows(z, e)
	return z
}

// intoRange replaces the columns of z, which are E u for u in the range of E D E, by the ones of least norm that D
// does not distinguish from them: their projection on the range of D. It is the result of a principal component
// analysis in front, and makes the map independent of the units that the rank was decided in.
func intoRange(z *mat.Dense, e []float64) {
	low, high := math.Inf(1), 0.0
	for _, v := range e {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high <= low*(1+1e-12) {
		return
	}
	m, r := z.Dims()
	b := mat.NewDense(m, r, nil) // range of D = E^-2 z
	for i, v := range e {
		if v > 0 {
			row := b.RawRowView(i)
			for j, w := range z.RawRowView(i) {
				row[j] = w / (v * v)
			}
		}
	}
	q := Orthonormal(alone, b, 0)
	var inner, out mat.Dense
	inner.Mul(q.T(), z)
	out.Mul(q, &inner)
	z.Copy(&out)
}

// Rank is the numerical rank of a positive semidefinite matrix by the rule of Cut, from a pivoted Cholesky factor
// instead of an eigendecomposition.
func Rank(ctx context.Context, d mat.Symmetric) (int, error) {
	room := takeRoom()
	defer rooms.Put(room)
	_, q, err := equilibrate(d, room)
	if err != nil {
		return 0, err
	}
	k := q.SymmetricDim()
	if k == 0 {
		return 0, nil
	}
	// The Frobenius norm replaces s_max: it is between s_max and sqrt(rank) times it.
	tol := float64(d.SymmetricDim()) * eps * mat.Norm(q, 2)
	if above(parallel.Limit(ctx, 1), q, tol) {
		return k, nil
	}
	_, q, _ = equilibrate(d, room)
	_, rank := pivoted(ctx, q, tol)
	return rank, nil
}

// above reports whether all eigenvalues of s are above tol, and so all pivots: a factor without pivoting shows it, at
// a fraction of the cost. It may return false for values just above tol. It overwrites s.
func above(ctx context.Context, s *mat.SymDense, tol float64) bool {
	for i := range s.SymmetricDim() {
		s.SetSym(i, i, s.At(i, i)-4*tol)
	}
	return cholesky(ctx, s) != nil
}

// equilibrate returns e = diag(D)^-1/2 (0 where the diagonal is 0) and the matrix E D E without its zero columns, in
// the given memory if that is enough.
func equilibrate(d mat.Symmetric, room *[]float64) ([]float64, *mat.SymDense, error) {
	m := d.SymmetricDim()
	e := make([]float64, m)
	keep := make([]int, 0, m)
	for i := range m {
		v := d.At(i, i)
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return nil, nil, fmt.Errorf("%w: column %d has second moment %g", ErrNotDefinite, i, v)
		case v > 0:
			e[i] = 1 / math.Sqrt(v) // finite, and not 0, for every v
			keep = append(keep, i)
		}
	}
	if len(keep) == 0 {
		return e, new(mat.SymDense), nil
	}
	*room = slices.Grow((*room)[:0], len(keep)*len(keep))[:len(keep)*len(keep)]
	q, raw := mat.NewSymDense(len(keep), *room), symDense(d).RawSymmetric()
	for a, i := range keep {
		row, from := q.RawSymmetric().Data[a*len(keep):][:len(keep)], raw.Data[i*raw.Stride:][:m]
		for b := a; b < len(keep); b++ {
			j := keep[b]
			v := e[i] * from[j] * e[j]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, nil, fmt.Errorf("%w: entry (%d, %d) is %g", ErrNotDefinite, i, j, from[j])
			}
			row[b] = v
		}
	}
	return e, q, nil
}

// Columns is the order m of the denominator.
func (q *Metric) Columns() int { return q.m }

// Rank is the dimension of the kept subspace.
func (q *Metric) Rank() int { return q.rank }

// Rho is the absolute ridge.
func (q *Metric) Rho() float64 { return q.rho }

// Whiten returns Z'B (rank x c) for B (m x c).
func (q *Metric) Whiten(b mat.Matrix) *mat.Dense { return q.whiten(alone, b) }

func (q *Metric) whiten(ctx context.Context, b mat.Matrix) *mat.Dense {
	return q.whitened(ctx, mat.DenseCopyOf(b))
}

// whitened is Z'B. It overwrites B unless Z comes from a cut.
func (q *Metric) whitened(ctx context.Context, b *mat.Dense) *mat.Dense {
	switch {
	case q.z != nil:
		r := mat.NewDense(q.rank, b.RawMatrix().Cols, nil)
		r.Mul(q.z.T(), b)
		return r
	case q.u != nil:
		scaleRows(b, q.e)
		q.u.solveTransposed(ctx, b)
	}
	return b
}

// Unwhiten returns Z V (m x c) for V (rank x c): whitened coordinates to columns of a map.
func (q *Metric) Unwhiten(v mat.Matrix) *mat.Dense {
	if q.z != nil {
		_, c := v.Dims()
		out := mat.NewDense(q.m, c, nil)
		out.Mul(q.z, v)
		return out
	}
	out := mat.DenseCopyOf(v)
	if q.u != nil {
		q.u.solve(alone, out)
		scaleRows(out, q.e)
	}
	return out
}

// Solve returns Z Z'B = (D + rho I)^-1 B, the pseudo-inverse on the kept subspace: the linear form of spectral
// regression.
func (q *Metric) Solve(b mat.Matrix) *mat.Dense { return q.Unwhiten(q.Whiten(b)) }

// apply returns (D + rho I) A.
func (q *Metric) apply(a *mat.Dense) *mat.Dense {
	if q.d == nil {
		return mat.DenseCopyOf(a)
	}
	out := tile.Times(alone, symDense(q.d), a)
	if q.rho != 0 {
		for i := range q.m {
			row, src := out.RawRowView(i), a.RawRowView(i)
			for j := range row {
				row[j] += q.rho * src[j]
			}
		}
	}
	return out
}

// whitenSym returns Z'NZ, symmetrised, in the given memory if that is enough, or N itself if Z is the identity; the
// caller must not change it.
func (q *Metric) whitenSym(ctx context.Context, n mat.Symmetric, room *[]float64) *mat.SymDense {
	if q.d == nil && q.z == nil {
		return symDense(n)
	}
	*room = slices.Grow((*room)[:0], q.m*q.m)[:q.m*q.m]
	copied, raw := mat.NewDense(q.m, q.m, *room), symDense(n).RawSymmetric()
	for i := range q.m {
		copy(copied.RawRowView(i)[i:], raw.Data[i*raw.Stride+i:])
	}
	linalg.AboveDiagonal(q.m, func(i, from, to int) {
		for j := from; j < to; j++ {
			(*room)[j*q.m+i] = (*room)[i*q.m+j]
		}
	})
	half := q.whitened(ctx, copied).RawMatrix().Data
	if q.rank < q.m {
		half = linalg.Transpose(half, q.m)
	} else {
		linalg.TransposeSquare(half, q.m)
	}
	full := q.whitened(ctx, mat.NewDense(q.m, q.rank, half)).RawMatrix().Data // from NZ, m x rank
	linalg.AboveDiagonal(q.rank, func(i, from, to int) {
		row, column := full[i*q.rank:][:q.rank], full[i:]
		for j := from; j < to; j++ {
			row[j] = (row[j] + column[j*q.rank]) / 2
			column[j*q.rank] = row[j]
		}
	})
	return mat.NewSymDense(q.rank, full)
}

func scaleRows(a *mat.Dense, e []float64) {
	for i, s := range e {
		row := a.RawRowView(i)
		for j := range row {
			row[j] *= s
		}
	}
}
