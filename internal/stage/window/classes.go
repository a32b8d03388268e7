package window

import "slices"

// classes numbers the texts of labels and knows the rows of each, oldest first. A number is given again when its class
// has no rows left.
type classes struct {
	names []string
	index map[string]int
	rows  [][]*Row
	alive int
	// which enter fits, as of the last look; see Window.Sift
	enters []bool
	// rows of each by source; nil where sources have no quota
	sources []map[string]int
	beside  []int // rows of each that are in sums alone
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
			if c < len(t.enters) {
				t.enters[c] = false
			}
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
	if t.sources != nil {
		for len(t.sources) < len(t.rows) {
			t.sources = append(t.sources, map[string]int{})
		}
		t.sources[r.class][r.Source]++
	}
}

func (t *classes) remove(r *Row) {
	rows := t.rows[r.class]
	if t.sources != nil {
		n := t.sources[r.class]
		if n[r.Source]--; n[r.Source] == 0 {
			delete(n, r.Source)
		}
	}
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

// least is how many rows a class needs to enter a fit: a fifth of what is usual, which is how many the class of the
// median row has; two at least, and enoughRows always suffice. A label that was seen a few times beside classes of
// hundreds may be no class at all. Labels of less than fewRows do not say what is usual where there are two classes of
// more.
func (t *classes) least(labelled bool) int {
	if !labelled {
		return 0
	}
	var rows [5 * enoughRows]int // in classes of so many
	more, all, classes := 0, 0, 0
	for c := range t.rows {
		n := t.size(c)
		if n < fewRows {
			continue
		}
		all, classes = all+n, classes+1
		if n < len(rows) {
			rows[n] += n
		} else {
			more += n
		}
	}
	if classes < 2 {
		return 2
	}
	if 2*more > all {
		return enoughRows
	}
	below := 0
	for n, of := range rows {
		if below += of; 2*below >= all {
			return max(n/5, 2)
		}
	}
	return enoughRows
}

// forgotten is the class of fewer than enoughRows rows whose newest row is the oldest, -1 where there is none, and how
// many rows all such classes have.
func (t *classes) forgotten() (class, n int) {
	class = -1
	for c, rows := range t.rows {
		if len(rows) == 0 || len(rows) >= enoughRows {
			continue
		}
		n += len(rows)
		if class < 0 || t.before(c, class) {
			class = c
		}
	}
	return class, n
}

// before tells whether the newest row of class c is older than that of class d.
func (t *classes) before(c, d int) bool {
	newest := func(c int) Position { return t.rows[c][len(t.rows[c])-1].Position }
	return newest(c).Compare(newest(d)) < 0
}

// of is the number of classes that a source has rows of.
func (t *classes) of(source string) (n int) {
	for _, s := range t.sources {
		if s[source] > 0 {
			n++
		}
	}
	return n
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
