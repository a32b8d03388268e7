package model

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lsda: max (X (beta L_b + (1-beta) W_w) X', X D_w X' + rho I). One graph of k
// nearest rows is split into its edges inside classes, W_w, and between them,
// W_b. Every row is its own neighbour in W_w, so that no degree is 0. k=0 joins
// all pairs. ridge=0 is the literal form, with a rank cut. Cai, He, Zhou, Han
// and Bao, IJCAI 2007; the authors' LSDA.m, whose numerator is this
// one divided by 1-beta.
var lsda = Method{
	Name: "lsda", Title: "locality sensitive discriminant analysis",
	Paper:      "Cai, He, Zhou, Han and Bao, Locality sensitive discriminant analysis, IJCAI 2007",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []Param{
		intParam("k", "5", "nearest rows that each row is joined with; 0 joins all", 0).tried(neighbourCounts...),
		floatParam("beta", "0.1", "share of the edges between classes, in [0, 1]", 0, 1).tried("0.1", "0.5", "0.9"),
		ridgeParam("oas", "relative ridge of X D_w X': oas (of the total scatter) or a number; 0 is the literal form", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     maximize(lsdaRatio, pencil.Max),
}

func lsdaRatio(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	between, within, degree, err := t.splitGraph(ctx)
	if err != nil {
		return nil, nil, err
	}
	beta := t.float("beta")
	within.ScaleSym(1-beta, within)
	between.ScaleSym(beta, between)
	between.AddSym(between, within)
	d, err = graph.DegreeForm(t.x, degree)
	return between, d, err
}

// splitGraph is X L_b X', X W_w X' and the degrees of W_w.
func (t *task) splitGraph(ctx context.Context) (between, within *mat.SymDense, degree []float64, err error) {
	y := t.rows.y
	if t.params["k"] == "0" {
		return t.splitPairs()
	}
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, nil, err
	}
	if between, err = laplacianForm(t, lists, graph.Union, func(i, j int, _ float64) float64 {
		if y[i] == y[j] {
			return 0
		}
		return 1
	}); err != nil {
		return nil, nil, nil, err
	}
	w, err := lists.Weights(graph.Union, func(i, j int, _ float64) float64 {
		if y[i] == y[j] {
			return 1
		}
		return 0
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if within, err = graph.WeightForm(t.x, w); err != nil {
		return nil, nil, nil, err
	}
	within.AddSym(within, t.moment())
	degree = w.Degrees()
	for i := range degree {
		degree[i]++
	}
	return between, within, degree, nil
}

// splitPairs is splitGraph of all pairs, where class sums s_c are enough:
// X W_w X' = sum_c s_c s_c' and, about the mean, X W_b X' = -X W_w X'.
func (t *task) splitPairs() (between, within *mat.SymDense, degree []float64, err error) {
	within = mat.NewSymDense(t.m, nil)
	size := make([]float64, len(t.rows.of))
	for i, c := range t.stat.class {
		size[c] = t.stat.counts[i]
		within.SymRankOne(within, size[c]*size[c], t.stat.means.RowView(i))
	}
	degree = make([]float64, t.rows.n)
	others := make([]float64, t.rows.n)
	for i, c := range t.rows.y {
		degree[i], others[i] = size[c], t.stat.n-size[c]
	}
	if between, err = graph.DegreeForm(t.x, others); err != nil {
		return nil, nil, nil, err
	}
	between.AddSym(between, within)
	return between, within, degree, nil
}
