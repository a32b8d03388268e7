package choose

import (
	"cmp"
	"context"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// bestBlendable are up to limit candidates that a blend may have, the best of each method and preprocessing. All that
// use landmarks have the kernel width of the best one there: a model has one set of kernels.
func (s *selection) bestBlendable(limit int) []*candidate {
	var out []*candidate
	for _, e := range s.candidates {
		if e.isBlendable() && !e.excluded {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y *candidate) int { return compareScores(x.best(), y.best()) })
	if i := slices.IndexFunc(out, func(e *candidate) bool { return e.spec.Landmarks > 0 }); i >= 0 {
		spec := out[i].spec
		out = slices.DeleteFunc(out, func(e *candidate) bool { return e.spec.Landmarks > 0 && e.spec != spec })
	}
	type family struct {
		method string
		spec   preprocess.Spec
	}
	seen := map[family]bool{}
	out = slices.DeleteFunc(out, func(e *candidate) bool {
		f := family{e.method.Name, e.spec}
		again := seen[f]
		seen[f] = true
		return again
	})
	return out[:min(limit, len(out))]
}

// minLoss is the number of standard errors (of the difference on the same rows) by which a candidate must be worse
// than the best one to be left out of a blend. About forty candidates are compared with the best: by chance, one of
// forty equal ones is two standard errors behind, and hardly ever is one three behind.
const minLoss = 3

// makeBlend scores a blend of the best candidates, those that are not significantly worse than the best of all. More
// members do not make the model more expensive, and each averages out some of the chance in the others.
func (s *selection) makeBlend(ctx context.Context) error {
	members := s.bestBlendable(cmp.Or(s.c.Blend, len(s.candidates)))
	if s.c.Blend == 0 {
		members = notBehind(members, s.v.rows.N)
		if s.v.rows.N > MaxFewRows {
			s.mergeSimilar(ctx, members)
		}
	}
	if len(members) < 2 {
		return nil
	}
	e := &candidate{method: &blend.Method, spec: preprocess.Spec{Scale: s.scales[0]}, dims: s.dims}
	for _, m := range members {
		e.members = append(e.members, model.Member{Method: m.method.Name, Scale: m.spec.Scale,
			Landmarks: m.spec.Landmarks, Width: m.spec.Width, Dim: m.best().Dim, Params: m.changed})
	}
	e.params = blend.Params(e.members)
	e.reset(true)
	if err := s.tryBlend(ctx, e, members); err != nil { // the candidates are still there
		s.v.exclude(e, err)
		s.blend = nil
	}
	return ctx.Err()
}

// notBehind are the candidates, best first, that are not significantly worse than the first on the same n rows.
func notBehind(candidates []*candidate, n int) []*candidate {
	return slices.DeleteFunc(candidates, func(e *candidate) bool {
		best := candidates[0]
		return isAhead(best.countsAt(best.best().Dim, n), e.countsAt(e.best().Dim, n), minLoss)
	})
}

// minSimilarity is the similarity of outputs from which a method is fitted at one of two scales only.
const minSimilarity = 0.995

// mergeSimilar replaces a member by the member of the same method at an earlier scale if their outputs are similar in
// every fold, unless that member is replaced itself. A blend fits equal members once, and each keeps its weight: the
// outputs hardly change.
func (s *selection) mergeSimilar(ctx context.Context, members []*candidate) {
	var err error
	defer fail.Catch(&err) // the blend fails too, and reports it
	at := func(i int) int { return slices.Index(s.scales, members[i].spec.Scale) }
	var byScale []int
	for i := range members {
		byScale = append(byScale, i)
	}
	slices.SortStableFunc(byScale, func(i, j int) int { return at(i) - at(j) })
	similar := map[[2]int]int{} // folds, by members
	s.eachFold(ctx, members, 0, func(fold *blend.Fold, _, _ []int) {
		for i, x := range members {
			for j, y := range members {
				if x.method == y.method && x.spec.Kind() == y.spec.Kind() && at(i) < at(j) &&
					fold.Similarity(i, j) >= minSimilarity {
					similar[[2]int{i, j}]++
				}
			}
		}
	})
	replaced := make([]bool, len(members))
	for _, j := range byScale {
		for _, i := range byScale {
			if similar[[2]int{i, j}] == folds && !replaced[i] && !replaced[j] {
				members[j], replaced[j] = members[i], true
			}
		}
	}
}

// tryBlend scores a blend of candidates, and makes it the blend if there are scored rows.
func (s *selection) tryBlend(ctx context.Context, e *candidate, members []*candidate) (err error) {
	defer fail.Catch(&err)
	for round := range s.v.rounds() {
		s.eachFold(ctx, members, round, func(fold *blend.Fold, train, test []int) {
			y := fail.Must(fold.Outputs(ctx, -1, e.dims[len(e.dims)-1]))
			if y == nil {
				return // nothing varied there
			}
			for _, d := range e.dims {
				e.score[d].Scored += len(test)
				s.v.count(ctx, e, y, d, train, test)
			}
		})
	}
	if e.best().Scored > 0 {
		s.blend = e
		s.contributions(ctx, members)
	}
	return nil
}

// eachFold calls f with the outputs of candidates in each fold of a round.
func (s *selection) eachFold(ctx context.Context, members []*candidate, round int,
	f func(fold *blend.Fold, train, test []int)) {
	pick, deal := frame.Folds(s.v.rows, s.v.rows.N, folds, round)
	for k := range folds {
		train, test := frame.HeldOut(pick, deal, k)
		var outputs []blend.Member
		for _, e := range members {
			dim := e.best().Dim
			outputs = append(outputs, blend.Member{Vote: blend.Vote{Method: e.method.Name, Kind: e.spec.Kind()},
				Outputs: e.outputsAt(folds*round+k, dim), Dim: dim})
		}
		f(fail.Must(s.scratch.Fold(ctx, outputs)), train, test)
	}
}

// contributions sets what each member adds: the correct rows of the blend in one round, less those of a blend of the
// other members.
func (s *selection) contributions(ctx context.Context, members []*candidate) {
	d := s.dims[0]
	if s.c.Dim <= 0 {
		d = s.chosenBlendDim()
	}
	s.eachFold(ctx, members, 0, func(fold *blend.Fold, train, test []int) {
		correct := func(without int) int {
			y := fail.Must(fold.Outputs(ctx, without, d))
			if y == nil {
				return 0
			}
			return len(y.Leading(d).Correct(ctx, s.v.rows, train, test))
		}
		all := correct(-1)
		for i := range members {
			s.blend.members[i].Adds += all - correct(i)
		}
	})
}

// chosenBlendDim is the dimension of the blend. Its largest one is the default, because a blend holds the directions of
// more than one method: which dimension has the best score is mostly chance, and fewer dimensions lose. So another one
// has to beat it by minShift. If as few as possible are asked for, it is the smallest that is not significantly worse.
func (s *selection) chosenBlendDim() int {
	e, n := s.blend, s.v.rows.N
	full := e.dims[len(e.dims)-1]
	best, most := full, 0
	for _, d := range e.dims {
		correct := 0
		for _, rounds := range e.usefulCounts(d, n) {
			correct += rounds
		}
		if correct >= most && shifts(e, d, full, n) {
			best, most = d, correct
		}
	}
	if s.c.Fewest {
		return smallest(e, best, n)
	}
	if best < full || full < s.total.Columns {
		return best
	}
	return withoutLoss(e, full, s.total.Columns, n) // every column: nothing would be reduced
}
