package locality

import (
	"context"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// lpp: max (X D X', X L X' + rho I), W the heat weights of the k nearest rows, D its degrees, L = D - W. Rows are
// centred, or a constant output would be a solution. ridge=0 is the paper's form, min (X L X', X D X') with a rank cut.
// He and Niyogi, NIPS 2003, eq. 1.
var LPP = frame.Method{
	Name: "lpp", Title: "locality preserving projections",
	Paper: "He and Niyogi, Locality preserving projections, NIPS 2003",
	Map:   "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "5", "nearest rows that each row is joined with", 1).WithGrid(frame.NeighbourCounts...),
		frame.HeatParam("auto", frame.HeatDoc).WithGrid(frame.HeatWidths...),
		frame.RidgeParam("oas", "relative ridge of X L X': oas (of the total scatter) or a number; 0 is the literal form",
			true),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: func(e frame.Extent) int64 { return e.Lists(e.Int("k", 0)) },
	Fit:    frame.Maximize(lppRatio, pencil.Min),
	Nested: true,
}

func lppRatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	lists := frame.Nearest(ctx, t, "k")
	width := frame.HeatWidth(t, lists)
	w := fail.Must(lists.Weights(graph.Union, graph.Heat(width)))
	return &frame.Ratio{
		N: fail.Must(graph.DegreeForm(ctx, t.X, w.Degrees())), D: fail.Must(graph.LaplacianForm(ctx, t.X, w)),
		Used: map[string]float64{"t": width},
	}
}
