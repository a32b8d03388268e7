package plugin

import (
	"math"
	"slices"
	"time"
)

// Every says how often a model is fitted anew at least: after Rows labelled rows or after Period with at least one new
// labelled row, whichever comes first. A zero field never fires.
type Every struct {
	Rows   int
	Period time.Duration
}

// policy decides from which newest rows candidates are fitted, and when. It is a step function of its events in the
// time of the rows: no clock, no goroutine, no lock, so that a transcript of events is a complete test of it.
//
// Candidates are fitted from nested suffixes of the stream, each twice as long as the next, up to the whole window,
// since nobody knows how long ago the world was as it is now. A suffix is looked at again when a quarter of it is new.
// Methods that need the rows themselves are fitted from the whole window, when it has doubled or Every says so, and from
// the suffix that scouts lead to, when it has twice the rows of the last such fit or half of it is new.
type policy struct {
	every    Every
	features int
	// landmarks stand in the place of features; 0: none do
	landmarks int
	most      int  // rows that the window may have; 0: not known yet
	nested    bool // suffixes are fitted from moments, at a cost that does not depend on their length

	Learned int       `json:"learned"` // labelled rows
	Since   time.Time `json:"since"`   // when the first row since the last look at everything came
	Now     time.Time `json:"now"`     // of the newest row
	Class   int       `json:"class"`   // rows learned when the newest class appeared
	Looked  int       `json:"looked"`  // rows learned at the last look at everything
	Fitted  []fitted  `json:"fitted"`  // the last fit of each suffix
	Saved   int       `json:"saved"`   // rows learned at the last checkpoint
	Chosen  int       `json:"chosen"`  // rows in the window when auto last chose
	Suffix  int       `json:"suffix"`  // that is fitted beside the whole window where they are not nested; 0: none
	wanted  bool      // the host asked for a look
}

// as is the policy with what its configuration says in the place of another one's.
func (p policy) as(configured policy) policy {
	p.every, p.nested, p.most = configured.every, configured.nested, configured.most
	p.features, p.landmarks = configured.features, configured.landmarks
	return p
}

// fitted is the last fit of one suffix.
type fitted struct {
	Size int `json:"size"` // 0: the whole window
	At   int `json:"at"`   // rows learned then
	Rows int `json:"rows"` // that the suffix had
}

const (
	leastSuffix = 250 // rows of the shortest suffix
	leastRows   = 64  // rows that a candidate is fitted from at least, once a model is live
	costShare   = 32  // a fit of m^3 is worth its cost every m^2/costShare rows, which are scored by then
)

// learn records rows labelled rows that arrived at the given time. classes says that one of them was the first of its
// class.
func (p *policy) learn(rows int, class bool, at time.Time) {
	if p.Learned == p.Looked && rows > 0 {
		p.Since = later(p.Now, at)
	}
	p.tick(at)
	p.Learned += rows
	if class {
		p.Class = p.Learned
	}
}

// tick moves the time; it never moves backwards.
func (p *policy) tick(at time.Time) { p.Now = later(p.Now, at) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ask records that the host wants a look, whatever the counts say.
func (p *policy) ask() { p.wanted = true }

// cut forgets the suffixes: the window begins anew with so many rows.
func (p *policy) cut(rows int) {
	p.Learned, p.Looked, p.Class, p.Saved, p.Fitted, p.Suffix = rows, 0, 0, 0, nil, 0
	p.Since = p.Now
	p.Chosen = p.firstRows() / choiceGrowth
}

// choose tells whether auto should choose again, of so many rows: four times as many as it chose from, or as a first
// model needs since the rows changed.
func (p *policy) choose(rows int) bool { return p.Chosen > 0 && rows >= choiceGrowth*p.Chosen }

// chose records that it did.
func (p *policy) chose(rows int) { p.Chosen = rows }

const choiceGrowth = 4

// firstRows is how many labelled rows make a first model.
func (p *policy) firstRows() int {
	n := max(leastSuffix, 5*p.features)
	if p.landmarks > 0 {
		n = max(leastSuffix, 4*p.landmarks)
	}
	if p.every.Rows > 0 {
		n = min(n, p.every.Rows)
	}
	if p.most > 0 {
		n = min(n, p.most)
	}
	return n
}

// first tells whether a first model is due, with rows rows in a window that can be fitted at all. While classes are
// still appearing it waits, up to four times as long: the outputs of a pipeline stay as many as its first model has.
func (p *policy) first(rows int) bool {
	if p.wanted {
		return true
	}
	if p.every.Period > 0 && rows > 0 && p.Now.Sub(p.Since) >= p.every.Period {
		return true
	}
	n := p.firstRows()
	return rows >= n && (2*p.Class <= p.Learned || p.Learned >= 4*n)
}

// due lists the suffixes to fit now, 0 for the whole window of so many rows, longest first.
func (p *policy) due(rows int) (sizes []int) {
	all := p.all()
	for _, size := range p.sizes(rows) {
		have := rows
		if size > 0 {
			have = size
		}
		last, there := p.last(size)
		switch {
		case all, p.wanted,
			!there && have >= max(leastRows, p.columns()),
			there && have >= 2*last.Rows,
			there && p.Learned-last.At >= p.refresh(size, have):
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// all tells whether Every says to look at everything.
func (p *policy) all() bool {
	since := p.Learned - p.Looked
	return p.every.Rows > 0 && since >= p.every.Rows ||
		p.every.Period > 0 && since > 0 && p.Now.Sub(p.Since) >= p.every.Period
}

// began records that suffixes are fitted, the whole window having so many rows.
func (p *policy) began(sizes []int, rows int) {
	for _, size := range sizes {
		f := fitted{Size: size, At: p.Learned, Rows: size}
		if size == 0 {
			f.Rows = rows
		}
		if i := p.place(size); i >= 0 {
			p.Fitted[i] = f
		} else {
			p.Fitted = append(p.Fitted, f)
		}
	}
	p.wanted = false
	if len(sizes) > 0 && len(sizes) == len(p.sizes(rows)) {
		p.Looked = p.Learned
	}
}

// checkpoint tells whether it is time to fit all suffixes, so that what the learner knows can be kept.
func (p *policy) checkpoint() bool {
	return p.nested && p.Learned-p.Saved >= checkpointRows
}

// saved records a checkpoint.
func (p *policy) saved() { p.Saved = p.Learned }

const checkpointRows = 2500

// sizes are the suffixes of a window of so many rows, longest first.
func (p *policy) sizes(rows int) []int {
	sizes := []int{0}
	if !p.nested {
		if 0 < p.Suffix && p.Suffix < rows {
			sizes = append(sizes, p.Suffix)
		}
		return sizes
	}
	least := leastSuffix
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

// refresh is after how many new rows a suffix, of so many rows, is fitted again: a quarter of it, or so many that their
// scoring costs as much as the fit. Of a method that needs the rows it is half of a suffix, and the whole window waits
// for other reasons.
func (p *policy) refresh(size, rows int) int {
	switch {
	case !p.nested && size == 0:
		return math.MaxInt
	case !p.nested:
		return rows / 2
	}
	return max(rows/4, leastRows/2, p.columns()*p.columns()/costShare)
}

// columns is how many features a fit has.
func (p *policy) columns() int {
	if p.landmarks > 0 {
		return p.landmarks
	}
	return p.features
}

func (p *policy) last(size int) (fitted, bool) {
	if i := p.place(size); i >= 0 {
		return p.Fitted[i], true
	}
	return fitted{}, false
}

// place is where the last fit of a suffix is, -1 where there is none. Where they are not nested, one suffix takes the
// place of another.
func (p *policy) place(size int) int {
	return slices.IndexFunc(p.Fitted, func(f fitted) bool {
		return f.Size == size || !p.nested && f.Size > 0 && size > 0
	})
}
