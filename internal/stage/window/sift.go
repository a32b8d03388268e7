package window

import (
	"cmp"
	"slices"
	"strings"
)

// Three kinds of rows in the window enter no fit: rows of classes with few rows, rows with a value beyond Enormous, and
// a few rows of which a quarter of the values are extreme. All other rows do, within the limits of their block. Sift
// determines limits and rows from the rows that are there, block by block; a row that arrives in between is judged by
// the limits of the newest block at the last Sift.

const (
	// A class with sufficientRows always enters fits; one with fewer does if that is a fifth of the usual size.
	sufficientRows = 10
	// firstModelRows is the minimum number of rows of the classes of a first model.
	firstModelRows = 4
	// FarTail is how many times as far from the median as nine in ten rows a feature of a row in the far tail is. Of a
	// normal distribution with a million rows there is none.
	FarTail = 30
)

// ClassOutliers counts the rows of a class in the window, as of the last Sift.
type ClassOutliers struct {
	Label    string
	Rows     int
	SetAside int // in no fit
	Limited  int // with values beyond the limits, which enter fits as the limits
}

// Outliers describes the outliers of a window.
type Outliers struct {
	Rows    int             // set aside so far
	Limited int             // rows in the window with limited values
	Classes []ClassOutliers // that have any, at most maxListed with the most
	Newest  Row             // with an extreme value; its Seq is 0 if there was none
	Feature int             // of the newest
	Median  float64         // of the feature
	Reach   float64         // the largest distance from it that enters fits
}

// Outliers describes the outliers that were found.
func (w *Window) Outliers() Outliers { return w.outliers }

// Tails is the share of the rows of a window with a feature that is more than FarTail times as far from its median as
// nine in ten rows, as of the last Sift.
func Tails(w *Window) float64 { return w.tails }

// Sift determines which rows enter fits. It reports whether some do that did not after the last call.
func (w *Window) Sift() (more bool) {
	w.sift()
	more, w.newlyIncluded = w.newlyIncluded, false
	return more
}

func (w *Window) sift() {
	if !w.changed {
		return
	}
	if !w.config.Summaries {
		dropFew(w)
	}
	if w.blockList.count == 0 {
		return
	}
	w.changed = false
	s := &sifter{Window: w, included: w.classes.include(w.config.Labelled), changed: make([]bool, len(w.blocks)),
		counts: make([]tally, len(w.classes.names)), place: make([]int32, len(w.classes.names))}
	for at, b := range w.blocks {
		s.changed[at] = b.limits == nil
	}
	for at, b := range w.blocks {
		s.sift(at, b)
	}
	w.tails = float64(s.farTail) / float64(s.rows)
	clear(w.sample[:cap(w.sample)]) // so that removed rows are collected
	w.outliers.Limited, w.outliers.Classes = s.byClass()
	w.classes.lend(s.counts, func(r *Row) {
		at, _, _ := w.find(r.Position)
		w.blocks[at].isCurrent = false
	})
}

// sifter determines the limits of the blocks of a window, and which of their rows enter fits.
type sifter struct {
	*Window
	changed  []bool // by block: its rows have changed since the last Sift
	included bool   // other classes than at the last Sift enter fits
	counts   []tally
	place    []int32 // by class: one more than its index in the tallies of a block; scratch memory
	rows     int
	farTail  int // rows with a feature in the far tail
}

// sift does so for a block.
func (s *sifter) sift(at int, b *block) {
	isSame := !s.included
	// Limits of a small block are also from the rows next to it.
	if from, to := s.sampledBlocks(at); slices.Contains(s.changed[from:to], true) {
		before := b.limits
		b.limits = limitsOf(s.sampleOf(at), s.config.Features, s.config.pause)
		if b.limits.isEqual(before) {
			b.limits = before
		} else {
			s.judge(b)
			isSame = false
		}
	}
	if !isSame { // else the rows are as the last Sift left them
		s.exclude(b)
	}
	s.limits = b.limits
	s.rows += len(b.rows)
	s.farTail += b.farTail
	for _, of := range b.tallies {
		s.counts[of.class].add(of)
	}
}

// exclude determines which rows of a block enter no fit, and counts all.
func (s *sifter) exclude(b *block) {
	b.tallies = b.tallies[:0]
	for i, r := range b.rows {
		before, of := r.excluded, s.tallyOf(b, r.class)
		r.excluded = included
		switch {
		case b.aside[i]:
			r.excluded = outlier
			of.setAside++
			if !r.isCounted {
				r.isCounted = true
				s.outliers.Rows++
			}
		case !s.classes.included[r.class]:
			r.excluded = sparseClass
		case r.isHeldOut:
			of.heldOut++
		default:
			of.fitted++
		}
		if of.rows++; r.limits != nil && r.excluded == included {
			of.limited++
		}
		if (before == included) != (r.excluded == included) {
			b.isCurrent = false
			s.newlyIncluded = s.newlyIncluded || r.excluded == included
		}
	}
	for _, of := range b.tallies {
		s.place[of.class] = 0
	}
}

// tallyOf returns the tally of a class in a block, until the next call.
func (s *sifter) tallyOf(b *block, class int) *tally {
	if s.place[class] == 0 {
		b.tallies = append(b.tallies, tally{class: int32(class)})
		s.place[class] = int32(len(b.tallies))
	}
	return &b.tallies[s.place[class]-1]
}

// maxListed is the maximum number of classes that Outliers lists.
const maxListed = 20

// byClass returns the number of rows with limited values, and the classes with the most outliers.
func (s *sifter) byClass() (limited int, list []ClassOutliers) {
	for c, of := range s.counts {
		if of.setAside+of.limited > 0 {
			limited += int(of.limited)
			list = append(list, ClassOutliers{Label: s.classes.names[c], Rows: int(of.rows), SetAside: int(of.setAside),
				Limited: int(of.limited)})
		}
	}
	slices.SortFunc(list, func(a, b ClassOutliers) int {
		return cmp.Or(b.SetAside+b.Limited-a.SetAside-a.Limited, strings.Compare(a.Label, b.Label))
	})
	return limited, list[:min(len(list), maxListed)]
}

// judge compares the rows of a block with its limits, and determines which are set aside.
func (s *sifter) judge(b *block) {
	b.aside, b.farTail = make([]bool, len(b.rows)), 0
	var suspects []suspect
	isWithin := b.limits.contain(b.low, b.high)
	for i, r := range b.rows {
		if i%pauseSifted == 0 {
			s.config.pause()
		}
		var g judgement
		if !isWithin {
			g = b.limits.judge(r.X)
		}
		if g.ratio > FarTail/reachOfNine {
			b.farTail++
		}
		if s.limit(b, r, &g); g.isEnormous {
			b.aside[i] = true
		} else if b.unstored == nil && g.isSuspect(len(r.X)) { // a summary has set its outliers aside
			suspects = append(suspects, suspect{i, r.class})
		}
	}
	if len(suspects) == 0 {
		return
	}
	perClass := map[int]int{}
	for _, r := range b.rows {
		perClass[r.class]++
	}
	chooseSetAside(suspects, len(b.rows), perClass, func(n int) { b.aside[n] = true })
}

// limit notes the limits of a row with values beyond them, and describes the newest row with an extreme one.
func (s *sifter) limit(b *block, r *Row, g *judgement) {
	before := r.limits
	s.newlyIncluded = s.newlyIncluded || r.hasExtreme && g.extreme == 0
	if r.limits, r.hasExtreme = nil, g.extreme > 0; g.isLimited {
		r.limits = b.limits
	}
	if !before.isEqual(r.limits) {
		b.isCurrent = false
	}
	if o := &s.outliers; r.hasExtreme && r.Compare(o.Newest.Position) >= 0 {
		o.Newest, o.Feature = *r, g.feature
		o.Median, o.Reach = b.limits.median[g.feature], b.limits.reach[g.feature]
	}
}

// classify judges a new row by the last Sift. It sets only enormous rows aside.
func (w *Window) classify(r *Row) {
	if w.limits == nil {
		return
	}
	g := w.limits.judge(r.X)
	if r.hasExtreme = g.extreme > 0; g.isLimited {
		r.limits = w.limits
	}
	if g.isEnormous {
		r.excluded = outlier
	} else if r.class >= len(w.classes.included) || !w.classes.included[r.class] {
		r.excluded = sparseClass
	}
}

// NeedsSift reports whether a class has enough rows since the last Sift, or too few.
func (w *Window) NeedsSift() bool {
	if w.limits == nil {
		return false
	}
	least := w.classes.minRows(w.config.Labelled)
	for c := range w.classes.rows {
		if enters := w.classes.size(c) >= least; enters != (c < len(w.classes.included) && w.classes.included[c]) {
			return true
		}
	}
	return false
}

// IsKnown reports whether rows with a label enter fits, as of the last Sift: models are not scored on others.
func (w *Window) IsKnown(label string) bool {
	if w.limits == nil {
		return true
	}
	c, ok := w.classes.index[label]
	return ok && c < len(w.classes.included) && w.classes.included[c]
}

// FirstModelRows is the number of rows that a first model would be fitted on: those of classes that are large enough.
func (w *Window) FirstModelRows() int {
	if !w.config.Labelled {
		return w.Len()
	}
	return w.Len() - w.classes.below(max(w.classes.minRows(w.config.Labelled), firstModelRows))
}

// EstablishedClasses is the number of classes with at least firstModelRows rows.
func (w *Window) EstablishedClasses() int { return w.classes.ofAtLeast(firstModelRows) }

// RowsOf is the number of rows of a window that have one of these labels.
func RowsOf(w *Window, labels []string) (n int) {
	for _, label := range labels {
		if c, ok := w.classes.index[label]; ok {
			n += w.classes.size(c)
		}
	}
	return n
}

// SparseRows is the number of rows of classes with too few rows to enter a fit.
func (w *Window) SparseRows() int { return w.classes.below(w.classes.minRows(w.config.Labelled)) }
