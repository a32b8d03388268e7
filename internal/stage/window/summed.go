package window

import "slices"

// With Config.Summaries rows arrive and leave in blocks. Most rows of a block are not stored: only their sums are.

// unstoredRows are the rows of a block that are only in moments.
type unstoredRows struct {
	counts  []int // by the window's class number
	total   int
	moments *rowMoments // of the rows that enter fits, by the window's class numbers
	newest  int64       // time of the block's newest row
	bytes   int64
}

// AddSummary adds a summary, which the window owns from now on. Summaries must arrive in order: one that is not after
// the newest is [Duplicate], one without rows is [Old].
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
	s.holdOut(w.holdout)
	b := newBlock(w.config.Features)
	b.unstored = &unstoredRows{moments: &rowMoments{s.Moments, s.Absent}}
	for _, r := range s.Rows {
		most := w.config.Classes
		if _, many := slices.BinarySearch(s.Classes, r.Label); many {
			most = 0 // its sums cannot be removed; there are few classes with so many rows
		}
		c, ok := w.classes.number(r.Label, most)
		if !ok {
			continue
		}
		row := &r
		row.Label, row.class, row.excluded = w.classes.names[c], c, included
		row.markMissing()
		w.classify(row)
		w.classes.insert(row)
		b.add(len(b.rows), row)
		b.unstored.newest = max(b.unstored.newest, r.Time)
	}
	if len(b.rows) == 0 {
		return OverClassLimit
	}
	to := make([]int, len(s.Classes))
	for i, label := range s.Classes {
		to[i] = w.classes.index[label]
		b.countUnstored(to[i], s.Summed[i])
	}
	if w.config.Labelled {
		b.unstored.moments.Relabel(to[:min(len(to), b.unstored.moments.Classes())])
	}
	b.unstored.bytes = w.config.summaryBytes(len(b.rows), len(s.Classes))
	w.blocks = append(w.blocks, b)
	w.countBlock(b, 1)
	w.newest = max(w.newest, b.unstored.newest)
	for len(w.blocks) > 1 && w.isFull() {
		w.dropFirst()
	}
	return Added
}

// countUnstored counts rows of a class that are only in moments.
func (b *block) countUnstored(class, rows int) {
	for len(b.unstored.counts) <= class {
		b.unstored.counts = append(b.unstored.counts, 0)
	}
	b.unstored.counts[class] += rows
	b.unstored.total += rows
}

// countFitted counts the rows that enter fits by class.
func (s *unstoredRows) countFitted(count []int) (n int) {
	for c := -1; c < s.moments.Classes(); c++ {
		rows := int(s.moments.Count(c))
		if n += rows; c >= 0 {
			count[c] += rows
		}
	}
	return n
}

// isFull reports whether the oldest block has to leave.
func (w *Window) isFull() bool {
	first := w.blocks[0].unstored
	return w.Len() > w.maxRows || w.config.Bytes > 0 && w.bytes > w.config.Bytes ||
		w.config.Age > 0 && w.newest-first.newest > int64(w.config.Age)
}

// countBlock adds the rows of a block, or with sign -1 subtracts them.
func (w *Window) countBlock(b *block, sign int) {
	w.changed = true
	w.blockList.count += sign * len(b.rows)
	w.summedRows += sign * b.unstored.total
	w.bytes += int64(sign) * b.unstored.bytes
	for c, n := range b.unstored.counts {
		for len(w.classes.summedRows) <= c {
			w.classes.summedRows = append(w.classes.summedRows, 0)
		}
		w.classes.summedRows[c] += sign * n
	}
}

func (w *Window) dropFirst() {
	b := w.blocks[0]
	w.drop(0)
	for _, r := range b.rows {
		w.classes.remove(r)
	}
	w.countBlock(b, -1)
}

// cutBlocks removes the blocks that begin before a position, except the newest.
func (w *Window) cutBlocks(p Position) {
	for len(w.blocks) > 1 && w.blocks[0].rows[0].Compare(p) < 0 {
		w.dropFirst()
	}
	if len(w.blocks) > 0 && w.blocks[0].rows[0].Compare(p) < 0 {
		p = w.blocks[0].rows[0].Position
	}
	w.start = p
}

// summaryBytes is the memory of a block: its stored rows, their moments and the sums, and the copy of the rows that a
// fit makes.
func (c Config) summaryBytes(rows, classes int) int64 {
	m := int64(c.Features)
	row := 9*m + rowOverhead
	if c.Copies {
		row += 8 * m
	}
	return int64(rows)*row + 2*8*m*(m+int64(classes))
}
