package frame

import (
	"fmt"
)

// What methods that look at nearest rows have in common: lists with their
// lengths settled, and the forms of a graph.

func TwoColumns(*Task) int { return 2 }

func EveryColumn(t *Task) (int, string) { return t.Columns, RankOfTotal }

// ClassDirections is min(C-1, m), the directions that class means span at most.
func ClassDirections(t *Task) int { return min(t.Stat.Classes()-1, t.Columns) }

func DiscriminantBound(t *Task) (int, string) {
	if c := t.Stat.Classes() - 1; c <= t.Columns {
		return c, fmt.Sprintf("the %%d discriminant directions of %d classes (C-1)", c+1)
	}
	return t.Columns, RankOfTotal
}

func RowsLessOne(t *Task) (int, string) { return t.Rows.N - 1, "%d, the rows less one" }

const RankOfTotal = "rank %d of the total scatter"
