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

// comparison compares the blend with single candidates on the same rows.
type comparison struct {
	*selection
	ranked []model.Score // of all candidates, best first
}

// lostByBlend reports whether a single candidate is better than the blend, by nearest neighbours and a linear
// classifier together, and not worse by nearest neighbours. If so the best one is moved to the front. Candidates are
// the kernel methods, which no blend can have, and with few outputs all others.
func (s comparison) lostByBlend(ctx context.Context) bool {
	if s.c.Blend > 0 {
		return false
	}
	n, d := s.v.rows.N, s.chosenBlendDim()
	best, most, lead := -1, 0.0, minGain
	if s.c.hasFewOutputs() {
		lead = 0
	}
	for _, i := range s.rivals() {
		e, at := s.candidateOf(s.ranked[i]), s.ranked[i].Dim
		s.countLinear(ctx, e, at)
		if isAhead(s.blend.correctRows(d, n), e.correctRows(at, n), minGain) {
			continue
		}
		useful, ofBlend := e.usefulRows(at, n), s.blend.usefulRows(d, n)
		if more, _ := paired(useful, ofBlend); isAhead(useful, ofBlend, lead) && more > most {
			best, most = i, more
		}
	}
	if best < 0 {
		return false
	}
	moveToFront(s.ranked, best)
	return true
}

// rivals returns the indices of the candidates that are compared with the blend, each at its best dimension: the best
// kernel method, and all candidates where few outputs are requested.
func (s comparison) rivals() (out []int) {
	seen, kernel := map[*candidate]bool{}, false
	for i := range s.ranked {
		e := s.candidateOf(s.ranked[i])
		if seen[e] {
			continue
		}
		seen[e] = true
		if e.isBlendable() && s.c.hasFewOutputs() || !e.isBlendable() && !kernel {
			kernel = kernel || !e.isBlendable()
			out = append(out, i)
		}
	}
	return out
}

// hasFewOutputs reports whether few outputs were requested.
func (c Config) hasFewOutputs() bool { return c.Dim > 0 && c.Dim <= fewOutputs }

// countLinear counts the rows that a linear classifier gets right in the outputs of a candidate that a blend may have:
// for most candidates that is never needed.
func (s comparison) countLinear(ctx context.Context, e *candidate, d int) {
	if e.linear[d] != nil || !e.isBlendable() {
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
