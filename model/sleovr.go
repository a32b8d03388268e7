package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// sleOvR: signed Laplacian embedding of each class p against the rest q, with
// weights alpha inside p, beta inside q and -1 across:
//
//	P = D_p M_p + D_q M_q - alpha m_p m_p' - beta m_q m_q' + m_p m_q' + m_q m_p'
//	D_p = alpha n_p + n_q,  D_q = beta n_q + n_p
//
// and per class the leading columns of max (M, P + rho I), M = M_p + M_q. The
// Laplacian is not invariant under translation: a constant feature lets the two
// groups lie at c and -c, so origin=augment is the default. ridge=0 is the
// literal form, min (P, M) with a rank cut. Rows are mapped by the view of
// largest membership degree (eq. 7 of Gong, Tao, Yang and Fu, AAAI 2014).
var sleOvR = Method{
	Name: "sle-ovr", Title: "signed Laplacian embedding, one against the rest",
	Paper:      "Gong, Tao, Yang and Fu, Signed Laplacian embedding for supervised dimension reduction, AAAI 2014",
	Supervised: true, Map: "extension", Streaming: "window",
	Params: []Param{
		choice("weights", "group", "inside the class and inside the rest: group (1/n_p, 1/n_q), target (1/n_p, 1/n_p), positive (1/n_p, 1), none (1, 1)",
			"group", "target", "positive", "none"),
		originParam("augment"),
		ridgeParam("1e-3", "relative ridge of P in each view, a number; 0 is the literal form", false),
	},
	dim:           func(*task) int { return 2 },
	bound:         func(t *task) (int, string) { return t.columns, rankOfTotal },
	ridge:         &ridgeRule{of: totalScatter},
	fit:           fitSLEOvR,
	secondByClass: true,
}

// maxWindow is the number of embedded rows the membership degree looks at.
const maxWindow = 2000

func fitSLEOvR(ctx context.Context, t *task) (*solution, error) {
	moment, sums := t.uncentred()
	size, _ := sums.Dims()
	classes, features := len(t.rows.of), len(t.stat.mean)
	v := &views{d: t.d, components: make([]float64, classes*features*t.d), offset: make([]float64, classes*t.d)}
	solved, err := t.solveViews(ctx, moment, sums)
	if err != nil {
		return nil, err
	}
	for c, s := range solved {
		t.report.Ridge.Absolute = max(t.report.Ridge.Absolute, s.rho)
		if !math.IsInf(s.Gap, 0) && (t.report.Gap == nil || s.Gap < *t.report.Gap) {
			t.report.Gap = &s.Gap
		}
		t.report.Residual = max(t.report.Residual, s.Residual)
		a, offset := t.unaugment(s.Vectors, size > t.m)
		at := t.stat.class[c]
		copy(v.components[at*features*t.d:], a)
		copy(v.offset[at*t.d:], offset)
	}
	if err := v.fill(t); err != nil {
		return nil, err
	}
	return &solution{d: t.d, informative: t.d, mapping: v}, nil
}

// viewSolution is the pencil of one class, and its absolute ridge.
type viewSolution struct {
	*pencil.Solution
	rho float64
	err error
}

// solveViews solves every class against the rest, on all cores.
func (t *task) solveViews(ctx context.Context, moment *mat.SymDense, sums *mat.Dense) ([]viewSolution, error) {
	k := t.stat.classes()
	solved := make([]viewSolution, k)
	err := parallel.EachTold(ctx, k, func(c int) {
		solved[c] = t.view(moment, t.uncentredClass(c, sums), sums, c)
	}, func(done int) { t.say("views", float64(done)/float64(k)) })
	if err != nil {
		return nil, err
	}
	for c, s := range solved {
		if s.err != nil {
			return nil, fmt.Errorf("class %q: %w", t.rows.of[t.stat.class[c]], s.err)
		}
	}
	return solved, nil
}

// uncentredClass is M_c about the origin of the task.
func (t *task) uncentredClass(c int, sums *mat.Dense) *mat.SymDense {
	size, _ := sums.Dims()
	s := mat.NewSymDense(size, nil)
	for i := range t.m {
		for j := i; j < t.m; j++ {
			s.SetSym(i, j, t.stat.second[c].At(i, j))
		}
	}
	n := t.stat.counts[c]
	switch t.params["origin"] {
	case "augment":
		for j := range size {
			s.SetSym(t.m, j, sums.At(j, c))
		}
	case "none":
		// (x + v)(x + v)' = x x' + x v' + v x' + v v', sums about the mean.
		v := mat.NewVecDense(t.m, t.origin())
		about := mat.NewVecDense(t.m, nil)
		about.ScaleVec(n, t.stat.means.RowView(c))
		s.RankTwo(s, 1, about, v)
		s.SymRankOne(s, n, v)
	}
	return s
}

// view solves class c against the rest.
func (t *task) view(moment, mp *mat.SymDense, sums *mat.Dense, c int) viewSolution {
	size, k := sums.Dims()
	np := t.stat.counts[c]
	nq := t.stat.n - np
	alpha, beta := weights(t.params["weights"], np, nq)
	dp, dq := alpha*np+nq, beta*nq+np

	p, q := mat.NewVecDense(size, nil), mat.NewVecDense(size, nil)
	for o := range k {
		if o == c {
			p.CopyVec(sums.ColView(o))
		} else {
			q.AddVec(q, sums.ColView(o))
		}
	}
	pen := mat.NewSymDense(size, nil)
	for i := range size {
		for j := i; j < size; j++ {
			pen.SetSym(i, j, dp*mp.At(i, j)+dq*(moment.At(i, j)-mp.At(i, j)))
		}
	}
	pen.SymRankOne(pen, -alpha, p)
	pen.SymRankOne(pen, -beta, q)
	pen.RankTwo(pen, 1, p, q)

	if t.ridge == 0 {
		metric, err := pencil.Cut(moment)
		if err != nil {
			return viewSolution{err: err}
		}
		s, err := pencil.Solve(pen, metric, pencil.Min, t.d)
		return viewSolution{s, 0, err}
	}
	// The constant coordinate counts among the columns.
	rho := pencil.Rho(t.ridge, pen, t.columns+size-t.m)
	metric, err := t.factor(pen, rho)
	if err != nil {
		return viewSolution{err: err}
	}
	s, err := pencil.Solve(moment, metric, pencil.Max, t.d)
	return viewSolution{s, rho, err}
}

func weights(kind string, np, nq float64) (alpha, beta float64) {
	switch kind {
	case "group":
		return 1 / np, 1 / nq
	case "target":
		return 1 / np, 1 / np
	case "positive":
		return 1 / np, 1
	}
	return 1, 1
}

// unaugment takes a view's columns back to the scaled features, with signs
// fixed there; the row of the constant feature becomes the offset.
func (t *task) unaugment(a *mat.Dense, augmented bool) (components, offset []float64) {
	offset = make([]float64, t.d)
	top := mat.DenseCopyOf(a.Slice(0, t.m, 0, t.d))
	before := t.expand(top)
	after := mat.DenseCopyOf(before)
	pencil.FixSigns(after)
	if augmented {
		for j := range t.d {
			offset[j] = a.At(t.m, j)
			for i := range len(t.stat.mean) {
				if before.At(i, j) != after.At(i, j) {
					offset[j] = -offset[j]
					break
				}
			}
		}
	}
	return after.RawMatrix().Data, offset
}

// fill stores the window: the rows of the fit, at most maxWindow of them,
// stratified, as the model's own projection embeds them.
func (v *views) fill(t *task) error {
	p := t.rows
	rows := p.stratified(maxWindow)
	if len(rows) < p.n {
		t.report.note(fmt.Sprintf("the membership degree looks at %d of %d rows, stratified", len(rows), p.n))
	}
	x := make([]float64, 0, len(rows)*p.m)
	label := make([]int, len(rows))
	for i, r := range rows {
		x = append(x, p.data.X[p.at[r]*p.m:(p.at[r]+1)*p.m]...)
		label[i] = p.y[r]
	}
	return v.setWindow(t.stat.mean, t.stat.scale, t.scaling == Unit, DenseRows(x, len(rows), p.m), label)
}
