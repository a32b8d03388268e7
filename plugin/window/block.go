package window

import (
	"context"
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
	rows []*Row
	sum  *moments.Set // of the rows that fits are made from; nil where those changed
}

// moments of the block, by the window's class numbers.
func (b *block) moments(ctx context.Context, m int, labelled bool) (*moments.Set, error) {
	if b.sum != nil {
		return b.sum, nil
	}
	s, err := sumOf(ctx, b.rows, m, labelled)
	if err != nil {
		return nil, err
	}
	b.sum = s
	return s, nil
}

// sumOf is the moments of rows, in their order, of those that fits are made from.
func sumOf(ctx context.Context, rows []*Row, m int, labelled bool) (*moments.Set, error) {
	s := moments.New(m, false)
	x, y := make([][]float64, 0, min(len(rows), sumRows)), make([]int, 0, min(len(rows), sumRows))
	for len(rows) > 0 {
		part := rows[:min(len(rows), sumRows)]
		rows = rows[len(part):]
		x, y = x[:0], y[:0]
		for _, r := range part {
			if r.learned() {
				x, y = append(x, r.X), append(y, r.class)
			}
		}
		classes := y
		if !labelled {
			classes = nil
		}
		if err := s.AddRows(ctx, x, classes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// sumRows is how many rows are summed at a time: the shift of the moments is the mean of the first.
const sumRows = 1024

// find is where a position stands, or would, among rows in order.
func find(rows []*Row, p Position) (int, bool) {
	if n := len(rows); n > 0 && rows[n-1].Compare(p) < 0 {
		return n, false // the usual case: the newest row
	}
	return slices.BinarySearchFunc(rows, p, func(r *Row, p Position) int { return r.Compare(p) })
}
