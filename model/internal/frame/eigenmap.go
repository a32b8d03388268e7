package frame

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/pencil"
)

// LaplacianEigenmap is the embedding v (n x d row-major) and the eigenvalues of L v = lambda D v for connected
// weights: u of D^-1/2 L D^-1/2, whose null vector D^1/2 1 is known, and v = D^-1/2 u.
func LaplacianEigenmap(ctx context.Context, t *Task, w *graph.Matrix) (y, lambda []float64) {
	degrees := w.Degrees()
	root, inverse := mat.NewDense(len(degrees), 1, nil), make([]float64, len(degrees))
	for i, d := range degrees {
		root.Set(i, 0, math.Sqrt(d))
		// v'Dv = 1 makes outputs of this size, and they are float32.
		if inverse[i] = 1 / math.Sqrt(d); !(inverse[i] < maxSpread) {
			panic(fail.With(fmt.Errorf("row %d has degree %g in the graph; its weights vanish: give a larger t", i, d)))
		}
	}
	t.ReportProgress("eigenvectors", 0)
	part := fail.Must(pencil.Partial(ctx, w.Laplacian().Scale(inverse), pencil.Min, t.D, root))
	t.Found(part)
	v := part.Vectors
	for i, s := range inverse {
		row := v.RawRowView(i)
		for c := range row {
			row[c] *= s
		}
	}
	pencil.FixSigns(v)
	return v.RawMatrix().Data, part.Values
}
