package manifold

import (
	"context"
	"iter"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/pencil"
)

// lle: the smallest eigenvectors of (I - W)'(I - W) after the constant, W the weights, of sum 1, that best reconstruct
// each row from its k nearest; Y'Y = n I. Roweis and Saul, Science 290, 2000.
var LLE = frame.Method{
	Name: "lle", Title: "locally linear embedding",
	Paper: "Roweis and Saul, Nonlinear dimensionality reduction by locally linear embedding, Science 2000",
	Map:   "extension", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is reconstructed from",
			1).WithGrid(frame.NeighbourCounts...),
		frame.FloatParam("reg", "1e-3", "added to the diagonal of each local Gram matrix, times its trace", 1e-12, 1e3),
		frame.ComponentsParam,
	},
	Bound: frame.RowsLessOne,
	Memory: func(e frame.Extent) int64 {
		k := e.Int("k", 0)
		// Neighbours of a row have entries with each other too.
		return e.Alignment(k) + e.Copies(0, 1500) + e.Factor(k*k)
	},
	Fit:    fitLLE,
	Nested: true,
}

func fitLLE(ctx context.Context, t *frame.Task) *frame.Solution {
	lists, k := frame.Joined(ctx, t, graph.Repair(t.Params["components"]))
	t.ReportProgress("weights", 0)
	reg := t.Float("reg")
	a := fail.Must(graph.Align(t.Rows.N, reconstructions(fail.Must(graph.Barycentric(ctx, t.X, t.X, lists, reg)))))
	t.ReportProgress("eigenvectors", 0)
	part := fail.Must(pencil.Partial(ctx, a, pencil.Min, t.D, linalg.Constant(t.Rows.N)))
	t.Found(part)
	part.Vectors.Scale(math.Sqrt(float64(t.Rows.N)), part.Vectors)
	e := &mapping.Barycentric{Training: t.Training(nil, part.Vectors.RawMatrix().Data, t.D), K: k,
		Regular: reg}
	return t.Mapped(e, part.Values, t.D)
}

// reconstructions are the patches of the weights: |y_i - sum_j w_ij y_j|^2 as the form [1 -w'; -w ww'] of row i and
// its neighbours.
func reconstructions(w *graph.Matrix) iter.Seq[graph.Patch] {
	return func(yield func(graph.Patch) bool) {
		for i := range w.Order() {
			index, value := w.Row(i)
			rows := append([]int{i}, index...)
			residual := mat.NewVecDense(len(rows), nil)
			residual.SetVec(0, 1)
			for c, v := range value {
				residual.SetVec(c+1, -v)
			}
			l := mat.NewSymDense(len(rows), nil)
			l.SymOuterK(1, residual)
			if !yield(graph.Patch{Rows: rows, L: l}) {
				return
			}
		}
	}
}
