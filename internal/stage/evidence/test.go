package evidence

import "math"

// bets are the shares of its capital that a bettor stakes each time. Small ones win slowly on small advantages, large
// ones fast on large.
var bets = [...]float64{0.03, 0.06, 0.12, 0.25, 0.5}

// floor is the capital below which a bettor starts anew: what spoke against a candidate long ago does not hide what
// speaks for it now.
const floor = 1.0 / 8

// Test is evidence that the mean of outcomes in [-1, 1] exceeds Margin, by betting: the capital of a bettor who stakes
// on each outcome being above the margin, the mean over several stakes. While the mean is not above it, capital is a
// nonnegative supermartingale but for starting anew, so that each start reaches a capital c with probability at most
// floor/c (Ville's inequality), however often one looks.
//
// Shafer, Testing by betting, J. R. Stat. Soc. A 184, 2021; Waudby-Smith and Ramdas, Estimating means of bounded random
// variables by betting, J. R. Stat. Soc. B 86, 2024; starting anew: Shin, Ramdas and Rinaldo, E-detectors, New England
// J. Stat. Data Sci. 2, 2024.
//
// The zero value begins at capital 1 with margin 0.
type Test struct {
	Margin float64            `json:"margin"`
	Logs   [len(bets)]float64 `json:"logs"` // logarithms of the capital of each bettor
	Count  int                `json:"count"`
}

// Add takes one outcome: that of the candidate less that of the other, in [-1, 1].
func (t *Test) Add(outcome float64) {
	t.Count++
	x := max(min(outcome, 1), -1) - t.Margin
	for i, b := range bets {
		stake := b / (1 + math.Abs(t.Margin)) // the capital stays positive
		t.Logs[i] = max(t.Logs[i]+math.Log1p(stake*x), math.Log(floor))
	}
}

// Value is the evidence: mean capital.
func (t *Test) Value() float64 {
	sum := 0.0
	for _, l := range t.Logs {
		sum += math.Exp(min(l, 700))
	}
	return sum / float64(len(bets))
}

// Reset begins anew with another margin.
func (t *Test) Reset(margin float64) { *t = Test{Margin: margin} }
