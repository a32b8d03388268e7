package model

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lfda: max (S_b, S_w + rho I) of local scatters,
//
//	G_c = X_c (diag(A 1) - A) X_c',  A_ij = exp(-|x_i - x_j|^2/(sigma_i sigma_j))
//	S_w = sum_c G_c/n_c
//	S_b = sum_c (G_c/n + (1 - n_c/n) X_c X_c' + s_c s_c'/n) - S_w   about the mean
//
// sigma_i the distance to the kNN-th nearest row of the class, at least 1e-3 of
// the class's median, s_c the sum of class c. ridge=0 is the literal form, with
// a rank cut. Sugiyama, JMLR 8, 2007.
var lfda = Method{
	Name: "lfda", Title: "local Fisher discriminant analysis",
	Paper:      "Sugiyama, Dimensionality reduction of multimodal labeled data by local Fisher discriminant analysis, JMLR 8, 2007",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []Param{
		intParam("kNN", "7", "nearest row of the class whose distance is a row's scale", 1).tried("3", "7", "15"),
		choice("metric", "plain", "columns as solved (plain), times the root of their eigenvalues (weighted), or made orthonormal (orthonormalized)", "plain", "weighted", "orthonormalized"),
		ridgeParam("auto", "relative ridge of the local within-class scatter: auto (cross-validation), oas, or a number; 0 is the literal form", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: withinScatter, grid: []float64{oasRidge, 0.1, 1}},
	samples: true,
	fit:     fitLFDA,
}

var solveLFDA = maximize(func(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	return localScatters(ctx, t, "kNN")
}, pencil.Max)

func fitLFDA(ctx context.Context, t *task) (*solution, error) {
	s, err := solveLFDA(ctx, t)
	if err != nil {
		return nil, err
	}
	a := mat.NewDense(t.m, s.d, s.components)
	switch t.params["metric"] {
	case "weighted":
		for j, l := range s.eigenvalues {
			scaleColumn(a, j, math.Sqrt(max(l, 0)))
		}
	case "orthonormalized":
		var qr mat.QR
		qr.Factorize(a)
		var q mat.Dense
		qr.QTo(&q)
		a.Copy(q.Slice(0, t.m, 0, s.d))
	}
	return s, nil
}

// localScatters are S_b and S_w, with the scale of a row from as many neighbours
// as the parameter says.
func localScatters(ctx context.Context, t *task, parameter string) (n, d *mat.SymDense, err error) {
	k := t.int(parameter)
	t.noteShort(parameter, k, func(rows int) int { return rows - 1 })
	t.say("neighbours", 0)
	own, _, err := graph.NearestByClass(ctx, t.x, t.rows.y, k, 0)
	if err != nil {
		return nil, nil, err
	}
	sigma := own.LocalScale(t.rows.y)
	rows := t.rows.byClass()
	share := make([]float64, t.rows.n) // 1 - n_c/n of each row
	d = mat.NewSymDense(t.m, nil)
	n = mat.NewSymDense(t.m, nil)
	for i, c := range t.stat.class {
		t.say("affinities", float64(i)/float64(t.stat.classes()))
		size := t.stat.counts[i]
		for _, r := range rows[c] {
			share[r] = 1 - size/t.stat.n
		}
		g, err := t.localScatter(ctx, rows[c], t.stat.means.RowView(i), sigma)
		if err != nil {
			return nil, nil, err
		}
		// g is G_c; what S_b takes of it is G_c/n - G_c/n_c.
		var both mat.SymDense
		both.ScaleSym(1/t.stat.n-1/size, g)
		n.AddSym(n, &both)
		n.SymRankOne(n, size*size/t.stat.n, t.stat.means.RowView(i))
		g.ScaleSym(1/size, g)
		d.AddSym(d, g)
	}
	pairs, err := graph.DegreeForm(t.x, share)
	if err != nil {
		return nil, nil, err
	}
	n.AddSym(n, pairs)
	return n, d, nil
}

// affinityRows is the number of rows of A that are held at a time.
const affinityRows = 256

// localScatter is G_c = sum_ij A_ij (x_i - x_j)(x_i - x_j)'/2 of the rows of a
// class. A is full, but only a block of rows of its upper half U is ever held:
// X A X' = X U X' + (X U X')', the diagonal blocks halved. Squared distances come
// from products of rows about the class mean.
func (t *task) localScatter(ctx context.Context, rows []int, mean mat.Vector, sigma []float64) (*mat.SymDense, error) {
	n := len(rows)
	x := mat.NewDense(n, t.m, nil)
	norm, degree := make([]float64, n), make([]float64, n)
	for i, r := range rows {
		dst := x.RawRowView(i)
		for j, v := range t.x.RawRowView(r) {
			dst[j] = v - mean.AtVec(j)
			norm[i] += dst[j] * dst[j]
		}
	}
	ux := mat.NewDense(n, t.m, nil)
	block := make([]float64, min(n, affinityRows)*n)
	for from := 0; from < n; from += affinityRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := min(from+affinityRows, n)
		later := x.Slice(from, n, 0, t.m)
		a := mat.NewDense(to-from, n-from, block[:(to-from)*(n-from)])
		a.Mul(x.Slice(from, to, 0, t.m), later.T())
		for i := from; i < to; i++ {
			row := a.RawRowView(i - from)
			for k, product := range row {
				// Where a scale is 0 rows are equal or infinitely far: either way
				// the pair adds nothing.
				j, v := from+k, 0.0
				if s := sigma[rows[i]] * sigma[rows[j]]; s > 0 && j != i {
					v = math.Exp(-max(0, norm[i]+norm[j]-2*product) / s)
				}
				degree[i] += v
				if j < to {
					v /= 2
				} else {
					degree[j] += v
				}
				row[k] = v
			}
		}
		ux.Slice(from, to, 0, t.m).(*mat.Dense).Mul(a, later)
	}
	for i, v := range degree {
		row := ux.RawRowView(i)
		for j, u := range x.RawRowView(i) {
			row[j] = v*u - 2*row[j]
		}
	}
	var g mat.Dense
	g.Mul(x.T(), ux)
	return symmetric(&g), nil
}
