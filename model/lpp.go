package model

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lpp: max (X D X', X L X' + rho I), W the heat weights of the k nearest rows, D
// its degrees, L = D - W. Rows are centred, or a constant output would be a
// solution. ridge=0 is the paper's form, min (X L X', X D X') with a rank cut.
// He and Niyogi, NIPS 2003, eq. 1.
var lpp = Method{
	Name: "lpp", Title: "locality preserving projections",
	Paper: "He and Niyogi, Locality preserving projections, NIPS 2003",
	Map:   "linear", Streaming: "window",
	Params: []Param{
		intParam("k", "5", "nearest rows that each row is joined with", 1).tried(neighbourCounts...),
		heatParam("auto", "width of the weights exp(-d^2/t): auto (mean squared distance to the nearest row), inf (weight 1), or a number").tried(heatWidths...),
		ridgeParam("oas", "relative ridge of X L X': oas (of the total scatter) or a number; 0 is the literal form", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     maximize(lppRatio, pencil.Min),
}

func lppRatio(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, err
	}
	w, err := lists.Weights(graph.Union, t.heat(lists))
	if err != nil {
		return nil, nil, err
	}
	return graph.Embedding(t.x, w, graph.Degree)
}
