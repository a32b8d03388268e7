package frame

import (
	"fmt"
)

// MaxDim is the largest dimension that the rows allow, and a format that explains it.
func (m *Method) MaxDim(t *Task) (int, string) {
	if m.Bound == nil {
		return t.Columns, RankOfTotal
	}
	return m.Bound(t)
}

// ClassDirections is min(C-1, m), the most directions that class means span.
func ClassDirections(t *Task) int { return min(t.Basis.Classes()-1, t.Columns) }

// DiscriminantBound bounds the dimension by C-1 and the rank of the total scatter.
func DiscriminantBound(t *Task) (int, string) {
	if c := t.Basis.Classes() - 1; c <= t.Columns {
		return c, fmt.Sprintf("the %%d discriminant directions of %d classes (C-1)", c+1)
	}
	return t.Columns, RankOfTotal
}

// RowsLessOne bounds the dimension by n-1.
func RowsLessOne(t *Task) (int, string) { return t.Rows.N - 1, "%d, the rows less one" }

// RankOfTotal explains a bound by the rank of the total scatter.
const RankOfTotal = "rank %d of the total scatter"
