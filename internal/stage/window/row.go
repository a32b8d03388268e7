package window

import "slices"

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

// exclusion is the reason why a row enters no fit.
type exclusion uint8

const (
	included    exclusion = iota
	sparseClass           // its class has too few rows
	outlier               // it is set aside
	removed               // it has left the window
)

// IsIncluded reports whether the row is in its window and enters fits and scores, as of the last Sift. Rows with an
// extreme value may enter fits, within limits, but no scores.
func (r *Row) IsIncluded() bool { return r.excluded == included && !r.hasExtreme }

// IsHeldOut reports whether the row is held out: no fit sees it, so it is fair to all models. Only if its class has
// hardly any other rows do fits see it too.
func (r *Row) IsHeldOut() bool { return r.isHeldOut }

func (r *Row) isFitted() bool { return (!r.isHeldOut || r.isLent) && r.excluded == included }

// IsUnseen reports whether no fit sees the row, as of the last Sift, although it enters scores.
func (r *Row) IsUnseen() bool { return r.isHeldOut && !r.isLent && r.IsIncluded() }

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

// Neighbourhood returns the range of positions, from inclusive, to exclusive, of the row's stretch and the two next to
// it.
func (r *Row) Neighbourhood() (from, to Position) { return r.stretch().neighbourhood(r.Position) }

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
