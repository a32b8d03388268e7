package policy

import (
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

const (
	// minGain is the gain in accuracy below which two models count as equal: it is not worth a change of coordinates.
	minGain = 0.005
	// maxLoss is the loss in accuracy that a candidate from far more rows must be shown not to have. It need not be
	// shown to be better: more rows of the same concept only help.
	maxLoss = 0.01
)

// Grown reports whether a candidate has so many more rows than the live model that it need only be no worse: twice as
// many, and four times as many from 1,000 rows on, where more rows gain less and every change moves the outputs.
func Grown(rows, live int) bool {
	if live < 1000 {
		return live > 0 && rows >= 2*live
	}
	return rows >= 4*live
}

// HasNewClass reports whether a class that the live model was not fitted on has at least half of a fair share of the
// rows of a candidate that has about as many rows. The live model may recognise such rows by accident, so that a gain
// in accuracy would take long to show. counts are the candidate's rows by class.
func HasNewClass(rows int, classes []string, counts []int, liveRows int, liveClasses []string) bool {
	if 2*rows < liveRows || len(liveClasses) == 0 {
		return false
	}
	for i, class := range classes {
		if 2*counts[i]*len(classes) >= rows && !slices.Contains(liveClasses, class) {
			return true
		}
	}
	return false
}

// Comparison is the test of a candidate against the live model on rows that neither has seen.
type Comparison struct {
	Test    evidence.SequentialTest
	Growing bool // the candidate has far more rows than the live model, or an additional class
}

// Compare begins a comparison.
func Compare(g spec.Gate, growing bool) Comparison {
	margin := g.Margin + minGain
	if growing {
		margin = g.Margin - maxLoss
	}
	return Comparison{evidence.SequentialTest{Margin: margin}, growing}
}

// Passes decides whether a candidate goes live: its evidence suffices, and its agreement with the labels is above
// chance. agreement is the candidate's, nil without labels. The reason is a sentence.
func Passes(g spec.Gate, c *Comparison, agreement *Agreement) (pass bool, reason string) {
	value := c.Test.Value()
	claim, need := "better", g.Evidence
	if c.Growing {
		claim, need = "not worse, from more rows or classes", math.Sqrt(g.Evidence)
	}
	if value < need {
		return false, fmt.Sprintf("evidence %.3g of %.4g that it is %s, on %d rows", value, need, claim, c.Test.Count)
	}
	if agreement != nil && !agreement.AboveChance() {
		return false, fmt.Sprintf(
			"it is right about %.1f%% of the last rows, and chance is %.1f%%: the labels contradict every model",
			100*agreement.Rate(), 100*agreement.Chance())
	}
	return true, fmt.Sprintf("evidence %.4g that it is %s, on %d rows that neither has seen", value, claim, c.Test.Count)
}
