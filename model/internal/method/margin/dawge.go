package margin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/svm"
	"github.com/embedd/embedd/model/pencil"
	"github.com/embedd/embedd/model/score"
)

// dawge: rows of one class are drawn together along its boundary more than across it. For each class c, a linear SVM
// between its rows and the K nearest rows of others gives a normal v_c, and for rows i, j of the class
//
//	w_ij = |cos(v_c, x_j - x_i)|,  L = D - W,
//
// max (X X', X L X' + rho I), each class divided by its number of rows. The paper has min X L X' with U'U = I
// (constraint=orthonormal, normalize=none); its cosine changes its sign with the direction of the edge, which makes the
// sum of w_ij |y_i - y_j|^2 is zero, therefore the absolute value. Without a term between classes the paper's minimum
// finds directions of low variance.
var DAWGE = frame.Method{
	Name: "dawge", Title: "graph embedding with edges weighted by their angle to the class boundary",
	Paper:      "DAWGE, angle-weighted graph embedding",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "30", "nearest rows of other classes that the boundary of a class is drawn to",
			1).WithGrid("10", "30", "100"),
		frame.FloatParam("c", "1", "cost of a row on the wrong side of the boundary", math.SmallestNonzeroFloat64,
			math.MaxFloat64).WithGrid("0.1", "1", "10"),
		frame.Choice("f", "abs", "weight of an edge by its cosine with the normal: abs or square", "abs", "square"),
		frame.Choice("normalize", "class", "class divides each class by its number of rows, none is the paper's form",
			"class", "none"),
		frame.Choice("constraint", "total",
			"total holds the total variance, orthonormal is the paper's form and takes no ridge", "total",
			"orthonormal"),
		frame.RidgeParam("auto", "relative ridge of the graph: auto (cross-validation), oas, or a number; 0 is the form "+
			"with a rank cut alone", true),
	},
	Ridge: &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{1e-6, 1e-4, 0.01, 0.1, 1}, Without: 0.1,
		Unused: isOrthonormal},
	Memory: func(e frame.Extent) int64 { return e.Lists(e.Int("k", 0)) + e.Copies(0, 3000) },
	Fit:    fitDAWGE,
	Nested: true,
}

func isOrthonormal(t *frame.Task) bool { return t.Params["constraint"] == "orthonormal" }

var solveDAWGE = frame.Maximize(func(ctx context.Context, t *frame.Task) *frame.Ratio {
	return &frame.Ratio{N: frame.Moment(t), D: angleForms(ctx, t)}
}, pencil.Min)

func fitDAWGE(ctx context.Context, t *frame.Task) *frame.Solution {
	if !isOrthonormal(t) {
		return solveDAWGE(ctx, t)
	}
	s := fail.Must(pencil.Solve(ctx, angleForms(ctx, t), pencil.Identity(t.M), pencil.Min, t.D))
	return t.Solved(s, s.Rank)
}

// angleForms is X L X' of all classes.
func angleForms(ctx context.Context, t *frame.Task) *mat.SymDense {
	p := mat.NewSymDense(t.M, nil)
	for i, c := range t.Basis.Class {
		t.ReportProgress("boundaries", float64(i)/float64(len(t.Basis.Class)))
		own, others := split(t, c)
		if rows, _ := own.Dims(); rows < 2 {
			continue
		}
		p.AddSym(p, angleForm(ctx, t, own, normal(ctx, t, own, others)))
	}
	return p
}

// split returns the rows of class c and the rows of all other classes.
func split(t *frame.Task, c int) (own, others *mat.Dense) {
	var in, out []int
	for i, y := range t.Rows.Y {
		if y == c {
			in = append(in, i)
		} else {
			out = append(out, i)
		}
	}
	return linalg.Pick(t.X, in), linalg.Pick(t.X, out)
}

// normal is the unit normal of the boundary between a class and its k nearest other rows. If the SVM finds none, it is
// the difference of their means; 0 if the two coincide up to rounding errors.
func normal(ctx context.Context, t *frame.Task, own, others *mat.Dense) []float64 {
	const rounding = 1e-12 // share of the largest value up to which a difference is a rounding error
	near := nearestTo(ctx, own, others, t.Int("k"))
	v := fail.Must(svm.Normal(ctx, own, near, t.Float("c")))
	size := max(mat.Max(own), -mat.Min(own))
	norm := floats.Norm(v, 2)
	if !(norm*size > rounding) || !linalg.IsFinite(norm) {
		v = linalg.ColumnMeans(own)
		floats.Sub(v, linalg.ColumnMeans(near))
		if norm = floats.Norm(v, 2); !(norm > rounding*size) {
			return make([]float64, len(v))
		}
	}
	floats.Scale(1/norm, v)
	return v
}

// nearestTo is the k of the other rows that are nearest to any row of a class, in row order, ties to the earlier one.
func nearestTo(ctx context.Context, own, others *mat.Dense, k int) *mat.Dense {
	n, m := own.Dims()
	rows, _ := others.Dims()
	at := fail.Must(score.Nearest(ctx, own.RawMatrix().Data, n, others.RawMatrix().Data, rows, m))
	distance, order := make([]float64, rows), make([]int, rows)
	for i, j := range at {
		distance[i], order[i] = floats.Distance(others.RawRowView(i), own.RawRowView(j), 2), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	order = order[:min(k, rows)]
	slices.Sort(order)
	return linalg.Pick(others, order)
}

// angleForm is X L X' of one class and its normal; without a normal all edges have the same weight. The n_c^2 weights
// are computed some rows at a time.
func angleForm(ctx context.Context, t *frame.Task, x *mat.Dense, v []float64) *mat.SymDense {
	n, m := x.Dims()
	factor := 1.0
	if t.Params["normalize"] == "class" {
		factor = 1 / float64(n)
	}
	square := t.Params["f"] == "square"
	free := floats.Norm(v, math.Inf(1)) == 0
	along := make([]float64, n) // v.x
	for i := range n {
		along[i] = floats.Dot(v, x.RawRowView(i))
	}
	lx := mat.NewDense(n, m, nil)
	for from := 0; from < n; from += frame.PairRows {
		fail.Check(ctx.Err())
		to := min(from+frame.PairRows, n)
		w := mat.NewDense(to-from, n, nil)
		part := lx.Slice(from, to, 0, m).(*mat.Dense)
		for i := from; i < to; i++ {
			degree, weights := 0.0, w.RawRowView(i-from)
			for j := range n {
				length := floats.Distance(x.RawRowView(i), x.RawRowView(j), 2)
				if length == 0 {
					continue // the row itself and its duplicates: no edge
				}
				cos := 1.0
				if !free {
					cos = math.Abs(along[j]-along[i]) / length
				}
				if square {
					cos *= cos
				}
				degree += cos
				weights[j] = -cos
			}
			weights[i] = degree
		}
		part.Mul(w, x)
	}
	var full mat.Dense
	full.Mul(x.T(), lx)
	p := linalg.Symmetric(&full)
	p.ScaleSym(factor, p)
	for i := range m {
		if !linalg.IsFinite(p.At(i, i)) {
			panic(fail.With(fmt.Errorf("the graph of a class of %d rows exceeds float64; scale the features", n)))
		}
	}
	return p
}
