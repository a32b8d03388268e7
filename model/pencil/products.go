package pencil

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// eps is the unit roundoff, the unit of the rank cut.
const eps = 0x1p-52

func finiteDiagonal(t blas64.Triangular) bool {
	for i := range t.N {
		if v := t.Data[i*t.Stride+i]; !(v > 0 && v <= math.MaxFloat64) {
			return false
		}
	}
	return true
}

// symDense is s, or a copy if it has another type.
func symDense(s mat.Symmetric) *mat.SymDense {
	if dense, ok := s.(*mat.SymDense); ok {
		return dense
	}
	dense := mat.NewSymDense(s.SymmetricDim(), nil)
	dense.CopySym(s)
	return dense
}

// alone is the context of work whose caller has none: it runs on one core.
var alone = parallel.Limit(context.Background(), 1)

func finite(a mat.Matrix) error {
	m, n := a.Dims()
	for i := range m {
		for j := range n {
			if v := a.At(i, j); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("entry (%d, %d) is %g: the values are too large or too small for this scale", i, j, v)
			}
		}
	}
	return nil
}

func rowsView(a *mat.Dense, from, to int) *mat.Dense {
	_, n := a.Dims()
	return a.Slice(from, to, 0, n).(*mat.Dense)
}

func rowsOf(a *mat.Dense, from, to int) blas64.General {
	g := a.RawMatrix()
	return blas64.General{Rows: to - from, Cols: g.Cols, Stride: g.Stride, Data: g.Data[from*g.Stride:]}
}

func columnsOf(a *mat.Dense, from, to int) blas64.General {
	g := a.RawMatrix()
	return blas64.General{Rows: g.Rows, Cols: to - from, Stride: g.Stride, Data: g.Data[from:]}
}

func grown(a *mat.Dense, rows, cols int) *mat.Dense {
	out := mat.NewDense(rows, cols, nil)
	out.Copy(a)
	return out
}

func maxAbs(a *mat.Dense) float64 {
	r, _ := a.Dims()
	worst := 0.0
	for i := range r {
		for _, v := range a.RawRowView(i) {
			if math.IsNaN(v) {
				return v
			}
			worst = max(worst, math.Abs(v))
		}
	}
	return worst
}

// split runs f for each of count tasks, on as many processors as ctx allows if work (in multiplications) is large
// enough. It finishes even if ctx ends. Tasks are the same for any number of processors, so that results do not depend
// on it. A panic in one of them panics in the caller, and becomes an error at the boundary of the package.
func split(ctx context.Context, count, work int, f func(i int)) {
	err := parallel.EachOn(context.WithoutCancel(ctx), parallel.WorkersFor(ctx, float64(work)), count, f)
	if err != nil {
		panic(err)
	}
}

// productsOfRows is Q Q'.
func productsOfRows(ctx context.Context, q *mat.Dense) *mat.SymDense {
	o := tile.Transposed(q)
	return fail.Must(tile.Gram(ctx, o, o))
}
