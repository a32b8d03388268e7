package window

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/embedd/embedd/model/moments"
)

// Range is a range of messages of a stream, both ends included. Created is the creation time of the stream in
// nanoseconds.
type Range struct {
	Created     int64
	First, Last uint64
}

// Summary is what a window needs of a range of a stream instead of its rows: a sample of the rows, and the moments of
// the others. It is a function of the range and the configuration alone, whoever makes it.
//
// Missing features are NaN in the sample; in the moments they have the mean of the range.
//
// The sample has the rows of the smallest draws in each class, as many held-out ones as others, and all rows of a small
// class. The moments are of the other rows that are not held out.
type Summary struct {
	Range
	Settings string   // a digest of the configuration that it depends on
	Features []string // names, in the order of a row
	Labelled bool
	Classes  []string     // of the rows that are not in the sample, sorted; [""] without labels
	Summed   []int        // by class: rows that are not in the sample, including held-out ones
	Rows     []Row        // the sample, in order
	Moments  *moments.Set // class i is Classes[i]; without labels it has no classes
	Absent   []int        // features without a value in any row of Moments, ascending: they are 0 there
	Read     ReadCounts

	isDrawn bool // it does not say which rows are held out: each row has been drawn alone, see Position.isDrawn
}

// MoveTo gives the rows the position and time of the message of another stream that carries the summary. Rows stay held
// out as their own positions have drawn.
func (s *Summary) MoveTo(at Position, nanos int64, holdout float64) {
	s.holdOut(drawLimit(holdout))
	for i := range s.Rows {
		r := &s.Rows[i]
		r.Position, r.Time = Position{Created: at.Created, Seq: at.Seq, Row: i}, nanos
		r.MessageRows = len(s.Rows)
	}
}

// holdOut determines which rows are held out unless the summary says so.
func (s *Summary) holdOut(holdout uint64) {
	for i := range s.Rows {
		r := &s.Rows[i]
		r.isHeldOut = r.isHeldOut || s.isDrawn && r.isDrawn(holdout)
	}
	s.isDrawn = false
}

// ReadCounts counts the rows that a summary was made from.
type ReadCounts struct {
	Rows           int `json:"rows"`
	Unlabelled     int `json:"unlabelled,omitempty"`
	Faulty         int `json:"faulty,omitempty"` // with a missing feature
	Outliers       int `json:"far,omitempty"`    // outliers
	OverClassLimit int `json:"overfull,omitempty"`
	Unread         int `json:"unread,omitempty"` // messages that could not be decoded, or for which there was no memory
}

// IsComplete reports whether no feature is missing in the sample, or in all rows of the moments.
func (s *Summary) IsComplete() bool {
	return len(s.Absent) == 0 &&
		!slices.ContainsFunc(s.Rows, func(r Row) bool { return slices.ContainsFunc(r.X, math.IsNaN) })
}

// Len is the number of rows that are learned, including held-out ones.
func (s *Summary) Len() int {
	n := len(s.Rows)
	for _, more := range s.Summed {
		n += more
	}
	return n
}

// sampleRows is the approximate size of the sample, for fitted and held-out rows each. It has at least sufficientRows
// rows per class, so that a class with sums always has enough rows to enter a fit.
const sampleRows = 64

// sumRows is how many rows of a summary are summed per call: the shift of its moments is the mean of the first ones.
const sumRows = 1024

// Summarize makes a summary of rows in order, which it iterates over several times. A row's features need not stay
// valid after its iteration. It depends on Features, Classes, Holdout, Balance and Labelled of the configuration. It
// checks ctx between two sums.
func Summarize(ctx context.Context, c Config, rows iter.Seq[*Row]) (*Summary, error) {
	d := &summarizer{config: c, holdout: drawLimit(c.Holdout), tally: map[string]*labelCount{}}
	if err := d.computeLimits(ctx, rows); err != nil {
		return nil, err
	}
	if err := d.sampleRows(ctx, rows); err != nil {
		return nil, err
	}
	return d.sumRest(ctx, rows)
}

// summarizer makes a summary: limits of the features first, then the sample, then the sums.
type summarizer struct {
	config  Config
	holdout uint64 // as in a window
	limits  *limits
	aside   []bool // by row
	tally   map[string]*labelCount
	order   []string // labels in the order of their first rows
	means   columnMeans
	summary Summary
}

// labelCount counts the rows of a label.
type labelCount struct {
	rows      int // without outliers
	fitted    int // that are not held out
	kept      bool
	keepBelow uint64        // only rows with a draw below it are summed; see balance
	sampled   [2][]drawnRow // smallest draws of the fitted and of the held-out rows
	number    int           // in the sums
	leftOver  int           // rows that are not in the sample
}

// drawnRow is row n with its draw, and with its features if they are needed.
type drawnRow struct {
	draw uint64
	n    int
	x    []float64
}

// addSmallest inserts a row into those with the smallest draws, of which there are at most as many as given. It copies
// the features.
func addSmallest(all []drawnRow, r drawnRow, most int) []drawnRow {
	i, _ := slices.BinarySearchFunc(all, r, func(a, b drawnRow) int {
		return cmp.Or(cmp.Compare(a.draw, b.draw), a.n-b.n)
	})
	if i == most {
		return all
	}
	r.x = slices.Clone(r.x)
	return slices.Insert(all[:min(len(all), most-1)], i, r)
}

// computeLimits computes the limits of the features, and which rows are set aside.
func (d *summarizer) computeLimits(ctx context.Context, rows iter.Seq[*Row]) error {
	var least []drawnRow
	n := 0
	for r := range rows {
		least = addSmallest(least, drawnRow{r.draw(drawStats), n, r.X}, sampledForLimits)
		if n++; n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	x := make([][]float64, len(least))
	for i, r := range least {
		x[i] = r.x
	}
	d.limits = limitsOf(x, d.config.Features, d.config.pause)
	d.aside = make([]bool, n)
	d.summary.Read.Rows = n
	return d.setAside(ctx, rows)
}

// setAside determines the rows that are set aside.
func (d *summarizer) setAside(ctx context.Context, rows iter.Seq[*Row]) error {
	var suspects []suspect
	numbers, perClass, n := map[string]int{}, map[int]int{}, 0
	for r := range rows {
		class, ok := numbers[r.Label]
		if !ok {
			class = len(numbers)
			numbers[r.Label] = class
		}
		perClass[class]++
		if g := d.limits.judge(r.X); g.isEnormous {
			d.aside[n] = true
		} else if g.isSuspect(d.config.Features) {
			suspects = append(suspects, suspect{n, class})
		}
		if n++; n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	chooseSetAside(suspects, n, perClass, func(n int) { d.aside[n] = true })
	return nil
}

func (d *summarizer) part(r *Row) int {
	if r.stretch().isHeldOut(d.holdout) {
		return 1
	}
	return 0
}

// sampleRows counts labels and chooses the sample.
func (d *summarizer) sampleRows(ctx context.Context, rows iter.Seq[*Row]) error {
	n, scratch := -1, []float64(nil)
	for r := range rows {
		if n++; d.aside[n] {
			d.summary.Read.Outliers++
			continue
		}
		t := d.tally[r.Label]
		if t == nil {
			t = &labelCount{}
			d.tally[r.Label] = t
			d.order = append(d.order, r.Label)
		}
		t.rows++
		scratch = append(scratch[:0], r.X...)
		d.limits.apply(scratch)
		d.means.add(scratch)
		part := d.part(r)
		if part == 0 {
			t.fitted++
		}
		t.sampled[part] = addSmallest(t.sampled[part], drawnRow{draw: r.draw(drawSample), n: n}, sampleRows)
		if n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.limitClasses()
	d.balance()
	return nil
}

// limitClasses keeps the most frequent classes, and reduces the sample to its size.
func (d *summarizer) limitClasses() {
	slices.SortFunc(d.order, func(a, b string) int {
		return cmp.Or(d.tally[b].rows-d.tally[a].rows, strings.Compare(a, b))
	})
	kept := d.order
	if most := d.config.Classes; most > 0 && len(kept) > most {
		for _, label := range kept[most:] {
			d.summary.Read.OverClassLimit += d.tally[label].rows
		}
		kept = kept[:most]
	}
	most := max(sufficientRows, sampleRows/max(len(kept), 1))
	for _, label := range kept {
		t := d.tally[label]
		t.kept, t.leftOver = true, t.rows
		for part, c := range t.sampled {
			t.sampled[part] = c[:min(len(c), most)]
			t.leftOver -= len(t.sampled[part])
		}
		if t.leftOver > 0 {
			d.summary.Classes = append(d.summary.Classes, label)
		}
	}
	slices.Sort(d.summary.Classes)
	d.summary.Summed = make([]int, len(d.summary.Classes))
	for i, label := range d.summary.Classes {
		d.tally[label].number, d.summary.Summed[i] = i, d.tally[label].leftOver
	}
}

// balance thins classes that have more than their share of the fitted rows: rows of such a class are summed with the
// probability that brings it to its share. Labels with few rows are no classes that others are thinned for.
func (d *summarizer) balance() {
	all, classes := 0, 0
	for _, t := range d.tally {
		if t.keepBelow = math.MaxUint64; t.kept && t.fitted > sufficientRows {
			all, classes = all+t.fitted, classes+1
		}
	}
	if !d.config.Balance || !d.config.Labelled || classes < 2 {
		return
	}
	fair := float64(all) / float64(classes)
	for _, t := range d.tally {
		if float64(t.fitted) > fair {
			t.keepBelow = drawLimit(fair / float64(t.fitted))
		}
	}
}

// sumRest copies the sample and sums the other rows.
func (d *summarizer) sumRest(ctx context.Context, rows iter.Seq[*Row]) (*Summary, error) {
	carried := map[int]bool{}
	for _, t := range d.tally {
		for _, part := range t.sampled {
			for _, c := range part {
				carried[c.n] = t.kept
			}
		}
	}
	s, m := &d.summary, d.config.Features
	s.Labelled, s.Moments = d.config.Labelled, moments.New(m, false)
	x, y := make([]float64, 0, sumRows*m), make([]int, 0, sumRows)
	impute := d.means.imputer()
	s.Absent = impute.absent
	flush := func() error {
		classes := y
		if !d.config.Labelled {
			classes = nil
		}
		err := s.Moments.Add(ctx, x, classes)
		x, y = x[:0], y[:0]
		if err != nil {
			return fmt.Errorf("summing rows: %w", err)
		}
		return ctx.Err()
	}
	n := -1
	for r := range rows {
		if n++; d.aside[n] {
			continue
		}
		t := d.tally[r.Label]
		switch {
		case !t.kept:
		case carried[n]:
			own := *r
			own.X, own.isHeldOut = slices.Clone(r.X), d.part(r) == 1
			d.limits.apply(own.X)
			s.Rows = append(s.Rows, own)
		case d.part(r) == 0 && (t.keepBelow == math.MaxUint64 || r.draw(drawThin) < t.keepBelow):
			x, y = append(x, r.X...), append(y, t.number)
			d.limits.apply(x[len(x)-m:])
			if impute.fill(x[len(x)-m:]); len(y) == sumRows {
				if err := flush(); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(y) > 0 {
		if err := flush(); err != nil {
			return nil, err
		}
	}
	return s, nil
}
