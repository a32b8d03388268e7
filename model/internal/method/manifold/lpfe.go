package manifold

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// lpfe: the d vector fields on the rows that are most nearly parallel, and for each the linear function whose gradient
// follows it. W is the union graph of the k nearest rows, T_i the tangent space of d dimensions of a row and its
// nearest. The fields are the lowest eigenvectors of
//
//	R(v) = sum_ij w_ij |T_i' T_j v_j - v_i|^2
//
// with |v_i| then set to 1, and f = X'a minimises sum_ij w_ij ((x_j - x_i)' T_i v_i - f_j + f_i)^2:
//
//	a = (2 X L X' + rho I)^-1 X r,  r_a = sum_j w_aj (x_a - x_j)'(T_j v_j + T_a v_a)
//
// a is the gradient of f. Fields have length 1 and are orthogonal to each other, so the gradients are normalised in
// the same way. Otherwise the size of a field that no linear function follows, or that repeats earlier ones, would be
// random. After Lin, He, Zhang and Ji 2013; the linear f is ours.
var LPFE = frame.Method{
	Name: "lpfe", Title: "linear parallel field embedding",
	Paper: "Lin, He, Zhang and Ji, Parallel vector field embedding, JMLR 14, 2013",
	Map:   "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is joined with", 1),
		frame.ComponentsParam,
		frame.RidgeParam("1", "relative ridge of 2 X L X': oas (of the total scatter) or a number; 0 is a rank cut", true),
		frame.Choice("metric", "orthonormalized", "columns made orthonormal, earlier ones first (orthonormalized), or as "+
			"solved (plain)", "orthonormalized", "plain"),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: parallelMemory,
	Fit:    fitLPFE,
}

// parallelMemory is the memory of fields of tangent vectors: a matrix of dim entries for each row and neighbour, dim
// times, and its factor.
func parallelMemory(e frame.Extent) int64 {
	fields := e
	fields.Rows *= e.Dim
	k := e.Int("k", 0)
	return e.Lists(k) + fields.Copies(0, 1000+(300+60*e.Dim)*k) + fields.Factor(e.Dim*k)
}

func fitLPFE(ctx context.Context, t *frame.Task) *frame.Solution {
	lists := frame.Nearest(ctx, t, "k")
	w := frame.Connected(ctx, t, lists, graph.Binary)
	tan := tangents(ctx, t, lists.Patches(), linalg.Range(t.Rows.N), t.D)
	t.ReportProgress("fields", 0)
	form := tangent.Empty(w, tan)
	form.AddConnection(ctx, tan, 1)
	fields := fail.Must(pencil.Partial(ctx, form.Connection(), pencil.Min, t.D, nil))
	t.Found(fields)

	d := fail.Must(graph.LaplacianForm(ctx, t.X, w))
	d.ScaleSym(2, d)
	var q *pencil.Metric
	if t.Ridge == 0 {
		q = fail.Must(pencil.Cut(d))
	} else {
		q = frame.Denominator(t, d)
	}
	r := mat.NewDense(t.Rows.N, t.D, nil)
	for c := range t.D {
		r.SetCol(c, slopes(t, w, tan, form, fields.Vectors.ColView(c)))
	}
	var right mat.Dense
	right.Mul(t.X.T(), r)
	a := mat.DenseCopyOf(q.Solve(&right))
	if t.Params["metric"] == "orthonormalized" {
		linalg.Orthonormalize(a)
	}
	return t.InBasis(a, fields.Values, t.D)
}

// slopes is r of the field v with unit vectors.
func slopes(t *frame.Task, w *graph.Matrix, tan *tangent.Spaces, form *tangent.Form, v mat.Vector) []float64 {
	u := mat.NewDense(t.Rows.N, t.M, nil) // T_i v_i
	for i, space := range tan.Spaces {
		k := space.Dim()
		if k == 0 {
			continue
		}
		local := mat.NewVecDense(k, nil)
		for c := range k {
			local.SetVec(c, v.AtVec(form.Start[i]+c))
		}
		if norm := mat.Norm(local, 2); norm > 0 {
			local.ScaleVec(1/norm, local)
		}
		mat.NewVecDense(t.M, u.RawRowView(i)).MulVec(space.Basis, local)
	}
	r := make([]float64, t.Rows.N)
	for a := range r {
		xa, ua := t.X.RawRowView(a), u.RawRowView(a)
		index, weight := w.Row(a)
		for e, j := range index {
			xj, uj := t.X.RawRowView(j), u.RawRowView(j)
			sum := 0.0
			for c, x := range xa {
				sum += (x - xj[c]) * (uj[c] + ua[c])
			}
			r[a] += weight[e] * sum
		}
	}
	return r
}
