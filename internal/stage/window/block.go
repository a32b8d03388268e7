package window

import (
	"context"
	"errors"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// Row is one row. The window owns X, which nobody changes after it was added.
type Row struct {
	Position
	Time   int64     // of its message, nanoseconds
	Label  string    // "" in a window without labels
	Source string    // who sent it, for messages; the same text for many rows
	X      []float64 // m

	class int
	held  bool
	out   out
	told  bool // it was counted as far
}

// Enters tells whether the row is one that fits are made from and judged by, as of the last Sift.
func (r *Row) Enters() bool { return r.out == in }

func (r *Row) learned() bool { return !r.held && r.out == in }

// Held tells whether the row is held out: no fit sees it, so it judges all models alike.
func (r *Row) Held() bool { return r.held }

// block is a run of rows. It begins with a row whose position draws a border, so its borders are a function of the
// rows that are there: where rows have become sparse, so have borders, and blocks keep their size.
type block struct {
	rows   []*Row
	sum    *moments.Set // of the rows that fits are made from; nil where those changed
	beside *beside      // nil: all rows are there; see AddSummary
}

// Lift makes the features that moments are of out of those of rows: Dim of each row, side by side.
type Lift struct {
	Dim int
	Map func(ctx context.Context, dst []float64, rows [][]float64) error
}

// summing is how rows are summed up.
type summing struct {
	features int
	labelled bool
	lift     Lift // Dim 0: rows are summed as they are
}

func (s *summing) dim() int {
	if s.lift.Dim > 0 {
		return s.lift.Dim
	}
	return s.features
}

// moments of the block, by the window's class numbers.
func (b *block) moments(ctx context.Context, by *summing) (*moments.Set, error) {
	if b.sum != nil {
		return b.sum, nil
	}
	s, err := by.sum(ctx, b.rows)
	if err != nil {
		return nil, err
	}
	if b.beside != nil {
		rows := s
		s = moments.New(by.dim(), false)
		if err := errors.Join(s.Merge(b.beside.sum), s.Merge(rows)); err != nil {
			return nil, err
		}
	}
	b.sum = s
	return s, nil
}

// sum is the moments of rows, in their order, of those that fits are made from.
func (s *summing) sum(ctx context.Context, rows []*Row) (*moments.Set, error) {
	set := moments.New(s.dim(), false)
	x, y := make([][]float64, 0, min(len(rows), restRows)), make([]int, 0, min(len(rows), restRows))
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := rows[:min(len(rows), restRows)]
		rows = rows[len(part):]
		x, y = x[:0], y[:0]
		for _, r := range part {
			if r.learned() {
				x, y = append(x, r.X), append(y, r.class)
			}
		}
		classes := y
		if !s.labelled {
			classes = nil
		}
		if err := s.add(ctx, set, x, classes); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// add adds rows to a set.
func (s *summing) add(ctx context.Context, set *moments.Set, x [][]float64, y []int) error {
	if s.lift.Dim == 0 {
		return set.AddRows(ctx, x, y)
	}
	phi := make([]float64, len(x)*s.lift.Dim)
	if err := s.lift.Map(ctx, phi, x); err != nil {
		return err
	}
	return set.Add(ctx, phi, y, nil)
}

// sumRows is how many rows of a summary are summed at a time: the shift of its moments is the mean of the first.
const sumRows = 1024

// restRows are as many of a block: between two parts learning may rest, which with 256 features is after a millisecond.
const restRows = 256

// find is where a position stands, or would, among rows in order.
func find(rows []*Row, p Position) (int, bool) {
	if n := len(rows); n > 0 && rows[n-1].Compare(p) < 0 {
		return n, false // the usual case: the newest row
	}
	return slices.BinarySearchFunc(rows, p, func(r *Row, p Position) int { return r.Compare(p) })
}
