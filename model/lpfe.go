package model

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lpfe: the d vector fields on the rows that are most nearly parallel, and for
// each the linear function whose gradient follows it. W is the union graph of the
// k nearest rows, T_i the tangent space of d dimensions of a row and its nearest.
// The fields are the lowest eigenvectors of
//
//	R(v) = sum_ij w_ij |T_i' T_j v_j - v_i|^2
//
// with |v_i| then set to 1, and f = X'a minimises sum_ij w_ij ((x_j - x_i)' T_i
// v_i - f_j + f_i)^2:
//
//	a = (2 X L X' + rho I)^-1 X r,  r_a = sum_j w_aj (x_a - x_j)'(T_j v_j + T_a v_a)
//
// After Lin, He, Zhang and Ji 2013; the linear f is ours.
var lpfe = Method{
	Name: "lpfe", Title: "linear parallel field embedding",
	Paper: "Lin, He, Zhang and Ji, Parallel vector field embedding, JMLR 14, 2013",
	Map:   "linear", Streaming: "window",
	Params: []Param{
		intParam("k", "10", "nearest rows that each row is joined with", 1),
		componentsParam,
		ridgeParam("oas", "relative ridge of 2 X L X': oas (of the total scatter) or a number; 0 is a rank cut", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     fitLPFE,
}

func fitLPFE(ctx context.Context, t *task) (*solution, error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, err
	}
	w, err := t.connected(ctx, lists, graph.Binary)
	if err != nil {
		return nil, err
	}
	tan, err := t.tangents(ctx, lists.Patches(), everyRow(t.rows.n), t.d)
	if err != nil {
		return nil, err
	}
	t.say("fields", 0)
	form := emptyTangentForm(w, tan)
	if err := form.addConnection(ctx, tan, 1); err != nil {
		return nil, err
	}
	m, err := form.connection()
	if err != nil {
		return nil, err
	}
	fields, err := pencil.Partial(ctx, m, pencil.Min, t.d, nil)
	if err != nil {
		return nil, err
	}
	t.found(fields)

	d, err := graph.LaplacianForm(t.x, w)
	if err != nil {
		return nil, err
	}
	d.ScaleSym(2, d)
	var q *pencil.Metric
	if t.ridge == 0 {
		q, err = pencil.Cut(d)
	} else {
		q, err = t.denominator(d)
	}
	if err != nil {
		return nil, err
	}
	r := mat.NewDense(t.rows.n, t.d, nil)
	for c := range t.d {
		r.SetCol(c, t.slopes(w, tan, form, fields.Vectors.ColView(c)))
	}
	var right mat.Dense
	right.Mul(t.x.T(), r)
	a := q.Solve(&right)
	return &solution{components: a.RawMatrix().Data, d: t.d, eigenvalues: fields.Values, informative: t.d}, nil
}

// slopes is r of the field v with unit vectors.
func (t *task) slopes(w *graph.Matrix, tan *tangents, form *tangentForm, v mat.Vector) []float64 {
	u := mat.NewDense(t.rows.n, t.m, nil) // T_i v_i
	for i, space := range tan.spaces {
		k := space.Dim()
		if k == 0 {
			continue
		}
		local := mat.NewVecDense(k, nil)
		for c := range k {
			local.SetVec(c, v.AtVec(form.start[i]+c))
		}
		if norm := mat.Norm(local, 2); norm > 0 {
			local.ScaleVec(1/norm, local)
		}
		mat.NewVecDense(t.m, u.RawRowView(i)).MulVec(space.Basis, local)
	}
	r := make([]float64, t.rows.n)
	for a := range r {
		xa, ua := t.x.RawRowView(a), u.RawRowView(a)
		index, weight := w.Row(a)
		for e, j := range index {
			xj, uj := t.x.RawRowView(j), u.RawRowView(j)
			sum := 0.0
			for c, x := range xa {
				sum += (x - xj[c]) * (uj[c] + ua[c])
			}
			r[a] += weight[e] * sum
		}
	}
	return r
}
