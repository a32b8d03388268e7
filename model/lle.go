package model

import (
	"context"
	"iter"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lle: the smallest eigenvectors of (I - W)'(I - W) after the constant, W the
// weights, of sum 1, that best reconstruct each row from its k nearest;
// Y'Y = n I. Roweis and Saul, Science 290, 2000.
var lle = Method{
	Name: "lle", Title: "locally linear embedding",
	Paper: "Roweis and Saul, Nonlinear dimensionality reduction by locally linear embedding, Science 2000",
	Map:   "extension", Streaming: "window",
	Params: []Param{
		intParam("k", "10", "nearest rows that each row is reconstructed from", 1).tried(neighbourCounts...),
		floatParam("reg", "1e-3", "added to the diagonal of each local Gram matrix, times its trace", 1e-12, 1e3),
		componentsParam,
	},
	dim:     twoColumns,
	bound:   rowsLessOne,
	samples: true,
	fit:     fitLLE,
}

func fitLLE(ctx context.Context, t *task) (*solution, error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, err
	}
	index, _ := lists.Of(0)
	lists, edges, err := lists.Connect(ctx, t.x, graph.Repair(t.params["components"]))
	if err != nil {
		return nil, err
	}
	t.noteEdges(edges)
	t.say("weights", 0)
	reg := t.float("reg")
	w, err := graph.Barycentric(ctx, t.x, t.x, lists, reg)
	if err != nil {
		return nil, err
	}
	a, err := graph.Align(t.rows.n, reconstructions(w))
	if err != nil {
		return nil, err
	}
	t.say("eigenvectors", 0)
	part, err := pencil.Partial(ctx, a, pencil.Min, t.d, constant(t.rows.n))
	if err != nil {
		return nil, err
	}
	t.found(part)
	part.Vectors.Scale(math.Sqrt(float64(t.rows.n)), part.Vectors)
	e := &barycentric{training: t.training(nil, part.Vectors.RawMatrix().Data, t.d), k: len(index), regular: reg}
	return &solution{d: t.d, eigenvalues: part.Values, informative: t.d, mapping: e}, nil
}

// reconstructions are the patches of the weights: |y_i - sum_j w_ij y_j|^2 as
// the form [1 -w'; -w ww'] of row i and its neighbours.
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

// constant is the constant vector, n x 1.
func constant(n int) *mat.Dense {
	v := mat.NewDense(n, 1, nil)
	for i := range n {
		v.Set(i, 0, 1)
	}
	return v
}
