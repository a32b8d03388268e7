package arrowio

import (
	"math/bits"

	"github.com/embedd/embedd/arrowio/wire"
)

// check proves that every column of the chunk may be read: lengths agree, bitmaps and buffers are long enough,
// offsets ascend and end inside their data, indices are inside their dictionary. Values are not looked at. dicts are
// the dictionaries by normalised number.
func (c *chunk) check(limits Limits, dicts []chunk) *Error {
	for _, i := range c.layout.columns {
		if n, _ := c.node(i); n != c.rows {
			return fault(wire.Malformed, "a column of %d rows in a batch of %d", n, c.rows).hint(
				streamHint).in(c.layout.fields[i].name)
		}
		if e := c.column(i, limits, dicts); e != nil {
			return e.in(c.layout.fields[i].name)
		}
	}
	return nil
}

func short(what string, have, want int64) *Error {
	return fault(wire.Malformed, "%s has %d bytes and its rows need %d", what, have, want).hint(streamHint)
}

// column checks field i and its descendants. Its own length is already known to suit its parent.
func (c *chunk) column(i int, limits Limits, dicts []chunk) *Error {
	f := &c.layout.fields[i]
	b := c.nodes[16*i:]
	rows, nulls := int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	if rows < 0 || nulls < 0 || nulls > rows {
		return fault(wire.Malformed, "a column of %d rows with %d nulls", rows, nulls).hint(streamHint)
	}
	if rows > int64(limits.Rows) && f.weightless(i) {
		return tooManyRows(rows, limits.Rows)
	}
	if f.kind != kindNull && f.kind != kindRunEnd && f.kind != kindSparse && f.kind != kindDense {
		if bitmap := int64(len(c.buffer(i, 0))); (nulls > 0 || bitmap > 0) && bitmap < rows/8+min(1, rows%8) {
			return short("the validity bitmap", bitmap, rows/8+min(1, rows%8))
		}
	}
	switch f.kind {
	case kindNull:
		return nil
	case kindBool:
		if b := int64(len(c.buffer(i, 1))); b < rows/8+min(1, rows%8) {
			return short("the values", b, rows/8+min(1, rows%8))
		}
		return nil
	case kindFixed:
		if b := int64(len(c.buffer(i, 1))); f.width > 0 && b/int64(f.width) < rows {
			return short("the values", b, rows*int64(f.width))
		}
		if f.dict >= 0 {
			return c.indices(i, int(rows), int64(dicts[f.dict].rows))
		}
		return nil
	case kindBinary:
		_, e := c.offsets(i, rows, int64(len(c.buffer(i, 2))), "the data")
		return e
	case kindView:
		return c.views(i, rows)
	}
	return c.nested(i, rows, limits, dicts)
}

// weightless tells the kinds whose length no buffer bounds, neither their own nor a child's: a loop over 2^62 such
// rows never ends.
func (f *field) weightless(i int) bool {
	switch f.kind {
	case kindNull, kindRunEnd:
		return true
	case kindFixed:
		return f.width == 0
	case kindFixedList:
		return f.size == 0
	case kindStruct:
		return f.end == i+1
	}
	return false
}

// nested checks the kinds with children.
func (c *chunk) nested(i int, rows int64, limits Limits, dicts []chunk) *Error {
	f := &c.layout.fields[i]
	need := rows // of every child
	switch f.kind {
	case kindList:
		child, _ := c.node(i + 1)
		last, e := c.offsets(i, rows, int64(child), "the list's child")
		if e != nil {
			return e
		}
		need = last
	case kindListView:
		need = 0
		if e := c.listViews(i, rows); e != nil {
			return e
		}
	case kindFixedList:
		if need = rows * int64(f.size); f.size > 0 && need/int64(f.size) != rows {
			return fault(wire.Malformed, "a list of %d rows of %d elements", rows, f.size).hint(streamHint)
		}
	case kindSparse, kindDense:
		if e := c.union(i, rows); e != nil {
			return e
		}
		if f.kind == kindDense {
			need = 0
		}
	case kindRunEnd:
		if e := c.runEnds(i, rows); e != nil {
			return e
		}
		need = 0
	}
	for j := i + 1; j < f.end; j = c.layout.fields[j].end {
		if n, _ := c.node(j); int64(n) < need {
			return fault(wire.Malformed, "child %q has %d rows and its parent needs %d", clip(c.layout.fields[j].name),
				n, need).hint(streamHint)
		}
		if e := c.column(j, limits, dicts); e != nil {
			return e
		}
	}
	if f.kind == kindRunEnd {
		return c.ascendingRuns(i, rows)
	}
	return nil
}

// offset reads entry k of a buffer of 4- or 8-byte signed integers.
func offset(b []byte, width, k int) int64 {
	if width == 4 {
		return int64(int32(le.Uint32(b[4*k:])))
	}
	return int64(le.Uint64(b[8*k:]))
}

// offsets checks that the rows+1 offsets of field i ascend from 0 or more and end inside size, and returns the last.
func (c *chunk) offsets(i int, rows, size int64, what string) (int64, *Error) {
	w := c.layout.fields[i].width
	b := c.buffer(i, 1)
	if rows == 0 && len(b) == 0 {
		return 0, nil // an empty column may leave its one offset out
	}
	if int64(len(b)/w)-1 < rows {
		return 0, short("the list of offsets", int64(len(b)), (rows+1)*int64(w))
	}
	last := offset(b, w, 0)
	if last < 0 {
		return 0, fault(wire.Malformed, "an offset of %d", last).hint(streamHint).at(0)
	}
	if w == 4 {
		for k := 1; k <= int(rows); k++ {
			v := int64(int32(le.Uint32(b[4*k:])))
			if v < last {
				return 0, fault(wire.Malformed, "offsets go back from %d to %d", last, v).hint(streamHint).at(k - 1)
			}
			last = v
		}
	} else {
		for k := 1; k <= int(rows); k++ {
			v := int64(le.Uint64(b[8*k:]))
			if v < last {
				return 0, fault(wire.Malformed, "offsets go back from %d to %d", last, v).hint(streamHint).at(k - 1)
			}
			last = v
		}
	}
	if last > size {
		return 0, fault(wire.Malformed, "offsets reach %d and %s ends at %d", last, what, size).hint(streamHint)
	}
	return last, nil
}

// indices checks the dictionary indices of field i; what stands at a null is not an index.
func (c *chunk) indices(i, rows int, size int64) *Error {
	valid := c.valid(i)
	for k := 0; k < rows; k++ {
		if v, ok := c.index(i, k); (!ok || v >= uint64(size)) && (valid == nil || valid[k>>3]>>(k&7)&1 == 1) {
			return fault(wire.Malformed, "index %d into a dictionary of %d entries", int64(v), size).hint(
				"write indices below the dictionary's length").at(k)
		}
	}
	return nil
}

// index reads a dictionary index; ok is false for a negative one.
func (c *chunk) index(i, row int) (v uint64, ok bool) {
	f := &c.layout.fields[i]
	return readInteger(c.buffer(i, 1), f.number, row)
}

// readInteger reads value row of a buffer of integers. A negative value comes back in two's complement with ok false.
func readInteger(b []byte, n number, row int) (v uint64, ok bool) {
	switch n {
	case int8s:
		v = uint64(int8(b[row]))
	case int16s:
		v = uint64(int16(le.Uint16(b[2*row:])))
	case int32s:
		v = uint64(int32(le.Uint32(b[4*row:])))
	case int64s:
		v = le.Uint64(b[8*row:])
	case uint8s:
		return uint64(b[row]), true
	case uint16s:
		return uint64(le.Uint16(b[2*row:])), true
	case uint32s:
		return uint64(le.Uint32(b[4*row:])), true
	case uint64s:
		return le.Uint64(b[8*row:]), true
	}
	return v, int64(v) >= 0
}

// views checks the 16-byte views of field i: length, then the bytes themselves up to 12, else a prefix, a data buffer
// and an offset in it.
func (c *chunk) views(i int, rows int64) *Error {
	b := c.buffer(i, 1)
	if int64(len(b)/16) < rows {
		return short("the list of views", int64(len(b)), rows*16)
	}
	first, n := c.data(i)
	valid := c.valid(i)
	for k := 0; k < int(rows); k++ {
		v := b[16*k : 16*k+16]
		size := int32(le.Uint32(v))
		if size >= 0 && size <= 12 || valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
			continue
		}
		which, from := int32(le.Uint32(v[8:])), int32(le.Uint32(v[12:]))
		if size < 0 || which < 0 || int(which) >= n || from < 0 ||
			int64(from)+int64(size) > int64(len(c.buf(first+int(which)))) {
			return fault(wire.Malformed, "a view of %d bytes from %d of data buffer %d is outside its %d buffers", size,
				from, which, n).hint(streamHint).at(k)
		}
	}
	return nil
}

func (c *chunk) listViews(i int, rows int64) *Error {
	w := c.layout.fields[i].width
	from, size := c.buffer(i, 1), c.buffer(i, 2)
	if int64(min(len(from), len(size))/w) < rows {
		return short("the list of offsets or sizes", int64(min(len(from), len(size))), rows*int64(w))
	}
	child, _ := c.node(i + 1)
	valid := c.valid(i)
	for k := 0; k < int(rows); k++ {
		a, n := offset(from, w, k), offset(size, w, k)
		if (a < 0 || n < 0 || a > int64(child) || n > int64(child)-a) && (valid == nil || valid[k>>3]>>(k&7)&1 == 1) {
			return fault(wire.Malformed, "a list of %d elements from %d, and the child has %d", n, a, child).hint(
				streamHint).at(k)
		}
	}
	return nil
}

// union checks the type ids of field i and, in a dense union, the offsets into the children.
func (c *chunk) union(i int, rows int64) *Error {
	f := &c.layout.fields[i]
	types := c.buffer(i, 0)
	if int64(len(types)) < rows {
		return short("the list of type ids", int64(len(types)), rows)
	}
	var size [256]int64 // of the child with this id, -1 when there is none
	for k := range size {
		size[k] = -1
	}
	for j, k := i+1, 0; j < f.end; j, k = c.layout.fields[j].end, k+1 {
		n, _ := c.node(j)
		size[f.ids[k]] = int64(n)
	}
	var offsets []byte
	if f.kind == kindDense {
		if offsets = c.buffer(i, 1); int64(len(offsets)/4) < rows {
			return short("the list of offsets", int64(len(offsets)), 4*rows)
		}
	}
	for k := 0; k < int(rows); k++ {
		n := size[types[k]]
		if n < 0 {
			return fault(wire.Malformed, "type id %d, which the union does not have", types[k]).hint(streamHint).at(k)
		}
		if f.kind == kindDense {
			if at := int64(int32(le.Uint32(offsets[4*k:]))); at < 0 || at >= n {
				return fault(wire.Malformed, "offset %d into a child of %d rows", at, n).hint(streamHint).at(k)
			}
		}
	}
	return nil
}

// runEnds checks the lengths of the two children of field i.
func (c *chunk) runEnds(i int, rows int64) *Error {
	ends, nulls := c.node(i + 1)
	values, _ := c.node(c.layout.fields[i+1].end)
	if nulls != 0 || ends > values || ends == 0 && rows > 0 {
		return fault(wire.Malformed, "%d run ends with %d nulls for %d values and %d rows", ends, nulls, values,
			rows).hint(streamHint)
	}
	return nil
}

// ascendingRuns checks that the run ends of field i ascend from above 0 and reach its length. Their buffer has been
// checked.
func (c *chunk) ascendingRuns(i int, rows int64) *Error {
	n, _ := c.node(i + 1)
	last := int64(0)
	for k := 0; k < n; k++ {
		v, _ := c.index(i+1, k)
		if int64(v) <= last {
			return fault(wire.Malformed, "run ends go from %d to %d", last, int64(v)).hint(streamHint).at(k)
		}
		last = int64(v)
	}
	if last < rows {
		return fault(wire.Malformed, "the runs end at %d of %d rows", last, rows).hint(streamHint)
	}
	return nil
}

// countNulls counts the zero bits of the first rows bits.
func countNulls(bitmap []byte, rows int) int {
	ones, k := 0, 0
	for ; k+64 <= rows; k += 64 {
		ones += bits.OnesCount64(le.Uint64(bitmap[k/8:]))
	}
	for ; k < rows; k++ {
		ones += int(bitmap[k>>3] >> (k & 7) & 1)
	}
	return rows - ones
}
