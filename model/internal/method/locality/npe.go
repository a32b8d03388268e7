package locality

import (
	"context"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// npe: max (X X', X (I-W)'(I-W) X' + rho I), rows centred. Each row of W reconstructs its row from its k nearest, with
// weights of sum 1, with the regulariser reg tr(G) on the local Gram matrix G. ridge=0 is the paper's form, the min of
// the inverse ratio with a rank cut. He, Cai, Yan and Zhang, ICCV 2005.
var NPE = frame.Method{
	Name: "npe", Title: "neighbourhood preserving embedding",
	Paper: "He, Cai, Yan and Zhang, Neighborhood preserving embedding, ICCV 2005",
	Map:   "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "5", "nearest rows that each row is reconstructed from", 1).WithGrid(frame.NeighbourCounts...),
		frame.FloatParam("reg", "1e-3", "regulariser of the reconstruction weights, relative to the trace of their Gram "+
			"matrix, in [1e-12, 1]", 1e-12, 1),
		frame.RidgeParam("oas", "relative ridge of X (I-W)'(I-W) X': oas (of the total scatter) or a number; 0 is the "+
			"literal form", true),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: func(e frame.Extent) int64 { return e.Lists(e.Int("k", 0)) },
	Fit:    frame.Maximize(npeRatio, pencil.Min),
	Nested: true,
}

func npeRatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	lists := frame.Nearest(ctx, t, "k")
	t.ReportProgress("weights", 0)
	w := fail.Must(graph.Barycentric(ctx, t.X, t.X, lists, t.Float("reg")))
	return &frame.Ratio{N: frame.Moment(t), D: fail.Must(graph.ReconstructionForm(ctx, t.X, w))}
}
