package choose

import (
	"math"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/frame"
)

// table is the scores as a report has them: the chosen candidate first, each row counted once, as its mean over the
// rounds, and each score compared with the chosen one.
func (s *selection) table(ranked []model.Score, chosen model.Score, dim int) []model.Score {
	all := withFirst(ranked, chosen, dim)
	if len(all) == 0 {
		return nil
	}
	first := s.candidateOf(all[0]).nearestCounts[all[0].Dim] // nil if only the number of correct rows is known
	for i := range all {
		rows := s.candidateOf(all[i]).nearestCounts[all[i].Dim]
		all[i] = perRow(all[i], s.v.rounds())
		if first == nil || rows == nil {
			all[i].Behind, all[i].BehindError = unpaired(all[0], all[i])
			continue
		}
		more, deviation := paired(first, rows)
		counts := float64(max(s.v.rounds()*all[i].Scored, 1))
		all[i].Behind, all[i].BehindError = more/counts, deviation/counts
	}
	return all
}

// perRow counts each row once, as its mean over the rounds.
func perRow(s model.Score, rounds int) model.Score {
	s.Correct /= float64(rounds)
	s.Scored = (s.Scored + rounds - 1) / rounds
	return s
}

// unpaired is the difference of two shares of correct rows, and its standard error as if they were of different rows.
func unpaired(x, y model.Score) (more, deviation float64) {
	variance := 0.0
	for i, s := range []model.Score{x, y} {
		if s.Scored == 0 {
			return 0, 0
		}
		n := float64(s.Scored)
		share := s.Correct / n
		more += share * float64(1-2*i)
		variance += share * (1 - share) / n
	}
	return more, math.Sqrt(max(variance, 0))
}

// release drops the outputs that blends were made of, and the memory of fits: both are large, and the tables, which are
// made while the choice is fitted on all rows, do not need them.
func (s *selection) release() {
	s.v.scratch, s.scratch = frame.Scratch{}, blend.Scratch{}
	for _, e := range slices.Concat(s.candidates, []*candidate{s.blend}) {
		if e != nil {
			e.outputs = nil
		}
	}
}
