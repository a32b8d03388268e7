package model

import (
	"context"
	"fmt"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lenews: Laplacian eigenmaps on a similarity that is learned from the rows; see
// similarity.go. lenewks takes products of rows in the space of a kernel.
var (
	lenews = Method{
		Name: "lenews", Title: "Laplacian eigenmaps with a learned similarity",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, algorithms 1 and 2",
		Map:   "extension", Streaming: "window",
		Params: similarityParams(), dim: twoColumns, bound: learnedBound, samples: true, fit: fitLEnewS,
	}
	lenewks = Method{
		Name: "lenewks", Title: "Laplacian eigenmaps with a similarity learned in the space of a kernel",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, kernel form (eq. 35)",
		Map:   "extension", Streaming: "window",
		Params: append(similarityParams(),
			choice("kernel", "gauss", "gauss (bandwidth: the median squared distance of two rows), linear, polynomial (degree 2), cosine, or chi2 (for values >= 0: scale minmax)", kernelNames...)),
		dim: twoColumns, bound: learnedBound, samples: true, fit: fitLEnewS,
	}
)

// lppnews: max (X D X', X L X' + rho I), locality preserving projections on the
// learned similarity W.
var lppnews = Method{
	Name: "lppnews", Title: "locality preserving projections on a learned similarity",
	Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, linear form (LPPnewS)",
	Map:   "linear", Streaming: "window",
	Params:  append(similarityParams(), ridgeParam("oas", "relative ridge of the Laplacian form: oas, or a number; 0 is the literal form", true)),
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     maximize(lppnewsRatio, pencil.Min),
}

func similarityParams() []Param {
	return []Param{
		floatParam("alpha", "1", "weight of the distance to the heat similarity", 0, 1e9),
		floatParam("beta", "1", "weight of the sum of the similarities: a larger one makes them sparser", 0, 1e9),
		floatParam("sigma", "0.02", "width of the heat similarity, as a share of the least of the rows' largest squared distances", 1e-9, 1e9),
		intParam("iters", "500", "most steps", 1),
		choice("start", "ones", "weights to start from: ones (the paper's) or sum (rows that sum to 1: nearer to the optimum after as many steps)", "ones", "sum"),
		floatParam("tol", "1e-6", "relative change of the objective that ends the steps", 0, 1),
		{Name: "rows", Default: "1500", Doc: "most rows that are looked at, evenly spaced: a step costs the cube of them; eval looks at 500 unless told otherwise", check: rowsCheck},
	}
}

func rowsCheck(s string) error {
	check := intParam("rows", "", "", 3).check
	if err := check(s); err != nil {
		return err
	}
	if len(s) > 4 || len(s) == 4 && s > fmt.Sprint(maxSimilar) {
		return fmt.Errorf("%q is not allowed; give at most %d", s, maxSimilar)
	}
	return nil
}

func learnedBound(t *task) (int, string) {
	return min(t.rows.n, t.int("rows")) - 1, "%d, the rows that are looked at less one"
}

// learnedSimilarity is W of the (capped) rows with what the extension needs to
// learn one more row of it.
type learnedSimilarity struct {
	*similarity
	kernel kernelFunction
	rate   float64 // the heat similarity is exp(-rate d^2)
}

// memo keeps what fits on the same rows share: evaluation fits a method at
// several dimensions, and the similarity is the same for all. It is for fits one
// after the other.
type memo struct {
	learned map[string]*learnedSimilarity
}

func (t *task) learnSimilarity(ctx context.Context) (*learnedSimilarity, error) {
	name := "linear"
	if k, ok := t.params["kernel"]; ok {
		name = k
	}
	key := strings.Join([]string{name, t.params["alpha"], t.params["beta"], t.params["sigma"], t.params["iters"], t.params["start"], t.params["tol"], t.params["rows"]}, " ")
	if t.memo != nil {
		if l, ok := t.memo.learned[key]; ok {
			return t.searched(l), nil
		}
	}
	rows, m := t.features(nil), len(t.stat.mean)
	kernel, err := newKernelFunction(name, rows, m, t.origin())
	if err != nil {
		return nil, err
	}
	if o := t.origin(); name == "linear" && mat.Norm(mat.NewVecDense(m, o), 2) > 0 {
		kernel.origin = o // the paper's X is not centred
	}
	rule := similarityRule{alpha: t.float("alpha"), beta: t.float("beta"), steps: t.int("iters"), tolerance: t.float("tol"), sumToOne: t.params["start"] == "sum"}
	l := &learnedSimilarity{kernel: kernel}
	squared, err := squaredDistances(t.x)
	if err != nil {
		return nil, err
	}
	var s *mat.Dense
	s, l.rate = heatSimilarity(squared, t.float("sigma"))
	gram, err := kernel.gram(rows, m)
	if err != nil {
		return nil, err
	}
	g := mat.DenseCopyOf(gram)
	if l.similarity, err = rule.learn(ctx, g, s, func(done float64) { t.say("similarity", done) }); err != nil {
		return nil, err
	}
	if t.memo != nil {
		if t.memo.learned == nil {
			t.memo.learned = map[string]*learnedSimilarity{}
		}
		t.memo.learned[key] = l
	}
	return t.searched(l), nil
}

// searched puts how the learning went in the report.
func (t *task) searched(l *learnedSimilarity) *learnedSimilarity {
	t.report.Search = &Search{Start: l.start, End: l.end, Gradient: l.gradient, Steps: l.steps}
	if l.steps == t.int("iters") {
		worse := ""
		if l.end > l.zero {
			worse = fmt.Sprintf(", and without any similarity it is %.6g", l.zero)
		}
		cure := "more iters bring it nearer to the optimum"
		if t.params["start"] != "sum" {
			cure = "start=sum, or more iters, brings it nearer to the optimum"
		}
		t.report.note(fmt.Sprintf("the similarity was still moving after iters=%d steps: J is %.6g%s, optimality off by %.2g; %s", l.steps, l.end, worse, l.gradient, cure))
	}
	return l
}

// learnedGraph is W as a connected sparse graph: what is below 1e-6 of the
// largest is no edge.
func (t *task) learnedGraph(ctx context.Context, l *learnedSimilarity) (*graph.Matrix, error) {
	largest := 0.0
	n, _ := l.w.Dims()
	for i := range n {
		largest = max(largest, floatMax(l.w.RawRowView(i)))
	}
	if !(largest > 0) {
		return nil, fmt.Errorf("all similarities became 0; a smaller beta, or scaled features, keep them")
	}
	w, err := graph.FromDense(l.w, 1e-6*largest)
	if err != nil {
		return nil, err
	}
	w, edges, err := w.Connect(ctx, t.x, graph.Connect, func(i, j int, _ float64) float64 { return l.w.At(i, j) })
	if err != nil {
		return nil, err
	}
	t.noteEdges(edges)
	return w, nil
}

func fitLEnewS(ctx context.Context, t *task) (*solution, error) {
	t = t.capped(t.int("rows"))
	l, err := t.learnSimilarity(ctx)
	if err != nil {
		return nil, err
	}
	w, err := t.learnedGraph(ctx, l)
	if err != nil {
		return nil, err
	}
	y, lambda, err := t.laplacianEigenmap(ctx, w)
	if err != nil {
		return nil, err
	}
	e := &similarityMap{training: t.training(nil, y, t.d), lambda: lambda, alpha: t.float("alpha"), beta: t.float("beta"), rate: l.rate, k: l.kernel}
	return &solution{d: t.d, eigenvalues: lambda, informative: t.d, mapping: e}, nil
}

func lppnewsRatio(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	t = t.capped(t.int("rows"))
	l, err := t.learnSimilarity(ctx)
	if err != nil {
		return nil, nil, err
	}
	w, err := t.learnedGraph(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return graph.Embedding(t.x, w, graph.Degree)
}
