package choose

import (
	"cmp"
	"context"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// settingFolds is the number of folds that settings are compared on, as in the comparisons of the MPDA paper.
const settingFolds = 4

// Settings compares settings of one method, full sets of parameters, by cross-validation.
type Settings struct {
	Method   *frame.Method
	All      []map[string]string
	Scale    model.Scale
	Seed     uint64
	Progress func(float64)
}

// Rank ranks the settings for each dimension: indices into All, most correct rows first, then in the order of All. A
// setting that cannot be fitted in a fold is missing. It returns nil if no rows can be held out.
func (s Settings) Rank(ctx context.Context, p *frame.Rows, dims []int) (map[int][]int, error) {
	pick, fold := frame.Folds(p, frame.MaxValidated, settingFolds, 0)
	if fold == nil {
		return nil, nil
	}
	v := &validator{c: Config{Method: s.Method}, rows: p}
	candidates := make([]*candidate, len(s.All))
	ascending := slices.Compact(slices.Sorted(slices.Values(dims)))
	for i, params := range s.All {
		candidates[i] = &candidate{method: s.Method, params: paramsInFolds(s.Method, params), dims: ascending}
		candidates[i].reset(false)
	}
	for f := range settingFolds {
		train, test := frame.HeldOut(pick, fold, f)
		t := &frame.Task{Method: s.Method, Params: s.All[0], Seed: s.Seed, Scaling: s.Scale, Report: &model.Report{}}
		if err := t.Load(ctx, p.Subset(train)); err != nil {
			return nil, err
		}
		if t.Columns == 0 {
			continue // all settings are equal here
		}
		for i, e := range candidates {
			s.Progress(float64(f*len(s.All)+i) / float64(settingFolds*len(s.All)))
			if e.excluded {
				continue
			}
			s := &preprocess.Fitted{Task: t, Rows: p}
			linear, err := v.fit(ctx, e, s, f, train, test)
			if err == nil {
				err = v.scoreLinear(ctx, linear, s, f, train, test)
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			e.excluded = err != nil
		}
	}
	ranking := map[int][]int{}
	for _, d := range dims {
		ranked := []int{}
		for i, e := range candidates {
			if !e.excluded {
				ranked = append(ranked, i)
			}
		}
		slices.SortStableFunc(ranked, func(i, j int) int {
			return cmp.Compare(candidates[j].score[d].Correct, candidates[i].score[d].Correct)
		})
		ranking[d] = ranked
	}
	return ranking, nil
}
