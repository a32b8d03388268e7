package linalg

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Identity is the identity matrix of order d.
func Identity(d int) *mat.Dense {
	m := mat.NewDense(d, d, nil)
	for i := range d {
		m.Set(i, i, 1)
	}
	return m
}

var unused sync.Pool // of *mat.SymDense

// NewSym returns a zero matrix of order m, in the memory of one that Reuse was called with if there is one of this
// order. What is below the diagonal of its raw data is undefined then.
func NewSym(m int) *mat.SymDense {
	if s, ok := unused.Get().(*mat.SymDense); ok && s.SymmetricDim() == m {
		s.Zero()
		return s
	}
	return mat.NewSymDense(m, nil)
}

// Reuse passes the memory of matrices to later calls of NewSym. Nothing may read or write them afterwards. It ignores
// nil.
func Reuse(all ...*mat.SymDense) {
	for _, s := range all {
		if s != nil {
			unused.Put(s)
		}
	}
}

// Pick copies rows of x.
func Pick(x *mat.Dense, rows []int) *mat.Dense {
	_, m := x.Dims()
	out := mat.NewDense(len(rows), m, nil)
	for k, i := range rows {
		out.SetRow(k, x.RawRowView(i))
	}
	return out
}

// ColumnMeans is the mean of the rows of x. It sums in another order than Mean, which gives other last digits.
func ColumnMeans(x *mat.Dense) []float64 {
	n, m := x.Dims()
	mean := make([]float64, m)
	for i := range n {
		floats.AddScaled(mean, 1/float64(n), x.RawRowView(i))
	}
	return mean
}

// Cholesky solves A x = b in place, A given by its lower triangle, and reports whether A is positive definite.
func Cholesky(a, b []float64) bool {
	k := len(b)
	for i := range k {
		for j := range i + 1 {
			v := a[i*k+j]
			for l := range j {
				v -= a[i*k+l] * a[j*k+l]
			}
			if i != j {
				a[i*k+j] = v / a[j*k+j]
			} else if a[i*k+i] = math.Sqrt(v); !(v > 0) {
				return false
			}
		}
	}
	for i := range k {
		for l := range i {
			b[i] -= a[i*k+l] * b[l]
		}
		b[i] /= a[i*k+i]
	}
	for i := k - 1; i >= 0; i-- {
		for l := i + 1; l < k; l++ {
			b[i] -= a[l*k+i] * b[l]
		}
		b[i] /= a[i*k+i]
	}
	return true
}

// Transpose turns n x d row-major data into d x n.
func Transpose(a []float64, d int) []float64 {
	if len(a) == 0 {
		return nil
	}
	return mat.DenseCopyOf(mat.NewDense(len(a)/d, d, a).T()).RawMatrix().Data
}

// AboveDiagonal calls f for parts of the rows above the diagonal of an n x n matrix: the columns [from, to) of row i.
// It takes some columns at a time, so that the entries that f reads or writes below the diagonal stay in the cache.
func AboveDiagonal(n int, f func(i, from, to int)) {
	const width = 16 // columns at a time
	for from := 0; from < n; from += width {
		to := min(from+width, n)
		for i := range to - 1 {
			f(i, max(i+1, from), to)
		}
	}
}

// TransposeSquare transposes n x n numbers in place.
func TransposeSquare(a []float64, n int) {
	AboveDiagonal(n, func(i, from, to int) {
		for j := from; j < to; j++ {
			a[i*n+j], a[j*n+i] = a[j*n+i], a[i*n+j]
		}
	})
}

// Constant is the constant vector, n x 1.
func Constant(n int) *mat.Dense {
	v := mat.NewDense(n, 1, nil)
	for i := range n {
		v.Set(i, 0, 1)
	}
	return v
}

// ScaleColumn multiplies column j of a by f, in place.
func ScaleColumn(a *mat.Dense, j int, f float64) {
	m, _ := a.Dims()
	for i := range m {
		a.Set(i, j, f*a.At(i, j))
	}
}

// Complement is an orthonormal basis (k x k-1) of the vectors orthogonal to the unit vector u: the last columns of the
// Householder reflection that maps the first axis to u.
func Complement(u []float64) *mat.Dense {
	k := len(u)
	w := slices.Clone(u)
	sign := 1.0
	if w[0] < 0 {
		sign = -1
	}
	w[0] += sign
	norm := 0.0
	for _, v := range w {
		norm += v * v
	}
	b := mat.NewDense(k, k-1, nil)
	for i := range k {
		for j := 1; j < k; j++ {
			v := -2 * w[i] * w[j] / norm
			if i == j {
				v++
			}
			b.Set(i, j-1, v)
		}
	}
	return b
}

// Symmetric is (A + A')/2 of a square matrix.
func Symmetric(a *mat.Dense) *mat.SymDense {
	n, _ := a.Dims()
	s, from := mat.NewSymDense(n, nil), a.RawMatrix()
	for i := range n {
		s.SetSym(i, i, a.At(i, i))
	}
	AboveDiagonal(n, func(i, first, end int) {
		row := s.RawSymmetric().Data[i*n:]
		for j := first; j < end; j++ {
			row[j] = (from.Data[i*from.Stride+j] + from.Data[j*from.Stride+i]) / 2
		}
	})
	return s
}

// ScaleSym is diag(f) s diag(f), in the memory of s.
func ScaleSym(s *mat.SymDense, f []float64) *mat.SymDense {
	m := len(f)
	for i := range m {
		for j := i; j < m; j++ {
			s.SetSym(i, j, f[i]*s.At(i, j)*f[j])
		}
	}
	return s
}

// Congruence is A'SA.
func Congruence(s mat.Symmetric, a *mat.Dense) *mat.SymDense {
	var half, full mat.Dense
	half.Mul(s, a)
	full.Mul(a.T(), &half)
	return Symmetric(&full)
}

// PivotedFactor is F (n x r) with F F' = S, by a pivoted Cholesky factor with pivots above this share of the largest
// diagonal entry; nil if S is zero.
func PivotedFactor(s *mat.SymDense, share float64) (f *mat.Dense, chol *mat.PivotedCholesky) {
	n, largest := s.SymmetricDim(), 0.0
	for i := range n {
		largest = max(largest, s.At(i, i))
	}
	chol = new(mat.PivotedCholesky)
	chol.Factorize(s, share*largest)
	r := chol.Rank()
	if r == 0 || largest == 0 {
		return nil, nil
	}
	f = mat.NewDense(n, r, nil)
	upper := chol.RawU()
	for i, row := range chol.ColumnPivots(nil) {
		for c := range min(i+1, r) {
			f.Set(row, c, upper.At(c, i))
		}
	}
	return f, chol
}

// Orthonormalize makes columns orthonormal, each by its part outside of those before it.
func Orthonormalize(a *mat.Dense) {
	m, d := a.Dims()
	var qr mat.QR
	qr.Factorize(a)
	var q mat.Dense
	qr.QTo(&q)
	a.Copy(q.Slice(0, m, 0, d))
}
