package model

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// npe: max (X X', X (I-W)'(I-W) X' + rho I), rows centred. Each row of W rebuilds
// its row from its k nearest, weights that sum to 1, with the regulariser reg
// tr(G) on the local Gram matrix G. ridge=0 is the paper's form, the min of the
// inverse ratio with a rank cut. He, Cai, Yan and Zhang, ICCV 2005.
var npe = Method{
	Name: "npe", Title: "neighbourhood preserving embedding",
	Paper: "He, Cai, Yan and Zhang, Neighborhood preserving embedding, ICCV 2005",
	Map:   "linear", Streaming: "window",
	Params: []Param{
		intParam("k", "5", "nearest rows that rebuild each row", 1).tried(neighbourCounts...),
		floatParam("reg", "1e-3", "regulariser of the rebuilding weights, relative to the trace of their Gram matrix, in [1e-12, 1]", 1e-12, 1),
		ridgeParam("oas", "relative ridge of X (I-W)'(I-W) X': oas (of the total scatter) or a number; 0 is the literal form", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     maximize(npeRatio, pencil.Min),
}

func npeRatio(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, err
	}
	t.say("weights", 0)
	w, err := graph.Barycentric(ctx, t.x, t.x, lists, t.float("reg"))
	if err != nil {
		return nil, nil, err
	}
	d, err = graph.ReconstructionForm(t.x, w)
	return t.moment(), d, err
}
