package frame

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
	"github.com/embedd/embedd/model/score"
)

// OutputPair is the outputs of training and test rows, D columns each.
type OutputPair struct {
	Train, Test []float64
	D           int
}

// Leading is the outputs in the first d columns, all of them if there are no more.
func (o *OutputPair) Leading(d int) *OutputPair {
	if d >= o.D {
		return o
	}
	return &OutputPair{leading(o.Train, o.D, d), leading(o.Test, o.D, d), d}
}

// leading is the first d columns of a row-major matrix.
func leading(x []float64, columns, d int) []float64 {
	out := make([]float64, 0, len(x)/columns*d)
	for from := 0; from < len(x); from += columns {
		out = append(out, x[from:from+d]...)
	}
	return out
}

// OutputPair is the outputs of a solution that is not linear for training and test rows.
func (t *Task) OutputPair(ctx context.Context, sol *Solution, p *Rows, train, test []int) (_ *OutputPair, err error) {
	defer fail.Catch(&err)
	m := t.model(ctx, sol, nil, p.Classes)
	ref := fail.Must(score.Outputs(ctx, m, p.dataOf(train)))
	return &OutputPair{ref, fail.Must(score.Outputs(ctx, m, p.dataOf(test))), sol.Dim}, nil
}

// validateRidges scores each ridge with each variant by cross-validation, see Validate; the shrinkage is estimated in
// each fold. It returns nil if no rows can be held out.
func validateRidges(ctx context.Context, t *Task, variants []variant,
	ridges []model.RidgeScore) []model.RidgeScore {
	var scores []model.RidgeScore
	for _, v := range variants {
		for _, score := range ridges {
			if score.Kernel = v.kernel; len(variants) > 1 && v.kernel == "" {
				score.Share = v.share
			}
			scores = append(scores, score)
		}
	}
	tallies := t.Validate(ctx, "ridge", len(scores), len(ridges), func(ft *Task, i int) {
		variants[i/len(ridges)].set(ft)
		if ft.Ridge = scores[i].Ridge; scores[i].OAS {
			_, shrunk := OAS(t.Method.Ridge.Scatter(ft.Basis), independentRows(ft), ft.Columns)
			ft.Ridge = max(shrunk, t.Method.Ridge.least(ft.D))
		}
	})
	if tallies == nil {
		return nil
	}
	for i, c := range tallies {
		scores[i].Correct, scores[i].Scored = c.Correct, c.Scored
	}
	return scores
}

// Tally is how many of the scored rows had a nearest neighbour of their own class.
type Tally struct{ Correct, Scored int }

// Validate scores count settings of one parameter by 3-fold cross-validation at dimension D. Scaling and rank cut are
// refitted in each fold, and set puts a setting into a fold's task. Settings come in runs: what a method keeps for all
// settings of a run is made by the first of it. The result is nil if too few classes have enough rows.
func (t *Task) Validate(ctx context.Context, name string, count, run int, set func(ft *Task, i int)) []Tally {
	pick, deal := Folds(t.Rows, MaxValidated, 3, 0)
	if deal == nil {
		return nil
	}
	if !t.Method.Samples() {
		run = 1 // it keeps nothing
	}
	rows := t.Rows
	if rows.IsStored() {
		rows, pick = rows.Subset(pick), linalg.Range(len(pick))
	}
	ctx = pencil.WithoutResidual(ctx)
	folds := make([]*fold, 3)
	for f := range folds {
		folds[f] = &fold{of: t, rows: rows, tasks: make([]*Task, count), sols: make([]*Solution, count),
			errs: make([]error, count), scores: make([]Tally, count)}
		folds[f].train, folds[f].test = HeldOut(pick, deal, f)
	}
	sums := foldSums(ctx, t, folds, pick, deal)
	fail.Check(parallel.Each(ctx, len(folds), func(f int) { folds[f].load(ctx, f, sums) }))
	// Folds and settings are scheduled together: three folds alone would leave one of two cores idle.
	for _, first := range []bool{true, false} {
		var todo []int
		for i := range count {
			if first == (i%run == 0) {
				todo = append(todo, i)
			}
		}
		fail.Check(parallel.Each(ctx, len(folds)*len(todo), func(k int) {
			i := todo[k%len(todo)]
			folds[k/len(todo)].solve(ctx, i, i-i%run, run > 1, set)
		}))
	}
	for _, f := range folds {
		f.tasks = nil // what they keep is large
	}
	fail.Check(parallel.Each(ctx, len(folds), func(f int) { folds[f].score(ctx) }))
	t.ReportProgress(name, 1)
	var all []Tally
	for i, f := range folds {
		if f.err != nil {
			t.Report.Note(fmt.Sprintf("%s: fold %d of 3 cannot be fitted and was left out: %v", name, i+1, f.err))
			continue
		}
		if all == nil {
			all = make([]Tally, count)
		}
		for i := range all {
			all[i].Correct += f.scores[i].Correct
			all[i].Scored += f.scores[i].Scored
		}
	}
	return all
}

// fold is the state of one fold of a cross-validation. Folds run concurrently, so none reports progress.
type fold struct {
	of          *Task
	rows        *Rows
	train, test []int
	task        *Task // of the rows that it trains on
	bound       int
	tasks       []*Task // of the first setting of each run of several, for what it keeps
	sols        []*Solution
	errs        []error
	scores      []Tally
	err         error
}

// foldSums are the moments of the test rows of each fold, and of those that train in every fold: a fold trains on the
// sum of the others, so that no row is read twice. The result is nil if moments of more rows than features are not all
// that the method needs.
func foldSums(ctx context.Context, t *Task, folds []*fold, pick, deal []int) []*moments.Set {
	p := folds[0].rows
	if t.Method.Streaming != "moments" || t.Scaling == model.ScaleMinMax {
		return nil
	}
	for _, f := range folds {
		if len(f.train) < p.M {
			return nil
		}
	}
	some := min(len(pick), 1024)
	shift := linalg.Mean(some, p.M, func(i int) []float64 { return p.row(pick[i*len(pick)/some]) })
	sums := make([]*moments.Set, len(folds)+1)
	fail.Check(parallel.Each(ctx, len(sums), func(k int) {
		var x [][]float64
		var y []int
		for i, at := range deal {
			if at == k || at < 0 && k == len(folds) {
				x, y = append(x, p.row(pick[i])), append(y, p.Y[pick[i]])
			}
		}
		sums[k] = moments.New(p.M, t.Method.SecondByClass)
		fail.Check(sums[k].SetShift(shift))
		fail.Check(sums[k].AddRows(ctx, x, y))
	}))
	return sums
}

// load loads the rows that fold number at trains on, from sums if there are any.
func (f *fold) load(ctx context.Context, at int, sums []*moments.Set) {
	t := f.of
	f.task = &Task{Method: t.Method, Params: t.Params, Seed: t.Seed, DesignEffect: t.DesignEffect, Scaling: t.Scaling,
		Report: &model.Report{}}
	if sums == nil {
		f.err = f.task.Load(ctx, f.rows.Subset(f.train))
	} else {
		all := moments.New(f.rows.M, t.Method.SecondByClass)
		for k, s := range sums {
			if k != at && f.err == nil {
				f.err = all.Merge(s)
			}
		}
		if f.err == nil {
			f.err = f.task.LoadSums(ctx, all)
		}
	}
	if f.err != nil {
		return
	}
	if f.task.Columns == 0 {
		f.err = fmt.Errorf("no feature varies among its %d training rows", len(f.train))
		return
	}
	f.bound, _ = t.Method.MaxDim(f.task)
}

// solve fits setting i. If its run has more settings, it reuses what the fit of setting first keeps.
func (f *fold) solve(ctx context.Context, i, first int, more bool, set func(*Task, int)) {
	if f.err != nil || f.errs[first] != nil {
		return
	}
	own := *f.task
	if i != first {
		own.ratio, own.Cache = f.tasks[first].ratio, f.tasks[first].Cache
	}
	own.Params, own.Report = maps.Clone(f.task.Params), &model.Report{}
	own.D, own.DefaultDim = min(f.of.D, f.bound), true
	if more && i == first {
		f.tasks[i] = &own
	}
	set(&own, i)
	sol, err := own.Solve(ctx)
	f.scores[i].Scored = len(f.test)
	if err == nil && sol.Mapping != nil {
		f.scores[i].Correct, err = own.Score(ctx, sol, f.rows, f.train, f.test)
		sol = nil
	}
	f.sols[i], f.errs[i] = sol, err
}

// score scores the settings that have a linear map, reading the rows once for all.
func (f *fold) score(ctx context.Context) {
	defer fail.Catch(&f.err)
	fail.Check(cmp.Or(append([]error{f.err}, f.errs...)...))
	var linear []*Solution
	var at []int
	for i, sol := range f.sols {
		if sol != nil {
			linear, at = append(linear, sol), append(at, i)
		}
	}
	out := f.task.OutputPairs(ctx, linear, f.rows, f.train, f.test)
	fail.Check(parallel.Each(ctx, len(at), func(k int) {
		f.scores[at[k]].Correct = len(out[k].Correct(ctx, f.rows, f.train, f.test))
	}))
}

// Score counts the test rows whose nearest training row has their class, for a solution that is not linear.
func (t *Task) Score(ctx context.Context, sol *Solution, p *Rows, train, test []int) (_ int, err error) {
	defer fail.Catch(&err)
	return score.Correct(ctx, t.model(ctx, sol, nil, p.Classes), p.dataOf(train), p.dataOf(test), 1)
}

// Correct returns the test rows whose nearest training row has their class.
func (o *OutputPair) Correct(ctx context.Context, p *Rows, train, test []int) (rows []int) {
	nearest := fail.Must(score.Nearest(ctx, o.Train, len(train), o.Test, len(test), o.D))
	for i, j := range nearest {
		if p.Y[train[j]] == p.Y[test[i]] {
			rows = append(rows, test[i])
		}
	}
	return rows
}

// OutputPairs returns the outputs of each linear map for the training rows and for the test rows. It reads the rows
// once for all maps.
func (t *Task) OutputPairs(ctx context.Context, sols []*Solution, p *Rows, train, test []int) []*OutputPair {
	ref := t.embed(ctx, sols, p, train)
	query := t.embed(ctx, sols, p, test)
	out := make([]*OutputPair, len(sols))
	for i, sol := range sols {
		out[i] = &OutputPair{ref[i], query[i], sol.Dim}
	}
	return out
}

// embed is ((x - mean)/scale) A of some rows, for each A.
func (t *Task) embed(ctx context.Context, sols []*Solution, p *Rows, rows []int) [][]float64 {
	wide := 0
	for _, sol := range sols {
		wide += sol.Dim
	}
	n := len(rows)
	w, y, from := make([]float64, p.M*wide), Grown(&ScratchOf(t).large, n*wide), 0
	clear(y)
	for _, sol := range sols {
		for j, a := range sol.signed(t) {
			w[j/sol.Dim*wide+from+j%sol.Dim] = a / t.Units.Scale[j/sol.Dim]
		}
		from += sol.Dim
	}
	features := &tile.Operand{K: p.M, M: n, About: t.Units.Mean,
		Column: func(i int) []float64 { return p.X[rows[i]*p.M:][:p.M] }}
	// A sum is computed in blocks of 8 rows and 24 columns. The outputs are its rows, because they are far fewer.
	fail.Check(tile.Add(ctx, tile.Sum{C: y, Stride: n, Alpha: 1, A: tile.Dense(w, p.M, wide, wide), B: features}))
	out := make([][]float64, len(sols))
	from = 0
	for k, sol := range sols {
		out[k] = make([]float64, n*sol.Dim)
		for j := range sol.Dim {
			for i, v := range y[(from+j)*n:][:n] {
				out[k][i*sol.Dim+j] = v
			}
		}
		from += sol.Dim
	}
	return out
}
