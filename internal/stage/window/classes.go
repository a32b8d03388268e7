package window

import "slices"

// classes numbers labels and holds the rows of each class, oldest first. The number of a class without rows is reused.
type classes struct {
	names    []string
	index    map[string]int
	rows     [][]*Row
	nonEmpty int
	// by class: it enters fits, as of the last Window.Sift
	included []bool
	// by class: fits see its held-out rows too, as of the last Window.Sift
	lent []bool
	// by class: rows by source; nil if sources have no quota
	sources    []map[string]int
	summedRows []int // by class: rows that are only in sums
}

// number returns the number of a label. A new class gets one unless there are already as many as the maximum, if that
// is not 0.
func (t *classes) number(label string, most int) (int, bool) {
	if c, ok := t.index[label]; ok {
		return c, true
	}
	if most > 0 && t.nonEmpty >= most {
		return 0, false
	}
	for c, rows := range t.rows {
		if len(rows) == 0 {
			delete(t.index, t.names[c])
			t.names[c], t.index[label] = label, c
			if c < len(t.included) {
				t.included[c] = false
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
		t.nonEmpty++
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
	r.excluded = removed
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
		t.nonEmpty--
	}
}

// size is the number of rows of a class, including those that are only in sums.
func (t *classes) size(c int) int {
	n := len(t.rows[c])
	if c < len(t.summedRows) {
		n += t.summedRows[c]
	}
	return n
}

// ofAtLeast is the number of classes with so many rows.
func (t *classes) ofAtLeast(rows int) (n int) {
	for c := range t.rows {
		if t.size(c) >= rows {
			n++
		}
	}
	return n
}

// below is the number of rows of classes that have fewer rows than least.
func (t *classes) below(least int) (n int) {
	for c := range t.rows {
		if size := t.size(c); size < least {
			n += size
		}
	}
	return n
}

const (
	// usualFraction is the part of the usual size of a class that a class needs to enter fits.
	usualFraction = 5
	// minClassRows is the number of rows that a class needs at least: one row has no spread.
	minClassRows = 2
)

// minRows is how many rows a class needs to enter a fit: a fifth of the size of the class of the median row, at least
// two, and never more than sufficientRows. A label that was seen a few times, while other classes have hundreds of
// rows, may be no class at all. Labels with fewer than firstModelRows rows do not count for the median if there are two
// larger classes.
func (t *classes) minRows(labelled bool) int {
	if !labelled {
		return 0
	}
	var rows [usualFraction * sufficientRows]int // by size of their class
	more, all, classes := 0, 0, 0
	for c := range t.rows {
		n := t.size(c)
		if n < firstModelRows {
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
		return minClassRows
	}
	if 2*more > all {
		return sufficientRows
	}
	below := 0
	for n, of := range rows {
		if below += of; 2*below >= all {
			return max(n/usualFraction, minClassRows)
		}
	}
	return sufficientRows
}

// include determines which classes enter fits, and reports whether that has changed.
func (t *classes) include(labelled bool) (changed bool) {
	before, least := slices.Clone(t.included), t.minRows(labelled)
	t.included = t.included[:0]
	for c := range t.rows {
		t.included = append(t.included, t.size(c) >= least)
	}
	return !slices.Equal(before, t.included)
}

// leastRecent returns, of the classes with fewer than sufficientRows rows, the one whose newest row is the oldest, -1
// if there is none, and the number of rows of all these classes.
func (t *classes) leastRecent() (class, n int) {
	class = -1
	newest := func(c int) Position { return t.rows[c][len(t.rows[c])-1].Position }
	for c, rows := range t.rows {
		if len(rows) == 0 || len(rows) >= sufficientRows {
			continue
		}
		n += len(rows)
		if class < 0 || newest(c).Compare(newest(class)) < 0 {
			class = c
		}
	}
	return class, n
}

// classesOf is the number of classes that a source has rows of.
func (t *classes) classesOf(source string) (n int) {
	for _, s := range t.sources {
		if s[source] > 0 {
			n++
		}
	}
	return n
}

// fairQuota is FairQuota of the classes.
func (t *classes) fairQuota(most int) int {
	counts := make([]int, 0, len(t.rows))
	for _, rows := range t.rows {
		if len(rows) > 0 {
			counts = append(counts, len(rows))
		}
	}
	return FairQuota(counts, most)
}

// FairQuota is the largest number of rows per class with which classes of so many rows have at most a given number of
// rows together; at least one. It sorts the counts.
func FairQuota(counts []int, most int) int {
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

// sorted lists the counted labels in order, and the index of each class number in that list, or -1.
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

// lend determines which held-out rows fits see: those of classes of which less than half of the rows, and fewer than
// sufficientRows, are not held out. The rows of a short run, or the first rows of a stream, may be in one stretch. all
// are the rows by class. It calls changed for rows for which this has changed.
func (t *classes) lend(all []tally, changed func(*Row)) {
	for len(t.lent) < len(t.rows) {
		t.lent = append(t.lent, false)
	}
	for c, rows := range t.rows {
		fitted, heldOut := int(all[c].fitted), int(all[c].heldOut)
		lent := fitted+t.size(c)-len(rows) < min(sufficientRows, (fitted+heldOut+1)/2)
		if !lent && !t.lent[c] { // new rows are not lent
			continue
		}
		t.lent[c] = lent
		for _, r := range rows {
			if r.isHeldOut && r.isLent != lent {
				r.isLent = lent
				changed(r)
			}
		}
	}
}

// keptRows is the number of rows of a class that a cut keeps, and that a suffix has, until there are sufficientRows
// newer ones: a class that comes in long runs is not forgotten between two of them. Of a class with fewer than
// sufficientRows rows a cut keeps none, as of the next Sift.
const keptRows = 30

// replaced is the number of rows of a class before the start that newer ones replace.
func (t *classes) replaced(class int, start Position) int {
	rows := t.rows[class]
	if len(rows) == 0 || rows[0].Compare(start) >= 0 {
		return 0 // the usual case
	}
	before, _ := find(rows, start)
	if newer := len(rows) - before; newer < sufficientRows {
		return max(len(rows)-keptRows, 0)
	}
	return before
}

// dropFew removes the rows from before the start of classes that have few of them.
func dropFew(w *Window) {
	for c, rows := range w.classes.rows {
		if before, _ := find(rows, w.start); before < sufficientRows {
			for range before {
				w.remove(w.classes.rows[c][0])
			}
		}
	}
}

// absent returns the newest rows before a position of the classes that have too few from there on, and counts them.
func (t *classes) absent(count []int, first Position) (kept []*Row) {
	for c, rows := range t.rows {
		if count[c] >= sufficientRows || c >= len(t.included) || !t.included[c] {
			continue
		}
		before, _ := find(rows, first)
		for i := before - 1; i >= 0 && count[c] < keptRows; i-- {
			if rows[i].isFitted() {
				kept = append(kept, rows[i])
				count[c]++
			}
		}
	}
	slices.SortFunc(kept, func(a, b *Row) int { return a.Compare(b.Position) })
	return kept
}
