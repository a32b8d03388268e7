package choose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// candidate is one method with its preprocessing and parameters, and what cross-validation finds about it.
type candidate struct {
	method   *frame.Method
	spec     preprocess.Spec
	params   map[string]string    // all of them, as used in the folds
	changed  map[string]string    // those that differ from the configuration
	dims     []int                // that it can reach, ascending
	score    map[int]*model.Score // its counts are sums over all rounds; see perRow
	excluded bool                 // it could not be fitted
	members  []model.Member       // of a blend
	base     *candidate           // this one is a variant of it; nil: it is no variant
	// outputs are kept for a blend, by fold and dimension; of a nested method the largest dimension alone.
	outputs map[int]map[int]*frame.OutputPair
	// nearestCounts are by dimension: in how many rounds the nearest neighbour of each row had its class. linearCounts are
	// the same for a linear classifier, of blends and of candidates that are compared with them.
	nearestCounts map[int][]int
	linearCounts  map[int][]int
}

// reset makes empty scores. named: they say what the candidate is, because auto compares it with others.
func (e *candidate) reset(named bool) {
	e.score, e.nearestCounts, e.linearCounts = map[int]*model.Score{}, map[int][]int{}, map[int][]int{}
	e.outputs = map[int]map[int]*frame.OutputPair{}
	for _, d := range e.dims {
		e.score[d] = &model.Score{Method: e.method.Name, Dim: d}
		if named && e.members == nil {
			s := e.score[d]
			s.Scale, s.Landmarks, s.Width, s.Params = e.spec.Scale, e.spec.Landmarks, e.spec.Width, e.changed
		}
	}
}

// paramsInFolds are the parameters that the folds use: the ridge, and other parameters that are auto, are chosen for
// the winner only.
func paramsInFolds(m *frame.Method, params map[string]string) map[string]string {
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

// ridges are tried in addition to the shrinkage estimate, which is too small with hardly more rows than features.
var ridges = []string{"0.1", "1"}

// variants are the candidate with other parameters.
func (e *candidate) variants() (out []*candidate) {
	var settings []map[string]string
	if e.method.Ridge != nil && e.params["ridge"] == "oas" {
		for _, r := range ridges {
			settings = append(settings, map[string]string{"ridge": r})
		}
	}
	for _, s := range append(settings, e.method.Auto.Settings...) {
		v := &candidate{method: e.method, spec: e.spec, params: maps.Clone(e.params), changed: maps.Clone(e.changed),
			dims: e.dims, base: e}
		maps.Copy(v.params, s)
		maps.Copy(v.changed, s)
		v.reset(true)
		out = append(out, v)
	}
	return out
}

// scores are those of all dimensions, best first.
func (e *candidate) scores() (all []model.Score) {
	for _, d := range slices.Backward(e.dims) {
		all = append(all, *e.score[d])
	}
	slices.SortStableFunc(all, compareScores)
	return all
}

// compareScores orders by correct rows, then by more dimensions.
func compareScores(x, y model.Score) int {
	return cmp.Or(cmp.Compare(y.Correct, x.Correct), y.Dim-x.Dim)
}

func (e *candidate) best() model.Score { return e.scores()[0] }

// isNested reports whether one fit scores all dimensions. With a share of the variance it does not: it has at least as
// many principal components as outputs.
func (e *candidate) isNested() bool {
	share, err := strconv.ParseFloat(e.params["pca"], 64)
	return e.method.Nested && !(err == nil && share < 1)
}

// outputsAt are the outputs in a fold whose first d columns are those at dimension d; nil if there are none.
func (e *candidate) outputsAt(fold, d int) *frame.OutputPair {
	if e.isNested() {
		d = e.dims[len(e.dims)-1]
	}
	return e.outputs[fold][d]
}

// isBlendable reports whether a blend may have it as a member.
func (e *candidate) isBlendable() bool { return e.method.Map == "linear" }

// has reports whether a score is one of the candidate's.
func (e *candidate) has(s model.Score) bool {
	return e.score[s.Dim] != nil && sameCandidate(*e.score[s.Dim], s)
}

func sameCandidate(x, y model.Score) bool {
	return x.Method == y.Method && x.Scale == y.Scale && x.Landmarks == y.Landmarks && x.Width == y.Width &&
		maps.Equal(x.Params, y.Params)
}

// countsAt returns the nearestCounts of n rows at a dimension, zeros if there are none.
func (e *candidate) countsAt(d, n int) []int {
	if correct := e.nearestCounts[d]; correct != nil {
		return correct
	}
	return make([]int, n)
}

// usefulCounts returns countsAt plus the linearCounts, if there are any: consumers of outputs train classifiers on them
// as well as searching for neighbours.
func (e *candidate) usefulCounts(d, n int) []int {
	return addCounts(e.linearCounts[d], slices.Clone(e.countsAt(d, n)))
}

// addCounts adds counts of rows, nil for none yet.
func addCounts(to, more []int) []int {
	for i, v := range to {
		more[i] += v
	}
	return more
}
