package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/embedd/embedd/plugin/spec"
)

// Schedule decides from which newest rows candidates are fitted, and when. Its time is the time of the rows.
//
// Candidates are fitted on nested suffixes of the stream, each twice as long as the next shorter one, up to the whole
// window: how long ago the current concept began is unknown. A suffix is fitted again when a quarter of it is new.
// Methods that need the rows themselves are fitted on the whole window, when it has doubled or Every says so, and on
// the suffix that the window probe reports, when that has twice the rows of the last such fit or half of it is new.
type Schedule struct {
	Config

	Learned       int         `json:"learned"` // labelled rows
	Since         time.Time   `json:"since"`   // time of the first row since all suffixes were fitted
	Now           time.Time   `json:"now"`     // of the newest row
	NewestClassAt int         `json:"class"`   // rows learned when the newest class appeared
	AllFittedAt   int         `json:"looked"`  // rows learned when all suffixes were fitted
	Fitted        []SuffixFit `json:"fitted"`  // the last fit of each suffix
	CheckpointAt  int         `json:"saved"`   // rows learned at the last checkpoint
	ChosenFrom    int         `json:"chosen"`  // rows in the window when auto last chose a method
	// Suffix is the suffix to fit besides the whole window, for a method that needs the rows; 0: none
	Suffix    int `json:"suffix"`
	requested bool
}

// Config is what a Schedule depends on besides its events.
type Config struct {
	Every     spec.Every `json:"-"`
	Features  int        `json:"-"`
	Landmarks int        `json:"-"` // number of landmarks that replace the features in fits; 0: none
	MaxRows   int        `json:"-"` // of the window; 0: not known yet
	Nested    bool       `json:"-"` // suffixes are fitted from moments, at a cost that does not depend on their length
}

// SuffixFit is the last fit of one suffix.
type SuffixFit struct {
	Size int `json:"size"` // 0: the whole window
	At   int `json:"at"`   // rows learned then
	Rows int `json:"rows"` // that the suffix had
}

const (
	minSuffix = 250 // rows of the shortest suffix
	minRows   = 64  // rows that a candidate needs once a model is live
	// A first model needs rowsPerFeature rows for each feature, or rowsPerLandmark for each landmark. With too few rows
	// for the dimension a linear discriminant is little better than chance (Raudys and Jain, IEEE PAMI 13, 1991).
	rowsPerFeature  = 5
	rowsPerLandmark = 4
	costShare       = 32 // a fit of m^3 is worth its cost every m^2/costShare rows, whose scoring costs as much

	choiceGrowth   = 4    // auto chooses again when the window has this many times the rows
	checkpointRows = 2500 // rows between two checkpoints, which a restart learns again
)

// RecordRows records the arrival of labelled rows. newClass says that one of them was the first of its class.
func (p *Schedule) RecordRows(rows int, newClass bool, at time.Time) {
	if p.Learned == p.AllFittedAt && rows > 0 {
		p.Since = later(p.Now, at)
	}
	p.Tick(at)
	p.Learned += rows
	if newClass {
		p.NewestClassAt = p.Learned
	}
}

// Tick advances the time; it never goes back.
func (p *Schedule) Tick(at time.Time) { p.Now = later(p.Now, at) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Request makes all suffixes due.
func (p *Schedule) Request() { p.requested = true }

// Cut forgets all fits: the window was cut to its newest rows.
func (p *Schedule) Cut(rows int) {
	p.Learned, p.AllFittedAt, p.NewestClassAt, p.CheckpointAt, p.Fitted, p.Suffix = rows, 0, 0, 0, nil, 0
	p.Since = p.Now
	p.ChosenFrom = p.FirstRows() / choiceGrowth
}

// ChoiceDue reports whether auto should choose the method again, from a window of this size: it has four times the rows
// that it last chose from, or that a first model needs after a cut.
func (p *Schedule) ChoiceDue(rows int) bool {
	return p.ChosenFrom > 0 && rows >= choiceGrowth*p.ChosenFrom
}

// RecordChoice records that auto chose the method.
func (p *Schedule) RecordChoice(rows int) { p.ChosenFrom = rows }

// FirstRows is the number of labelled rows that a first model needs.
func (p *Schedule) FirstRows() int {
	n := max(minSuffix, rowsPerFeature*p.Features)
	if p.Landmarks > 0 {
		n = max(minSuffix, rowsPerLandmark*p.Landmarks)
	}
	if p.Every.Rows > 0 {
		n = min(n, p.Every.Rows)
	}
	if p.MaxRows > 0 {
		n = min(n, p.MaxRows)
	}
	return n
}

// FirstDue reports whether a first model is due, with this many rows in a window that can be fitted at all. While new
// classes still appear it waits for up to three times the rows: every class that comes later costs a change of models.
// So it does if labels come in runs: such rows are like each other, and a model of too few of them is little better
// than chance.
func (p *Schedule) FirstDue(rows int, inRuns bool) bool {
	if p.requested {
		return true
	}
	if p.Every.Period > 0 && rows > 0 && p.Now.Sub(p.Since) >= p.Every.Period {
		return true
	}
	n := p.FirstRows()
	return rows >= n && (p.Learned >= 3*n || 2*p.NewestClassAt <= p.Learned && !inRuns)
}

// Due lists the suffixes to fit now, longest first; 0 is the whole window, of the given number of rows. followed is the
// suffix that the stage follows, 0 if none.
func (p *Schedule) Due(rows, followed int) (sizes []int) {
	since := p.Learned - p.AllFittedAt
	all := p.requested || p.Every.Rows > 0 && since >= p.Every.Rows ||
		p.Every.Period > 0 && since > 0 && p.Now.Sub(p.Since) >= p.Every.Period
	for _, size := range p.Sizes(rows) {
		last, fitted := p.last(size)
		if all || size == 0 && fitted && p.classDue(last, rows) || p.untilDue(size, rows, followed) == 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// untilDue is the number of further labelled rows after which a suffix is fitted again, in a window of the given number
// of rows. It is 0 if the fit is due now, and math.MaxInt if no number of rows makes it due.
func (p *Schedule) untilDue(size, rows, followed int) int {
	have, need, next := cmp.Or(size, rows), max(minRows, p.columns()), math.MaxInt
	last, fitted := p.last(size)
	if fitted {
		need = 2 * last.Rows
		if due := p.refitRows(size, have, followed); due < math.MaxInt {
			next = due - (p.Learned - last.At)
		}
	}
	if isGrowing := size == 0 && (p.MaxRows == 0 || rows < p.MaxRows); isGrowing || have >= need {
		next = min(next, need-have)
	}
	return max(next, 0)
}

// RowsUntilDue is how many more labelled rows make a fit due by their number, in a window of the given number of rows;
// 0: one is due, math.MaxInt: no number does. It may fall more slowly than rows arrive: a quarter of the window grows
// with it. A new class, a longer suffix, the time and a request may make a fit due earlier.
func (p *Schedule) RowsUntilDue(rows, followed int) int {
	next := math.MaxInt
	if p.Every.Rows > 0 {
		next = p.Every.Rows - (p.Learned - p.AllFittedAt)
	}
	if p.Nested {
		next = min(next, checkpointRows-(p.Learned-p.CheckpointAt))
	}
	for _, size := range p.Sizes(rows) {
		next = min(next, p.untilDue(size, rows, followed))
	}
	return max(next, 0)
}

// classDue reports whether the whole window should be fitted again for its newest class: the number of rows since the
// class has come has doubled since the last fit, and they are few compared with the window.
func (p *Schedule) classDue(last SuffixFit, rows int) bool {
	since, least := p.Learned-p.NewestClassAt, max(minRows, p.columns()) // a fit costs as much as moments of so many rows
	if !p.Nested {
		least = rows / 16
	}
	return p.NewestClassAt > 0 && since >= least && since <= rows/4 && since >= 2*(last.At-p.NewestClassAt)
}

// IsFresh reports whether a suffix was fitted on the newest rows.
func (p *Schedule) IsFresh(size int) bool {
	last, fitted := p.last(size)
	return fitted && last.At == p.Learned
}

// RecordFits records that suffixes were fitted; the whole window has the given number of rows.
func (p *Schedule) RecordFits(sizes []int, rows int) {
	for _, size := range sizes {
		f := SuffixFit{Size: size, At: p.Learned, Rows: size}
		if size == 0 {
			f.Rows = rows
		}
		if i := p.index(size); i >= 0 {
			p.Fitted[i] = f
		} else {
			p.Fitted = append(p.Fitted, f)
		}
	}
	p.requested = false
	if len(sizes) > 0 && len(sizes) == len(p.Sizes(rows)) {
		p.AllFittedAt = p.Learned
	}
}

// CheckpointDue reports whether it is time to fit all suffixes and save a checkpoint.
func (p *Schedule) CheckpointDue() bool {
	return p.Nested && p.Learned-p.CheckpointAt >= checkpointRows
}

// RecordCheckpoint records a checkpoint.
func (p *Schedule) RecordCheckpoint() { p.CheckpointAt = p.Learned }

// Sizes lists the suffixes of a window of the given number of rows, longest first.
func (p *Schedule) Sizes(rows int) []int {
	sizes := []int{0}
	if !p.Nested {
		if 0 < p.Suffix && p.Suffix < rows {
			sizes = append(sizes, p.Suffix)
		}
		return sizes
	}
	least := minSuffix
	for least < p.columns() {
		least *= 2
	}
	n := least
	for 2*n <= rows {
		n *= 2
	}
	for ; n >= least; n /= 2 {
		if 4*n <= 3*rows {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// refitRows is the number of new rows after which a suffix is fitted again: a quarter of it, or half of it for a method
// that needs the rows, and at least as many as cost as much to score as the fit.
func (p *Schedule) refitRows(size, rows, followed int) int {
	switch {
	case !p.Nested && size == 0: // it is fitted when it has doubled, or Every says so
		return math.MaxInt
	case !p.Nested:
		return rows / 2
	}
	due := rows / 4
	switch {
	case size == 0: // a fifth of a window of fewer rows than eight first models need: more rows make a better model then
		due = max(rows/5, due-2*p.FirstRows()/5)
	case size == followed: // as often as its models go live
		due = min(due, followRows(size))
	}
	return max(due, minRows/2, p.columns()*p.columns()/costShare)
}

// columns is the number of columns of a fit.
func (p *Schedule) columns() int {
	if p.Landmarks > 0 {
		return p.Landmarks
	}
	return p.Features
}

func (p *Schedule) last(size int) (SuffixFit, bool) {
	if i := p.index(size); i >= 0 {
		return p.Fitted[i], true
	}
	return SuffixFit{}, false
}

// index is the index of the last fit of a suffix, -1 if there is none. A method that needs the rows has one suffix at a
// time.
func (p *Schedule) index(size int) int {
	return slices.IndexFunc(p.Fitted, func(f SuffixFit) bool {
		return f.Size == size || !p.Nested && f.Size > 0 && size > 0
	})
}
