package evidence

import "math"

// bets are the stakes of the bettors, as shares of their capital. Small stakes gain slowly from small advantages, large
// ones quickly from large advantages.
var bets = [...]float64{0.03, 0.06, 0.12, 0.25, 0.5}

// minCapital is the capital at which a bettor starts over: evidence against a candidate that is long past does not hide
// evidence for it now.
const minCapital = 1.0 / 8

// SequentialTest is a sequential test by betting of whether the mean of outcomes in [-1, 1] exceeds Margin. Its value
// is the mean capital of bettors that stake on each outcome exceeding the margin. While the mean does not, the capital
// is a nonnegative supermartingale except for starting over, so each start reaches a capital c with probability at most
// minCapital/c (Ville's inequality), however often it is checked.
//
// Shafer, Testing by betting, J. R. Stat. Soc. A 184, 2021; Waudby-Smith and Ramdas, Estimating means of bounded random
// variables by betting, J. R. Stat. Soc. B 86, 2024; starting over: Shin, Ramdas and Rinaldo, E-detectors, New England
// J. Stat. Data Sci. 2, 2024.
//
// The zero value starts at capital 1 with margin 0.
type SequentialTest struct {
	Margin float64            `json:"margin"`
	Logs   [len(bets)]float64 `json:"logs"` // logarithms of the capital of each bettor
	Count  int                `json:"count"`
}

// Add adds an outcome in [-1, 1]: the candidate's minus the other's.
func (t *SequentialTest) Add(outcome float64) {
	t.Count++
	x := max(min(outcome, 1), -1) - t.Margin
	for i, b := range bets {
		stake := b / (1 + math.Abs(t.Margin)) // the capital stays positive
		t.Logs[i] = max(t.Logs[i]+math.Log1p(stake*x), math.Log(minCapital))
	}
}

// Value is the e-value: the mean capital.
func (t *SequentialTest) Value() float64 {
	sum := 0.0
	for _, l := range t.Logs {
		sum += math.Exp(min(l, 700))
	}
	return sum / float64(len(bets))
}
