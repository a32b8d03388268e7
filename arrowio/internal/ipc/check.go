package ipc

import (
	"fmt"
	"math/bits"
	"sort"

	"github.com/embedd/embedd/arrowio/wire"
)

// Check checks that every column of the chunk is valid, as pyarrow's validate(full=True) does: lengths and null counts
// agree, bitmaps and buffers are long enough, offsets ascend and end inside their data, indices are inside their
// dictionary, and values are in the range of their type. Afterwards the columns may be read, and readers accept what is
// written of them. dicts are the dictionaries by normalised id.
func (c *Chunk) Check(limits Limits, dicts []Chunk) *wire.Error {
	runs := c.Layout.Runs
	for k := 0; k < len(c.Layout.Columns); k++ {
		i := c.Layout.Columns[k]
		if len(runs) > 0 && runs[0].First == i {
			r := runs[0]
			if runs = runs[1:]; c.isWhole(r) {
				k += r.End - r.First - 1
				continue
			}
		}
		if n, _ := c.Node(i); n != c.Rows {
			return Malformed("a column of %d rows in a batch of %d", n, c.Rows).In(c.Layout.Fields[i].Name)
		}
		if e := c.column(i, limits, dicts); e != nil {
			return e.In(c.Layout.Fields[i].Name)
		}
	}
	return nil
}

// isWhole reports whether the columns of a run have all rows, without nulls. If not, they are checked one by one.
func (c *Chunk) isWhole(r Run) bool {
	if c.Arrays != nil || c.Shift != nil {
		return false
	}
	rows := uint64(c.Rows)
	bitmap, values := (rows+7)/8, rows*uint64(r.Width)
	nodes, ranges := c.nodes[16*r.First:16*r.End], c.Ranges[16*r.Buffer:]
	for len(nodes) >= 16 && len(ranges) >= 32 {
		valid := le.Uint64(ranges[8:])
		if le.Uint64(nodes) != rows || le.Uint64(nodes[8:]) != 0 || valid != 0 && valid < bitmap ||
			le.Uint64(ranges[24:]) < values {
			return false
		}
		nodes, ranges = nodes[16:], ranges[32:]
	}
	return len(nodes) == 0
}

func short(what string, have, want int64) *wire.Error {
	return Malformed("%s has %d bytes and its rows need %d", what, have, want)
}

// column checks field i and its descendants. Its parent has checked its length.
func (c *Chunk) column(i int, limits Limits, dicts []Chunk) *wire.Error {
	f := &c.Layout.Fields[i]
	length, count := c.Node(i)
	rows, nulls := int64(length), int64(count)
	if rows < 0 || nulls < 0 || nulls > rows {
		return Malformed("a column of %d rows with %d nulls", rows, nulls)
	}
	if rows > int64(limits.Rows) && f.weightless(i) {
		return TooManyRows(rows, limits.Rows)
	}
	if e := c.nullCount(i, rows, nulls); e != nil {
		return e
	}
	switch f.Kind {
	case KindNull:
		return nil
	case KindBool:
		if b := int64(len(c.Buffer(i, 1))); b < rows/8+min(1, rows%8) {
			return short("the values", b, rows/8+min(1, rows%8))
		}
		return nil
	case KindFixed:
		if b := int64(len(c.Buffer(i, 1))); f.Width > 0 && b/int64(f.Width) < rows {
			return short("the values", b, rows*int64(f.Width))
		}
		if f.Dict >= 0 {
			return c.indices(i, int(rows), int64(dicts[f.Dict].Rows))
		}
		return c.ranges(i, int(rows))
	case KindBinary:
		if _, e := c.offsets(i, rows, int64(len(c.Buffer(i, 2))), "the data"); e != nil || f.Type != TypeUtf8 &&
			f.Type != TypeLargeUtf8 {
			return e
		}
		return c.texts(i, int(rows))
	case KindView:
		return c.views(i, rows)
	}
	return c.nested(i, rows, limits, dicts)
}

// nullCount checks the validity bitmap of field i. Kinds without a bitmap have no nulls, or nothing else.
func (c *Chunk) nullCount(i int, rows, nulls int64) *wire.Error {
	have := int64(0)
	switch c.Layout.Fields[i].Kind {
	case KindNull:
		have = rows
	case KindRunEnd, KindSparse, KindDense:
	default:
		bitmap := c.Buffer(i, 0)
		if n, need := int64(len(bitmap)), rows/8+min(1, rows%8); (nulls > 0 || n > 0) && n < need {
			return short("the validity bitmap", n, need)
		}
		if nulls == 0 {
			return nil // readers ignore the bitmap
		}
		have = int64(CountNulls(bitmap, int(rows)))
	}
	if nulls != have {
		return Malformed("a null count of %d, and %d values are null", nulls, have)
	}
	return nil
}

// weightless reports whether no buffer limits the length of the field, neither its own nor a child's. A loop over 2^62
// such rows would not end.
func (f *Field) weightless(i int) bool {
	switch f.Kind {
	case KindNull, KindRunEnd:
		return true
	case KindFixed:
		return f.Width == 0
	case KindFixedList:
		return f.Size == 0
	case KindStruct:
		return f.End == i+1
	}
	return false
}

// nested checks fields with children.
func (c *Chunk) nested(i int, rows int64, limits Limits, dicts []Chunk) *wire.Error {
	f := &c.Layout.Fields[i]
	need := rows // rows that every child needs
	switch f.Kind {
	case KindList:
		child, _ := c.Node(i + 1)
		last, e := c.offsets(i, rows, int64(child), "the list's child")
		if e != nil {
			return e
		}
		need = last
	case KindListView:
		need = 0
		if e := c.listViews(i, rows); e != nil {
			return e
		}
	case KindFixedList:
		if need = rows * int64(f.Size); f.Size > 0 && need/int64(f.Size) != rows {
			return Malformed("a list of %d rows of %d elements", rows, f.Size)
		}
	case KindSparse, KindDense:
		if e := c.union(i, rows); e != nil {
			return e
		}
		if f.Kind == KindDense {
			need = 0
		}
	case KindRunEnd:
		if e := c.runEnds(i, rows); e != nil {
			return e
		}
		need = 0
	}
	for j := i + 1; j < f.End; j = c.Layout.Fields[j].End {
		if n, _ := c.Node(j); int64(n) < need {
			return Malformed("child %q has %d rows and its parent needs %d", wire.Clip(c.Layout.Fields[j].Name), n,
				need)
		}
		if e := c.column(j, limits, dicts); e != nil {
			return c.childError(e, i, j)
		}
	}
	switch {
	case f.Kind == KindRunEnd:
		return c.ascendingRuns(i, rows)
	case f.Type == TypeMap:
		return c.mapKeys(i)
	}
	return nil
}

// childError turns an error about a row of child j into one about the row of field i that contains it, if it is known.
func (c *Chunk) childError(e *wire.Error, i, j int) *wire.Error {
	if e.Row < 0 {
		return e
	}
	f, at := &c.Layout.Fields[i], e.Row
	switch f.Kind {
	case KindStruct, KindSparse:
	case KindFixedList:
		e.Row = at / f.Size
	case KindList:
		rows, _ := c.Node(i)
		e.Row = sort.Search(rows, func(k int) bool { return Offset(c.Buffer(i, 1), f.Width, k+1) > int64(at) })
		if rows == e.Row {
			e.Row = -1
		}
	default:
		e.Row = -1
	}
	e.Detail = fmt.Sprintf("value %d of child %q: %s", at, wire.Clip(c.Layout.Fields[j].Name), e.Detail)
	return e
}

// mapKeys checks that neither the entries of a map nor their keys are null. Some readers end the process otherwise.
func (c *Chunk) mapKeys(i int) *wire.Error {
	_, entries := c.Node(i + 1)
	if _, keys := c.Node(i + 2); entries > 0 || keys > 0 {
		return Malformed("a map with %d null entries and %d null keys", entries, keys)
	}
	return nil
}

// Offset reads entry k of a buffer of 4- or 8-byte signed integers.
func Offset(b []byte, width, k int) int64 {
	if width == 4 {
		return int64(int32(le.Uint32(b[4*k:])))
	}
	return int64(le.Uint64(b[8*k:]))
}

// offsets checks that the rows+1 offsets of field i ascend from at least 0 to at most size, and returns the last. Those
// of a column without rows are not read.
func (c *Chunk) offsets(i int, rows, size int64, what string) (int64, *wire.Error) {
	w := c.Layout.Fields[i].Width
	b := c.Buffer(i, 1)
	if rows == 0 {
		return 0, nil // there may be none, or one that a slice left behind
	}
	if int64(len(b)/w)-1 < rows {
		return 0, short("the list of offsets", int64(len(b)), (rows+1)*int64(w))
	}
	last := Offset(b, w, 0)
	if last < 0 {
		return 0, Malformed("an offset of %d", last).At(0)
	}
	for k := 1; k <= int(rows); k++ {
		v := Offset(b, w, k)
		if v < last {
			return 0, Malformed("offsets go back from %d to %d", last, v).At(k - 1)
		}
		last = v
	}
	if last > size {
		return 0, Malformed("offsets reach %d and %s ends at %d", last, what, size)
	}
	return last, nil
}

// indices checks the dictionary indices of field i, except those of nulls.
func (c *Chunk) indices(i, rows int, size int64) *wire.Error {
	valid := c.Valid(i)
	for k := 0; k < rows; k++ {
		if v, ok := c.Index(i, k); (!ok || v >= uint64(size)) && (valid == nil || valid[k>>3]>>(k&7)&1 == 1) {
			return wire.Errorf(wire.Malformed, "index %d into a dictionary of %d entries", int64(v), size).WithHint(
				"write indices below the dictionary's length").At(k)
		}
	}
	return nil
}

// Index reads a dictionary index; ok is false if it is negative.
func (c *Chunk) Index(i, row int) (v uint64, ok bool) {
	return ReadInteger(c.Buffer(i, 1), c.Layout.Fields[i].Number, row)
}

// ReadInteger reads value row of a buffer of integers. For a negative value it returns the two's complement and ok
// false.
func ReadInteger(b []byte, n Number, row int) (v uint64, ok bool) {
	switch n {
	case Int8:
		v = uint64(int8(b[row]))
	case Int16:
		v = uint64(int16(le.Uint16(b[2*row:])))
	case Int32:
		v = uint64(int32(le.Uint32(b[4*row:])))
	case Int64:
		v = le.Uint64(b[8*row:])
	case Uint8:
		return uint64(b[row]), true
	case Uint16:
		return uint64(le.Uint16(b[2*row:])), true
	case Uint32:
		return uint64(le.Uint32(b[4*row:])), true
	case Uint64:
		return le.Uint64(b[8*row:]), true
	}
	return v, int64(v) >= 0
}

func (c *Chunk) listViews(i int, rows int64) *wire.Error {
	w := c.Layout.Fields[i].Width
	from, size := c.Buffer(i, 1), c.Buffer(i, 2)
	if int64(min(len(from), len(size))/w) < rows {
		return short("the list of offsets or sizes", int64(min(len(from), len(size))), rows*int64(w))
	}
	child, _ := c.Node(i + 1)
	for k := 0; k < int(rows); k++ {
		a, n := Offset(from, w, k), Offset(size, w, k)
		if a < 0 || n < 0 || a > int64(child) || n > int64(child)-a { // the ranges of nulls too
			return Malformed("a list of %d elements from %d, and the child has %d", n, a, child).At(k)
		}
	}
	return nil
}

// union checks the type ids of field i and, in a dense union, the offsets into the children.
func (c *Chunk) union(i int, rows int64) *wire.Error {
	f := &c.Layout.Fields[i]
	types := c.Buffer(i, 0)
	if int64(len(types)) < rows {
		return short("the list of type ids", int64(len(types)), rows)
	}
	var size [256]int64 // rows of the child with this id, -1 if there is none
	for k := range size {
		size[k] = -1
	}
	for j, k := i+1, 0; j < f.End; j, k = c.Layout.Fields[j].End, k+1 {
		n, _ := c.Node(j)
		size[f.IDs[k]] = int64(n)
	}
	var offsets []byte
	var last [256]int64 // the newest offset into the child with this id
	if f.Kind == KindDense {
		if offsets = c.Buffer(i, 1); int64(len(offsets)/4) < rows {
			return short("the list of offsets", int64(len(offsets)), 4*rows)
		}
	}
	for k := 0; k < int(rows); k++ {
		n := size[types[k]]
		if n < 0 {
			return Malformed("type id %d, which the union does not have", types[k]).At(k)
		}
		if f.Kind == KindDense {
			if at := int64(int32(le.Uint32(offsets[4*k:]))); at < 0 || at >= n {
				return Malformed("offset %d into a child of %d rows", at, n).At(k)
			} else if at < last[types[k]] {
				return Malformed("offset %d into a child, after offset %d", at, last[types[k]]).At(k)
			} else {
				last[types[k]] = at
			}
		}
	}
	return nil
}

// runEnds checks the lengths of the two children of field i.
func (c *Chunk) runEnds(i int, rows int64) *wire.Error {
	ends, nulls := c.Node(i + 1)
	values, _ := c.Node(c.Layout.Fields[i+1].End)
	if nulls != 0 || ends > values || ends == 0 && rows > 0 {
		return Malformed("%d run ends with %d nulls for %d values and %d rows", ends, nulls, values, rows)
	}
	return nil
}

// ascendingRuns checks that the run ends of field i ascend from above 0 to at least its length. Their buffer is already
// checked.
func (c *Chunk) ascendingRuns(i int, rows int64) *wire.Error {
	n, _ := c.Node(i + 1)
	last := int64(0)
	for k := 0; k < n; k++ {
		v, _ := c.Index(i+1, k)
		if int64(v) <= last {
			return Malformed("run ends go from %d to %d", last, int64(v)).At(k)
		}
		last = int64(v)
	}
	if last < rows {
		return Malformed("the runs end at %d of %d rows", last, rows)
	}
	return nil
}

// CountNulls counts the zero bits of the first rows bits.
func CountNulls(bitmap []byte, rows int) int {
	ones, k := 0, 0
	for ; k+64 <= rows; k += 64 {
		ones += bits.OnesCount64(le.Uint64(bitmap[k/8:]))
	}
	for ; k < rows; k++ {
		ones += int(bitmap[k>>3] >> (k & 7) & 1)
	}
	return rows - ones
}
