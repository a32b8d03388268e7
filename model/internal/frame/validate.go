package frame

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/score"
)

// OutputPair is the outputs of training and test rows, d columns each.
type OutputPair struct {
	Train, Test []float64
	D           int
}

func (t *Task) OutputPair(ctx context.Context, sol *Solution, p *Rows, train, test []int) (*OutputPair, error) {
	if sol.Mapping == nil {
		out, err := t.embedded(ctx, []*Solution{sol}, p, train, test)
		if err != nil {
			return nil, err
		}
		return out[0], nil
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

// validateRidges scores each ridge, behind each share of the variance, by cross-validation, see Validate; the shrinkage
// is estimated in each fold. nil where no rows can be held out.
func (t *Task) validateRidges(ctx context.Context, shares, ridges []float64) ([]model.RidgeScore, error) {
	var scores []model.RidgeScore
	for _, share := range shares {
		if len(shares) == 1 {
			share = 0 // not compared
		}
		for _, r := range ridges {
			scores = append(scores, model.RidgeScore{Ridge: r, OAS: r == OASRidge, Share: share})
		}
	}
	tallies, err := t.Validate(ctx, "ridge", len(scores), func(ft *Task, i int) {
		ft.Share = shares[i/len(ridges)]
		if ft.Ridge = scores[i].Ridge; scores[i].OAS {
			_, shrunk := OAS(t.Method.Ridge.Scatter(ft.Stat), ft.Stat.N, ft.Columns)
			ft.Ridge = max(shrunk, t.Method.Ridge.least(ft.D))
		}
	})
	if tallies == nil || err != nil {
		return nil, err
	}
	for i, c := range tallies {
		scores[i].Correct, scores[i].Scored = c.Correct, c.Scored
	}
	return scores, nil
}

// Tally is how many of the scored rows had a nearest neighbour of their own class.
type Tally struct{ Correct, Scored int }

// Validate scores count settings of one parameter by 3-fold cross-validation at
// dimension t.D; scaling and rank cut are refitted in each fold, and set puts a setting into
// a fold's task. nil where too few classes have the rows for it.
func (t *Task) Validate(ctx context.Context, name string, count int, set func(ft *Task, i int)) ([]Tally, error) {
	pick, fold := Folds(t.Rows, MaxValidated, 3, 0)
	if fold == nil {
		return nil, nil
	}
	parts, errs := make([][]Tally, 3), make([]error, 3)
	err := parallel.Each(ctx, len(parts), func(f int) {
		train, test := HeldOut(pick, fold, f)
		parts[f], errs[f] = t.validateFold(ctx, train, test, count, set)
	})
	if err != nil {
		return nil, err
	}
	t.ReportProgress(name, 1)
	var all []Tally
	for f, part := range parts {
		if errs[f] != nil {
			t.Report.Note(fmt.Sprintf("%s: fold %d of 3 cannot be fitted and was left out: %v", name, f+1, errs[f]))
			continue
		}
		if all == nil {
			all = make([]Tally, count)
		}
		for i := range all {
			all[i].Correct += part[i].Correct
			all[i].Scored += part[i].Scored
		}
	}
	return all, nil
}

// errFlatFold reports training rows of a fold that are all equal.
var errFlatFold = errors.New("no feature varies among its training rows")

// validateFold scores the settings in one fold. It runs beside
// the other folds, so it reports no progress.
func (t *Task) validateFold(ctx context.Context, train, test []int, count int, set func(*Task, int)) ([]Tally, error) {
	ft := &Task{Method: t.Method, Params: maps.Clone(t.Params), Seed: t.Seed, Scaling: t.Scaling, Report: &model.Report{}}
	if err := ft.Load(ctx, t.Rows.Subset(train)); err != nil {
		return nil, err
	}
	if ft.Columns == 0 {
		return nil, errFlatFold
	}
	bound, _ := ft.Method.Bound(ft)
	scores, sols, errs := make([]Tally, count), make([]*Solution, count), make([]error, count)
	solve := func(ft *Task, i int) {
		ft.D, ft.Free = min(t.D, bound), true
		set(ft, i)
		sol, err := ft.Solve(ctx)
		scores[i].Scored = len(test)
		if err == nil && sol.Mapping != nil {
			scores[i].Correct, err = ft.Score(ctx, sol, t.Rows, train, test)
			sol = nil
		}
		sols[i], errs[i] = sol, err
	}
	workers := parallel.Workers(ctx)
	if ft.Method.Samples {
		workers = 1 // what it keeps for all ridges is made once
	}
	if err := parallel.EachOn(ctx, workers, count, func(i int) {
		if workers == 1 {
			solve(ft, i)
			return
		}
		own := *ft
		own.Params, own.Report = maps.Clone(ft.Params), &model.Report{}
		solve(&own, i)
	}); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return scores, ft.scoreLinear(ctx, sols, scores, t.Rows, train, test)
}

// scoreLinear scores the solutions that are there, linear maps: the rows are read once for all.
func (t *Task) scoreLinear(ctx context.Context, sols []*Solution, scores []Tally, p *Rows, train, test []int) error {
	var linear []*Solution
	var at []int
	for i, sol := range sols {
		if sol != nil {
			linear, at = append(linear, sol), append(at, i)
		}
	}
	out, err := t.embedded(ctx, linear, p, train, test)
	if err != nil {
		return err
	}
	errs := make([]error, len(at))
	if err := parallel.Each(ctx, len(at), func(k int) {
		scores[at[k]].Correct, errs[k] = out[k].correct(ctx, p, train, test)
	}); err != nil {
		return err
	}
	return errors.Join(errs...)
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
	out, err := t.embedded(ctx, []*Solution{sol}, p, train, test)
	if err != nil {
		return 0, err
	}
	return out[0].correct(ctx, p, train, test)
}

// correct counts the test rows whose nearest training row is of their class.
func (o *OutputPair) correct(ctx context.Context, p *Rows, train, test []int) (int, error) {
	nearest, err := score.Nearest(ctx, o.Train, len(train), o.Test, len(test), o.D)
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

// embedded is OutputPair of linear maps.
func (t *Task) embedded(ctx context.Context, sols []*Solution, p *Rows, train, test []int) ([]*OutputPair, error) {
	ref, err := t.embed(ctx, sols, p, train)
	if err != nil {
		return nil, err
	}
	query, err := t.embed(ctx, sols, p, test)
	if err != nil {
		return nil, err
	}
	out := make([]*OutputPair, len(sols))
	for i, sol := range sols {
		out[i] = &OutputPair{ref[i], query[i], sol.Dim}
	}
	return out, nil
}

// embed is ((x - mean)/scale) . A of some rows, of each A.
func (t *Task) embed(ctx context.Context, sols []*Solution, p *Rows, rows []int) ([][]float64, error) {
	wide := 0
	for _, sol := range sols {
		wide += sol.Dim
	}
	w, y, from := make([]float64, p.M*wide), make([]float64, len(rows)*wide), 0
	for _, sol := range sols {
		for j, a := range t.unreduce(sol.Components, sol.Dim) {
			w[j/sol.Dim*wide+from+j%sol.Dim] = a / t.Stat.Scale[j/sol.Dim]
		}
		from += sol.Dim
	}
	features := &tile.Operand{K: p.M, M: len(rows), About: t.Stat.Mean,
		Column: func(i int) []float64 { return p.X[rows[i]*p.M:][:p.M] }}
	if err := tile.Add(ctx, tile.Sum{C: y, Stride: wide, Alpha: 1, A: features,
		B: tile.Dense(w, p.M, wide, wide)}); err != nil {
		return nil, err
	}
	out := make([][]float64, len(sols))
	from = 0
	for k, sol := range sols {
		out[k] = make([]float64, 0, len(rows)*sol.Dim)
		for i := range rows {
			out[k] = append(out[k], y[i*wide+from:][:sol.Dim]...)
		}
		from += sol.Dim
	}
	return out, nil
}
