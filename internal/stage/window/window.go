package window

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"math"
	"strings"
	"time"

	"github.com/embedd/embedd/model/moments"
)

// Config bounds a window.
type Config struct {
	Features      int           // of a row
	Rows          int           // maximum number of rows
	Age           time.Duration // rows older than this, relative to the newest row, leave; 0: no bound
	Bytes         int64         // maximum memory of rows, moments and copies, which may reduce the rows; 0: no bound
	Classes       int           // maximum number of classes
	Holdout       float64       // share of the rows that no fit sees
	Balance       bool          // each class has a quota; otherwise the oldest row of any class leaves
	Share         float64       // of a class's quota, and of the classes, that one source may have; 0: no bound
	Labelled      bool          // rows have labels
	Moments       bool          // fits are made from the moments of blocks
	Copies        bool          // fits are made from a copy of the rows
	Summaries     bool          // rows arrive, and leave, as summaries of blocks
	MappedColumns int           // maximum number of columns of a Mapping; 0: there is none
	Pause         func()        // called during long loops over all rows, so that learning can pause; may be nil
}

func (c Config) pause() {
	if c.Pause != nil {
		c.Pause()
	}
}

// rowOverhead is the memory of a row besides its features: the row itself, its entries in a block and in a class, the
// text of its source, and rounding by the allocator.
const rowOverhead = 208 + maxSource

// RowBytes is the memory of one row, with its part of the moments, or of the copy that a fit makes.
func (c Config) RowBytes() int64 {
	m := int64(c.Features)
	bytes := 9*m + rowOverhead // an eighth for the allocator's size classes
	if c.Copies {
		bytes += 8 * (m + int64(c.MappedColumns))
	}
	if !c.Moments {
		return bytes
	}
	m = int64(c.momentColumns())
	perBlock := 8 * m * (m + int64(min(c.Classes, c.blockRows()))) // second moments, and a sum per class
	return bytes + perBlock/int64(c.blockRows())
}

// momentColumns is the number of columns of the moments.
func (c Config) momentColumns() int {
	if c.MappedColumns > 0 {
		return c.MappedColumns
	}
	return c.Features
}

// MaxRows is the maximum number of rows: Rows, or fewer to stay within Bytes.
func (c Config) MaxRows() int {
	if c.Bytes <= 0 || c.Summaries {
		return c.Rows
	}
	return max(min(c.Rows, int(c.Bytes/c.RowBytes())), 4)
}

// blockRows is the mean number of rows of a block. Its moments take less memory than its rows.
func (c Config) blockRows() int { return max(1024, 4*c.momentColumns()) }

// Window is a bounded set of rows.
type Window struct {
	config  Config
	maxRows int
	holdout uint64 // the share of rows that are held out

	blockList
	accumulator   accumulator
	newestMoments *rowMoments // of the last suffix
	classes       classes
	summedRows    int   // rows that are only in sums
	bytes         int64 // of blocks with sums
	quota         int   // maximum rows per class; it never rises, so that the order of arrival does not matter
	newest        int64
	start         Position // rows before it are not added; see Cut

	source        sourceName
	capped        int
	changed       bool // since the last Sift
	newlyIncluded bool
	limits        *limits // of the newest block, at the last Sift
	outliers      Outliers
	tails         float64 // share of the rows in the far tail of a feature, as of the last Sift
	seed          maphash.Seed
	scratch       []byte // memory of Hash
}

// New returns an empty window.
func New(c Config) *Window {
	w := &Window{config: c, maxRows: c.MaxRows(), classes: classes{index: map[string]int{}}, seed: maphash.MakeSeed()}
	w.holdout, w.blockList.border = drawLimit(c.Holdout), drawLimit(1/float64(c.blockRows()))
	w.quota = w.maxRows
	w.accumulator = accumulator{features: c.Features, labelled: c.Labelled}
	if c.Share > 0 {
		w.classes.sources = []map[string]int{}
	}
	return w
}

// Outcome is the outcome of adding a row.
type Outcome int

const (
	Added          Outcome = iota // it was added to the window
	Old                           // it is before the start, too old, or past the quota of its class
	Duplicate                     // there is a row at its position
	OverClassLimit                // its class exceeds the maximum number of classes, or its source's share of them
)

// Add adds a row. The window owns its features from now on.
func (w *Window) Add(r Row) Outcome {
	if w.config.Summaries && r.Compare(w.start) < 0 || w.config.Age > 0 && w.newest-r.Time > int64(w.config.Age) {
		return Old
	}
	if _, _, there := w.find(r.Position); there {
		return Duplicate
	}
	if _, known := w.classes.index[r.Label]; !known && w.config.Share > 0 && w.config.Classes > 0 &&
		w.classes.classesOf(w.source.intern(r.Source)) >= shareOf(w.config.Share, w.config.Classes) {
		return OverClassLimit
	}
	c, ok := w.classes.number(r.Label, w.config.Classes)
	if !ok {
		// A rare label may be no class at all: the least recent one is replaced, but only sometimes. Otherwise a
		// surplus of labels would replace each other all the time.
		forgotten, _ := w.classes.leastRecent()
		if forgotten < 0 || r.draw(drawReplace) >= replaceShare {
			return OverClassLimit
		}
		for len(w.classes.rows[forgotten]) > 0 {
			w.remove(w.classes.rows[forgotten][0])
		}
		c, _ = w.classes.number(r.Label, w.config.Classes)
	}
	r.Label, r.Source = w.classes.names[c], w.source.intern(r.Source) // rows share one text
	r.class, r.isHeldOut, r.isLent, r.excluded = c, r.stretch().isHeldOut(w.holdout), false, included
	r.limits, r.hasExtreme, r.hash = nil, false, 0
	row := &r
	row.markMissing()
	w.classify(row)
	w.insert(row)
	w.newest = max(w.newest, r.Time)
	if w.config.Share > 0 {
		w.capSource(c, row.Source)
	}
	if w.config.Balance {
		w.trim(c)
	}
	dropReplaced(w, c)
	w.evict()
	if row.excluded == removed {
		return Old
	}
	return Added
}

// Relabel changes the label of the row at a position, and returns the outcome of adding it with the new one. It is
// Duplicate if the row has the label or is not in the window.
func (w *Window) Relabel(p Position, label string) Outcome {
	r := w.At(p)
	if r == nil || r.Label == label {
		return Duplicate
	}
	w.remove(r)
	moved := *r
	moved.Label = label
	return w.Add(moved)
}

// Remove removes the row at a position. It reports whether the row was in the window.
func (w *Window) Remove(p Position) bool {
	r := w.At(p)
	if r != nil {
		w.remove(r)
	}
	return r != nil
}

// Cut removes the rows before a position, and those that arrive later, except the newest keptRows rows of a class until
// newer ones replace them. It resets the quota of classes.
func (w *Window) Cut(p Position) {
	if p.Compare(w.start) <= 0 {
		return
	}
	w.quota = w.maxRows
	if w.config.Summaries {
		w.cutBlocks(p)
		return
	}
	w.start = p
	for c := range w.classes.rows {
		dropReplaced(w, c)
	}
}

// dropReplaced removes the rows of a class from before the start that newer ones replace.
func dropReplaced(w *Window, class int) {
	for n := w.classes.replaced(class, w.start); n > 0; n-- {
		w.remove(w.classes.rows[class][0])
	}
}

// SetMapping makes moments of mapped rows from now on, of at most Config.MappedColumns columns.
func (w *Window) SetMapping(l Mapping) {
	w.accumulator.mapping = l
	for _, b := range w.blocks {
		b.isCurrent = false
	}
}

// Bounds returns the position of the last Cut, and the maximum number of rows per class: a restart passes them to Cut
// and LowerQuota.
func (w *Window) Bounds() (start Position, quota int) { return w.start, w.quota }

// LowerQuota lowers the quota of classes unless it is lower already.
func (w *Window) LowerQuota(level int) {
	if level > 0 && level < w.quota && w.config.Balance {
		w.lowerQuota(level)
	}
}

// MaxRows is the maximum number of rows.
func (w *Window) MaxRows() int { return w.maxRows }

// Features is the number of features of a row.
func (w *Window) Features() int { return w.config.Features }

// IsGrowing reports whether the window may come to hold far more rows: it is not full, and the rows since the last Cut
// are not half as old as rows may be.
func (w *Window) IsGrowing() bool {
	if w.Len() >= w.maxRows || w.quota < w.maxRows { // a full window of balanced classes has lowered the quota
		return false
	}
	isYoung := true
	w.All(func(r *Row) bool {
		if r.Compare(w.start) < 0 { // Cut has kept it until newer ones replace it
			return true
		}
		isYoung = w.config.Age <= 0 || w.newest-r.Time < int64(w.config.Age)/2
		return false
	})
	return isYoung
}

// Len is the number of rows, including those that are only in sums.
func (w *Window) Len() int { return w.blockList.count + w.summedRows }

// HasSums reports whether some rows of a window are only in sums, so that the others are a sample.
func HasSums(w *Window) bool { return w.summedRows > 0 }

// Classes is the number of classes that have rows.
func (w *Window) Classes() int { return w.classes.nonEmpty }

// EachClass calls f for each class with its rows, oldest first. f must not change them.
func (w *Window) EachClass(f func(label string, rows []*Row)) {
	for c, rows := range w.classes.rows {
		if len(rows) > 0 {
			f(w.classes.names[c], rows)
		}
	}
}

// Hash returns a hash of the label and the features of a row of the window. Rows of one window that differ have
// different hashes: the seed is random, so no sender can make two rows that share one. A row is hashed once.
func Hash(w *Window, r *Row) uint64 {
	if r.hash == 0 {
		w.scratch = append(w.scratch[:0], r.Label...)
		for _, v := range r.X {
			w.scratch = binary.LittleEndian.AppendUint64(w.scratch, math.Float64bits(v))
		}
		r.hash = max(maphash.Bytes(w.seed, w.scratch), 1)
	}
	return r.hash
}

// Trainable reports whether two classes have enough rows to enter a fit, or, without labels, whether there are two
// rows.
func (w *Window) Trainable() bool {
	if !w.config.Labelled {
		return w.blockList.count >= 2
	}
	return w.classes.ofAtLeast(w.classes.minRows(true)) >= 2
}

// Largest is the number of rows of the largest class.
func (w *Window) Largest() (n int) {
	for c := range w.classes.rows {
		n = max(n, w.classes.size(c))
	}
	return n
}

// Bytes is the memory of the rows and their moments, as Config.Bytes bounds it.
func (w *Window) Bytes() int64 {
	if w.config.Summaries {
		return w.bytes
	}
	return int64(w.blockList.count) * w.config.RowBytes()
}

// Suffix is the newest rows of a window for a fit: without held-out rows and those that enter no fit.
type Suffix struct {
	First, Last Position
	Rows        int
	Classes     []string     // those with rows, sorted; nil without labels
	Counts      []int        // rows per class
	Moments     *moments.Set // from Newest
	X           []float64    // from NewestRows: Rows x m, with the class of each row, oldest first
	Y           []int
}

// NewestRows returns the suffix of n rows, including held-out ones, as a copy of its rows.
func (w *Window) NewestRows(n int) *Suffix {
	s, absent, at, i, to := w.suffix(n, false)
	if s.Rows > 0 {
		w.copyRows(s, absent, at, i, to)
	}
	return s
}

// Newest returns the moments of the newest n rows, including held-out ones. If n is more than two blocks, the suffix
// starts where a block starts, so it has about n rows. The cost is that of the rows that changed since the last call,
// and O(m^2) per block. The next call overwrites the moments.
func (w *Window) Newest(ctx context.Context, n int) (*Suffix, error) {
	s, absent, at, i, to := w.suffix(n, true)
	if s.Rows == 0 {
		return s, nil
	}
	w.accumulator.reuse(w.newestMoments)
	w.newestMoments = nil
	var parts []*rowMoments
	if len(absent) > 0 {
		part, err := w.accumulator.sum(ctx, absent, nil)
		if err != nil {
			return nil, fmt.Errorf("summing the window: %w", err)
		}
		defer w.accumulator.reuse(part)
		parts = append(parts, part)
	}
	for b, from := at, i; b < len(w.blocks); b, from = b+1, 0 {
		var part *rowMoments
		err := ctx.Err() // learning may pause between two blocks
		switch {
		case err != nil:
		case from == 0:
			part, err = w.blocks[b].moments(ctx, &w.accumulator)
		default:
			part, err = w.accumulator.sum(ctx, w.blocks[b].rows[from:], nil)
			defer w.accumulator.reuse(part)
		}
		if err != nil {
			return nil, fmt.Errorf("summing the window: %w", err)
		}
		parts = append(parts, part)
	}
	all, err := merge(parts, w.accumulator.newSet())
	if err != nil {
		return nil, fmt.Errorf("summing the window: %w", err)
	}
	w.newestMoments, s.Moments = all, all.Set
	if w.config.Labelled {
		s.Moments.Relabel(to[:min(len(to), s.Moments.Classes())])
	}
	return s, nil
}

// suffix returns a suffix without its rows. It begins at row i of block at, and has the newest rows of classes that are
// absent there; class number c becomes to[c].
func (w *Window) suffix(n int, borders bool) (s *Suffix, absent []*Row, at, i int, to []int) {
	s = &Suffix{}
	w.sift()
	if w.blockList.count == 0 {
		return s, nil, 0, 0, nil
	}
	if w.config.Summaries {
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
		s.Rows += w.blocks[b].countFitted(w.classes.lent, from, count)
		if sums := w.blocks[b].unstored; borders && sums != nil {
			s.Rows += sums.countFitted(count)
		}
	}
	if w.config.Labelled && !w.config.Summaries {
		absent = w.classes.absent(count, s.First)
		s.Rows += len(absent)
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
	return s, absent, at, i, to
}

// evict removes rows until the window is within its bounds.
func (w *Window) evict() {
	if w.config.Age > 0 {
		// Times ascend with positions.
		for r := w.oldest(); r != nil && w.newest-r.Time > int64(w.config.Age); r = w.oldest() {
			w.remove(r)
		}
	}
	if !w.config.Balance {
		for w.blockList.count > w.maxRows {
			w.remove(w.oldest())
		}
		return
	}
	for w.blockList.count > w.maxRows {
		forgotten, small := w.classes.leastRecent()
		level := w.classes.fairQuota(w.maxRows)
		switch {
		case small > w.maxRows/maxSparseFraction && small < w.blockList.count:
			w.remove(w.classes.rows[forgotten][0])
		case level < sufficientRows && level < w.quota:
			w.remove(w.oldest()) // the quota never rises again, and so low a quota would leave nothing to learn from
		default:
			w.lowerQuota(level)
		}
	}
}

// maxSparseFraction bounds the part of a full window for classes of fewer than sufficientRows rows, so that a column of
// numbers, typing errors or junk does not displace other classes.
const maxSparseFraction = 10

// replaceShare is the probability that a new label replaces a rare one if there are too many.
var replaceShare = drawLimit(1.0 / 16)

// lowerQuota lowers the quota of all classes.
func (w *Window) lowerQuota(level int) {
	w.quota = min(w.quota, level)
	for c := range w.classes.rows {
		if w.config.Share > 0 {
			for source := range w.classes.sources[c] {
				w.capSource(c, source)
			}
		}
		w.trim(c)
	}
}

// maxSource bounds the length of a source.
const maxSource = 64

// shareOf is a share of n, at least one.
func shareOf(share float64, of int) int { return max(int(math.Ceil(share*float64(of))), 1) }

// capSource removes the oldest rows of a class by which a source exceeds its share of the class's quota. Like the quota
// the share only falls, and the newest rows within it do not depend on the order of arrival.
func (w *Window) capSource(class int, source string) {
	most := shareOf(w.config.Share, w.quota)
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

// CappedRows is the number of rows that left because their source exceeded its share.
func (w *Window) CappedRows() int { return w.capped }

// trim removes the oldest rows by which a class exceeds its quota.
func (w *Window) trim(class int) {
	for len(w.classes.rows[class]) > w.quota {
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

// sourceName returns the name of a row's source. Consecutive rows of one source share the string.
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
