package window

import (
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

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

// countFitted adds the rows of a block from one on that enter fits to the counts by class, as of the last Sift.
func (b *block) countFitted(lent []bool, from int, count []int) (n int) {
	if from > 0 {
		for _, r := range b.rows[from:] {
			if r.isFitted() {
				count[r.class]++
				n++
			}
		}
		return n
	}
	for _, of := range b.tallies {
		fitted := int(of.fitted)
		if lent[of.class] {
			fitted += int(of.heldOut)
		}
		count[of.class] += fitted
		n += fitted
	}
	return n
}

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

// accumulator makes moments of rows.
type accumulator struct {
	features int
	labelled bool
	mapping  Mapping // Dim 0: rows are summed as they are

	unused []*moments.Set // memory of later sums
}

// Mapping maps features to the Dim columns of which moments are made.
type Mapping struct {
	Dim int
	Map func(ctx context.Context, dst []float64, rows [][]float64) error
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

// pauseRows is how many rows of a block are summed per call. Learning may pause between calls, which take 1 ms with 256
// features.
const pauseRows = 256

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
