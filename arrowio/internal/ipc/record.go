package ipc

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// newArrays returns an empty chunk with separate buffers.
func newArrays(l *Layout, rows int) Chunk {
	c := Chunk{Layout: l, Rows: rows, nodes: make([]byte, 16*len(l.Fields)), Arrays: make([][]byte, 0, l.Buffers)}
	if l.Views > 0 {
		c.Shift = make([]int, l.Views+1)
	}
	return c
}

// spend subtracts the buffers from the budget.
func (c *Chunk) spend(budget *int, limits Limits) {
	for _, b := range c.Arrays {
		if *budget -= len(b); *budget < 0 {
			panic(TooLarge(limits.Body))
		}
	}
}

// An importer converts the arrays of a record to chunks.
type importer struct {
	schema *Schema
	dicts  []Chunk
}

// ImportRecord returns the columns of a record and its dictionaries as chunks, which the caller checks as those of a
// message.
func ImportRecord(s *Schema, rec arrow.Record, limits Limits, budget *int) (Chunk, []Chunk) {
	if rec.NumRows() > int64(limits.Rows) {
		panic(TooManyRows(rec.NumRows(), limits.Rows))
	}
	m := &importer{schema: s}
	if n := len(s.Dicts); n > 0 {
		m.dicts = make([]Chunk, n)
	}
	c := newArrays(&s.Layout, int(rec.NumRows()))
	for k, i := range s.Layout.Columns {
		if e := m.array(&c, i, rec.Column(k).Data(), 0, c.Rows); e != nil {
			panic(e.In(s.Layout.Fields[i].Name))
		}
	}
	for k := range m.dicts {
		m.dicts[k].spend(budget, limits)
	}
	c.spend(budget, limits)
	return c, m.dicts
}

// array appends rows of an array, starting at row from, as field i of c with its descendants. It keeps buffers that are
// too short; Check rejects them.
func (m *importer) array(c *Chunk, i int, a arrow.ArrayData, from, rows int) *wire.Error {
	f := &c.Layout.Fields[i]
	if from+rows > a.Len() {
		return wire.Errorf(wire.Malformed, "an array of %d rows, and its parent or record needs %d", a.Len(), from+rows).
			WithHint("give arrays as long as the record")
	}
	from += a.Offset()
	nulls := 0
	switch f.Kind {
	case KindNull:
		nulls = rows
	case KindSparse, KindDense, KindRunEnd:
	default:
		valid := bitsOf(a.Buffers()[0], from, rows)
		switch {
		case valid == nil:
		case len(valid) < (rows+7)/8:
			nulls = rows // Check rejects the short bitmap
		default:
			nulls = CountNulls(valid, rows) // another reader may be writing the array's own count
		}
		c.Arrays = append(c.Arrays, valid)
	}
	le.PutUint64(c.nodes[16*i:], uint64(rows))
	le.PutUint64(c.nodes[16*i+8:], uint64(nulls))
	switch f.Kind {
	case KindBool:
		c.Arrays = append(c.Arrays, bitsOf(a.Buffers()[1], from, rows))
	case KindFixed:
		c.Arrays = append(c.Arrays, piece(a.Buffers()[1], from, rows, f.Width))
		if f.Dict >= 0 {
			return m.dictionary(f.Dict, a.Dictionary())
		}
	case KindBinary:
		offsets, lo, hi := offsetsOf(a.Buffers()[1], f.Width, from, rows)
		c.Arrays = append(c.Arrays, offsets, piece(a.Buffers()[2], lo, hi-lo, 1))
	case KindView:
		c.Arrays = append(c.Arrays, piece(a.Buffers()[1], from, rows, 16))
		for _, b := range a.Buffers()[2:] {
			c.Arrays = append(c.Arrays, b.Bytes())
		}
		c.Shift[f.Views+1] = c.Shift[f.Views] + len(a.Buffers()) - 2
	case KindList:
		offsets, lo, hi := offsetsOf(a.Buffers()[1], f.Width, from, rows)
		c.Arrays = append(c.Arrays, offsets)
		return m.array(c, i+1, a.Children()[0], lo, hi-lo)
	case KindListView:
		sizes := piece(a.Buffers()[2], from, rows, f.Width)
		c.Arrays = append(c.Arrays, piece(a.Buffers()[1], from, rows, f.Width), sizes)
		return m.children(c, i, a, 0, -1)
	case KindFixedList:
		return m.array(c, i+1, a.Children()[0], from*f.Size, rows*f.Size)
	case KindStruct:
		return m.children(c, i, a, from, rows)
	case KindSparse:
		c.Arrays = append(c.Arrays, piece(a.Buffers()[1], from, rows, 1))
		return m.children(c, i, a, from, rows)
	case KindDense:
		c.Arrays = append(c.Arrays, piece(a.Buffers()[1], from, rows, 1), piece(a.Buffers()[2], from, rows, 4))
		return m.children(c, i, a, 0, -1)
	case KindRunEnd:
		return m.runs(c, i, a, from, rows)
	}
	return nil
}

// children appends rows of each child of field i, all of them if rows is negative.
func (m *importer) children(c *Chunk, i int, a arrow.ArrayData, from, rows int) *wire.Error {
	for k, j := 0, i+1; j < c.Layout.Fields[i].End; k, j = k+1, c.Layout.Fields[j].End {
		n := rows
		if n < 0 {
			n = a.Children()[k].Len()
		}
		if e := m.array(c, j, a.Children()[k], from, n); e != nil {
			return e
		}
	}
	return nil
}

// runs appends the runs that cover the rows of a run-end encoded array. The ends of a slice are counted from its start.
func (m *importer) runs(c *Chunk, i int, a arrow.ArrayData, from, rows int) *wire.Error {
	ends := a.Children()[0]
	f := &c.Layout.Fields[i+1]
	b := piece(ends.Buffers()[1], ends.Offset(), ends.Len(), f.Width)
	end := func(k int) int { v, _ := ReadInteger(b, f.Number, k); return int(v) }
	first := 0
	for first < ends.Len() && end(first) <= from {
		first++
	}
	var out []byte
	n := 0
	for k := first; k < ends.Len() && rows > 0; k++ {
		n++
		to := min(end(k)-from, rows)
		out = append(out, le.AppendUint64(nil, uint64(to))[:f.Width]...)
		if to == rows {
			break
		}
	}
	le.PutUint64(c.nodes[16*(i+1):], uint64(n))
	c.Arrays = append(c.Arrays, nil, out)
	return m.array(c, f.End, a.Children()[1], first, n)
}

// dictionary reads dictionary k, unless another column has already read it.
func (m *importer) dictionary(k int, a arrow.ArrayData) *wire.Error {
	if m.dicts[k].Layout != nil {
		return nil
	}
	m.dicts[k] = newArrays(&m.schema.Dicts[k], a.Len())
	return m.array(&m.dicts[k], 0, a, 0, a.Len())
}

// piece returns a view on n values of width bytes, or on as many as there are.
func piece(b *memory.Buffer, from, n, width int) []byte {
	all := bytesOf(b)
	lo, hi := from*width, (from+n)*width
	if lo < 0 || hi < lo || lo > len(all) {
		return nil
	}
	return slices.Clip(all[lo:min(hi, len(all))])
}

// bitsOf returns n bits of a bitmap: a view if they begin on a byte, nil if there is no bitmap, empty if it is too
// short.
func bitsOf(b *memory.Buffer, from, n int) []byte {
	all := bytesOf(b)
	if len(all) == 0 || n == 0 {
		return nil
	}
	if (from+n+7)/8 > len(all) {
		return all[:0]
	}
	return TakeBits(all, []Span{{from, from + n}}, n)
}

// offsetsOf returns the offsets of rows, counted from 0, and the range of the child or data that they cover.
func offsetsOf(b *memory.Buffer, width, from, rows int) (out []byte, lo, hi int) {
	out = piece(b, from, rows+1, width)
	if len(out) < (rows+1)*width || rows == 0 {
		return nil, 0, 0
	}
	lo, hi = int(Offset(out, width, 0)), int(Offset(out, width, rows))
	if lo == 0 {
		return out, lo, hi
	}
	moved := make([]byte, 0, len(out))
	for k := range rows + 1 {
		moved = AppendInteger(moved, width, Offset(out, width, k)-int64(lo))
	}
	return moved, lo, hi
}

// bytesOf returns the bytes of a buffer, nil if it is missing.
func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
