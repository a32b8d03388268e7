package window

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

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
	Read     ReadCounts

	moved bool // see MoveTo
}

// MoveTo gives the rows the position and time of the message of another stream that carries the summary. Rows stay held
// out as their own positions have drawn.
func (s *Summary) MoveTo(at Position, nanos int64, holdout float64) {
	held := share(holdout)
	for i := range s.Rows {
		r := &s.Rows[i]
		r.heldOut = r.draw(drawHeld) < held
		r.Position, r.Time = Position{Created: at.Created, Seq: at.Seq, Row: i}, nanos
	}
	s.moved = true
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

// Summarize makes a summary of rows in order, which it iterates over several times. A row's features need not stay
// valid after its iteration. It depends on Features, Classes, Holdout, Balance and Labelled of the configuration. It
// checks ctx between two sums.
func Summarize(ctx context.Context, c Config, rows iter.Seq[*Row]) (*Summary, error) {
	d := &summarizer{config: c, heldOut: share(c.Holdout), tally: map[string]*labelCount{}}
	if err := d.computeStats(ctx, rows); err != nil {
		return nil, err
	}
	if err := d.sampleRows(ctx, rows); err != nil {
		return nil, err
	}
	return d.sumRest(ctx, rows)
}

// summarizer makes a summary: statistics of the features first, then the sample, then the sums.
type summarizer struct {
	config  Config
	heldOut uint64 // as in a window
	stats   *robustStats
	ratios  []float64 // by row
	tally   map[string]*labelCount
	order   []string // labels in the order of their first rows
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

// drawnRow is row n with its draw.
type drawnRow struct {
	draw uint64
	n    int
}

// computeStats computes the statistics of the features.
func (d *summarizer) computeStats(ctx context.Context, rows iter.Seq[*Row]) error {
	var least []drawnRow
	var x [][]float64
	n := 0
	for r := range rows {
		at := drawnRow{r.draw(drawStats), n}
		n++
		i, _ := slices.BinarySearchFunc(least, at, compareDraws)
		if i < sampledForStats {
			if len(least) == sampledForStats {
				least, x = least[:sampledForStats-1], x[:sampledForStats-1]
			}
			least, x = slices.Insert(least, i, at), slices.Insert(x, i, slices.Clone(r.X))
		}
		if n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.stats = robustStatsOf(x, d.config)
	d.ratios = make([]float64, 0, n)
	for r := range rows {
		ratio, _ := d.stats.ratio(r.X)
		d.ratios = append(d.ratios, ratio)
		if len(d.ratios)%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.stats.limitOutliers(d.ratios)
	d.summary.Read.Rows = n
	return nil
}

func compareDraws(a, b drawnRow) int {
	switch {
	case a.draw < b.draw:
		return -1
	case a.draw > b.draw:
		return 1
	}
	return a.n - b.n
}

func (d *summarizer) isOutlier(n int) bool { return d.stats.isOutlier(d.ratios[n]) }

func (d *summarizer) part(r *Row) int {
	if r.draw(drawHeld) < d.heldOut {
		return 1
	}
	return 0
}

// sampleRows counts labels and chooses the sample.
func (d *summarizer) sampleRows(ctx context.Context, rows iter.Seq[*Row]) error {
	n := -1
	for r := range rows {
		if n++; d.isOutlier(n) {
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
		part := d.part(r)
		if part == 0 {
			t.fitted++
		}
		at := drawnRow{r.draw(drawSample), n}
		i, _ := slices.BinarySearchFunc(t.sampled[part], at, compareDraws)
		if i < sampleRows {
			if len(t.sampled[part]) == sampleRows {
				t.sampled[part] = t.sampled[part][:sampleRows-1]
			}
			t.sampled[part] = slices.Insert(t.sampled[part], i, at)
		}
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
		if n := d.tally[b].rows - d.tally[a].rows; n != 0 {
			return n
		}
		if a < b {
			return -1
		}
		return 1
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
			t.keepBelow = share(fair / float64(t.fitted))
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
	flush := func() error {
		classes := y
		if !d.config.Labelled {
			classes = nil
		}
		err := s.Moments.Add(ctx, x, classes, nil)
		x, y = x[:0], y[:0]
		if err != nil {
			return fmt.Errorf("summing rows: %w", err)
		}
		return ctx.Err()
	}
	n := -1
	for r := range rows {
		if n++; d.isOutlier(n) {
			continue
		}
		t := d.tally[r.Label]
		switch {
		case !t.kept:
		case carried[n]:
			own := *r
			own.X = slices.Clone(r.X)
			s.Rows = append(s.Rows, own)
		case d.part(r) == 0 && (t.keepBelow == math.MaxUint64 || r.draw(drawThin) < t.keepBelow):
			if x, y = append(x, r.X...), append(y, t.number); len(y) == sumRows {
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
