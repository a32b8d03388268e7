package choose

import (
	"context"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
)

// fewOutputs is the largest given dimension at which any candidate that is ahead takes the place of the blend. In so
// few principal components, much of what the members have is lost. With more outputs a blend is better on fresh rows
// than a candidate that the folds prefer to it (docs/methods.md has the measurements).
const fewOutputs = 3

// bestRival returns the index of the score of the candidate that takes the place of the blend, or -1. This candidate is
// better than the blend on the same rows by nearest neighbours and a linear classifier together, and not worse by
// nearest neighbours alone. Rivals are the kernel methods, which no blend can have, and with few outputs all others.
func (s *selection) bestRival(ctx context.Context, ranked []model.Score) int {
	if s.blend == nil || s.c.Blend > 0 {
		return -1
	}
	n, d := s.v.rows.N, s.chosenBlendDim()
	best, most, lead := -1, 0.0, minGain
	if s.c.hasFewOutputs() {
		lead = 0
	}
	for _, i := range s.rivals(ranked) {
		e, at := s.candidateOf(ranked[i]), ranked[i].Dim
		s.ensureLinear(ctx, e, at)
		if isAhead(s.blend.countsAt(d, n), e.countsAt(at, n), minGain) {
			continue
		}
		useful, ofBlend := e.usefulCounts(at, n), s.blend.usefulCounts(d, n)
		if more, _ := paired(useful, ofBlend); isAhead(useful, ofBlend, lead) && more > most {
			best, most = i, more
		}
	}
	return best
}

// rivals returns the indices of the scores that are compared with the blend: the best score of the best kernel method
// and, if few outputs are requested, the best score of each candidate that a blend may have.
func (s *selection) rivals(ranked []model.Score) (indices []int) {
	seen, hasKernel := map[*candidate]bool{}, false
	for i := range ranked {
		e := s.candidateOf(ranked[i])
		if seen[e] {
			continue
		}
		seen[e] = true
		if e.isBlendable() && s.c.hasFewOutputs() || !e.isBlendable() && !hasKernel {
			hasKernel = hasKernel || !e.isBlendable()
			indices = append(indices, i)
		}
	}
	return indices
}

// hasFewOutputs reports whether few outputs were requested.
func (c Config) hasFewOutputs() bool { return c.Dim > 0 && c.Dim <= fewOutputs }

// ensureLinear counts the rows that a linear classifier gets right in the outputs of a candidate that a blend may have,
// unless they are counted: for most candidates that is never needed.
func (s *selection) ensureLinear(ctx context.Context, e *candidate, d int) {
	if e.linearCounts[d] != nil || !e.isBlendable() {
		return
	}
	for round := range s.v.rounds() {
		pick, fold := frame.Folds(s.v.rows, s.v.rows.N, folds, round)
		for f := range folds {
			train, test := frame.HeldOut(pick, fold, f)
			if y := e.outputsAt(folds*round+f, d); y != nil && ctx.Err() == nil {
				s.v.countLinear(e, y, d, train, test)
			}
		}
	}
}
