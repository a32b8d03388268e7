package main

import (
	"fmt"
	"math"
)

// realLoss is what a reader of stored outputs must lose on fresh rows where an epoch stays separate.
const realLoss = 0.005

// swap is a model that replaced another one.
type swap struct {
	epoch  int
	begins bool // it begins the epoch
	// lost is the accuracy that references in the coordinates of the first model of the epoch before, or of its own, lose
	// on fresh rows.
	lost figure
}

// separation counts the epochs of runs that are not recorded as one with others.
type separation struct {
	Runs  int      `json:"runs"`
	Swaps int      `json:"swaps"`
	Lost  []figure `json:"lost"` // by the first model of each separate epoch
	Kept  figure   `json:"kept"` // the most that a swap lost within an epoch, or within epochs that are recorded as one
}

// add counts the swaps of a run. sameAs has the epochs that are recorded as one with earlier ones.
func (s *separation) add(swaps []swap, sameAs map[int]int) {
	if s.Runs == 0 {
		s.Kept = none
	}
	s.Runs++
	s.Swaps += len(swaps)
	for _, w := range swaps {
		if w.begins && sameAs[w.epoch] == 0 {
			s.Lost = append(s.Lost, w.lost)
		} else {
			s.Kept = larger(s.Kept, w.lost)
		}
	}
}

// merge adds the counts of other runs.
func (s *separation) merge(o separation) {
	if s.Runs == 0 {
		s.Kept = none
	}
	s.Runs, s.Swaps, s.Lost, s.Kept = s.Runs+o.Runs, s.Swaps+o.Swaps, append(s.Lost, o.Lost...), larger(s.Kept, o.Kept)
}

// real is the number of separate epochs with a real loss.
func (s *separation) real() (n int) {
	for _, l := range s.Lost {
		if l > realLoss {
			n++
		}
	}
	return n
}

// cells are the columns of a table: separate epochs and swaps in a run, what separate epochs lose, and what is lost
// within epochs.
func (s *separation) cells() string {
	lost := over(s.Lost)
	losses := "-"
	if !math.IsNaN(float64(lost.Mean)) {
		losses = fmt.Sprintf("%.1f (%.1f), %d of %d", 100*lost.Mean, 100*lost.Least, s.real(), len(s.Lost))
	}
	runs := float64(max(s.Runs, 1))
	return fmt.Sprintf("%.1f of %.1f | %s | %s", float64(len(s.Lost))/runs, float64(s.Swaps)/runs, losses,
		inPoints(s.Kept))
}

// sentence sums up the epochs of all streams of a table.
func (s *separation) sentence() string {
	return fmt.Sprintf("\nOf all %d swaps %d begin an epoch that stays separate (%.0f %%), and %d of these lose over "+
		"half a point on fresh rows.\n", s.Swaps, len(s.Lost), 100*float64(len(s.Lost))/float64(max(s.Swaps, 1)), s.real())
}

// swaps are the promotions of a run.
func (r run) swaps() (all []swap) {
	for _, p := range r.Promotions {
		lost := p.Broken
		if !p.NewEpoch {
			lost = p.After - p.Stored
		}
		all = append(all, swap{p.Epoch, p.NewEpoch, lost})
	}
	return all
}
