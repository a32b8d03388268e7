// Package window holds the labelled rows that models are fitted on, bounded in rows, age and bytes.
//
// Which rows are in a [Window], in which order, in which block, and which of them are held out is a function of the
// rows (their positions, times and labels) and of the configuration alone. It does not depend on the order in which
// rows arrive, on when a process started, or on what was evicted. So a restart, or labels that arrive late, end in the
// same window and, through its moments, in the same models.
//
// Each class keeps its newest rows up to a quota. Moments are kept per block, so a fit on a suffix of the window merges
// blocks and sums only the blocks whose rows have changed.
//
// Outliers and rows of classes with few rows stay in the window and enter no fit; [Window.Sift] determines which, from
// the rows alone. If there are too many labels, rare ones are replaced, and together they take at most a tenth of a
// full window. Which label is replaced depends on the order in which rows arrived.
//
// A Window is not safe for concurrent use. It knows no message format.
package window

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// Row is a labelled row. The window owns X, which must not change after the row was added.
type Row struct {
	Position
	Time   int64     // of its message, nanoseconds
	Label  string    // "" in a window without labels
	Source string    // the sender, for messages
	X      []float64 // m
	// MessageRows is the number of rows of its message, labelled or not; 0: unknown, taken as 1
	MessageRows int

	class      int
	isHeldOut  bool
	isLent     bool // fits see it although it is held out, as of the last Sift
	excluded   exclusion
	isCounted  bool    // as an outlier
	hasExtreme bool    // a value is far beyond the limits
	hasMissing bool    // some features are NaN
	limits     *limits // of its block, if a value is beyond them, as of the last Sift
	hash       uint64  // 0: not computed; see Hash
}

// IsIncluded reports whether the row is in its window and enters fits and scores, as of the last Sift. Rows with an
// extreme value may enter fits, within limits, but no scores.
func (r *Row) IsIncluded() bool { return r.excluded == included && !r.hasExtreme }

// fitted returns the features as they enter fits. The result must not be changed.
func (r *Row) fitted() []float64 {
	if r.limits == nil {
		return r.X
	}
	x := slices.Clone(r.X)
	r.limits.apply(x)
	return x
}

func (r *Row) stretch() stretch { return stretchAt(r.Position, r.MessageRows) }

// Hash returns a hash of the label and the features of a row of the window. Rows of one window that differ have
// different hashes: the seed is random, so no sender can make two rows that share one. A row is hashed once.
func Hash(w *Window, r *Row) uint64 {
	if r.hash == 0 {
		w.scratch = append(w.scratch[:0], r.Label...)
		for _, v := range r.X {
			w.scratch = binary.LittleEndian.AppendUint64(w.scratch, math.Float64bits(v))
		}
		r.hash = max(maphash.Bytes(w.seed, w.scratch), 1)
	}
	return r.hash
}

// Neighbourhood returns the range of positions, from inclusive, to exclusive, of the row's stretch and the two next to
// it.
func (r *Row) Neighbourhood() (from, to Position) { return r.stretch().neighbourhood(r.Position) }

// IsUnseen reports whether no fit sees the row, as of the last Sift, although it enters scores.
func (r *Row) IsUnseen() bool { return r.isHeldOut && !r.isLent && r.IsIncluded() }

func (r *Row) isFitted() bool { return (!r.isHeldOut || r.isLent) && r.excluded == included }

// IsHeldOut reports whether the row is held out: no fit sees it, so it is fair to all models. Only if its class has
// hardly any other rows do fits see it too.
func (r *Row) IsHeldOut() bool { return r.isHeldOut }

// block is a run of rows. It begins with a row whose draw is below the border, so blocks are a function of the rows
// that are there, and keep their mean size when rows leave.
type block struct {
	rows     []*Row
	cached   *rowMoments   // of the rows that enter fits, if isCurrent
	unstored *unstoredRows // nil: all rows are there; see AddSummary
	limits   *limits       // nil if the rows changed since the last Sift

	low, high []float64 // bounds of each feature of its rows, and of those that have left
	isCurrent bool      // no row that enters fits has changed since cached was made

	// As of the limits:
	aside   []bool // by row: it is set aside
	farTail int    // rows with a feature in the far tail

	tallies []tally // of the classes that it has rows of, as of the last Sift
}

// tally counts the rows of a class.
type tally struct {
	class                   int32
	rows, setAside, limited int32
	fitted                  int32 // rows that enter fits and are not held out
	heldOut                 int32 // rows that are held out, and enter fits if these are lent
}

func (t *tally) add(o tally) {
	t.rows, t.setAside, t.limited = t.rows+o.rows, t.setAside+o.setAside, t.limited+o.limited
	t.fitted, t.heldOut = t.fitted+o.fitted, t.heldOut+o.heldOut
}

// Mapping maps features to the Dim columns of which moments are made.
type Mapping struct {
	Dim int
	Map func(ctx context.Context, dst []float64, rows [][]float64) error
}

// accumulator makes moments of rows.
type accumulator struct {
	features int
	labelled bool
	mapping  Mapping // Dim 0: rows are summed as they are

	unused []*moments.Set // memory of later sums
}

// newSet returns an empty set.
func (s *accumulator) newSet() *moments.Set {
	for n := len(s.unused); n > 0; n = len(s.unused) {
		set := s.unused[n-1]
		if s.unused = s.unused[:n-1]; set.M() == s.columns() {
			set.Reset()
			return set
		}
	}
	return moments.New(s.columns(), false)
}

// reuse keeps the memory of sums that are no longer used, for later sums.
func (s *accumulator) reuse(sums *rowMoments) {
	if sums != nil && len(s.unused) < 8 {
		s.unused = append(s.unused, sums.Set)
	}
}

func (s *accumulator) columns() int {
	if s.mapping.Dim > 0 {
		return s.mapping.Dim
	}
	return s.features
}

func newBlock(features int, rows ...*Row) *block {
	inf := []float64{math.Inf(1)}
	b := &block{low: slices.Repeat(inf, features), high: slices.Repeat([]float64{-inf[0]}, features)}
	for i, r := range rows {
		b.add(i, r)
	}
	return b
}

// add inserts a row.
func (b *block) add(i int, r *Row) {
	b.rows = slices.Insert(b.rows, i, r)
	b.widen(r.X, r.X)
	b.changed()
}

// widen moves the bounds so that they include a range of features.
func (b *block) widen(low, high []float64) {
	for j, v := range low {
		if v < b.low[j] {
			b.low[j] = v
		}
		if v := high[j]; v > b.high[j] {
			b.high[j] = v
		}
	}
}

// changed notes that a row was added or removed.
func (b *block) changed() { b.isCurrent, b.limits = false, nil }

// moments returns the moments of the block, by the window's class numbers.
func (b *block) moments(ctx context.Context, by *accumulator) (*rowMoments, error) {
	if b.isCurrent {
		return b.cached, nil
	}
	by.reuse(b.cached)
	b.cached = nil
	var others *rowMoments
	if b.unstored != nil {
		others = b.unstored.moments
	}
	s, err := by.sum(ctx, b.rows, others)
	if err == nil && others != nil {
		s, err = merge([]*rowMoments{others, s}, by.newSet())
	}
	if err != nil {
		return nil, err
	}
	b.cached, b.isCurrent = s, true
	return s, nil
}

// sum returns the moments of the rows that enter fits. others are the moments of the other rows of their block, or nil.
func (s *accumulator) sum(ctx context.Context, rows []*Row, others *rowMoments) (*rowMoments, error) {
	impute := imputer{}
	if s.mapping.Dim == 0 { // a mapping replaces missing features by the mean that its models have
		impute = newImputer(rows, others)
	}
	set := &rowMoments{s.newSet(), impute.absent}
	x, y := make([][]float64, 0, min(len(rows), pauseRows)), make([]int, 0, min(len(rows), pauseRows))
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := rows[:min(len(rows), pauseRows)]
		rows = rows[len(part):]
		x, y = x[:0], y[:0]
		for _, r := range part {
			if r.isFitted() {
				x, y = append(x, r.fitted()), append(y, r.class)
				if r.hasMissing && impute.mean != nil {
					x[len(x)-1] = slices.Clone(x[len(x)-1])
					impute.fill(x[len(x)-1])
				}
			}
		}
		classes := y
		if !s.labelled {
			classes = nil
		}
		if err := s.add(ctx, set.Set, x, classes); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// add adds mapped rows to a set.
func (s *accumulator) add(ctx context.Context, set *moments.Set, x [][]float64, y []int) error {
	if s.mapping.Dim == 0 {
		return set.AddRows(ctx, x, y)
	}
	phi := make([]float64, len(x)*s.mapping.Dim)
	if err := s.mapping.Map(ctx, phi, x); err != nil {
		return err
	}
	return set.Add(ctx, phi, y)
}

// sumRows is how many rows of a summary are summed per call: the shift of its moments is the mean of the first ones.
const sumRows = 1024

// pauseRows is how many rows of a block are summed per call. Learning may pause between calls, which take 1 ms with 256
// features.
const pauseRows = 256

// find returns the index of a position in ordered rows, or where it would be inserted.
func find(rows []*Row, p Position) (int, bool) {
	n := len(rows)
	if n == 0 {
		return 0, false
	}
	// The usual cases: the newest row, one that has just arrived, and the oldest row.
	switch after := -rows[n-1].Compare(p); {
	case after > 0:
		return n, false
	case after == 0:
		return n - 1, true
	case n > recentRows && rows[n-recentRows].Compare(p) <= 0:
		i, found := search(rows[n-recentRows:], p)
		return n - recentRows + i, found
	case rows[0].Compare(p) == 0:
		return 0, true
	}
	return search(rows, p)
}

// recentRows is the number of the newest rows among which a position is looked for first.
const recentRows = 32

func search(rows []*Row, p Position) (int, bool) {
	return slices.BinarySearchFunc(rows, p, func(r *Row, p Position) int { return r.Compare(p) })
}
