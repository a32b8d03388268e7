package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// settledRow is the row from which on streams that drift steadily are measured.
const settledRow = 3000

// course are the figures of one run on a dependent stream.
type course struct {
	live, all spread                    // over the checkpoints once every class was in the stream
	newest    [len(trial.Newest)]spread // over the same
	below     figure                    // the most that the stage was below the fit on all rows, also before row 3,000
	end       trial.Checkpoint          // the last checkpoint
	worst     figure                    // the most that a promotion lost
	doors     map[string]int            // promotions by door
	reported  figure                    // mean of |reported - live|
	swaps     []swap
}

// measuredFrom returns the row from which on a run is measured: that of the change, if the stream has one.
func measuredFrom(r *trial.Result) int {
	s, err := streams.Named(r.Stream)
	switch {
	case err == nil && len(s.Events) > 0:
		return rowOf(s.Events[0].Start, r.Rows)
	case r.Rows <= 2*settledRow:
		return 0
	}
	return settledRow
}

// courseOf computes the figures of a run.
func courseOf(r *trial.Result) course {
	c := course{below: none, worst: none, doors: map[string]int{}, end: r.Checkpoints[len(r.Checkpoints)-1]}
	from := measuredFrom(r)
	var live, all, reported []figure
	var newest [len(trial.Newest)][]figure
	for _, p := range r.Checkpoints {
		if !p.HasAll || math.IsNaN(float64(p.Live)) {
			continue
		}
		c.below = larger(c.below, p.All-p.Live)
		if p.Row < from {
			continue
		}
		live, all = append(live, p.Live), append(all, p.All)
		reported = append(reported, figure(math.Abs(float64(p.Reported-p.Live))))
		for i, a := range p.Newest {
			newest[i] = append(newest[i], a)
		}
	}
	c.live, c.all, c.reported = over(live), over(all), over(reported).Mean
	for i, values := range newest {
		c.newest[i] = over(values)
	}
	for i, p := range r.Promotions {
		if i > 0 {
			c.worst = larger(c.worst, p.Before-p.After)
			c.swaps = append(c.swaps, swap{p.Epoch, p.NewEpoch, p.After - p.Stored})
		}
		c.doors[p.Door]++
	}
	return c
}

const trialHeader = `
## Dependent streams

| stream | rows | end | worst | all | mean | all | newest | below | said | alarms | promotions | lost | epochs |` +
	` separate | they lose | within | width | window | aside |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

// trialTable has a line for each dependent stream.
func trialTable(trials [][]*trial.Result) string {
	var b strings.Builder
	b.WriteString(trialHeader)
	var epochs separation
	for _, results := range trials {
		var courses []course
		var separate separation
		for _, r := range results {
			courses = append(courses, courseOf(r))
			separate.add(courses[len(courses)-1].swaps, r.SameAs)
		}
		epochs.merge(separate)
		mean := func(of func(course) figure) spread {
			var values []figure
			for _, c := range courses {
				values = append(values, of(c))
			}
			return over(values)
		}
		end := mean(func(c course) figure { return c.end.Live })
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.1f | %s | %s | %.1f | %s | %s |"+
			" %.0f, %.1f | %.2g |\n", results[0].Stream, thousands(results[0].Rows), inPoints(end.Mean), inPoints(end.Least),
			inPoints(mean(func(c course) figure { return c.end.All }).Mean),
			inPoints(mean(func(c course) figure { return c.live.Mean }).Mean),
			inPoints(mean(func(c course) figure { return c.all.Mean }).Mean), bestWindow(mean),
			inPoints(mean(func(c course) figure { return c.below }).Most),
			inPoints(mean(func(c course) figure { return c.reported }).Mean),
			mean(func(c course) figure { return figure(c.end.Alarms) }).Mean, doorCounts(courses),
			inPoints(mean(func(c course) figure { return c.worst }).Most),
			mean(func(c course) figure { return figure(c.end.Epoch) }).Mean, separate.cells(), widths(results),
			mean(func(c course) figure { return figure(c.end.Window) }).Mean,
			mean(func(c course) figure { return figure(c.end.Classes) }).Mean,
			100*mean(func(c course) figure { return figure(c.end.SetAside) / figure(max(1, c.end.Window)) }).Mean)
	}
	b.WriteString(epochs.sentence() + failures(trials))
	return b.String()
}

// failures names the streams with failed fits, or with runs in which no model went live; "" if there are none. A run
// without a model has no accuracy, so that the means are of the others.
func failures(trials [][]*trial.Result) string {
	var named []string
	for _, results := range trials {
		failed, without := 0, 0
		for _, r := range results {
			failed += r.Failed
			if len(r.Promotions) == 0 {
				without++
			}
		}
		if failed+without > 0 {
			named = append(named, fmt.Sprintf("%s (%d failed fits, %d of %d runs without a model)", results[0].Stream, failed,
				without, len(results)))
		}
	}
	if len(named) == 0 {
		return ""
	}
	return "\nFits failed, or no model went live: " + strings.Join(named, ", ") + ".\n"
}

// bestWindow is the window of newest rows with the best mean, in hindsight.
func bestWindow(mean func(func(course) figure) spread) string {
	best, rows := none, 0
	for i, n := range trial.Newest {
		if a := mean(func(c course) figure { return c.newest[i].Mean }).Mean; larger(best, a) == a {
			best, rows = a, n
		}
	}
	if rows == 0 {
		return inPoints(best)
	}
	return fmt.Sprintf("%.1f (%s)", 100*best, thousands(rows))
}

// doorCounts are the promotions of all runs by door.
func doorCounts(courses []course) string {
	counts, names := map[string]int{}, []string(nil)
	for _, c := range courses {
		for door, n := range c.doors {
			if counts[door] += n; !slices.Contains(names, door) {
				names = append(names, door)
			}
		}
	}
	slices.Sort(names)
	for i, door := range names {
		names[i] = fmt.Sprintf("%.3g %s", float64(counts[door])/float64(len(courses)), door)
	}
	return strings.Join(names, ", ")
}

// widths are the numbers of outputs of all runs.
func widths(results []*trial.Result) string {
	var all []int
	for _, r := range results {
		for _, w := range r.Widths {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	slices.Sort(all)
	return strings.Trim(fmt.Sprint(all), "[]")
}

// sameAs names the epoch with which an epoch is recorded as one, "" if there is none.
func sameAs(r *trial.Result, epoch int) string {
	if first := r.SameAs[epoch]; first > 0 {
		return fmt.Sprint(" (same as ", first, ")")
	}
	return ""
}

// traces are all checkpoints and promotions.
func traces(trials [][]*trial.Result) string {
	var b strings.Builder
	for _, results := range trials {
		for _, r := range results {
			fmt.Fprintf(&b, "%s, seed %d\n", r.Stream, r.Seed)
			next := 0
			for _, c := range r.Checkpoints {
				for ; next < len(r.Promotions) && r.Promotions[next].Row <= c.Row; next++ {
					p := r.Promotions[next]
					fmt.Fprintf(&b, "  %6d promoted by %s from %d rows, epoch %d%s: %s -> %s, stored %s; %s\n", p.Row, p.Door,
						p.Rows, p.Epoch, sameAs(r, p.Epoch), inPoints(p.Before), inPoints(p.After), inPoints(p.Stored), p.Why)
				}
				fmt.Fprintf(&b, "  %6d live %s all %s newest", c.Row, inPoints(c.Live), inPoints(c.All))
				for _, a := range c.Newest {
					fmt.Fprintf(&b, " %s", inPoints(a))
				}
				fmt.Fprintf(&b, "; says %s chance %s; %d alarms, epoch %d, width %d, window %d rows %d classes, %d aside; %s\n",
					inPoints(c.Reported), inPoints(c.Chance), c.Alarms, c.Epoch, c.Width, c.Window, c.Classes, c.SetAside, c.Note)
			}
		}
	}
	return b.String()
}
