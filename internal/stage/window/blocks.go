package window

import "slices"

// blockList holds rows in the order of their positions, in blocks. A row whose draw is below the border begins a block.
type blockList struct {
	blocks []*block
	count  int
	border uint64
	sample [][]float64 // scratch memory of sampleOf
}

// Oldest returns the position of the oldest row; reading from its message on fills the window again. It is false if the
// window is empty.
func (l *blockList) Oldest() (Position, bool) {
	if r := l.oldest(); r != nil {
		return r.Position, true
	}
	return Position{}, false
}

// Back returns the position of the n-th newest row, or of the oldest if there are fewer. The list must not be empty.
func (l *blockList) Back(n int) Position {
	for i := len(l.blocks) - 1; i >= 0; i-- {
		rows := l.blocks[i].rows
		if n <= len(rows) {
			return rows[len(rows)-max(n, 1)].Position
		}
		n -= len(rows)
	}
	return l.blocks[0].rows[0].Position
}

// At returns the row at a position, nil if there is none.
func (l *blockList) At(p Position) *Row {
	if at, i, there := l.find(p); there {
		return l.blocks[at].rows[i]
	}
	return nil
}

// All calls f for each row, oldest first, until f returns false.
func (l *blockList) All(f func(*Row) bool) {
	for _, b := range l.blocks {
		for _, r := range b.rows {
			if !f(r) {
				return
			}
		}
	}
}

// oldest is the oldest row, nil if there is none.
func (l *blockList) oldest() *Row {
	if len(l.blocks) == 0 {
		return nil
	}
	return l.blocks[0].rows[0]
}

// find returns the block and index of a position, or where it would be inserted.
func (l *blockList) find(p Position) (at, i int, there bool) {
	at = len(l.blocks) - 1
	if at < 0 {
		return 0, 0, false
	}
	if l.blocks[at].rows[0].Compare(p) > 0 {
		at, there = slices.BinarySearchFunc(l.blocks, p, func(b *block, p Position) int { return b.rows[0].Compare(p) })
		if there {
			return at, 0, true
		}
		at = max(at-1, 0)
	}
	i, there = find(l.blocks[at].rows, p)
	return at, i, there
}

// insert adds a row.
func (l *blockList) insert(r *Row) {
	l.count++
	begins := r.draw(drawBorder) < l.border
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, newBlock(len(r.X), r))
		return
	}
	at, i, _ := l.find(r.Position)
	b := l.blocks[at]
	switch {
	case i == 0: // before all rows: the first block need not begin with a border
		if l.border > b.rows[0].draw(drawBorder) {
			l.blocks = slices.Insert(l.blocks, 0, newBlock(len(r.X), r))
			return
		}
		b.add(0, r)
	case begins:
		rest := newBlock(len(r.X), append([]*Row{r}, b.rows[i:]...)...)
		clear(b.rows[i:])
		if i < len(b.rows) {
			b.changed()
		}
		b.rows = b.rows[:i]
		l.blocks = slices.Insert(l.blocks, at+1, rest)
	default:
		b.add(i, r)
	}
}

// sampledBlocks returns the range of the blocks that the sample for the limits of a block is from, from inclusive, to
// exclusive: if its rows are few, also blocks before it, and blocks after it if the rows of those are few too.
func (l *blockList) sampledBlocks(at int) (from, to int) {
	from, to = at, at+1
	n := len(l.blocks[at].rows)
	for ; from > 0 && n < sampledForLimits; from-- {
		n += len(l.blocks[from-1].rows)
	}
	for ; to < len(l.blocks) && n < sampledForLimits; to++ {
		n += len(l.blocks[to].rows)
	}
	return from, to
}

// sampleOf returns a sample of the rows of a block and of those next to it, for its limits. The next call overwrites
// it.
func (l *blockList) sampleOf(at int) [][]float64 {
	rows := l.blocks[at].rows
	from, to := l.sampledBlocks(at)
	sample := l.sample[:0]
	defer func() { l.sample = sample }()
	if bound := drawLimit(sampledForLimits / float64(len(rows))); len(rows) > sampledForLimits {
		for _, r := range rows {
			if r.draw(drawStats) <= bound {
				sample = append(sample, r.X)
			}
		}
		return sample
	}
	for _, r := range rows {
		sample = append(sample, r.X)
	}
	for b := at - 1; b >= from; b-- {
		before := l.blocks[b].rows
		for _, r := range before[max(len(before)-sampledForLimits+len(sample), 0):] {
			sample = append(sample, r.X)
		}
	}
	for b := at + 1; b < to; b++ {
		for _, r := range l.blocks[b].rows[:min(len(l.blocks[b].rows), sampledForLimits-len(sample))] {
			sample = append(sample, r.X)
		}
	}
	return sample
}

// remove removes a row.
func (l *blockList) remove(r *Row) {
	l.count--
	at, i, _ := l.find(r.Position)
	b := l.blocks[at]
	if i == 0 {
		b.rows[0] = nil
		b.rows = b.rows[1:]
	} else {
		b.rows = slices.Delete(b.rows, i, i+1)
	}
	b.changed()
	switch {
	case len(b.rows) == 0:
		l.drop(at)
	case i == 0 && at > 0 && b.rows[0].draw(drawBorder) >= l.border:
		// The block has lost its border: its rows belong to the block before.
		before := l.blocks[at-1]
		before.rows = append(before.rows, b.rows...)
		before.widen(b.low, b.high)
		before.changed()
		l.drop(at)
	}
}

// drop removes a block. The limits of those next to it may be from its rows.
func (l *blockList) drop(at int) {
	l.blocks = slices.Delete(l.blocks, at, at+1)
	for _, b := range l.blocks[max(at-1, 0):min(at+1, len(l.blocks))] {
		b.limits = nil
	}
}

// blockBack is the first block of the newest n rows, or the first of all.
func (l *blockList) blockBack(n int) int {
	for at := len(l.blocks) - 1; at > 0; at-- {
		if n -= len(l.blocks[at].rows) + l.blocks[at].unstored.total; n <= 0 {
			return at
		}
	}
	return 0
}

// copyRows copies the rows from row i of block at on to a suffix, after those of absent classes.
func (l *blockList) copyRows(s *Suffix, absent []*Row, at, i int, to []int) {
	s.X, s.Y = make([]float64, 0, s.Rows*len(l.blocks[at].rows[0].X)), make([]int, 0, s.Rows)
	missing := false
	add := func(rows []*Row) {
		for _, r := range rows {
			if r.isFitted() {
				s.X, s.Y = append(s.X, r.fitted()...), append(s.Y, to[r.class])
				missing = missing || r.hasMissing
			}
		}
	}
	add(absent)
	for b, from := at, i; b < len(l.blocks); b, from = b+1, 0 {
		add(l.blocks[b].rows[from:])
	}
	if missing {
		s.fillAbsent()
	}
}
