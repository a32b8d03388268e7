package pencil

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/tile"
)

// triangleBlock is the order of the diagonal blocks of a triangle, which are solved directly; the rest is products.
const triangleBlock = 48

// triangle is a Cholesky factor: U'U = A, in rows.
type triangle struct {
	n int
	u []float64
}

// cholesky factors a by its upper triangle, in its memory; nil if it is not positive definite. ctx only limits the
// goroutines.
func cholesky(ctx context.Context, a *mat.SymDense) *triangle {
	raw := a.RawSymmetric()
	t := &triangle{n: raw.N, u: raw.Data}
	for j := 0; j < t.n; j += triangleBlock {
		d, rest := t.diagonal(j), t.n-min(j+triangleBlock, t.n)
		f, ok := lapack64.Potrf(blas64.Symmetric{N: d.N, Stride: t.n, Data: d.Data, Uplo: blas.Upper})
		if !ok || !finiteDiagonal(f) {
			return nil
		}
		if rest > 0 {
			right, below := t.u[j*t.n+j+d.N:], t.u[(j+d.N)*(t.n+1):]
			blas64.Trsm(blas.Left, blas.Trans, 1, d, blas64.General{Rows: d.N, Cols: rest, Stride: t.n, Data: right})
			panel := tile.Dense(right, d.N, rest, t.n)
			fail.Check(tile.Add(ctx, tile.Sum{C: below, Stride: t.n, Alpha: -1, A: panel, B: panel, Upper: true}))
		}
	}
	return t
}

// diagonal is the block at row and column j.
func (t *triangle) diagonal(j int) blas64.Triangular {
	return blas64.Triangular{N: min(triangleBlock, t.n-j), Stride: t.n, Data: t.u[j*(t.n+1):], Uplo: blas.Upper,
		Diag: blas.NonUnit}
}

// solveTransposed sets x to U'^-1 x.
func (t *triangle) solveTransposed(ctx context.Context, x *mat.Dense) {
	r := x.RawMatrix()
	for j := 0; j < t.n; j += triangleBlock {
		d := t.diagonal(j)
		own := blas64.General{Rows: d.N, Cols: r.Cols, Stride: r.Stride, Data: r.Data[j*r.Stride:]}
		if j > 0 {
			fail.Check(tile.Add(ctx, tile.Sum{C: own.Data, Stride: r.Stride, Alpha: -1, A: tile.Dense(t.u[j:], j, d.N, t.n),
				B: tile.Dense(r.Data, j, r.Cols, r.Stride)}))
		}
		blas64.Trsm(blas.Left, blas.Trans, 1, d, own)
	}
}

// solve sets x to U^-1 x.
func (t *triangle) solve(ctx context.Context, x *mat.Dense) {
	r := x.RawMatrix()
	for j := (t.n - 1) / triangleBlock * triangleBlock; j >= 0; j -= triangleBlock {
		d := t.diagonal(j)
		own := blas64.General{Rows: d.N, Cols: r.Cols, Stride: r.Stride, Data: r.Data[j*r.Stride:]}
		if next := j + d.N; next < t.n {
			fail.Check(tile.Add(ctx, tile.Sum{C: own.Data, Stride: r.Stride, Alpha: -1,
				A: tile.Columns(t.u[j*t.n+next:], t.n-next, d.N, t.n),
				B: tile.Dense(r.Data[next*r.Stride:], t.n-next, r.Cols, r.Stride)}))
		}
		blas64.Trsm(blas.Left, blas.NoTrans, 1, d, own)
	}
}

// conditionOf estimates the condition number of a, whose factor is t, in the maximum column sum norm.
func (t *triangle) conditionOf(a *mat.SymDense) float64 {
	norm := lapack64.Lansy(lapack.MaxColumnSum, a.RawSymmetric(), make([]float64, t.n))
	return 1 / lapack64.Pocon(blas64.Symmetric{N: t.n, Stride: t.n, Data: t.u, Uplo: blas.Upper}, norm,
		make([]float64, 3*t.n), make([]int, t.n))
}
