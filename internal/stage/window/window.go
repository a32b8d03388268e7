package window

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/embedd/embedd/model/moments"
)

// Window is the rows that there are.
type Window struct {
	config  Config
	maxRows int
	held    uint64 // a row whose draw is below is held out

	blockList
	by      summing
	classes classes
	beside  int   // rows that are in sums alone
	bytes   int64 // of blocks with such rows
	level   int   // most rows a class; it never rises, so that no order of arrival matters
	newest  int64
	start   Position // rows before are not taken: see Cut

	source  sourceName
	capped  int
	changed bool // since it was looked at last; see Sift
	more    bool
	usual   *usual
	far     Far
}

// New makes an empty window.
func New(c Config) *Window {
	w := &Window{config: c, maxRows: c.MaxRows(), classes: classes{index: map[string]int{}}}
	w.held, w.blockList.border = share(c.Holdout), share(1/float64(c.blockRows()))
	w.level = w.maxRows
	w.by = summing{features: c.Features, labelled: c.Labelled}
	if c.Share > 0 {
		w.classes.sources = []map[string]int{}
	}
	return w
}

// Outcome says what became of a row that was added.
type Outcome int

const (
	Taken     Outcome = iota // it is in the window
	Old                      // it is before the start, too old, or past the quota of its class
	Duplicate                // its position is taken
	Overfull                 // its class would be one too many, or of its source
)

// Add takes a row. The window owns its features from now on.
func (w *Window) Add(r Row) Outcome {
	if r.Compare(w.start) < 0 || w.config.Age > 0 && w.newest-r.Time > int64(w.config.Age) {
		return Old
	}
	if _, _, there := w.find(r.Position); there {
		return Duplicate
	}
	if _, known := w.classes.index[r.Label]; !known && w.config.Share > 0 && w.config.Classes > 0 &&
		w.classes.of(w.source.intern(r.Source)) >= portion(w.config.Share, w.config.Classes) {
		return Overfull
	}
	c, ok := w.classes.number(r.Label, w.config.Classes)
	if !ok {
		// A label that was seen a few times may be no class at all: one that was not seen for longest makes way, now
		// and then. Always would let as many classes as there are one too many push one another out for ever.
		forgotten, _ := w.classes.forgotten()
		if forgotten < 0 || r.draw(drawMakesWay) >= makesWay {
			return Overfull
		}
		for len(w.classes.rows[forgotten]) > 0 {
			w.remove(w.classes.rows[forgotten][0])
		}
		c, _ = w.classes.number(r.Label, w.config.Classes)
	}
	r.Label, r.Source = w.classes.names[c], w.source.intern(r.Source) // one text for many rows
	r.class, r.held, r.out = c, r.draw(drawHeld) < w.held, in
	row := &r
	w.place(row)
	w.insert(row)
	w.newest = max(w.newest, r.Time)
	if w.config.Share > 0 {
		w.cap(c, row.Source)
	}
	if w.config.Balance {
		w.trim(c)
	}
	w.evict()
	if at, i, there := w.find(r.Position); !there || w.blocks[at].rows[i] != row {
		return Old
	}
	return Taken
}

// Relabel gives the row at a position another label. It tells whether the row is in the window and the label is new.
func (w *Window) Relabel(p Position, label string) bool {
	at, i, there := w.find(p)
	if !there || w.blocks[at].rows[i].Label == label {
		return false
	}
	r := w.blocks[at].rows[i]
	w.remove(r)
	moved := *r
	moved.Label = label
	return w.Add(moved) == Taken
}

// Remove takes out the row at a position. It tells whether the row was in the window.
func (w *Window) Remove(p Position) bool {
	at, i, there := w.find(p)
	if there {
		w.remove(w.blocks[at].rows[i])
	}
	return there
}

// Cut leaves out all rows before a position, those that come later too. The quota of a class is what it was at first.
func (w *Window) Cut(p Position) {
	if p.Compare(w.start) <= 0 {
		return
	}
	w.level = w.maxRows
	if w.config.Summed {
		w.cutBlocks(p)
		return
	}
	w.start = p
	for r := w.oldest(); r != nil && r.Compare(p) < 0; r = w.oldest() {
		w.remove(r)
	}
}

// Lift has moments made of what l makes of rows from now on, of at most Config.Lifted features.
func (w *Window) Lift(l Lift) {
	w.by.lift = l
	for _, b := range w.blocks {
		b.sum = nil
	}
}

// Start is the position of the last Cut.
func (w *Window) Start() Position { return w.start }

// Level is the most rows that a class may have. With LowerLevel a window that is filled again after a restart has the
// quota that it had.
func (w *Window) Level() int { return w.level }

// LowerLevel lowers the quota of a class, where it is higher.
func (w *Window) LowerLevel(level int) {
	if level > 0 && level < w.level && w.config.Balance {
		w.lower(level)
	}
}

// MaxRows is how many rows there can be.
func (w *Window) MaxRows() int { return w.maxRows }

// Features is the number of features of a row.
func (w *Window) Features() int { return w.config.Features }

// Len is the number of rows, those counted that are in sums alone.
func (w *Window) Len() int { return w.blockList.rows + w.beside }

// Classes is the number of classes that have rows.
func (w *Window) Classes() int { return w.classes.alive }

// Trainable tells whether there are two classes of enough rows to enter a fit, or two rows where there are no labels.
func (w *Window) Trainable() bool {
	if !w.config.Labelled {
		return w.blockList.rows >= 2
	}
	n, least := 0, w.classes.least(true)
	for c := range w.classes.rows {
		if w.classes.size(c) >= least {
			if n++; n == 2 {
				return true
			}
		}
	}
	return false
}

// Largest is the number of rows of the largest class.
func (w *Window) Largest() (n int) {
	for c := range w.classes.rows {
		n = max(n, w.classes.size(c))
	}
	return n
}

// Bytes is what the rows and their moments take, as Config.Bytes counts it.
func (w *Window) Bytes() int64 {
	if w.config.Summed {
		return w.bytes
	}
	return int64(w.blockList.rows) * w.config.RowBytes()
}

// Suffix is about the newest rows of a window, to learn from: without those held out, and those that enter no fit.
type Suffix struct {
	First, Last Position
	Rows        int
	Classes     []string     // those with rows, sorted; nil without labels
	Counts      []int        // rows of each
	Moments     *moments.Set // of Newest
	X           []float64    // of NewestRows: Rows x m, with the class of each row, oldest first
	Y           []int
}

// NewestRows is the suffix of n rows, held-out ones counted, as a copy of its rows: of those that there are.
func (w *Window) NewestRows(n int) *Suffix {
	s, at, i, to := w.suffix(n, false)
	if s.Rows > 0 {
		w.copyRows(s, at, i, to)
	}
	return s
}

// Newest is the suffix of about n rows, held-out ones counted, as moments: from n rows back, or from the border of a
// block before that where n is more than two blocks. It costs what changed since the last one, and O(m^2) a block.
func (w *Window) Newest(ctx context.Context, n int) (*Suffix, error) {
	s, at, i, to := w.suffix(n, true)
	if s.Rows == 0 {
		return s, nil
	}
	for b, from := at, i; b < len(w.blocks); b, from = b+1, 0 {
		var part *moments.Set
		err := ctx.Err() // learning may rest between two blocks
		if err != nil {
			return nil, fmt.Errorf("summing the window: %w", err)
		}
		if from == 0 {
			part, err = w.blocks[b].moments(ctx, &w.by)
		} else {
			part, err = w.by.sum(ctx, w.blocks[b].rows[from:])
		}
		switch {
		case err != nil:
		case s.Moments == nil && from > 0: // nobody else has it
			s.Moments = part
		default:
			if s.Moments == nil {
				s.Moments = moments.New(w.by.dim(), false)
			}
			err = s.Moments.Merge(part)
		}
		if err != nil {
			return nil, fmt.Errorf("summing the window: %w", err)
		}
	}
	if w.config.Labelled {
		s.Moments.Relabel(to[:min(len(to), s.Moments.Classes())])
	}
	return s, nil
}

// suffix is a suffix without its rows: it begins at row i of block at, and class number c is to[c] in it.
func (w *Window) suffix(n int, borders bool) (s *Suffix, at, i int, to []int) {
	s = &Suffix{}
	if w.blockList.rows == 0 {
		return s, 0, 0, nil
	}
	w.sift()
	if w.config.Summed {
		at = w.blockBack(n)
	} else {
		at, i, _ = w.find(w.Back(n))
	}
	if borders && n > 2*w.config.blockRows() {
		i = 0
	}
	s.First = w.blocks[at].rows[i].Position
	last := w.blocks[len(w.blocks)-1].rows
	s.Last = last[len(last)-1].Position
	count := make([]int, len(w.classes.names))
	for b, from := at, i; b < len(w.blocks); b, from = b+1, 0 {
		for _, r := range w.blocks[b].rows[from:] {
			if r.learned() {
				count[r.class]++
				s.Rows++
			}
		}
		if sums := w.blocks[b].beside; borders && sums != nil {
			s.Rows += sums.learned(count)
		}
	}
	names, to := w.classes.sorted(count)
	if w.config.Labelled {
		s.Classes, s.Counts = names, make([]int, len(names))
		for class, n := range count {
			if n > 0 {
				s.Counts[to[class]] = n
			}
		}
	}
	return s, at, i, to
}

// evict removes rows until the window is within its bounds.
func (w *Window) evict() {
	if w.config.Age > 0 {
		// Times ascend with positions, as the server gives them.
		for r := w.oldest(); r != nil && w.newest-r.Time > int64(w.config.Age); r = w.oldest() {
			w.remove(r)
		}
	}
	if !w.config.Balance {
		for w.blockList.rows > w.maxRows {
			w.remove(w.oldest())
		}
		return
	}
	for w.blockList.rows > w.maxRows {
		forgotten, small := w.classes.forgotten()
		level := w.classes.level(w.maxRows)
		switch {
		case small > w.maxRows/sparseShare && small < w.blockList.rows:
			w.remove(w.classes.rows[forgotten][0])
		case level < enoughRows && level < w.level:
			w.remove(w.oldest()) // a quota never rises again, and one as low would leave nothing to learn from
		default:
			w.lower(level)
		}
	}
}

// sparseShare bounds the part of a full window that classes of fewer than enoughRows may take: a column of numbers or
// typing errors, or somebody's junk, does not displace the others.
const sparseShare = 10

// makesWay is how often a label is let in that is one too many.
var makesWay = share(1.0 / 16)

// lower lowers the quota of a class.
func (w *Window) lower(level int) {
	w.level = min(w.level, level)
	for c := range w.classes.rows {
		if w.config.Share > 0 {
			for source := range w.classes.sources[c] {
				w.cap(c, source)
			}
		}
		w.trim(c)
	}
}

// maxSource bounds the text of a source.
const maxSource = 64

// portion is a share of so many, one at least.
func portion(share float64, of int) int { return max(int(math.Ceil(share*float64(of))), 1) }

// cap removes the oldest rows of a class that a source has past its share of the class's quota. Like the quota it only
// falls, and the newest rows within it are the same whatever was removed before: no order of arrival matters.
func (w *Window) cap(class int, source string) {
	most := portion(w.config.Share, w.level)
	over := w.classes.sources[class][source] - most
	for i := 0; over > 0; {
		r := w.classes.rows[class][i]
		if r.Source != source {
			i++
			continue
		}
		w.remove(r)
		w.capped++
		over--
	}
}

// Capped is how many rows left since their source had its share.
func (w *Window) Capped() int { return w.capped }

// trim removes the oldest rows of a class past its quota.
func (w *Window) trim(class int) {
	for len(w.classes.rows[class]) > w.level {
		w.remove(w.classes.rows[class][0])
	}
}

// insert adds a row.
func (w *Window) insert(r *Row) {
	w.changed = true
	w.blockList.insert(r)
	w.classes.insert(r)
}

// remove removes a row.
func (w *Window) remove(r *Row) {
	w.changed = true
	w.classes.remove(r)
	w.blockList.remove(r)
}

// sourceName shares the text of a source between the rows that follow one another.
type sourceName struct{ newest string }

// intern returns the shared text of a source. A long one is shortened to its beginning and a hash, so that it takes no
// more memory than Config.RowBytes counts.
func (n *sourceName) intern(source string) string {
	if len(source) > maxSource {
		hash := fnv.New64a()
		hash.Write([]byte(source))
		source = fmt.Sprintf("%s~%016x", source[:maxSource-17], hash.Sum64())
	}
	if source != n.newest {
		n.newest = strings.Clone(source)
	}
	return n.newest
}
