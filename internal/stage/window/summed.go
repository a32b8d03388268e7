package window

import (
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// A window of summaries: rows come a block at a time and leave a block at a time, and of most there is but the sum.

// beside is what a block has of rows that are not there themselves.
type beside struct {
	rows   []int // of each class, by the window's numbers
	all    int
	sum    *moments.Set // of those that fits are made from, by the window's numbers
	newest int64        // time of the block's newest row
	bytes  int64
}

// AddSummary takes a summary, which the window owns from now on. Summaries come in order; one that is not behind the
// newest is [Duplicate], one without rows is [Old].
func (w *Window) AddSummary(s *Summary) Outcome {
	if len(s.Rows) == 0 || s.Rows[0].Compare(w.start) < 0 {
		return Old
	}
	if n := len(w.blocks); n > 0 {
		last := w.blocks[n-1].rows
		if last[len(last)-1].Compare(s.Rows[0].Position) >= 0 {
			return Duplicate
		}
	}
	b := &block{beside: &beside{sum: s.Moments}}
	for _, r := range s.Rows {
		most := w.config.Classes
		if _, many := slices.BinarySearch(s.Classes, r.Label); many {
			most = 0 // what is summed cannot be taken out again; such classes have many rows, so they are few
		}
		c, ok := w.classes.number(r.Label, most)
		if !ok {
			continue
		}
		row := &r
		row.Label, row.class, row.out = w.classes.names[c], c, in
		if !s.placed {
			row.held = r.draw(drawHeld) < w.held
		}
		w.place(row)
		w.classes.insert(row)
		b.rows = append(b.rows, row)
		b.beside.newest = max(b.beside.newest, r.Time)
	}
	if len(b.rows) == 0 {
		return Overfull
	}
	to := make([]int, len(s.Classes))
	for i, label := range s.Classes {
		to[i] = w.classes.index[label]
		b.besides(to[i], s.Beside[i])
	}
	if w.config.Labelled {
		b.beside.sum.Relabel(to[:min(len(to), b.beside.sum.Classes())])
	}
	b.beside.bytes = w.config.summedBytes(len(b.rows), len(s.Classes))
	w.blocks = append(w.blocks, b)
	w.count(b, 1)
	w.newest = max(w.newest, b.beside.newest)
	for len(w.blocks) > 1 && w.full() {
		w.dropFirst()
	}
	return Taken
}

// besides counts rows of a class.
func (b *block) besides(class, rows int) {
	for len(b.beside.rows) <= class {
		b.beside.rows = append(b.beside.rows, 0)
	}
	b.beside.rows[class] += rows
	b.beside.all += rows
}

// learned counts the rows that fits are made from, by their classes.
func (s *beside) learned(count []int) (n int) {
	for c := -1; c < s.sum.Classes(); c++ {
		rows := int(s.sum.Count(c))
		if n += rows; c >= 0 {
			count[c] += rows
		}
	}
	return n
}

// full tells whether the oldest block has to go.
func (w *Window) full() bool {
	first := w.blocks[0].beside
	return w.Len() > w.maxRows || w.config.Bytes > 0 && w.bytes > w.config.Bytes ||
		w.config.Age > 0 && w.newest-first.newest > int64(w.config.Age)
}

// count adds a block to what there is of rows, or takes it off.
func (w *Window) count(b *block, sign int) {
	w.changed = true
	w.blockList.rows += sign * len(b.rows)
	w.beside += sign * b.beside.all
	w.bytes += int64(sign) * b.beside.bytes
	for c, n := range b.beside.rows {
		for len(w.classes.beside) <= c {
			w.classes.beside = append(w.classes.beside, 0)
		}
		w.classes.beside[c] += sign * n
	}
}

func (w *Window) dropFirst() {
	b := w.blocks[0]
	w.blocks = slices.Delete(w.blocks, 0, 1)
	for _, r := range b.rows {
		w.classes.remove(r)
	}
	w.count(b, -1)
}

// cutBlocks leaves out the blocks that begin before a position, but for the newest.
func (w *Window) cutBlocks(p Position) {
	for len(w.blocks) > 1 && w.blocks[0].rows[0].Compare(p) < 0 {
		w.dropFirst()
	}
	if len(w.blocks) > 0 && w.blocks[0].rows[0].Compare(p) < 0 {
		p = w.blocks[0].rows[0].Position
	}
	w.start = p
}

// summedBytes is the memory of a block of a summary: its rows, their moments and those of the rest, and a copy of the
// rows that a fit makes.
func (c Config) summedBytes(rows, classes int) int64 {
	m := int64(c.Features)
	row := 9*m + rowOverhead
	if c.Copies {
		row += 8 * m
	}
	return int64(rows)*row + 2*8*m*(m+int64(classes))
}

// size is how many rows a class has, those beside counted.
func (t *classes) size(c int) int {
	n := len(t.rows[c])
	if c < len(t.beside) {
		n += t.beside[c]
	}
	return n
}
