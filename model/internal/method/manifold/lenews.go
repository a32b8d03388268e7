package manifold

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/similarity"
	"github.com/embedd/embedd/model/pencil"
)

// lenews: Laplacian eigenmaps on a similarity that is learned from the rows; see package similarity. lenewks uses
// products of rows in the space of a kernel.
var (
	LEnewS = frame.Method{
		Name: "lenews", Title: "Laplacian eigenmaps with a learned similarity",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, algorithms 1 and 2",
		Map:   "extension", Streaming: "window",
		Params: similarityParams(), Bound: learnedBound, Memory: learnedMemory,
		Fit: fitLEnewS,
	}
	LEnewKS = frame.Method{
		Name: "lenewks", Title: "Laplacian eigenmaps with a similarity learned in the space of a kernel",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, kernel form (eq. 35)",
		Map:   "extension", Streaming: "window",
		Params: append(similarityParams(),
			frame.Choice("kernel", "gauss", "gauss (bandwidth: the median squared distance of two rows), linear, polynomial "+
				"(degree 2), cosine, or chi2 (for values >= 0: scale minmax)", mapping.KernelNames...)),
		Bound: learnedBound, Memory: learnedMemory, Fit: fitLEnewS,
	}
)

// lppnews: max (X D X', X L X' + rho I), locality preserving projections on the learned similarity W.
var LPPnewS = frame.Method{
	Name: "lppnews", Title: "locality preserving projections on a learned similarity",
	Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, linear form (LPPnewS)",
	Map:   "linear", Streaming: "window",
	Params: append(similarityParams(),
		frame.RidgeParam("oas", "relative ridge of the Laplacian form: oas, or a number; 0 is the literal form", true)),
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: learnedMemory,
	Fit:    frame.Maximize(lppnewsRatio, pencil.Min),
}

// learnedMemory is the memory of learning a similarity of the rows that its parameter allows.
func learnedMemory(e frame.Extent) int64 {
	return e.Copies(4, 500) + frame.Pairs(min(e.Rows, e.Int("rows", mapping.MaxSimilar)), 92)
}

func similarityParams() []frame.Param {
	return []frame.Param{
		frame.FloatParam("alpha", "auto", "weight of the distance to the heat similarity: auto (8 times the mean squared "+
			"length of the rows), or a number (1 in the paper)", 0, 1e9, "auto"),
		frame.FloatParam("beta", "auto", "weight of the sum of the similarities, a larger one makes them sparser: auto "+
			"(0.1 times the mean squared length of the rows), or a number (1 in the paper)", 0, 1e9, "auto"),
		frame.FloatParam("sigma", "auto", "width of the heat similarity: auto (4 times the mean squared distance to the "+
			"nearest row), or a share of the least of the rows' largest squared distances (0.02 in the paper)", 1e-9, 1e9,
			"auto"),
		frame.IntParam("iters", "500", "most steps", 1),
		frame.Choice("start", "ones", "weights to start from: ones (the paper's) or sum (rows that sum to 1: nearer to "+
			"the optimum after as many steps)", "ones", "sum"),
		frame.FloatParam("tol", "1e-6", "relative change of the objective that ends the steps", 0, 1),
		{Name: "rows", Default: "1500", Doc: "most rows that are used, evenly spaced: a step costs the cube of them; " +
			"eval uses 500 unless set", Check: rowsCheck},
	}
}

func rowsCheck(s string) error {
	check := frame.IntParam("rows", "", "", 3).Check
	if err := check(s); err != nil {
		return err
	}
	if len(s) > 4 || len(s) == 4 && s > fmt.Sprint(mapping.MaxSimilar) {
		return fmt.Errorf("%q is not allowed; give at most %d", s, mapping.MaxSimilar)
	}
	return nil
}

func learnedBound(t *frame.Task) (int, string) {
	return min(t.Rows.N, t.Int("rows")) - 1, "%d, the rows that are looked at less one"
}

// learnedSimilarity is W of the (capped) rows with what the extension needs to learn one more row of it.
type learnedSimilarity struct {
	*similarity.Learned
	kernel mapping.Kernel
	rule   similarity.Rule
	rate   float64 // the heat similarity is exp(-rate d^2)
	sigma  float64 // its width, as a share of similarity.Width(1)
}

func learnSimilarity(ctx context.Context, t *frame.Task) *learnedSimilarity {
	name := "linear"
	if k, ok := t.Params["kernel"]; ok {
		name = k
	}
	key := strings.Join([]string{name, t.Params["alpha"], t.Params["beta"], t.Params["sigma"], t.Params["iters"],
		t.Params["start"], t.Params["tol"], t.Params["rows"]}, " ")
	if l, ok := t.Memo[key].(*learnedSimilarity); ok {
		return searched(t, l)
	}
	rows, m := t.Features(nil), len(t.Units.Mean)
	kernel := fail.Must(mapping.NewKernel(ctx, name, rows, m, t.Origin()))
	if o := t.Origin(); name == "linear" && mat.Norm(mat.NewVecDense(m, o), 2) > 0 {
		kernel.Origin = o // the paper's X is not centred
	}
	l := &learnedSimilarity{kernel: kernel}
	squared := similarity.SquaredDistances(ctx, t.X)
	width := heatWidth(t, squared)
	if l.sigma = t.Float("sigma"); t.Params["sigma"] == "auto" {
		l.sigma = width / similarity.Width(squared, 1)
	}
	var s *mat.Dense
	s, l.rate = similarity.Heat(squared, width)
	g := mat.DenseCopyOf(fail.Must(kernel.Gram(ctx, rows, m)))
	l.rule = balance(t, g)
	l.Learned = l.rule.Learn(ctx, g, s, func(done float64) { t.ReportProgress("similarity", done) })
	if t.Memo != nil {
		t.Memo[key] = l
	}
	return searched(t, l)
}

// The paper's alpha = beta = 1 and sigma = 0.02 are for curves of two features in [0, 1]. The reconstruction error
// grows with the length of the rows, which grows with the number of features and with their unit. With a fixed alpha,
// the heat similarity, which is at most 1, would not matter. And with more features, distances to the nearest and the
// farthest row differ less: 0.02 of the largest squared distance is twice the nearest squared distance on iris and an
// eighth of it on sonar, where the heat similarity is then almost zero for all pairs. So the defaults are relative
// to the rows.
const (
	alphaShare = 8
	betaShare  = 0.1
	widthShare = 4
	paperSigma = 0.02
)

// balance is the weights of the terms of the objective.
func balance(t *frame.Task, g *mat.Dense) similarity.Rule {
	n, _ := g.Dims()
	length := mat.Trace(g) / float64(n)
	share := func(name string, of float64) float64 {
		if t.Params[name] == "auto" {
			return of * length
		}
		return t.Float(name)
	}
	return similarity.Rule{Alpha: share("alpha", alphaShare), Beta: share("beta", betaShare), Steps: t.Int("iters"),
		Tolerance: t.Float("tol"), SumToOne: t.Params["start"] == "sum"}
}

// heatWidth is the width of the heat similarity; the paper's if every row has an equal one.
func heatWidth(t *frame.Task, squared *mat.Dense) float64 {
	if t.Params["sigma"] != "auto" {
		return similarity.Width(squared, t.Float("sigma"))
	}
	if width := widthShare * similarity.MeanNearest(squared); width > 0 {
		return width
	}
	return similarity.Width(squared, paperSigma)
}

// search describes how the iteration ended.
func (l *learnedSimilarity) search() *model.Search {
	return &model.Search{Start: l.Start, End: l.End, Gradient: l.Gradient, Steps: l.Steps, Limit: l.rule.Steps,
		Converged: l.Converged}
}

// used are the values of the parameters that may be auto.
func (l *learnedSimilarity) used() map[string]float64 {
	return map[string]float64{"alpha": l.rule.Alpha, "beta": l.rule.Beta, "sigma": l.sigma}
}

// searched notes the values that were chosen, and a learning that did not converge.
func searched(t *frame.Task, l *learnedSimilarity) *learnedSimilarity {
	if r := l.rule; slices.Contains([]string{t.Params["alpha"], t.Params["beta"], t.Params["sigma"]}, "auto") {
		t.Report.Note(fmt.Sprintf("similarity: alpha %.4g, beta %.4g, heat exp(-%.4g d^2)", r.Alpha, r.Beta, l.rate))
	}
	if !l.search().Converged {
		worse := ""
		if l.End > l.Zero {
			worse = fmt.Sprintf("; without any similarity it is %.6g", l.Zero)
		}
		fix := "give more iters"
		if t.Params["start"] != "sum" {
			fix = "use start=sum, or give more iters"
		}
		t.Report.Note(fmt.Sprintf("the similarity is not the optimum: J is %.6g%s; %s", l.End, worse, fix))
	}
	return l
}

// learnedGraph is W as a connected sparse graph: entries below 1e-6 of the largest are not edges.
func learnedGraph(ctx context.Context, t *frame.Task, l *learnedSimilarity) *graph.Matrix {
	largest := 0.0
	n, _ := l.W.Dims()
	for i := range n {
		largest = max(largest, slices.Max(l.W.RawRowView(i)))
	}
	if !(largest > 0) {
		panic(fail.With(fmt.Errorf("all similarities became 0; give a smaller beta, or scale the features")))
	}
	w := fail.Must(graph.FromDense(l.W, 1e-6*largest))
	w, edges := fail.Must2(w.Connect(ctx, t.X, graph.Connect, func(i, j int, _ float64) float64 { return l.W.At(i, j) }))
	frame.NoteEdges(t, edges)
	return w
}

func fitLEnewS(ctx context.Context, t *frame.Task) *frame.Solution {
	t = t.Capped(t.Int("rows"))
	l := learnSimilarity(ctx, t)
	y, lambda := frame.LaplacianEigenmap(ctx, t, learnedGraph(ctx, t, l))
	e := &mapping.SimilarityMap{Training: t.Training(nil, y, t.D), Lambda: lambda, Alpha: l.rule.Alpha,
		Beta: l.rule.Beta, Rate: l.rate, K: l.kernel}
	sol := t.Mapped(e, lambda, t.D).Searched(l.search())
	for name, v := range l.used() {
		sol.Use(name, v)
	}
	return sol
}

func lppnewsRatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	t = t.Capped(t.Int("rows"))
	l := learnSimilarity(ctx, t)
	w := learnedGraph(ctx, t, l)
	return &frame.Ratio{
		N: fail.Must(graph.DegreeForm(ctx, t.X, w.Degrees())), D: fail.Must(graph.LaplacianForm(ctx, t.X, w)),
		Used: l.used(), Search: l.search(),
	}
}
