package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// le: the smallest L v = lambda D v after the constant, W the heat weights of
// the k nearest rows, D its degrees, L = D - W; v'Dv = 1. Belkin and Niyogi,
// Neural Computation 15, 2003, section 2.
var le = Method{
	Name: "le", Title: "Laplacian eigenmaps",
	Paper: "Belkin and Niyogi, Laplacian eigenmaps for dimensionality reduction and data representation, Neural Computation 2003",
	Map:   "extension", Streaming: "window",
	Params: []Param{
		intParam("k", "10", "nearest rows that each row is joined with", 1).tried(neighbourCounts...),
		heatParam("auto", "width of the weights exp(-d^2/t): auto (mean squared distance to the nearest row), inf (weight 1), or a number").tried(heatWidths...),
		componentsParam,
	},
	dim:     twoColumns,
	bound:   rowsLessOne,
	samples: true,
	fit:     fitLE,
}

var componentsParam = choice("components", "connect", "a graph of several components: connect them by the shortest edges, or error",
	string(graph.Connect), string(graph.Refuse))

func rowsLessOne(t *task) (int, string) { return t.rows.n - 1, "%d, the rows less one" }

func fitLE(ctx context.Context, t *task) (*solution, error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, err
	}
	width := t.width(lists)
	w, err := lists.Weights(graph.Union, graph.Heat(width))
	if err != nil {
		return nil, err
	}
	w, edges, err := w.Connect(ctx, t.x, graph.Repair(t.params["components"]), graph.Heat(width))
	if err != nil {
		return nil, err
	}
	t.noteEdges(edges)
	y, lambda, err := t.laplacianEigenmap(ctx, w)
	if err != nil {
		return nil, err
	}
	e := &nystrom{training: t.training(nil, y, t.d), lambda: lambda, rate: min(1/width, math.MaxFloat64)}
	e.reach, e.k = e.reaches(lists)
	return &solution{d: t.d, eigenvalues: lambda, informative: t.d, mapping: e}, nil
}

// noteEdges says which edges were added to connect a graph.
func (t *task) noteEdges(edges []graph.Edge) {
	if len(edges) == 0 {
		return
	}
	longest := 0.0
	for _, e := range edges {
		longest = max(longest, math.Sqrt(e.Dist2))
	}
	t.report.note(fmt.Sprintf("the neighbourhood graph had %d components; the %d shortest edges that connect them were added, of length up to %.3g", len(edges)+1, len(edges), longest))
}

// laplacianEigenmap is the embedding v (n x d row-major) and the eigenvalues of
// L v = lambda D v for connected weights: u of D^-1/2 L D^-1/2, whose null vector
// D^1/2 1 is known, and v = D^-1/2 u.
func (t *task) laplacianEigenmap(ctx context.Context, w *graph.Matrix) (y, lambda []float64, err error) {
	degrees := w.Degrees()
	root, inverse := mat.NewDense(len(degrees), 1, nil), make([]float64, len(degrees))
	for i, d := range degrees {
		root.Set(i, 0, math.Sqrt(d))
		// v'Dv = 1 makes outputs of this size, and they are float32.
		if inverse[i] = 1 / math.Sqrt(d); !(inverse[i] < mostSpread) {
			return nil, nil, fmt.Errorf("row %d has degree %g in the graph; its weights vanish: give a larger t", i, d)
		}
	}
	t.say("eigenvectors", 0)
	part, err := pencil.Partial(ctx, w.Laplacian().Scale(inverse), pencil.Min, t.d, root)
	if err != nil {
		return nil, nil, err
	}
	t.found(part)
	v := part.Vectors
	for i, s := range inverse {
		row := v.RawRowView(i)
		for c := range row {
			row[c] *= s
		}
	}
	pencil.FixSigns(v)
	return v.RawMatrix().Data, part.Values, nil
}

// found puts the evidence of an eigenproblem of the rows in the report.
func (t *task) found(p *pencil.Part) {
	if !math.IsInf(p.Gap, 0) {
		gap := p.Gap
		t.report.Gap = &gap
	}
	t.report.Ties = p.Ties
	if p.Largest > 0 {
		t.report.Residual = p.Residual / p.Largest
	}
	for _, n := range p.Notes {
		t.report.note("eigenvectors: " + n)
	}
}

// reaches are the squared distances of the rows to the last of their lists,
// measured as the extension measures them, and the length of the lists.
func (t *training) reaches(lists *graph.Neighbors) (reach []float64, k int) {
	n := t.n()
	m := len(t.rows) / n
	reach = make([]float64, n)
	for i := range reach {
		index, _ := lists.Of(i)
		k = len(index)
		j := index[k-1]
		reach[i] = squaredDistance(t.rows[i*m:(i+1)*m], t.rows[j*m:(j+1)*m])
	}
	return reach, k
}
