package window

import (
	"math"
	"slices"
)

// What is in the window and enters no fit: rows of classes that have too few, and rows with a feature so far from where
// the others are that it alone would decide what is learned. Both are looked at anew by Sift, as a function of the rows
// that are there; a row that comes between two looks is as the last one says.

// out says why a row enters no fit.
type out uint8

const (
	in     out = iota
	sparse     // its class has too few rows
	far        // a feature is too far from the others'
)

const (
	// enoughRows of a class always suffice to enter a fit; fewer do where they are a fifth of what is usual.
	enoughRows = 10
	// fewRows is how many rows the classes of a first model have at least.
	fewRows = 4
	// farTimes is how many times as far from the median as nine in ten rows are a feature may be. Of normal features it
	// is 160 standard deviations; of features with a heavy tail it leaves out few, and those that would decide alone.
	farTimes = 100
	// Enormous is how far from zero a feature may be: of what is farther sums of squares may leave float64. Such rows are
	// far whatever is usual.
	Enormous = 1e140
	// mostFar is the share of the other rows that may be far: where more are, that is how the rows are.
	mostFar = 0.25
	// siftRows is about how many rows tell what is usual.
	siftRows = 256
)

// usual is where the values of the features are.
type usual struct {
	middle  []float64 // their medians
	inverse []float64 // 1 / the distance from it that nine in ten rows keep; 0: nothing can be said
	times   float64   // so many times that distance is far
}

// ratio is how far a row is: the most of its features' distances, and of which feature. What is missing is not far; what
// is enormous is farther than all else.
func (u *usual) ratio(x []float64) (most float64, feature int) {
	for j, v := range x {
		if math.Abs(v) > Enormous && !math.IsInf(v, 0) {
			return math.Inf(1), j
		}
		if d := math.Abs(v-u.middle[j]) * u.inverse[j]; d > most && !math.IsInf(v, 0) {
			most, feature = min(d, math.MaxFloat64), j
		}
	}
	return most, feature
}

// far tells whether a row of such a ratio is.
func (u *usual) far(ratio float64) bool { return ratio > u.times || math.IsInf(ratio, 1) }

const (
	// restFeatures and restRatios are after how many features of some rows, and after how many rows, learning may rest:
	// with 256 features some tenths of a millisecond.
	restFeatures = 8
	restRatios   = 512
)

// usualOf looks at the features of some rows.
func usualOf(rows [][]float64, c Config) *usual {
	m := c.Features
	u := &usual{middle: make([]float64, m), inverse: make([]float64, m), times: farTimes}
	v := make([]float64, 0, len(rows))
	for j := range m {
		if j%restFeatures == 0 {
			c.rest()
		}
		v = v[:0]
		for _, x := range rows {
			if f := x[j]; math.Abs(f) <= Enormous {
				v = append(v, f)
			}
		}
		if len(v) < 4 {
			continue
		}
		slices.Sort(v)
		u.middle[j] = v[(len(v)-1)/2]
		for i, f := range v {
			v[i] = math.Abs(f - u.middle[j])
		}
		slices.Sort(v)
		reach := v[(len(v)-1)*9/10]
		if reach == 0 { // a feature that is nearly always the same: what is usual of the rest
			if i, _ := slices.BinarySearch(v, math.SmallestNonzeroFloat64); len(v)-i >= 4 {
				reach = v[(i+len(v)-1)/2]
			}
		}
		if reach > 0 {
			u.inverse[j] = 1 / max(reach, 1e-300)
		}
	}
	return u
}

// bound sets what is far, so that it is not more than mostFar of the rows that are not enormous.
func (u *usual) bound(ratios []float64) {
	for {
		n, all := 0, 0
		for _, r := range ratios {
			if !math.IsInf(r, 1) {
				all++
				if r > u.times {
					n++
				}
			}
		}
		if float64(n) <= mostFar*float64(all) || math.IsInf(u.times, 0) {
			return
		}
		u.times *= 10
	}
}

// FarRows tells which of the rows of m features have one that is far from where the others have it.
func FarRows(x []float64, m int) []bool {
	n := len(x) / m
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = x[i*m : (i+1)*m]
	}
	u := usualOf(rows, Config{Features: m})
	ratios := make([]float64, n)
	for i, r := range rows {
		ratios[i], _ = u.ratio(r)
	}
	u.bound(ratios)
	out := make([]bool, n)
	for i, r := range ratios {
		out[i] = u.far(r)
	}
	return out
}

// Far is what is known of rows with a feature that is too far from the others'.
type Far struct {
	Rows    int // that were found so far
	Newest  Row
	Feature int     // of the newest
	Middle  float64 // the median of the feature
	Reach   float64 // and how far from it nine in ten rows are
}

// Far tells of the rows that were found to be far.
func (w *Window) Far() Far { return w.far }

// Sift looks which rows enter fits. It tells whether some do that did not when it was called last.
func (w *Window) Sift() (more bool) {
	w.sift()
	more, w.more = w.more, false
	return more
}

func (w *Window) sift() {
	if !w.changed || w.blockList.rows == 0 {
		return
	}
	w.changed = false
	least := w.classes.least(w.config.Labelled)
	w.classes.enters = w.classes.enters[:0]
	for c := range w.classes.rows {
		w.classes.enters = append(w.classes.enters, w.classes.size(c) >= least)
	}
	sample := make([][]float64, 0, 2*siftRows)
	bound := share(siftRows / float64(w.blockList.rows))
	w.All(func(r *Row) bool {
		if r.draw(drawUsual) <= bound {
			sample = append(sample, r.X)
		}
		return true
	})
	w.usual = usualOf(sample, w.config)
	ratios := make([]float64, 0, w.blockList.rows)
	w.All(func(r *Row) bool {
		ratio, _ := w.usual.ratio(r.X)
		if ratios = append(ratios, ratio); len(ratios)%restRatios == 0 {
			w.config.rest()
		}
		return true
	})
	w.usual.bound(ratios)
	for _, b := range w.blocks {
		for _, r := range b.rows {
			before := r.out
			r.out = in
			if w.usual.far(ratios[0]) {
				r.out = far
				w.found(r)
			} else if !w.classes.enters[r.class] {
				r.out = sparse
			}
			ratios = ratios[1:]
			if (before == in) != (r.out == in) {
				b.sum = nil
				w.more = w.more || r.out == in
			}
		}
	}
}

// place says of a row that has just come what the last look says.
func (w *Window) place(r *Row) {
	if w.usual == nil {
		return
	}
	if ratio, _ := w.usual.ratio(r.X); w.usual.far(ratio) {
		r.out = far
		w.found(r)
	} else if r.class >= len(w.classes.enters) || !w.classes.enters[r.class] {
		r.out = sparse
	}
}

// found counts a far row, once.
func (w *Window) found(r *Row) {
	if r.told {
		return
	}
	r.told = true
	w.far.Rows++
	if r.Compare(w.far.Newest.Position) < 0 {
		return
	}
	_, j := w.usual.ratio(r.X)
	w.far.Newest, w.far.Feature, w.far.Middle, w.far.Reach = *r, j, w.usual.middle[j], 1/w.usual.inverse[j]
}

// Unsettled tells whether a class has come to have enough rows since the last look, or too few.
func (w *Window) Unsettled() bool {
	if w.usual == nil {
		return false
	}
	least := w.classes.least(w.config.Labelled)
	for c := range w.classes.rows {
		if enters := w.classes.size(c) >= least; enters != (c < len(w.classes.enters) && w.classes.enters[c]) {
			return true
		}
	}
	return false
}

// Knows tells whether rows with a label enter fits, as of the last look: those of others tell nothing of a model.
func (w *Window) Knows(label string) bool {
	if w.usual == nil {
		return true
	}
	c, ok := w.classes.index[label]
	return ok && c < len(w.classes.enters) && w.classes.enters[c]
}

// Learnable is the number of rows that a first model would be fitted from: those of classes of fewRows, and of enough.
func (w *Window) Learnable() int {
	if !w.config.Labelled {
		return w.Len()
	}
	return w.Len() - w.classes.below(max(w.classes.least(w.config.Labelled), fewRows))
}

// Established is the number of classes of fewRows or more.
func (w *Window) Established() (n int) {
	for c := range w.classes.rows {
		if w.classes.size(c) >= fewRows {
			n++
		}
	}
	return n
}

// Sparse is the number of rows of classes that have too few of them to enter a fit.
func (w *Window) Sparse() int { return w.classes.below(w.classes.least(w.config.Labelled)) }

// below is the number of rows of classes that have fewer rows than least.
func (t *classes) below(least int) (n int) {
	for c := range t.rows {
		if size := t.size(c); size < least {
			n += size
		}
	}
	return n
}
