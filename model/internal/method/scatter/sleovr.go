package scatter

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// sleOvR: signed Laplacian embedding of each class p against the rest q, with
// weights alpha inside p, beta inside q and -1 across:
//
//	P = D_p M_p + D_q M_q - alpha m_p m_p' - beta m_q m_q' + m_p m_q' + m_q m_p'
//	D_p = alpha n_p + n_q,  D_q = beta n_q + n_p
//
// and per class the leading columns of max (M, P + rho I), M = M_p + M_q. The Laplacian is not invariant under
// translation: a constant feature lets the two groups be at c and -c, so origin=augment is the default. ridge=0 is the
// literal form, min (P, M) with a rank cut. Rows are mapped by the view of largest membership degree (eq. 7 of Gong,
// Tao, Yang and Fu, AAAI 2014).
var SLEOvR = frame.Method{
	Name: "sle-ovr", Title: "signed Laplacian embedding, one against the rest",
	Paper:      "Gong, Tao, Yang and Fu, Signed Laplacian embedding for supervised dimension reduction, AAAI 2014",
	Supervised: true, Map: "extension", Streaming: "window",
	Params: []frame.Param{
		frame.Choice("weights", "group", "inside the class and inside the rest: group (1/n_p, 1/n_q), target (1/n_p, "+
			"1/n_p), positive (1/n_p, 1), none (1, 1)",
			"group", "target", "positive", "none"),
		frame.OriginParam("augment"),
		frame.RidgeParam("1e-3", "relative ridge of P in each view, a number; 0 is the literal form", false),
	},
	Ridge:         &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory:        func(e frame.Extent) int64 { return e.Copies(4, 400) },
	Fit:           fitSLEOvR,
	SecondByClass: true, NoSamples: true,
}

// MaxWindow is the number of embedded rows that the membership degree uses.
const MaxWindow = 2000

func fitSLEOvR(ctx context.Context, t *frame.Task) *frame.Solution {
	moment, sums := uncentred(t)
	size, _ := sums.Dims()
	classes, features := len(t.Rows.Classes), len(t.Units.Mean)
	v := &mapping.Views{D: t.D, Components: make([]float64, classes*features*t.D), Offset: make([]float64, classes*t.D)}
	solved := solveViews(ctx, t, moment, sums)
	for c, s := range solved {
		t.Report.Ridge.Absolute = max(t.Report.Ridge.Absolute, s.rho)
		if !math.IsInf(s.Gap, 0) && (t.Report.Gap == nil || s.Gap < *t.Report.Gap) {
			t.Report.Gap = &s.Gap
		}
		t.Report.Residual = max(t.Report.Residual, s.Residual)
		a, offset := unaugment(t, s.Vectors, size > t.M)
		at := t.Basis.Class[c]
		copy(v.Components[at*features*t.D:], a)
		copy(v.Offset[at*t.D:], offset)
	}
	fillWindow(ctx, t, v)
	return t.Mapped(v, nil, t.D)
}

// viewSolution is the pencil of one class, and its absolute ridge.
type viewSolution struct {
	*pencil.Solution
	rho float64
	err error
}

// solveViews solves every class against the rest, on all cores.
func solveViews(ctx context.Context, t *frame.Task, moment *mat.SymDense, sums *mat.Dense) []viewSolution {
	k := t.Basis.Classes()
	solved := make([]viewSolution, k)
	fail.Check(parallel.EachProgress(ctx, k, func(c int) {
		solved[c] = view(ctx, t, moment, uncentredClass(t, c, sums), sums, c)
	}, func(done int) { t.ReportProgress("views", float64(done)/float64(k)) }))
	for c, s := range solved {
		if s.err != nil {
			panic(fail.With(fmt.Errorf("class %q: %w", t.Rows.Classes[t.Basis.Class[c]], s.err)))
		}
	}
	return solved
}

// uncentredClass is M_c about the origin of the task.
func uncentredClass(t *frame.Task, c int, sums *mat.Dense) *mat.SymDense {
	size, _ := sums.Dims()
	s := mat.NewSymDense(size, nil)
	for i := range t.M {
		for j := i; j < t.M; j++ {
			s.SetSym(i, j, t.Basis.Second[c].At(i, j))
		}
	}
	n := t.Basis.Counts[c]
	switch t.Params["origin"] {
	case "augment":
		for j := range size {
			s.SetSym(t.M, j, sums.At(j, c))
		}
	case "none":
		// (x + v)(x + v)' = x x' + x v' + v x' + v v', sums about the mean.
		v := mat.NewVecDense(t.M, t.Origin())
		about := mat.NewVecDense(t.M, nil)
		about.ScaleVec(n, t.Basis.Means.RowView(c))
		s.RankTwo(s, 1, about, v)
		s.SymRankOne(s, n, v)
	}
	return s
}

// view solves class c against the rest.
func view(ctx context.Context, t *frame.Task, moment, mp *mat.SymDense, sums *mat.Dense, c int) viewSolution {
	size, k := sums.Dims()
	np := t.Basis.Counts[c]
	nq := t.Basis.N - np
	alpha, beta := weights(t.Params["weights"], np, nq)
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

	if t.Ridge == 0 {
		metric, err := pencil.Cut(moment)
		if err != nil {
			return viewSolution{err: err}
		}
		s, err := pencil.Solve(ctx, pen, metric, pencil.Min, t.D)
		return viewSolution{s, 0, err}
	}
	// The constant coordinate counts among the columns.
	rho := pencil.Rho(t.Ridge, pen, t.Columns+size-t.M)
	metric, err := frame.Factor(t, pen, rho)
	if err != nil {
		return viewSolution{err: err}
	}
	s, err := pencil.Solve(ctx, moment, metric, pencil.Max, t.D)
	return viewSolution{s, rho, err}
}

// weights are those inside a class of np rows, and inside the rest of nq rows.
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
func unaugment(t *frame.Task, a *mat.Dense, augmented bool) (components, offset []float64) {
	offset = make([]float64, t.D)
	top := mat.DenseCopyOf(a.Slice(0, t.M, 0, t.D))
	before := t.Expand(top)
	after := mat.DenseCopyOf(before)
	pencil.FixSigns(after)
	if augmented {
		for j := range t.D {
			offset[j] = a.At(t.M, j)
			for i := range len(t.Units.Mean) {
				if before.At(i, j) != after.At(i, j) {
					offset[j] = -offset[j]
					break
				}
			}
		}
	}
	return after.RawMatrix().Data, offset
}

// fillWindow stores the window: at most MaxWindow rows of the fit, stratified, as the model's own projection embeds
// them.
func fillWindow(ctx context.Context, t *frame.Task, v *mapping.Views) {
	p := t.Rows
	rows := p.Stratified(MaxWindow)
	if len(rows) < p.N {
		t.Report.Note(fmt.Sprintf("the membership degree uses %d of %d rows, stratified", len(rows), p.N))
	}
	x := make([]float64, 0, len(rows)*p.M)
	label := make([]int, len(rows))
	for i, r := range rows {
		x = append(x, p.Data.X[p.Index[r]*p.M:(p.Index[r]+1)*p.M]...)
		label[i] = p.Y[r]
	}
	c := model.Content{Mean: t.Units.Mean, Scale: t.Units.Scale, Unit: t.Scaling == model.ScaleUnit, Map: v}
	v.SetWindow(fail.Must(c.ViewOutputs(ctx, model.DenseRows(x, len(rows), p.M))), label)
}
