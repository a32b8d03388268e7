package window

import "slices"

// classes numbers the texts of labels and knows the rows of each, oldest first. A number is given again when its class
// has no rows left.
type classes struct {
	names []string
	index map[string]int
	rows  [][]*Row
	alive int
}

// number is that of a label, which a new class gets unless it would be one too many.
func (t *classes) number(label string, most int) (int, bool) {
	if c, ok := t.index[label]; ok {
		return c, true
	}
	if most > 0 && t.alive >= most {
		return 0, false
	}
	for c, rows := range t.rows {
		if len(rows) == 0 {
			delete(t.index, t.names[c])
			t.names[c], t.index[label] = label, c
			return c, true
		}
	}
	c := len(t.names)
	t.names, t.rows, t.index[label] = append(t.names, label), append(t.rows, nil), c
	return c, true
}

func (t *classes) insert(r *Row) {
	rows := t.rows[r.class]
	if len(rows) == 0 {
		t.alive++
	}
	i, _ := find(rows, r.Position)
	t.rows[r.class] = slices.Insert(rows, i, r)
}

func (t *classes) remove(r *Row) {
	rows := t.rows[r.class]
	if i, _ := find(rows, r.Position); i == 0 {
		rows[0] = nil
		t.rows[r.class] = rows[1:]
	} else {
		t.rows[r.class] = slices.Delete(rows, i, i+1)
	}
	if len(t.rows[r.class]) == 0 {
		t.rows[r.class] = nil
		t.alive--
	}
}

// single is the oldest row that is alone in its class, and how many such there are; nil where there is none.
func (t *classes) single() (oldest *Row, n int) {
	for _, rows := range t.rows {
		if len(rows) == 1 {
			n++
			if oldest == nil || rows[0].Compare(oldest.Position) < 0 {
				oldest = rows[0]
			}
		}
	}
	return oldest, n
}

// level is the most rows a class with which all together are at most so many; at least one.
func (t *classes) level(most int) int {
	counts := make([]int, 0, len(t.rows))
	for _, rows := range t.rows {
		if len(rows) > 0 {
			counts = append(counts, len(rows))
		}
	}
	slices.Sort(counts)
	for i, n := range counts {
		left := len(counts) - i
		if n*left > most {
			return max(most/left, 1)
		}
		most -= n
	}
	return max(counts[len(counts)-1], 1)
}

// sorted lists the labels that are counted, sorted, and where each class number goes; -1: nowhere.
func (t *classes) sorted(count []int) (names []string, to []int) {
	for c, n := range count {
		if n > 0 {
			names = append(names, t.names[c])
		}
	}
	slices.Sort(names)
	to = make([]int, len(t.names))
	for c, n := range count {
		to[c] = -1
		if n > 0 {
			to[c], _ = slices.BinarySearch(names, t.names[c])
		}
	}
	return names, to
}
