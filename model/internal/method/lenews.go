package method

import (
	"context"
	"fmt"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/similarity"
	"github.com/embedd/embedd/model/pencil"
)

// lenews: Laplacian eigenmaps on a similarity that is learned from the rows; see
// similarity.go. lenewks takes products of rows in the space of a kernel.
var (
	lenews = frame.Method{
		Name: "lenews", Title: "Laplacian eigenmaps with a learned similarity",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, algorithms 1 and 2",
		Map:   "extension", Streaming: "window",
		Params: similarityParams(), Dim: frame.TwoColumns, Bound: learnedBound, Samples: true, Fit: fitLEnewS,
	}
	lenewks = frame.Method{
		Name: "lenewks", Title: "Laplacian eigenmaps with a similarity learned in the space of a kernel",
		Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, kernel form (eq. 35)",
		Map:   "extension", Streaming: "window",
		Params: append(similarityParams(),
			frame.Choice("kernel", "gauss", "gauss (bandwidth: the median squared distance of two rows), linear, polynomial (degree 2), cosine, or chi2 (for values >= 0: scale minmax)", mapping.KernelNames...)),
		Dim: frame.TwoColumns, Bound: learnedBound, Samples: true, Fit: fitLEnewS,
	}
)

// lppnews: max (X D X', X L X' + rho I), locality preserving projections on the
// learned similarity W.
var lppnews = frame.Method{
	Name: "lppnews", Title: "locality preserving projections on a learned similarity",
	Paper: "LEnewS: Laplacian eigenmaps with a learned similarity, linear form (LPPnewS)",
	Map:   "linear", Streaming: "window",
	Params: append(similarityParams(),
		frame.RidgeParam("oas", "relative ridge of the Laplacian form: oas, or a number; 0 is the literal form", true)),
	Dim:     frame.TwoColumns,
	Bound:   frame.EveryColumn,
	Ridge:   &frame.RidgeRule{Scatter: frame.TotalScatter},
	Samples: true,
	Fit:     frame.Maximize(lppnewsRatio, pencil.Min),
}

func similarityParams() []frame.Param {
	return []frame.Param{
		frame.FloatParam("alpha", "1", "weight of the distance to the heat similarity", 0, 1e9),
		frame.FloatParam("beta", "1", "weight of the sum of the similarities: a larger one makes them sparser", 0, 1e9),
		frame.FloatParam("sigma", "0.02", "width of the heat similarity, as a share of the least of the rows' largest squared distances", 1e-9, 1e9),
		frame.IntParam("iters", "500", "most steps", 1),
		frame.Choice("start", "ones", "weights to start from: ones (the paper's) or sum (rows that sum to 1: nearer to the optimum after as many steps)", "ones", "sum"),
		frame.FloatParam("tol", "1e-6", "relative change of the objective that ends the steps", 0, 1),
		{Name: "rows", Default: "1500", Doc: "most rows that are looked at, evenly spaced: a step costs the cube of them; eval looks at 500 unless told otherwise", Check: rowsCheck},
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

// learnedSimilarity is W of the (capped) rows with what the extension needs to
// learn one more row of it.
type learnedSimilarity struct {
	*similarity.Learned
	kernel mapping.Kernel
	rate   float64 // the heat similarity is exp(-rate d^2)
}

func learnSimilarity(ctx context.Context, t *frame.Task) (*learnedSimilarity, error) {
	name := "linear"
	if k, ok := t.Params["kernel"]; ok {
		name = k
	}
	key := strings.Join([]string{name, t.Params["alpha"], t.Params["beta"], t.Params["sigma"], t.Params["iters"],
		t.Params["start"], t.Params["tol"], t.Params["rows"]}, " ")
	if t.Memo != nil {
		if l, ok := t.Memo.Learned[key].(*learnedSimilarity); ok {
			return searched(t, l), nil
		}
	}
	rows, m := t.Features(nil), len(t.Stat.Mean)
	kernel, err := mapping.NewKernel(ctx, name, rows, m, t.Origin())
	if err != nil {
		return nil, err
	}
	if o := t.Origin(); name == "linear" && mat.Norm(mat.NewVecDense(m, o), 2) > 0 {
		kernel.Origin = o // the paper's X is not centred
	}
	rule := similarity.Rule{Alpha: t.Float("alpha"), Beta: t.Float("beta"), Steps: t.Int("iters"),
		Tolerance: t.Float("tol"), SumToOne: t.Params["start"] == "sum"}
	l := &learnedSimilarity{kernel: kernel}
	squared, err := similarity.SquaredDistances(ctx, t.X)
	if err != nil {
		return nil, err
	}
	var s *mat.Dense
	s, l.rate = similarity.Heat(squared, t.Float("sigma"))
	gram, err := kernel.Gram(ctx, rows, m)
	if err != nil {
		return nil, err
	}
	g := mat.DenseCopyOf(gram)
	if l.Learned, err = rule.Learn(ctx, g, s, func(done float64) { t.ReportProgress("similarity", done) }); err != nil {
		return nil, err
	}
	if t.Memo != nil {
		if t.Memo.Learned == nil {
			t.Memo.Learned = map[string]any{}
		}
		t.Memo.Learned[key] = l
	}
	return searched(t, l), nil
}

// searched puts how the learning went in the report.
func searched(t *frame.Task, l *learnedSimilarity) *learnedSimilarity {
	t.Report.Search = &model.Search{Start: l.Start, End: l.End, Gradient: l.Gradient, Steps: l.Steps}
	if l.Steps == t.Int("iters") {
		worse := ""
		if l.End > l.Zero {
			worse = fmt.Sprintf(", and without any similarity it is %.6g", l.Zero)
		}
		cure := "more iters bring it nearer to the optimum"
		if t.Params["start"] != "sum" {
			cure = "start=sum, or more iters, brings it nearer to the optimum"
		}
		t.Report.Note(fmt.Sprintf("the similarity was still moving after iters=%d steps: J is %.6g%s, optimality off by %.2g; %s", l.Steps, l.End, worse, l.Gradient, cure))
	}
	return l
}

// learnedGraph is W as a connected sparse graph: what is below 1e-6 of the
// largest is no edge.
func learnedGraph(ctx context.Context, t *frame.Task, l *learnedSimilarity) (*graph.Matrix, error) {
	largest := 0.0
	n, _ := l.W.Dims()
	for i := range n {
		largest = max(largest, linalg.FloatMax(l.W.RawRowView(i)))
	}
	if !(largest > 0) {
		return nil, fmt.Errorf("all similarities became 0; a smaller beta, or scaled features, keep them")
	}
	w, err := graph.FromDense(l.W, 1e-6*largest)
	if err != nil {
		return nil, err
	}
	w, edges, err := w.Connect(ctx, t.X, graph.Connect, func(i, j int, _ float64) float64 { return l.W.At(i, j) })
	if err != nil {
		return nil, err
	}
	t.NoteEdges(edges)
	return w, nil
}

func fitLEnewS(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	t = t.Capped(t.Int("rows"))
	l, err := learnSimilarity(ctx, t)
	if err != nil {
		return nil, err
	}
	w, err := learnedGraph(ctx, t, l)
	if err != nil {
		return nil, err
	}
	y, lambda, err := t.LaplacianEigenmap(ctx, w)
	if err != nil {
		return nil, err
	}
	e := &mapping.SimilarityMap{Training: t.Training(nil, y, t.D), Lambda: lambda, Alpha: t.Float("alpha"),
		Beta: t.Float("beta"), Rate: l.rate, K: l.kernel}
	return &frame.Solution{Dim: t.D, Eigenvalues: lambda, Informative: t.D, Mapping: e}, nil
}

func lppnewsRatio(ctx context.Context, t *frame.Task) (n, d *mat.SymDense, err error) {
	t = t.Capped(t.Int("rows"))
	l, err := learnSimilarity(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	w, err := learnedGraph(ctx, t, l)
	if err != nil {
		return nil, nil, err
	}
	return graph.Embedding(ctx, t.X, w, graph.Degree)
}
