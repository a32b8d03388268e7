package margin

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// mfa: max (X L^p X', X L X' + rho I). W joins each row with its k1 nearest of its class. W^p joins rows of different
// classes at the margin between them: each row with its k2 nearest (per-sample), the k2 shortest pairs of each class
// (class-pairs, as in the paper), or the k2 shortest of all (global-pairs). ridge=0 is the paper's form, min (X L X', X
// L^p X') with a rank cut. Yan, Xu, Zhang, Zhang, Yang and Lin, IEEE TPAMI 29, 2007.
var MFA = frame.Method{
	Name: "mfa", Title: "marginal Fisher analysis",
	Paper: "Yan, Xu, Zhang, Zhang, Yang and Lin, Graph embedding and extensions: a general framework for " +
		"dimensionality reduction, IEEE TPAMI 29, 2007",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k1", "5", "nearest rows of the own class that each row is joined with",
			1).WithGrid(frame.NeighbourCounts...),
		frame.IntParam("k2", "20", "edges of the penalty graph, counted as penalty says", 1).WithGrid("5", "10", "20",
			"40", "80"),
		frame.Choice("penalty", "per-sample",
			"k2 counts for each row its nearest of other classes (per-sample), for each class its shortest pairs with "+
				"others (class-pairs, the paper's), or the shortest pairs of all (global-pairs)",
			"per-sample", "class-pairs", "global-pairs"),
		frame.RidgeParam("auto", "relative ridge of the within-class graph: auto (cross-validation), oas, or a number; 0 "+
			"is the literal form", true),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.1, 1}},
	Memory: func(e frame.Extent) int64 { return e.Lists((e.Int("k1", 0) + e.Int("k2", 0)) / 2) },
	Fit:    frame.Maximize(MFARatio, pencil.Min),
	Nested: true,
	Auto:   &frame.Candidate{Rank: 1, Landmarks: true},
}

func MFARatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	own, other := frame.NearestByClass(ctx, t, "k1", "k2")
	k2 := t.Int("k2")
	switch t.Params["penalty"] {
	case "class-pairs":
		other = other.ShortestPairs(k2, t.Rows.Y)
	case "global-pairs":
		other = other.ShortestPairs(k2, nil)
	}
	// Concurrently: ordering the edges of a graph uses one core.
	var forms [2]*mat.SymDense
	fail.Check(parallel.Each(ctx, 2, func(i int) {
		forms[i] = fail.Must([2]*graph.Neighbors{other, own}[i].LaplacianForm(ctx, t.X, graph.Union, graph.Binary))
	}))
	return &frame.Ratio{N: forms[0], D: forms[1]}
}
