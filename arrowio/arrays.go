package arrowio

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// A recordSchema is the schema of records as a frame, so that a record is planned and cached as a message is.
type recordSchema struct {
	schema *arrow.Schema
	frame  frame
}

// FromRecord makes a message of one batch from a record, without the wire form: what Decode makes of the record's
// stream, with the same features, limits (but Limits.Message), nulls, labels and faults, and the same bits.
// The error is always an *Error.
//
// The message is a view on the record's memory: fixed-size lists and columns of float32 or float64 without nulls are
// not copied, sliced or not. It takes no reference: the caller keeps the record (Retain, Release) and does not write
// to it as long as the message, or a result that shares memory with it, is in use. Many goroutines may read one
// record.
func (d *Decoder) FromRecord(rec arrow.Record, c *Contract) (m *Message, err error) {
	defer rescue(&err)
	s := d.recent.Load()
	if s == nil || s.schema != rec.Schema() {
		if s, err = frameOf(rec.Schema()); err != nil {
			return nil, err
		}
		d.recent.Store(s)
	}
	m, e := d.fromRecord(s.frame, rec, c)
	if e != nil {
		return nil, e
	}
	return m, nil
}

// frameOf writes a schema with Arrow's own writer.
func frameOf(schema *arrow.Schema) (*recordSchema, error) {
	msg, err := FromRecords(schema)
	if err != nil {
		return nil, err
	}
	f, _, _, e := nextFrame(msg, true)
	if e != nil {
		return nil, e
	}
	return &recordSchema{schema, f}, nil
}

func (d *Decoder) fromRecord(f frame, rec arrow.Record, c *Contract) (*Message, *Error) {
	p, _, e := d.planOf(f, c)
	if e != nil {
		return nil, e
	}
	if rec.NumRows() > int64(d.limits.Rows) {
		return nil, tooManyRows(rec.NumRows(), d.limits.Rows)
	}
	m := &Message{plan: p, most: d.limits.Body}
	if n := len(p.schema.dicts); n > 0 {
		m.dicts = make([]chunk, n)
	}
	b := &Batch{message: m, chunk: newArrays(&p.schema.layout, int(rec.NumRows()))}
	budget := d.limits.Body
	for k, i := range p.schema.layout.columns {
		if e := m.array(&b.chunk, i, rec.Column(k).Data(), 0, b.rows); e != nil {
			return nil, e.in(p.schema.layout.fields[i].name)
		}
	}
	for k := range m.dicts {
		if e := m.dicts[k].spend(&budget, d.limits); e != nil {
			return nil, e
		}
	}
	if e := b.spend(&budget, d.limits); e != nil {
		return nil, e
	}
	if e := d.dictionaries(m, nil); e != nil {
		return nil, e
	}
	err := d.add(m, b, &budget)
	m.size = d.limits.Body - budget
	return m, err
}

// newArrays is a chunk whose buffers stand each by itself.
func newArrays(l *layout, rows int) chunk {
	c := chunk{layout: l, rows: rows, nodes: make([]byte, 16*len(l.fields)), arrays: make([][]byte, 0, l.buffers)}
	if l.views > 0 {
		c.shift = make([]int, l.views+1)
	}
	return c
}

// spend counts the buffers as those of a message are.
func (c *chunk) spend(budget *int, limits Limits) *Error {
	for _, b := range c.arrays {
		if *budget -= len(b); *budget < 0 {
			return tooLarge(limits.Body)
		}
	}
	return nil
}

// array appends the rows of an array, from row from on, as field i of c with its descendants. Buffers that are too
// short stay so: check refuses them.
func (m *Message) array(c *chunk, i int, a arrow.ArrayData, from, rows int) *Error {
	f := &c.layout.fields[i]
	if from+rows > a.Len() {
		return fault(wire.Malformed, "an array of %d rows, and its parent or record needs %d", a.Len(), from+rows).
			hint("give arrays as long as the record")
	}
	from += a.Offset()
	nulls := 0
	switch f.kind {
	case kindNull:
		nulls = rows
	case kindSparse, kindDense, kindRunEnd:
	default:
		valid := bitsOf(a.Buffers()[0], from, rows)
		switch {
		case valid == nil:
		case len(valid) < (rows+7)/8:
			nulls = rows // check refuses the short bitmap
		default:
			nulls = countNulls(valid, rows) // the array's own count may be written by another reader just now
		}
		c.arrays = append(c.arrays, valid)
	}
	le.PutUint64(c.nodes[16*i:], uint64(rows))
	le.PutUint64(c.nodes[16*i+8:], uint64(nulls))
	switch f.kind {
	case kindBool:
		c.arrays = append(c.arrays, bitsOf(a.Buffers()[1], from, rows))
	case kindFixed:
		c.arrays = append(c.arrays, piece(a.Buffers()[1], from, rows, f.width))
		if f.dict >= 0 {
			return m.dictionary(f.dict, a.Dictionary())
		}
	case kindBinary:
		offsets, lo, hi := offsetsOf(a.Buffers()[1], f.width, from, rows)
		c.arrays = append(c.arrays, offsets, piece(a.Buffers()[2], lo, hi-lo, 1))
	case kindView:
		c.arrays = append(c.arrays, piece(a.Buffers()[1], from, rows, 16))
		for _, b := range a.Buffers()[2:] {
			c.arrays = append(c.arrays, b.Bytes())
		}
		c.shift[f.views+1] = c.shift[f.views] + len(a.Buffers()) - 2
	case kindList:
		offsets, lo, hi := offsetsOf(a.Buffers()[1], f.width, from, rows)
		c.arrays = append(c.arrays, offsets)
		return m.array(c, i+1, a.Children()[0], lo, hi-lo)
	case kindListView:
		sizes := piece(a.Buffers()[2], from, rows, f.width)
		c.arrays = append(c.arrays, piece(a.Buffers()[1], from, rows, f.width), sizes)
		return m.children(c, i, a)
	case kindFixedList:
		return m.array(c, i+1, a.Children()[0], from*f.size, rows*f.size)
	case kindStruct:
		return m.slices(c, i, a, from, rows)
	case kindSparse:
		c.arrays = append(c.arrays, piece(a.Buffers()[1], from, rows, 1))
		return m.slices(c, i, a, from, rows)
	case kindDense:
		c.arrays = append(c.arrays, piece(a.Buffers()[1], from, rows, 1), piece(a.Buffers()[2], from, rows, 4))
		return m.children(c, i, a)
	case kindRunEnd:
		return m.runs(c, i, a, from, rows)
	}
	return nil
}

// children appends the children of field i whole.
func (m *Message) children(c *chunk, i int, a arrow.ArrayData) *Error {
	for k, j := 0, i+1; j < c.layout.fields[i].end; k, j = k+1, c.layout.fields[j].end {
		if e := m.array(c, j, a.Children()[k], 0, a.Children()[k].Len()); e != nil {
			return e
		}
	}
	return nil
}

// slices appends the same rows of each child of field i.
func (m *Message) slices(c *chunk, i int, a arrow.ArrayData, from, rows int) *Error {
	for k, j := 0, i+1; j < c.layout.fields[i].end; k, j = k+1, c.layout.fields[j].end {
		if e := m.array(c, j, a.Children()[k], from, rows); e != nil {
			return e
		}
	}
	return nil
}

// runs appends the runs that cover the rows of a run-end encoded array. In a slice their ends are counted anew.
func (m *Message) runs(c *chunk, i int, a arrow.ArrayData, from, rows int) *Error {
	ends := a.Children()[0]
	f := &c.layout.fields[i+1]
	b := piece(ends.Buffers()[1], ends.Offset(), ends.Len(), f.width)
	end := func(k int) int { v, _ := readInteger(b, f.number, k); return int(v) }
	first := 0
	for first < ends.Len() && end(first) <= from {
		first++
	}
	var out []byte
	n := 0
	for k := first; k < ends.Len() && rows > 0; k++ {
		n++
		to := min(end(k)-from, rows)
		out = append(out, le.AppendUint64(nil, uint64(to))[:f.width]...)
		if to == rows {
			break
		}
	}
	le.PutUint64(c.nodes[16*(i+1):], uint64(n))
	c.arrays = append(c.arrays, nil, out)
	return m.array(c, f.end, a.Children()[1], first, n)
}

// dictionary reads dictionary k, unless a column that shares it has.
func (m *Message) dictionary(k int, a arrow.ArrayData) *Error {
	if m.dicts[k].layout != nil {
		return nil
	}
	m.dicts[k] = newArrays(&m.plan.schema.dicts[k], a.Len())
	return m.array(&m.dicts[k], 0, a, 0, a.Len())
}

// piece is a view on n values of width bytes, or on what is there of them.
func piece(b *memory.Buffer, from, n, width int) []byte {
	all := bytesOf(b)
	lo, hi := from*width, (from+n)*width
	if lo < 0 || hi < lo || lo > len(all) {
		return nil
	}
	return slices.Clip(all[lo:min(hi, len(all))])
}

// bitsOf is n bits of a bitmap: a view where they begin on a byte, nil where there is none, empty where it is too
// short.
func bitsOf(b *memory.Buffer, from, n int) []byte {
	all := bytesOf(b)
	if len(all) == 0 || n == 0 {
		return nil
	}
	if (from+n+7)/8 > len(all) {
		return all[:0]
	}
	return takeBits(all, []span{{from, from + n}}, n)
}

// offsetsOf is the offsets of rows, from 0 up, and what they cover of the child or data.
func offsetsOf(b *memory.Buffer, width, from, rows int) (out []byte, lo, hi int) {
	out = piece(b, from, rows+1, width)
	if len(out) < (rows+1)*width || rows == 0 {
		return nil, 0, 0
	}
	lo, hi = int(offset(out, width, 0)), int(offset(out, width, rows))
	if lo == 0 {
		return out, lo, hi
	}
	moved := make([]byte, 0, len(out))
	for k := range rows + 1 {
		moved = appendInteger(moved, width, offset(out, width, k)-int64(lo))
	}
	return moved, lo, hi
}

// bytesOf is a buffer's bytes; a missing buffer has none.
func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
