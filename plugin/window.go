package plugin

import (
	"math"
	"slices"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/moments"
)

// Position says where a message stands in its stream. Created is when the stream was made: one that was deleted and
// made again is another, and what it holds comes after. Seq is the sequence number, from 1; Time is the server's
// timestamp. A host without a stream counts its messages and takes its own clock.
type Position struct {
	Created time.Time
	Seq     uint64
	Time    time.Time
}

// Window bounds the rows that a fit sees.
type Window struct {
	Rows    int           // most rows
	Age     time.Duration // rows older than this, seen from the newest row, leave; 0: no bound
	Balance Balance       // default BalanceClass
}

// window is the bounded set of rows to learn from, in blocks in order of arrival. Each block keeps the moments of its
// own rows, so a refit from moments merges blocks and never subtracts: no rounding error grows with the age of the
// stream, and an evicted row is as if it had never been there.
type window struct {
	limit    Window
	holdout  float64
	m        int
	impute   bool // rows with a missing feature are learned from
	labelled bool // only rows with a label are learned from
	keep     bool // keep moments for the fit

	blocks  []*block
	classes classTable
	rows    int
	missing int // rows with a missing feature: while there are any, fits go by rows, not by moments
	newest  time.Time
}

// block is a run of messages. It closes at a message's end when it has enough rows, so the borders of blocks are a
// function of the stream alone, and a learner that reads again from the first message of a block makes the same
// blocks (Invariant 7).
type block struct {
	first, last uint64 // sequence numbers of its messages
	x           []float64
	y           []int
	at          []time.Time
	seq         []uint64
	held        []bool // held out: judges candidates, is not fitted by them
	gone        []bool
	alive       int
	closed      bool
	stats       [2]*moments.Set // of the rows to train on and the rows held out; nil where rows came or went since
}

// blockRows closes a block: enough rows that its moments take at most half as much memory as they.
func (w *window) blockRows() int { return max(1024, 4*w.m) }

// slot is one row of one block.
type slot struct {
	b *block
	i int
}

// classTable numbers class texts in order of arrival and queues the rows of each, oldest first.
type classTable struct {
	names []string
	index map[string]int
	rows  [][]slot
	count []int
	seen  []int // rows ever seen, for the holdout rotation
}

func newWindow(limit Window, m int) *window {
	return &window{limit: limit, m: m, classes: classTable{index: map[string]int{}}}
}

// add takes the rows of one message to learn from. It returns how many it took, and how many it had to leave because
// their class would exceed maxClasses.
func (w *window) add(at Position, batches []*arrowio.Batch, maxClasses int) (taken, overfull int) {
	b := w.open(at.Seq)
	for _, batch := range batches {
		faults := batch.Faults()
		for i := range batch.Rows() {
			if len(faults) > 0 && faults[0].Row == i {
				faults = faults[1:]
				if !w.impute {
					continue // the hot path gives no output for it either
				}
			}
			text, ok := "", true
			if w.labelled {
				if text, ok = batch.Label(i); !ok {
					continue
				}
			}
			c, ok := w.classes.id(text, maxClasses)
			if !ok {
				overfull++
				continue
			}
			w.put(b, batch, i, c, at)
			taken++
		}
	}
	if len(b.y) == 0 {
		b.first = 0 // a block begins with the first message that gave it a row
	}
	b.closed = len(b.y) >= w.blockRows()
	w.evict()
	return taken, overfull
}

func (w *window) open(seq uint64) *block {
	if n := len(w.blocks); n > 0 && !w.blocks[n-1].closed {
		b := w.blocks[n-1]
		if b.first == 0 {
			b.first = seq
		}
		b.last = seq
		return b
	}
	b := &block{first: seq, last: seq}
	w.blocks = append(w.blocks, b)
	return b
}

func (w *window) put(b *block, batch *arrowio.Batch, i, class int, at Position) {
	n := len(b.x)
	b.x = slices.Grow(b.x, w.m)[:n+w.m]
	gather(b.x[n:], batch.Features(), i)
	if !finite(b.x[n:]) {
		w.missing++
	}
	t := &w.classes
	t.seen[class]++
	held := int(float64(t.seen[class])*w.holdout) > int(float64(t.seen[class]-1)*w.holdout)
	t.rows[class] = append(t.rows[class], slot{b, len(b.y)})
	t.count[class]++
	b.y, b.at, b.seq = append(b.y, class), append(b.at, at.Time), append(b.seq, at.Seq)
	b.held, b.gone = append(b.held, held), append(b.gone, false)
	b.alive++
	b.stats[part(held)] = nil
	w.rows++
	if at.Time.After(w.newest) {
		w.newest = at.Time
	}
}

// evict drops rows until the window is within its bounds (Invariant 5).
func (w *window) evict() {
	if w.limit.Age > 0 {
		for c := range w.classes.rows {
			for w.classes.count[c] > 0 {
				s := w.classes.rows[c][0]
				if w.newest.Sub(s.b.at[s.i]) <= w.limit.Age {
					break
				}
				w.drop(c)
			}
		}
	}
	for w.rows > w.limit.Rows {
		w.drop(w.victim())
	}
	w.blocks = slices.DeleteFunc(w.blocks, func(b *block) bool { return b.closed && b.alive == 0 })
}

// victim is the class whose oldest row leaves next.
func (w *window) victim() int {
	best := -1
	for c, n := range w.classes.count {
		if n == 0 {
			continue
		}
		if best < 0 {
			best = c
			continue
		}
		switch {
		case w.limit.Balance == BalanceClass:
			if n > w.classes.count[best] {
				best = c
			}
		case older(w.classes.rows[c][0], w.classes.rows[best][0]):
			best = c
		}
	}
	return best
}

func older(a, b slot) bool {
	if a.b.first != b.b.first {
		return a.b.first < b.b.first
	}
	return a.i < b.i
}

func (w *window) drop(class int) {
	t := &w.classes
	s := t.rows[class][0]
	t.rows[class] = t.rows[class][1:]
	t.count[class]--
	b := s.b
	b.gone[s.i] = true
	b.alive--
	b.stats[part(b.held[s.i])] = nil
	w.rows--
	if !finite(b.x[s.i*w.m : (s.i+1)*w.m]) {
		w.missing--
	}
}

// trainable tells whether a supervised method could be fitted: two classes of two rows.
func (w *window) trainable(supervised bool) bool {
	if !supervised {
		return w.rows >= 2
	}
	n := 0
	for _, c := range w.classes.count {
		if c >= 2 {
			n++
		}
	}
	return n >= 2
}

// oldest is the sequence number from which a learner must read again to have this window.
func (w *window) oldest() uint64 {
	for _, b := range w.blocks {
		if b.alive > 0 {
			return b.first
		}
	}
	return 0
}

// rowBytes is the memory that a row takes, its share of the moments included.
func (w *window) rowBytes() int64 {
	n := int64(8*w.m + 72)
	if w.keep {
		n += int64(4 * w.m)
	}
	return n
}

// snapshot copies the rows out, in order of arrival, with the classes sorted by text: a function of which rows are
// there and of nothing else (Invariant 7).
func (w *window) snapshot() snapshot {
	names, remap := w.classes.sorted()
	s := snapshot{m: w.m, oldest: w.oldest()}
	if w.labelled {
		s.classes = names
	}
	for p := range s.part {
		s.part[p].x = make([]float64, 0, w.count(p)*w.m)
	}
	for _, b := range w.blocks {
		for i, gone := range b.gone {
			if gone {
				continue
			}
			p := &s.part[part(b.held[i])]
			p.x = append(p.x, b.x[i*w.m:(i+1)*w.m]...)
			p.y = append(p.y, remap[b.y[i]])
			p.order = append(p.order, s.rows)
			p.seq = append(p.seq, b.seq[i])
			s.rows++
		}
		s.last = max(s.last, b.last)
	}
	if w.keep && w.missing == 0 {
		s.stats, s.err = w.moments(remap)
	}
	return s
}

// moments merges those of the blocks: of the rows to train on, and of all rows. Only blocks whose rows changed are
// summed anew.
func (w *window) moments(remap []int) (out [2]*moments.Set, err error) {
	for i := range out {
		out[i] = moments.New(w.m, false)
	}
	for _, b := range w.blocks {
		for p := range b.stats {
			if b.stats[p] == nil {
				if b.stats[p], err = w.sum(b, p); err != nil {
					return out, err
				}
			}
			if err := out[everything].Merge(b.stats[p]); err != nil {
				return out, err
			}
			if p == part(false) {
				if err := out[trained].Merge(b.stats[p]); err != nil {
					return out, err
				}
			}
		}
	}
	if w.labelled {
		for i := range out {
			out[i].Relabel(remap)
		}
	}
	return out, nil
}

// sum is the moments of one part of a block, in order of arrival.
func (w *window) sum(b *block, p int) (*moments.Set, error) {
	var x []float64
	var y []int
	for i, gone := range b.gone {
		if !gone && part(b.held[i]) == p {
			x = append(x, b.x[i*w.m:(i+1)*w.m]...)
			y = append(y, b.y[i])
		}
	}
	if !w.labelled {
		y = nil
	}
	s := moments.New(w.m, false)
	if err := s.Add(x, y, nil); err != nil {
		return nil, err
	}
	return s, nil
}

func (w *window) count(p int) (n int) {
	for _, b := range w.blocks {
		for i, gone := range b.gone {
			if !gone && part(b.held[i]) == p {
				n++
			}
		}
	}
	return n
}

func part(held bool) int {
	if held {
		return 1
	}
	return 0
}

func (t *classTable) id(text string, most int) (int, bool) {
	if c, ok := t.index[text]; ok {
		return c, true
	}
	if len(t.names) >= most {
		// A class that has left the window makes way for a new one.
		for c, n := range t.count {
			if n == 0 {
				delete(t.index, t.names[c])
				t.names[c], t.index[text], t.seen[c] = text, c, 0
				return c, true
			}
		}
		return 0, false
	}
	c := len(t.names)
	t.index[text] = c
	t.names = append(t.names, text)
	t.rows, t.count, t.seen = append(t.rows, nil), append(t.count, 0), append(t.seen, 0)
	return c, true
}

// alive is the number of classes that have rows.
func (t *classTable) alive() (n int) {
	for _, rows := range t.count {
		if rows > 0 {
			n++
		}
	}
	return n
}

// sorted lists the texts of the classes that have rows, sorted, and where each class number goes.
func (t *classTable) sorted() (names []string, remap []int) {
	for c, n := range t.count {
		if n > 0 {
			names = append(names, t.names[c])
		}
	}
	slices.Sort(names)
	remap = make([]int, len(t.names))
	for c, n := range t.count {
		remap[c] = -1
		if n > 0 {
			remap[c], _ = slices.BinarySearch(names, t.names[c])
		}
	}
	return names, remap
}

// gather copies row i of blocks that stand side by side.
func gather(dst []float64, blocks []arrowio.Block, i int) {
	for _, b := range blocks {
		at := i * b.RowStride
		if b.F32 != nil {
			for j := range b.Cols {
				dst[j] = float64(b.F32[at+j*b.ColStride])
			}
		} else {
			for j := range b.Cols {
				dst[j] = b.F64[at+j*b.ColStride]
			}
		}
		dst = dst[b.Cols:]
	}
}

func finite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
