package pencil

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Operator is a symmetric matrix M of order n that is known by its products.
type Operator interface {
	Order() int
	// Apply sets dst = M x, both n x b for any b >= 1. It must not retain them, and must give the same bits for the same
	// x. It is not called concurrently. ctx only limits the goroutines: the caller checks it between products. Partial
	// turns a panic into an error.
	Apply(ctx context.Context, dst, x *mat.Dense)
}

// Entries is an Operator that exposes its rows. Its small end is found through a factor, because products alone do not
// reach values that are tiny compared with the largest.
type Entries interface {
	Operator
	// Row returns the columns and the values of row i, each column at most once, in any order. The caller must not change
	// them.
	Row(i int) (columns []int, values []float64)
}

// Dense is a dense symmetric matrix as an operator that exposes its rows. It copies s: 8 n^2 bytes.
func Dense(s mat.Symmetric) Entries {
	n := s.SymmetricDim()
	a := &denseOperator{a: mat.NewDense(n, n, nil), columns: linalg.Range(n)}
	a.a.Copy(s)
	return a
}

type denseOperator struct {
	a       *mat.Dense
	columns []int
}

func (d *denseOperator) Order() int { return len(d.columns) }

func (d *denseOperator) Row(i int) ([]int, []float64) { return d.columns, d.a.RawRowView(i) }

func (d *denseOperator) Apply(ctx context.Context, dst, x *mat.Dense) {
	n, b := x.Dims()
	rows := mat.DenseCopyOf(x.T())
	// A panel of rows stays in the cache for all b products.
	const panel = 32
	split(ctx, (n+panel-1)/panel, n*n*b, func(i int) {
		from, to := i*panel, min(n, i*panel+panel)
		p := rowsOf(d.a, from, to)
		var y [panel]float64
		out := blas64.Vector{N: to - from, Data: y[:to-from], Inc: 1}
		for j := range b {
			blas64.Gemv(blas.NoTrans, 1, p, blas64.Vector{N: n, Data: rows.RawRowView(j), Inc: 1}, 0, out)
			for r, v := range out.Data {
				dst.Set(from+r, j, v)
			}
		}
	})
}

// allOf is the matrix of an operator.
func allOf(ctx context.Context, m Operator) *mat.Dense {
	out := mat.NewDense(m.Order(), m.Order(), nil)
	m.Apply(ctx, out, linalg.Identity(m.Order()))
	return out
}
