package method

import (
	"context"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// dla: min X L X', A'A = I, L = sum_i S_i L_i S_i' over patches of a row, its k1
// nearest of the own class (weight 1) and its k2 nearest of others (weight
// -beta): the sum over patches of w_ij (y_i - y_j)^2. Nothing is divided by, so
// there is no ridge; a rank cut stands in front, or directions without variance
// would win at value 0. The paper leaves beta open: of 0.05 to 1, 0.2 and 0.3
// served nine data sets best, and 0.05 lost 11 points on digits at 10 outputs. t
// weighs the pairs by distance as well, which the paper does not. Zhang, Tao, Li
// and Yang, IEEE TKDE 21, 2009.
var dla = frame.Method{
	Name: "dla", Title: "discriminative locality alignment",
	Paper:      "Zhang, Tao, Li and Yang, Patch alignment for dimensionality reduction, IEEE TKDE 21, 2009",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k1", "5", "nearest rows of the own class in a patch", 1).WithGrid("5", "10", "20"),
		frame.IntParam("k2", "10", "nearest rows of other classes in a patch", 1).WithGrid("5", "10", "20"),
		frame.FloatParam("beta", "0.3", "weight of the other classes, in [0, 1]", 0, 1).WithGrid("0.1", "0.3", "1"),
		frame.HeatParam("inf", "width of heat weights exp(-d^2/t) on both: inf (none, as in the paper), auto (mean squared distance to the nearest of the own class), or a number"),
	},
	Dim:     frame.TwoColumns,
	Bound:   frame.EveryColumn,
	Samples: true,
	Fit:     fitDLA,
	Nested:  true,
	Auto:    &frame.Candidate{Rank: 4, Settings: []map[string]string{{"beta": "0.1"}, {"beta": "1"}}},
}

func fitDLA(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	own, foreign, err := t.NearestByClass(ctx, "k1", "k2")
	if err != nil {
		return nil, err
	}
	weight := t.Heat(own)
	// Each patch adds its edges: two rows in each other's patches count twice.
	p, err := frame.LaplacianForm(ctx, t, own, graph.Sum, weight)
	if err != nil {
		return nil, err
	}
	q, err := frame.LaplacianForm(ctx, t, foreign, graph.Sum, weight)
	if err != nil {
		return nil, err
	}
	q.ScaleSym(-t.Float("beta"), q)
	p.AddSym(p, q)
	s, err := pencil.Solve(ctx, p, pencil.Identity(t.M), pencil.Min, t.D)
	if err != nil {
		return nil, err
	}
	return t.Solved(s, s.Rank), nil
}
