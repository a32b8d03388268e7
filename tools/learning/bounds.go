package main

import (
	"fmt"
	"math"
	"slices"
)

// bound is a requirement on the figures of a run.
type bound struct {
	What   string `json:"what"`
	Stream string `json:"stream"`
	Limit  string `json:"limit"`
	Found  string `json:"found"`
	Holds  bool   `json:"holds"`
}

// The bounds, as shares, not in points.
const (
	settledSlack   = 0.02
	poisonLoss     = 0.03
	storedLoss     = 0.02
	stationarySwap = 1
	probeMove      = 0.12
	shareLostOne   = 0.02
)

// bounds returns the bounds of the streams of a run that were measured. A bound on a mean uses the mean of the seeds,
// others the worst seed.
func bounds(all []*figures) []bound {
	var found []bound
	judged, one, two := 0, 0, 0
	worst := none
	for _, f := range all {
		judged, one, two = judged+f.Judged, one+f.LostOne, two+f.LostTwo
		worst = larger(worst, f.Worst)
		if f.stream.slack > 0 {
			what := fmt.Sprintf("below the oracle in the %d rows after an event", afterRows)
			if f.Name == "gradual" {
				what = "below the oracle while it drifts"
			}
			found = append(found, bound{what, f.Name, fmt.Sprintf("%g points", f.stream.slack),
				points(f.Early.Gap), f.Early.Gap.Mean <= figure(f.stream.slack/100)})
			found = append(found, bound{fmt.Sprintf("below the oracle from %d rows after it",
				f.stream.settle),
				f.Name, "2 points", points(f.Settled.Gap), f.Settled.Gap.Mean <= settledSlack})
			if f.Settled.Level != f.Settled.Gap {
				found = append(found, bound{"the same, the oracle with as many outputs as the stage", f.Name, "2 points",
					points(f.Settled.Level), f.Settled.Level.Mean <= settledSlack})
			}
		}
		if f.stream.Poison.End > 0 {
			found = append(found, bound{"the worst that poison costs", f.Name, "3 points", most(f.Loss, 100),
				f.Loss.Most <= poisonLoss})
		}
	}
	found = append(found,
		bound{"promotions that lose more than 2 points", "all", "none",
			fmt.Sprintf("%d of %d, the worst %s", two, judged, inPoints(worst)), two == 0},
		bound{"promotions that lose more than 1 point", "all", "2 %", fmt.Sprintf("%d of %d", one, judged),
			float64(one) <= shareLostOne*float64(judged)})
	for _, f := range all {
		if f.Name == "stationary" {
			found = append(found,
				bound{"swaps after the first quarter", f.Name, "1", most(f.LatePromotions, 1),
					f.LatePromotions.Most <= stationarySwap},
				bound{"what stored coordinates lose", f.Name, "2 points", most(f.Stored, 100),
					!(f.Stored.Most > storedLoss)},
				bound{"how far a swap moves a probe, the window being full", f.Name, "0.12 of its neighbour's distance",
					most(f.Moved, 1), !(f.Moved.Most > probeMove)})
		}
	}
	// Without a swap a bound on swaps holds by itself.
	return slices.DeleteFunc(found, func(b bound) bool { return b.Holds && b.Found == "-" })
}

// points is a spread of shares in points.
func points(s spread) string {
	if math.IsNaN(float64(s.Mean)) {
		return "-"
	}
	return fmt.Sprintf("%.1f +- %.1f", 100*s.Mean, 100*s.Deviation)
}

// inPoints formats a share in points.
func inPoints(f figure) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*f)
}

// most formats the maximum of a spread, times a unit.
func most(s spread, unit figure) string {
	if math.IsNaN(float64(s.Most)) {
		return "-"
	}
	if math.IsInf(float64(s.Most), 1) {
		return "another width"
	}
	return fmt.Sprintf("%.3g", unit*s.Most)
}
