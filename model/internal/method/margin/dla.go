package margin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// dla: min X L X', A'A = I, L = sum_i S_i L_i S_i' over patches of a row, its k1 nearest of the same class (weight 1)
// and its k2 nearest of others (weight -beta): the sum over patches of w_ij (y_i - y_j)^2. There is no denominator, so
// there is no ridge; a rank cut comes first, or directions without variance would win with value 0. The paper leaves
// beta open, and no value is good for all data: cross-validation chooses it. t also weights the pairs by distance,
// which the paper does not. Zhang, Tao, Li and Yang, IEEE TKDE 21, 2009.
var DLA = frame.Method{
	Name: "dla", Title: "discriminative locality alignment",
	Paper:      "Zhang, Tao, Li and Yang, Patch alignment for dimensionality reduction, IEEE TKDE 21, 2009",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k1", "5", "nearest rows of the own class in a patch", 1).WithGrid("5", "10", "20"),
		frame.IntParam("k2", "10", "nearest rows of other classes in a patch", 1).WithGrid("5", "10", "20"),
		frame.FloatParam("beta", "auto", "weight of the other classes: auto (cross-validation), or a number in [0, 1]", 0, 1,
			"auto").WithGrid("auto", "0.1", "1"),
		frame.HeatParam("inf", "width of heat weights exp(-d^2/t) on both: inf (none, as in the paper), auto (mean "+
			"squared distance to the nearest of the own class), or a number"),
	},
	Memory:  func(e frame.Extent) int64 { return e.Lists(e.Int("k1", 0) + e.Int("k2", 0)) },
	Fit:     fitDLA,
	Nested:  true,
	Auto:    &frame.Candidate{Rank: 4, Settings: []map[string]string{{"beta": "0.1"}, {"beta": "1"}}},
	InFolds: map[string]string{"beta": dlaBetas[0]},
}

// dlaBetas are the values that cross-validation chooses beta from; ties go to the first.
var dlaBetas = []string{"0.3", "0.5", "0.1", "1"}

// patches are X L X' of both kinds of edges, within the class and between classes, which do not depend on beta.
type patches struct {
	within, between *mat.SymDense
	width           float64 // of the heat weights
}

func dlaPatches(ctx context.Context, t *frame.Task) *patches {
	if p, ok := t.Cache.(*patches); ok {
		return p
	}
	own, other := frame.NearestByClass(ctx, t, "k1", "k2")
	p := &patches{width: frame.HeatWidth(t, own)}
	weight := graph.Heat(p.width)
	// Each patch adds its edges: two rows in each other's patches count twice.
	p.within = fail.Must(own.LaplacianForm(ctx, t.X, graph.Sum, weight))
	p.between = fail.Must(other.LaplacianForm(ctx, t.X, graph.Sum, weight))
	t.Cache = p
	return p
}

func fitDLA(ctx context.Context, t *frame.Task) *frame.Solution {
	p := dlaPatches(ctx, t)
	beta := t.Float("beta")
	if t.Params["beta"] == "auto" {
		beta = chooseBeta(ctx, t)
	}
	l := mat.NewSymDense(t.M, frame.Grown(&frame.ScratchOf(t).Squares, t.M*t.M))
	l.ScaleSym(-beta, p.between)
	l.AddSym(l, p.within)
	s := fail.Must(pencil.Solve(ctx, l, pencil.Identity(t.M), pencil.Min, t.D))
	return t.Solved(s, s.Rank).Use("beta", beta).Use("t", p.width)
}

// chooseBeta is the beta with the most correct held-out rows; the first of the grid if none can be held out.
func chooseBeta(ctx context.Context, t *frame.Task) float64 {
	defer t.Report.Phase("beta")()
	tallies := t.Validate(ctx, "beta", len(dlaBetas), len(dlaBetas),
		func(ft *frame.Task, i int) { ft.Params["beta"] = dlaBetas[i] })
	best, note := 0, "without cross-validation: "+frame.ExplainFolds(t.Rows)+", or no fold can be fitted"
	for i, c := range tallies {
		if c.Correct > tallies[best].Correct {
			best = i
		}
	}
	if tallies != nil {
		var all []string
		for i, c := range tallies {
			all = append(all, fmt.Sprintf("%d with %s", c.Correct, dlaBetas[i]))
		}
		note = fmt.Sprintf("by cross-validation: of %d held-out rows these are correct: %s", tallies[0].Scored,
			strings.Join(all, ", "))
	}
	t.Report.Note(fmt.Sprintf("beta %s %s", dlaBetas[best], note))
	return fail.Must(strconv.ParseFloat(dlaBetas[best], 64))
}
