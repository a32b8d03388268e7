package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/score"
)

// OutputPair is the outputs of training and test rows, d columns each.
type OutputPair struct {
	Train, Test []float64
	D           int
}

func (t *Task) OutputPair(ctx context.Context, sol *Solution, p *Rows, train, test []int) (*OutputPair, error) {
	if sol.Mapping == nil {
		a := t.unreduce(sol.Components, sol.Dim)
		return &OutputPair{t.embed(a, sol.Dim, p, train), t.embed(a, sol.Dim, p, test), sol.Dim}, nil
	}
	m, err := t.model(ctx, sol, nil, p.Classes)
	if err != nil {
		return nil, err
	}
	ref, err := score.Outputs(ctx, m, p.dataOf(train))
	if err != nil {
		return nil, err
	}
	query, err := score.Outputs(ctx, m, p.dataOf(test))
	return &OutputPair{ref, query, sol.Dim}, err
}

// validateRidges scores each ridge of the grid by 3-fold cross-validation at
// dimension t.d; scaling, rank cut and shrinkage are refitted in each fold. nil
// where too few classes have the rows for it.
func (t *Task) validateRidges(ctx context.Context, grid []float64) ([]model.RidgeScore, error) {
	pick, fold := Folds(t.Rows, MaxValidated, 3, 0)
	if fold == nil {
		return nil, nil
	}
	scores := make([]model.RidgeScore, len(grid))
	for i, r := range grid {
		scores[i] = model.RidgeScore{Ridge: r, OAS: r == OASRidge}
	}
	parts, errs := make([][]model.RidgeScore, 3), make([]error, 3)
	err := parallel.Each(ctx, len(parts), func(f int) {
		parts[f] = slices.Clone(scores)
		train, test := HeldOut(pick, fold, f)
		errs[f] = t.validateFold(ctx, parts[f], train, test)
	})
	if err != nil {
		return nil, err
	}
	t.ReportProgress("ridge", 1)
	scored := false
	for f, part := range parts {
		if errs[f] != nil {
			t.Report.Note(fmt.Sprintf("ridge: fold %d of 3 cannot be fitted and was left out: %v", f+1, errs[f]))
			continue
		}
		scored = true
		for i := range scores {
			scores[i].Correct += part[i].Correct
			scores[i].Scored += part[i].Scored
		}
	}
	if !scored {
		return nil, nil
	}
	return scores, nil
}

// errFlatFold reports training rows of a fold that are all equal.
var errFlatFold = errors.New("no feature varies among its training rows")

// validateFold adds to the scores of each ridge those of one fold. It runs beside
// the other folds, so it reports no progress.
func (t *Task) validateFold(ctx context.Context, scores []model.RidgeScore, train, test []int) error {
	ft := &Task{Method: t.Method, Params: t.Params, Seed: t.Seed, Scaling: t.Scaling, Report: &model.Report{}}
	if err := ft.Load(ctx, t.Rows.Subset(train)); err != nil {
		return err
	}
	if ft.Columns == 0 {
		return errFlatFold
	}
	bound, _ := ft.Method.Bound(ft)
	_, shrunk := OAS(t.Method.Ridge.Scatter(ft.Stat), ft.Stat.N, ft.Columns)
	for i := range scores {
		ft.D, ft.Free = min(t.D, bound), true
		ft.Ridge = scores[i].Ridge
		if scores[i].OAS {
			ft.Ridge = max(shrunk, t.Method.Ridge.least(ft.D))
		}
		sol, err := ft.Solve(ctx)
		if err != nil {
			return err
		}
		correct, err := ft.Score(ctx, sol, t.Rows, train, test)
		if err != nil {
			return err
		}
		scores[i].Correct += correct
		scores[i].Scored += len(test)
	}
	return nil
}

// Score counts the test rows whose nearest training row is of their class.
func (t *Task) Score(ctx context.Context, sol *Solution, p *Rows, train, test []int) (int, error) {
	if sol.Mapping != nil {
		m, err := t.model(ctx, sol, nil, p.Classes)
		if err != nil {
			return 0, err
		}
		return score.Correct(ctx, m, p.dataOf(train), p.dataOf(test), 1)
	}
	a := t.unreduce(sol.Components, sol.Dim)
	ref, query := t.embed(a, sol.Dim, p, train), t.embed(a, sol.Dim, p, test)
	nearest, err := score.Nearest(ctx, ref, len(train), query, len(test), sol.Dim)
	if err != nil {
		return 0, err
	}
	correct := 0
	for i, j := range nearest {
		if p.Y[train[j]] == p.Y[test[i]] {
			correct++
		}
	}
	return correct, nil
}

// embed is ((x - mean)/scale) . A of some rows.
func (t *Task) embed(a []float64, d int, p *Rows, rows []int) []float64 {
	x := mat.NewDense(len(rows), p.M, nil)
	for i, r := range rows {
		dst := x.RawRowView(i)
		for j, v := range p.X[r*p.M : (r+1)*p.M] {
			dst[j] = v - t.Stat.Mean[j]
		}
	}
	w := mat.NewDense(p.M, d, slices.Clone(a))
	for j, s := range t.Stat.Scale {
		row := w.RawRowView(j)
		for c := range row {
			row[c] /= s
		}
	}
	y := mat.NewDense(len(rows), d, nil)
	y.Mul(x, w)
	return y.RawMatrix().Data
}
