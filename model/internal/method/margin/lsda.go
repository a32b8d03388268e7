package margin

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// lsda: max (X (beta L_b + (1-beta) W_w) X', X D_w X' + rho I). One graph of k nearest rows is split into its edges
// inside classes, W_w, and between them, W_b. Every row is its own neighbour in W_w, so that no degree is 0. k=0 joins
// all pairs. With many features, PCA comes first, as in the authors' programs: without it, the first directions of the
// criterion are ones that hardly vary. ridge=0 is the literal form, with a rank cut. Cai, He, Zhou, Han and Bao, IJCAI
// 2007; the authors' LSDA.m, whose numerator is this one divided by 1-beta.
var LSDA = frame.Method{
	Name: "lsda", Title: "locality sensitive discriminant analysis",
	Paper:      "Cai, He, Zhou, Han and Bao, Locality sensitive discriminant analysis, IJCAI 2007",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "5", "nearest rows that each row is joined with; 0 joins all",
			0).WithGrid(frame.NeighbourCounts...),
		frame.FloatParam("beta", "0.1", "share of the edges between classes, in [0, 1]", 0, 1).WithGrid("0.1",
			"0.5", "0.9"),
		frame.RidgeParam("auto", "relative ridge of X D_w X': auto (cross-validation), oas (of the total scatter), or a "+
			"number; 0 is the literal form", true),
		frame.PCAParam,
	},
	Ridge:   &frame.RidgeRule{Scatter: frame.TotalScatter, Grid: []float64{1e-6, 1e-4, 0.01, 0.1, 1}},
	Memory:  func(e frame.Extent) int64 { return e.Lists(e.Int("k", 0)) },
	Fit:     fitLSDA,
	Nested:  true,
	InFolds: map[string]string{"pca": "1"},
}

var solveLSDA = frame.Maximize(lsdaRatio, pencil.Max)

func fitLSDA(ctx context.Context, t *frame.Task) *frame.Solution {
	return frame.WithPCA(ctx, t, solveLSDA)
}

func lsdaRatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	between, within, degree := splitGraph(ctx, t)
	beta := t.Float("beta")
	within.ScaleSym(1-beta, within)
	between.ScaleSym(beta, between)
	between.AddSym(between, within)
	return &frame.Ratio{N: between, D: fail.Must(graph.DegreeForm(ctx, t.X, degree))}
}

// splitGraph is X L_b X', X W_w X' and the degrees of W_w.
func splitGraph(ctx context.Context, t *frame.Task) (between, within *mat.SymDense, degree []float64) {
	y := t.Rows.Y
	if t.Params["k"] == "0" {
		return splitPairs(ctx, t)
	}
	lists := frame.Nearest(ctx, t, "k")
	between = fail.Must(lists.LaplacianForm(ctx, t.X, graph.Union, func(i, j int, _ float64) float64 {
		if y[i] == y[j] {
			return 0
		}
		return 1
	}))
	w := fail.Must(lists.Weights(graph.Union, func(i, j int, _ float64) float64 {
		if y[i] == y[j] {
			return 1
		}
		return 0
	}))
	within = fail.Must(graph.WeightForm(ctx, t.X, w))
	within.AddSym(within, frame.Moment(t))
	degree = w.Degrees()
	for i := range degree {
		degree[i]++
	}
	return between, within, degree
}

// splitPairs is splitGraph for all pairs, where class sums s_c are enough: X W_w X' = sum_c s_c s_c' and, about the
// mean, X W_b X' = -X W_w X'.
func splitPairs(ctx context.Context, t *frame.Task) (between, within *mat.SymDense, degree []float64) {
	within = mat.NewSymDense(t.M, nil)
	size := make([]float64, len(t.Rows.Classes))
	for i, c := range t.Basis.Class {
		size[c] = t.Basis.Counts[i]
		within.SymRankOne(within, size[c]*size[c], t.Basis.Means.RowView(i))
	}
	degree = make([]float64, t.Rows.N)
	others := make([]float64, t.Rows.N)
	for i, c := range t.Rows.Y {
		degree[i], others[i] = size[c], t.Basis.N-size[c]
	}
	between = fail.Must(graph.DegreeForm(ctx, t.X, others))
	between.AddSym(between, within)
	return between, within, degree
}
