package frame

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/pencil"
)

// Nearest lists the nearest rows of each row; the parameter of this name is how many.
func Nearest(ctx context.Context, t *Task, parameter string) *graph.Neighbors {
	k, others := t.Int(parameter), t.Rows.N-1
	if k > others {
		t.Report.Note(fmt.Sprintf("%s=%d was clamped to %d: there are no more rows", parameter, k, others))
	}
	t.ReportProgress("neighbours", 0)
	return fail.Must(graph.Nearest(ctx, t.X, k))
}

// NearestByClass lists the nearest rows of the same class and of others, as many as the two parameters say or, in
// small classes, as there are.
func NearestByClass(ctx context.Context, t *Task, same, other string) (own, others *graph.Neighbors) {
	k1, k2 := t.Int(same), t.Int(other)
	NoteFewRows(t, same, k1, func(rows int) int { return rows - 1 })
	NoteFewRows(t, other, k2, func(rows int) int { return t.Rows.N - rows })
	t.ReportProgress("neighbours", 0)
	return nearestByClass(ctx, t, k1, k2)
}

// NoteFewRows notes the classes whose rows have fewer than k neighbours; of returns the number of neighbours in a
// class of a given size.
func NoteFewRows(t *Task, parameter string, k int, of func(rows int) int) {
	short, least := 0, k
	for _, n := range t.Basis.Counts {
		if found := of(int(math.Round(n))); found < k {
			short++
			least = min(least, found)
		}
	}
	if short > 0 {
		t.Report.Note(fmt.Sprintf("%s=%d was clamped in %d of %d classes, down to %d: there are no more rows",
			parameter, k, short, t.Basis.Classes(), least))
	}
}

// Moment is X X', the sum of x x' about the mean.
func Moment(t *Task) *mat.SymDense {
	s := mat.NewSymDense(t.M, nil)
	s.ScaleSym(t.Basis.N, t.Basis.Total)
	return s
}

// HeatWidth is the parameter t: auto is the mean squared distance to the nearest row of the lists, and +Inf makes all
// weights 1.
func HeatWidth(t *Task, lists *graph.Neighbors) float64 {
	switch t.Params["t"] {
	case "inf":
		return math.Inf(1)
	case "auto":
		return lists.MeanNearest()
	}
	return t.Float("t")
}

// Joined are the lists of the k nearest rows, and the edges between components of their graph.
func Joined(ctx context.Context, t *Task, repair graph.Repair) (lists *graph.Neighbors, k int) {
	lists = Nearest(ctx, t, "k")
	first, _ := lists.Row(0)
	lists, edges := fail.Must2(lists.Connect(ctx, t.X, repair))
	NoteEdges(t, edges)
	return lists, len(first)
}

// Geodesics returns the geodesics in the graph of the k nearest rows, with the lengths of its edges, and k as clamped
// to the number of rows. repair is what to do if the graph is not connected. Fits that share scratch overwrite them.
func Geodesics(ctx context.Context, t *Task, repair graph.Repair) (g *mat.SymDense, lengths *graph.Matrix, k int) {
	lists, k := Joined(ctx, t, repair)
	lengths = fail.Must(lists.Weights(graph.Union, graph.Length))
	t.ReportProgress("geodesics", 0)
	room := Grown(&ScratchOf(t).large, t.Rows.N*t.Rows.N)
	return fail.Must(graph.GeodesicsIn(ctx, lengths, room)), lengths, k
}

// NoteEdges reports the edges that were added to connect a graph.
func NoteEdges(t *Task, edges []graph.Edge) {
	if len(edges) == 0 {
		return
	}
	longest := 0.0
	for _, e := range edges {
		longest = max(longest, math.Sqrt(e.Dist2))
	}
	t.Report.Note(fmt.Sprintf("the neighbourhood graph had %d components; "+
		"the %d shortest edges that connect them were added, of length up to %.3g", len(edges)+1, len(edges), longest))
}

// Connected is the weights of the lists, with edges added if the graph is not connected.
func Connected(ctx context.Context, t *Task, lists *graph.Neighbors, weight graph.Weight) *graph.Matrix {
	w := fail.Must(lists.Weights(graph.Union, weight))
	w, added := fail.Must2(w.Connect(ctx, t.X, graph.Repair(t.Params["components"]), weight))
	NoteEdges(t, added)
	return w
}

// LaplacianEigenmap is the embedding v (n x d row-major) and the eigenvalues of L v = lambda D v for connected
// weights: u of D^-1/2 L D^-1/2, whose null vector D^1/2 1 is known, and v = D^-1/2 u.
func LaplacianEigenmap(ctx context.Context, t *Task, w *graph.Matrix) (y, lambda []float64) {
	degrees := w.Degrees()
	root, inverse := mat.NewDense(len(degrees), 1, nil), make([]float64, len(degrees))
	for i, d := range degrees {
		root.Set(i, 0, math.Sqrt(d))
		// v'Dv = 1 makes outputs of this size, and they are float32.
		if inverse[i] = 1 / math.Sqrt(d); !(inverse[i] < maxSpread) {
			panic(fail.With(fmt.Errorf("row %d has degree %g in the graph; its weights vanish: give a larger t", i, d)))
		}
	}
	t.ReportProgress("eigenvectors", 0)
	part := fail.Must(pencil.Partial(ctx, w.Laplacian().Scale(inverse), pencil.Min, t.D, root))
	t.Found(part)
	for c, l := range part.Values {
		if c > 0 && math.Abs(1-l) < mapping.MinDenominator {
			panic(fail.With(&model.DimError{Asked: t.D, Max: c, What: t.Explain(fmt.Sprintf("the %%d outputs before the "+
				"eigenvalue %.4g, near 1, which other rows cannot be mapped with", l), c)}))
		}
	}
	v := part.Vectors
	for i, s := range inverse {
		row := v.RawRowView(i)
		for c := range row {
			row[c] *= s
		}
	}
	pencil.FixSigns(v)
	return v.RawMatrix().Data, part.Values
}
