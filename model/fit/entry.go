package fit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
)

// entry is one method, scale and set of parameters, at the dimensions it can reach.
type entry struct {
	method  *frame.Method
	view    view
	params  map[string]string // all of them, as in the folds
	tried   map[string]string // those that are not what the configuration says
	dims    []int
	score   map[int]*model.Score // by dimension
	out     bool                 // it could not be fitted
	members []model.Member       // of a blend
	// What a blend is made of: by fold and dimension; of a nested method at the largest alone.
	outputs map[int]map[int]*frame.OutputPair
	right   map[int][]int // in how many rounds each row was right, by dimension
	lined   map[int][]int // and was so by a linear classifier, of the blend and of what no blend can have
}

// enter is the entry of a method, without dimensions where it does not take part.
func (a *selection) enter(m *frame.Method, v view, classes int) *entry {
	e := &entry{method: m, view: v, params: map[string]string{}}
	for _, p := range m.Params {
		e.params[p.Name] = p.Default
	}
	t := *a.whole
	t.Method = m
	bound, _ := m.Bound(&t)
	chosen := a.c.Method == Auto
	for _, d := range a.dims {
		switch {
		case chosen && m.Auto.Tried != nil && !m.Auto.Tried(d, classes, a.p.N <= fewRows):
		case chosen && v != view{scale: a.scales[0]} && m.Auto.OneScale:
		case v.landmarks > 0 && !m.Auto.Landmarks:
		case d <= bound:
			e.dims = append(e.dims, d)
		case !chosen && len(e.dims) == 0:
			e.dims = append(e.dims, bound)
		}
	}
	if !chosen {
		for name, v := range a.c.Params {
			e.params[name] = v
		}
	} else if ridge := a.c.Params["ridge"]; m.Ridge != nil && ridge != "" && ridge != "auto" {
		e.params["ridge"] = ridge
	}
	e.params = foldParams(m, e.params)
	if chosen { // a blend's members are not chosen once more
		for _, name := range append(slices.Collect(maps.Keys(m.InFolds)), "ridge") {
			if v, ok := e.params[name]; ok {
				if e.tried == nil {
					e.tried = map[string]string{}
				}
				e.tried[name] = v
			}
		}
	}
	e.begin(chosen)
	return e
}

// begin makes the scores of an entry.
func (e *entry) begin(chosen bool) {
	e.score, e.right, e.lined = map[int]*model.Score{}, map[int][]int{}, map[int][]int{}
	e.outputs = map[int]map[int]*frame.OutputPair{}
	for _, d := range e.dims {
		e.score[d] = &model.Score{Method: e.method.Name, Dim: d}
		if chosen && e.members == nil {
			s := e.score[d]
			s.Scale, s.Landmarks, s.Width, s.Params = e.view.scale, e.view.landmarks, e.view.width, e.tried
		}
	}
}

// ridges are tried beside the shrinkage, which is too small where there are hardly more rows than features.
var ridges = []string{"0.1", "1"}

// variants are the entries of other parameters, for the best alone: for all of them the time would be three times as
// long.
func (a *selection) variants(best []*entry) (out []*entry) {
	for _, e := range best {
		var settings []map[string]string
		if e.method.Ridge != nil && e.params["ridge"] == "oas" {
			for _, r := range ridges {
				settings = append(settings, map[string]string{"ridge": r})
			}
		}
		for _, s := range e.method.Auto.Settings {
			all := maps.Clone(e.tried)
			maps.Copy(all, s)
			settings = append(settings, all)
		}
		for _, s := range settings {
			v := &entry{method: e.method, view: e.view, params: maps.Clone(e.params), tried: s, dims: e.dims}
			maps.Copy(v.params, s)
			v.begin(true)
			out = append(out, v)
		}
	}
	return out
}

// foldParams are the parameters in the folds of a choice: choosing the ridge, and what else is auto, is
// left for the winner.
func foldParams(m *frame.Method, params map[string]string) map[string]string {
	params = maps.Clone(params)
	for name, v := range m.InFolds {
		if params[name] == "auto" {
			params[name] = v
		}
	}
	if m.Ridge == nil || params["ridge"] != "auto" {
		return params
	}
	params["ridge"] = "oas"
	if m.Ridge.Without > 0 {
		params["ridge"] = fmt.Sprint(m.Ridge.Without)
	}
	return params
}

// scores are those of an entry, best first.
func (e *entry) scores() (all []model.Score) {
	for _, d := range slices.Backward(e.dims) {
		all = append(all, *e.score[d])
	}
	slices.SortStableFunc(all, byScore)
	return all
}

func byScore(x, y model.Score) int {
	if x.Correct != y.Correct {
		return y.Correct - x.Correct
	}
	return y.Dim - x.Dim
}

// top is the best score of an entry.
func (e *entry) top() model.Score { return e.scores()[0] }

// blendable tells whether a blend may have the entry: its outputs are columns.
func (e *entry) blendable() bool { return e.method.Map == "linear" }

// rightAt is in how many rounds each of n rows was right at a dimension.
func (e *entry) rightAt(d, n int) []int {
	if right := e.right[d]; right != nil {
		return right
	}
	return make([]int, n)
}

// uses is how often each of n rows was right. Who takes outputs draws lines through them as well as looking for
// neighbours, so what a linear classifier has right counts as much where it is known.
func (e *entry) uses(d, n int) []int {
	return plusRows(e.lined[d], slices.Clone(e.rightAt(d, n)))
}

// entryOf is the one that has the score.
func (a *selection) entryOf(s model.Score) *entry {
	at := slices.IndexFunc(a.entries, func(e *entry) bool {
		mine := e.score[s.Dim]
		return mine != nil && mine.Method == s.Method && maps.Equal(mine.Params, s.Params) &&
			mine.Scale == s.Scale && mine.Landmarks == s.Landmarks && mine.Width == s.Width
	})
	return a.entries[at]
}
