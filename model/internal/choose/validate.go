package choose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/score"
)

// MaxFewRows is the number of rows up to which choosing takes more time per row: it repeats the cross-validation with
// other folds, because the winner depends on the folds, and tries slower candidates.
const MaxFewRows = 500

// fewRowsRounds is how often up to MaxFewRows rows are dealt to folds.
const fewRowsRounds = 4

// folds is the number of folds in each round.
const folds = 3

// validator scores candidates by cross-validation.
type validator struct {
	c             Config
	rows          *frame.Rows
	inner         model.Scale                    // see preprocess.Spec.Fit
	single        bool                           // there is one candidate: if it cannot be fitted, that is an error
	leftOut       []string                       // candidates that could not be fitted, with the reason
	intermediates map[fitKey]frame.Intermediates // for variants
	scratch       frame.Scratch
}

// fitKey names the fit of a candidate in a fold. Variants of the candidate reuse its intermediates.
type fitKey struct {
	*candidate
	fold int
}

// maxKept is the maximum memory in bytes of kept intermediates: enough for all candidates of up to about 256 features.
const maxKept = 32 << 20

// keptBytes is the memory of the intermediates of a fit: two matrices of m columns.
func keptBytes(m int) int { return 16 * m * m }

// keep stores the intermediates of a fit, which variants of the candidate reuse.
func (v *validator) keep(at fitKey, t *frame.Task) {
	if !v.c.blends() || !at.isBlendable() || (len(v.intermediates)+1)*keptBytes(t.M) > maxKept {
		return // it has no variants, or there is no room
	}
	if k, ok := frame.IntermediatesOf(t); ok {
		if v.intermediates == nil {
			v.intermediates = map[fitKey]frame.Intermediates{}
		}
		v.intermediates[at] = k
	}
}

func (v *validator) rounds() int {
	if v.rows.N > MaxFewRows {
		return 1
	}
	return fewRowsRounds
}

// run adds the scores of candidates in the folds of every round.
func (v *validator) run(ctx context.Context, candidates []*candidate) error {
	for round := range v.rounds() {
		pick, deal := frame.Folds(v.rows, v.rows.N, folds, round)
		for f := range folds {
			train, test := frame.HeldOut(pick, deal, f)
			if len(test) == 0 {
				continue // there are fewer groups of rows than folds
			}
			if err := v.fold(ctx, folds*round+f, train, test, candidates); err != nil {
				return err
			}
		}
	}
	return nil
}

// fold adds the scores of a fold, which is numbered over all rounds. A candidate that cannot be fitted is excluded.
func (v *validator) fold(ctx context.Context, fold int, train, test []int, candidates []*candidate) error {
	rows, err := v.preprocessed(ctx, train)
	if errors.Is(err, preprocess.ErrConstant) {
		return nil // all candidates are equal here
	}
	if err != nil {
		return err
	}
	training := preprocess.NewTraining(rows, train)
	var s *preprocess.Fitted // those of the candidate before
	var spec preprocess.Spec
	var linear []linearFit // not scored yet, of candidates with the same preprocessing
	score := func() error {
		defer func() { linear = linear[:0] }()
		return v.scoreLinear(ctx, linear, s, fold, train, test)
	}
	for i, e := range preprocess.BySpec(candidates, func(e *candidate) preprocess.Spec { return e.spec }) {
		if v.c.Progress != nil {
			v.c.Progress("auto", float64(fold*len(candidates)+i)/float64(folds*v.rounds()*len(candidates)))
		}
		if e.excluded {
			continue
		}
		if s == nil || spec != e.spec {
			if err := score(); err != nil {
				return err
			}
			s, err = v.prepare(ctx, e, training)
			if err != nil && e.spec.Nonlinear() && !v.single && ctx.Err() == nil {
				v.exclude(e, err) // for example, no feature varies in this fold
				s = nil
				continue
			}
			if err != nil {
				return err
			}
			spec = e.spec
		}
		if s.Task.Columns == 0 {
			continue // all candidates are equal here
		}
		fits, err := v.fit(ctx, e, s, fold, train, test)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && v.single {
			return err
		}
		if err != nil {
			v.exclude(e, err)
			continue
		}
		linear = append(linear, fits...)
	}
	return score()
}

// linearFit is a fit of a candidate with a linear map, and the dimensions that it is scored at.
type linearFit struct {
	candidate *candidate
	dims      []int
	sol       *frame.Solution
}

func (v *validator) exclude(e *candidate, err error) {
	e.excluded = true
	// The reason may already be there, of another scale.
	if why := fmt.Sprintf("%s: %v", e.method.Name, err); !slices.Contains(v.leftOut, why) {
		v.leftOut = append(v.leftOut, why)
	}
}

// preprocessed returns all rows after the preprocessing in front of the fit, fitted on the training rows of a fold.
func (v *validator) preprocessed(ctx context.Context, train []int) (*frame.Rows, error) {
	if v.c.Applied == nil {
		return v.rows, nil
	}
	return v.c.Applied.Refit(ctx, train, v.c.Seed)
}

// prepare preprocesses the rows of a fold for a candidate.
func (v *validator) prepare(ctx context.Context, e *candidate, rows preprocess.Training) (*preprocess.Fitted, error) {
	if v.c.isAuto() {
		return e.spec.Fit(ctx, rows, v.inner, v.c.Seed, &v.scratch)
	}
	t := &frame.Task{Method: e.method, Params: e.params, Scaling: e.spec.Scale, Seed: v.c.Seed, Report: &model.Report{}}
	return &preprocess.Fitted{Task: t, Rows: rows.All}, t.Load(ctx, rows.Fitted)
}

// fit fits a candidate on the training rows of a fold. It returns the fits that are linear maps, and counts the correct
// test rows of the others.
func (v *validator) fit(ctx context.Context, e *candidate, s *preprocess.Fitted, fold int, train,
	test []int) (linear []linearFit, err error) {
	defer fail.Catch(&err)
	for _, d := range e.dims {
		e.score[d].Scored += len(test)
	}
	nested := e.isNested()
	for dims := e.dims; len(dims) > 0; {
		last := len(dims) - 1
		d, scored := dims[last], dims[last:]
		if dims = dims[:last]; nested {
			dims, scored = nil, e.dims
		}
		t := *s.Task
		t.Method, t.Params, t.D, t.DefaultDim, t.Report = e.method, e.params, d, true, &model.Report{}
		at := fitKey{cmp.Or(e.base, e), fold}
		if k, ok := v.intermediates[at]; ok && e.base != nil {
			frame.Reuse(&t, k)
		}
		bound, _ := e.method.MaxDim(&t)
		t.D = min(d, bound)
		frame.ChooseRidge(ctx, &t)
		sol := fail.Must(t.Solve(ctx))
		v.keep(at, &t)
		switch {
		case sol.Mapping == nil:
			linear = append(linear, linearFit{e, scored, sol})
		case nested:
			v.countDims(ctx, e, fail.Must(t.OutputPair(ctx, sol, s.Rows, train, test)), scored, train, test)
		default: // for example views, which classify by themselves
			e.score[d].Correct += float64(fail.Must(t.Score(ctx, sol, s.Rows, train, test)))
		}
	}
	return linear, nil
}

// scoreLinear counts the correct test rows of fits in a fold. It reads the rows once for all fits.
func (v *validator) scoreLinear(ctx context.Context, fits []linearFit, s *preprocess.Fitted, fold int, train,
	test []int) (err error) {
	defer fail.Catch(&err)
	var sols []*frame.Solution
	for _, fit := range fits {
		sols = append(sols, fit.sol)
	}
	if len(sols) == 0 {
		return nil
	}
	for i, y := range s.Task.OutputPairs(ctx, sols, s.Rows, train, test) {
		e, dims := fits[i].candidate, fits[i].dims
		if v.c.blends() && e.isBlendable() {
			if e.outputs[fold] == nil {
				e.outputs[fold] = map[int]*frame.OutputPair{}
			}
			e.outputs[fold][dims[len(dims)-1]] = y
		}
		v.countDims(ctx, e, y, dims, train, test)
	}
	return nil
}

// countDims calls count for each of the dimensions.
func (v *validator) countDims(ctx context.Context, e *candidate, y *frame.OutputPair, dims, train, test []int) {
	for _, d := range slices.Backward(dims) {
		v.count(ctx, e, y, d, train, test)
	}
}

// count counts the test rows that are correct in the d leading columns: those whose nearest training row has their
// class and, for blends and what no blend can have, those that a linear classifier gets right.
func (v *validator) count(ctx context.Context, e *candidate, y *frame.OutputPair, d int, train, test []int) {
	correct := make([]int, v.rows.N)
	for _, i := range y.Leading(d).Correct(ctx, v.rows, train, test) {
		correct[i]++
		e.score[d].Correct++
	}
	e.nearestCounts[d] = addCounts(e.nearestCounts[d], correct)
	if v.c.blends() && (e.method == &blend.Method || !e.isBlendable()) {
		v.countLinear(e, y, d, train, test)
	}
}

// countLinear counts the test rows that a linear classifier gets right in the d leading columns.
func (v *validator) countLinear(e *candidate, y *frame.OutputPair, d int, train, test []int) {
	y = y.Leading(d)
	known := make([]int, len(train))
	for i, at := range train {
		known[i] = v.rows.Y[at]
	}
	class := fail.Must(score.Linear(y.Train, known, y.Test, y.D, len(v.rows.Classes)))
	correct := make([]int, v.rows.N)
	for i, c := range class {
		if c == v.rows.Y[test[i]] {
			correct[test[i]]++
		}
	}
	e.linearCounts[d] = addCounts(e.linearCounts[d], correct)
}
