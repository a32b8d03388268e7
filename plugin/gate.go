package plugin

import (
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/evidence"
	"github.com/embedd/embedd/plugin/window"
)

// Gate says how much must speak for a candidate before it goes live.
type Gate struct {
	// Evidence is the odds that must be reached: the capital of a bettor who began with 1 and stakes on the candidate
	// being right where the live model is wrong; see package evidence. Default 1000. Candidates that are no better
	// pass about once in as many tries. One from far more rows, or with one class more, needs the root of it, to be no
	// worse.
	Evidence float64
	Margin   float64 // by how much a candidate's accuracy must exceed the live model's, in [0, 1); default 0
}

const (
	// tie is the gain in accuracy that is not worth a change of coordinates.
	tie = 0.005
	// tolerance is the loss in accuracy that a candidate from far more rows may not have: more rows of the same world
	// can only help, so it need not be shown to be better, only not to be worse, at the root of the odds.
	tolerance = 0.01
)

// grown tells whether a candidate is from so many more rows than the live model that it need only be no worse: twice as
// many, and four times from a thousand rows on, where each such step gains less and moves the outputs all the same.
func grown(rows, live int) bool {
	if live < 1000 {
		return live > 0 && rows >= 2*live
	}
	return rows >= 4*live
}

// appeared tells whether a class that the live model was not fitted on has come to half of a fair share of a suffix
// that is about as long: the live model may tell its rows well enough by accident, so that a gain takes long to show.
func appeared(s *window.Suffix, live *model.Model) bool {
	if 2*s.Rows < live.Rows() || len(live.Classes()) == 0 {
		return false
	}
	known := live.Classes()
	for i, class := range s.Classes {
		if 2*s.Counts[i]*len(s.Classes) >= s.Rows && !slices.Contains(known, class) {
			return true
		}
	}
	return false
}

// standing is how a candidate stands against the live model on the rows that neither has seen.
type standing struct {
	Test    evidence.Test
	Growing bool // the candidate was fitted on far more rows than the live model, or on one class more
}

// begin starts a comparison.
func (g Gate) begin(growing bool) evidence.Test {
	margin := g.Margin + tie
	if growing {
		margin = g.Margin - tolerance
	}
	return evidence.Test{Margin: margin}
}

// passes is the gate (Invariant 8): the evidence suffices, and the candidate knows something of the labels. Where
// labels contradict every model nothing is promoted. agree is the candidate's, nil without labels. The reason is a
// sentence.
func (g Gate) passes(s standing, agree *agreement) (bool, string) {
	value := s.Test.Value()
	what, need := "better", g.Evidence
	if s.Growing {
		what, need = "not worse, from more rows or classes", math.Sqrt(g.Evidence)
	}
	if value < need {
		return false, fmt.Sprintf("evidence %.3g of %.4g that it is %s, on %d rows", value, need, what, s.Test.Count)
	}
	if agree != nil && !agree.aboveChance() {
		return false, fmt.Sprintf("it is right about %.1f%% of the last rows, and chance is %.1f%%: the labels contradict every model",
			100*agree.rate(), 100*agree.chance())
	}
	return true, fmt.Sprintf("evidence %.4g that it is %s, on %d rows that neither has seen", value, what, s.Test.Count)
}
