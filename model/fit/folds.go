package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/score"
)

// scan is what the candidates share: samples and statistics of labelled rows.
var scan = frame.Method{Name: Auto, Supervised: true, Samples: true}

func (a *selection) rounds() int {
	if a.p.N > fewRows {
		return 1
	}
	return fewRounds
}

// validate scores entries in every round.
func (a *selection) validate(ctx context.Context, entries []*entry) error {
	for round := range a.rounds() {
		if err := a.round(ctx, round, entries); err != nil {
			return err
		}
	}
	return nil
}

// round adds the scores of one deal of the rows to folds. An entry that cannot be
// fitted leaves the table.
func (a *selection) round(ctx context.Context, round int, entries []*entry) error {
	pick, fold := frame.Folds(a.p, a.p.N, 3, round)
	for f := range 3 {
		train, test := frame.HeldOut(pick, fold, f)
		rows, err := a.behind(ctx, train)
		if errors.Is(err, errConstant) {
			continue // nothing to tell the candidates apart by
		}
		if err != nil {
			return err
		}
		views := map[view]*seen{}
		for i, e := range entries {
			if a.c.Progress != nil {
				a.c.Progress("auto", float64((3*round+f)*len(entries)+i)/float64(3*a.rounds()*len(entries)))
			}
			if e.out {
				continue
			}
			s := views[e.view]
			if s == nil {
				var err error
				s, err = a.seen(ctx, e, rows, train)
				if err != nil && e.view.curved() && len(a.entries) > 1 && ctx.Err() == nil {
					a.leaveOut(e, err) // no feature varies in this fold, say
					continue
				}
				if err != nil {
					return err
				}
				views[e.view] = s
			}
			if s.base.Columns == 0 {
				continue // nothing to tell the candidates apart by
			}
			err := a.score(ctx, e, s, 3*round+f, train, test)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && len(a.entries) == 1 {
				return err
			}
			if err != nil {
				a.leaveOut(e, err)
			}
		}
	}
	return nil
}

func (a *selection) leaveOut(e *entry, err error) {
	e.out = true
	if why := fmt.Sprintf("%s: %v", e.method.Name, err); !slices.Contains(a.leftOut, why) { // at another scale, say
		a.leftOut = append(a.leftOut, why)
	}
}

// behind are all rows as what stands before the fit shows them that has learned from the training rows of a fold.
func (a *selection) behind(ctx context.Context, train []int) (*frame.Rows, error) {
	front := a.front
	if front == nil {
		return a.p, nil
	}
	s, err := front.view.look(ctx, front.rows, train, front.of, a.c.Seed)
	if err != nil {
		return nil, err
	}
	return s.rows, nil
}

// seen is what an entry is shown of the rows of a fold. A method that was given has its own way to look at them.
func (a *selection) seen(ctx context.Context, e *entry, p *frame.Rows, train []int) (*seen, error) {
	if a.c.Method == Auto {
		return e.view.look(ctx, p, train, a.scales[0], a.c.Seed)
	}
	base := &frame.Task{Method: e.method, Params: e.params, Scaling: e.view.scale, Seed: a.c.Seed, Report: &model.Report{}}
	return &seen{base: base, rows: p}, base.Load(ctx, p.Subset(train))
}

// score fits an entry on the training rows of a fold and counts its test rows.
func (a *selection) score(ctx context.Context, e *entry, s *seen, fold int, train, test []int) error {
	nested, into := e.method.Nested, e.score
	kept := map[int]*frame.OutputPair{}
	if a.blends() && e.blendable() {
		e.outputs[fold] = kept
	}
	var y *frame.OutputPair
	for _, d := range slices.Backward(e.dims) {
		into[d].Scored += len(test)
		if y == nil || !nested {
			t := *s.base
			t.Method, t.Params, t.D, t.Free, t.Report = e.method, e.params, d, true, &model.Report{}
			bound, _ := e.method.Bound(&t)
			t.D = min(d, bound)
			if err := t.SettleRidge(ctx); err != nil {
				return err
			}
			sol, err := t.Solve(ctx)
			if err != nil {
				return err
			}
			if sol.Mapping != nil && !nested { // as views, which classify by themselves
				correct, err := t.Score(ctx, sol, s.rows, train, test)
				if err != nil {
					return err
				}
				into[d].Correct += correct
				continue
			}
			if y, err = t.OutputPair(ctx, sol, s.rows, train, test); err != nil {
				return err
			}
			kept[d] = y
		}
		if err := a.judge(ctx, e, y, d, train, test); err != nil {
			return err
		}
	}
	return nil
}

// judge counts the test rows that are right in d leading columns, or as many as there are: whose nearest training row is
// of their class, and, where it matters, those that a linear classifier has right.
func (a *selection) judge(ctx context.Context, e *entry, y *frame.OutputPair, d int, train, test []int) error {
	ref, query, dim := leading(y.Train, y.D, d), leading(y.Test, y.D, d), min(d, y.D)
	nearest, err := score.Nearest(ctx, ref, len(train), query, len(test), dim)
	if err != nil {
		return err
	}
	right := make([]int, a.p.N)
	for i, j := range nearest {
		if a.p.Y[train[j]] == a.p.Y[test[i]] {
			right[test[i]]++
			e.score[d].Correct++
		}
	}
	e.right[d] = plusRows(e.right[d], right)
	if !a.blends() || e.method != &blend && e.blendable() {
		return nil
	}
	known := make([]int, len(train))
	for i, at := range train {
		known[i] = a.p.Y[at]
	}
	class, err := score.Linear(ref, known, query, dim, len(a.p.Classes))
	if err != nil {
		return err
	}
	right = make([]int, a.p.N)
	for i, c := range class {
		if c == a.p.Y[test[i]] {
			right[test[i]]++
		}
	}
	e.lined[d] = plusRows(e.lined[d], right)
	return nil
}

// plusRows adds counts of rows, nil for none yet.
func plusRows(to, right []int) []int {
	for i, v := range to {
		right[i] += v
	}
	return right
}

// leading are the d leading columns of rows of width numbers, or all of fewer.
func leading(x []float64, width, d int) []float64 {
	d = min(d, width)
	out := make([]float64, 0, len(x)/width*d)
	for from := 0; from < len(x); from += width {
		out = append(out, x[from:from+d]...)
	}
	return out
}
