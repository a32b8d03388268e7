package ipc

import (
	"slices"
	"strconv"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Chunk is the data of a record batch or dictionary batch: nodes and buffer ranges as in the metadata, and the body.
// After ReadChunk all ranges are inside the body; after Check the columns may be read.
type Chunk struct {
	Layout   *Layout
	Rows     int
	nodes    []byte // 16 bytes per field: length, null count
	Ranges   []byte // 16 bytes per buffer: offset, length
	variadic []byte // 8 bytes per view column: its number of data buffers
	Shift    []int  // number of data buffers of the views before view i, then the total; nil without views
	Body     []byte
	Arrays   [][]byte // for a record, instead of ranges and body: the buffers

	isUnpacked bool // Body is from the buffers of a Decompressor
}

// A Batch is a record batch with the metadata of its frame.
type Batch struct {
	Chunk
	Message flat.Table // message table of the frame
	Extra   int        // maximum size of the metadata in an output
}

// Node returns the length and the null count of field i.
func (c *Chunk) Node(i int) (rows, nulls int) {
	b := c.nodes[16*i:]
	rows, nulls = int(le.Uint64(b)), int(le.Uint64(b[8:]))
	if nulls == -1 && c.Layout.Fields[i].Kind == KindNull {
		nulls = rows // the library of JavaScript does not count the nulls of a slice
	}
	return rows, nulls
}

// Buffer returns buffer k of field i, not counting data buffers of views.
func (c *Chunk) Buffer(i, k int) []byte {
	f := &c.Layout.Fields[i]
	at := f.Buffer + k
	if c.Shift != nil {
		at += c.Shift[f.Views]
	}
	return c.Buf(at)
}

// Buf returns buffer at of the chunk.
func (c *Chunk) Buf(at int) []byte {
	if c.Arrays != nil {
		return c.Arrays[at]
	}
	b := c.Ranges[16*at:]
	from, n := le.Uint64(b), le.Uint64(b[8:])
	return c.Body[from : from+n : from+n]
}

// RunOf returns the run of field i; an empty one if it is in none, or positions do not follow from the run alone.
func (c *Chunk) RunOf(i int) Run {
	runs := c.Layout.Runs
	k, _ := slices.BinarySearchFunc(runs, i+1, func(r Run, end int) int { return r.End - end })
	if k == len(runs) || runs[k].First > i || c.Arrays != nil || c.Shift != nil {
		return Run{}
	}
	return runs[k]
}

// Follows reports whether field i of a run has no nulls, and its values begin at a position of the body.
func (c *Chunk) Follows(r *Run, i, at int) bool {
	return le.Uint64(c.nodes[16*i+8:]) == 0 && le.Uint64(c.Ranges[16*(r.Buffer+2*(i-r.First)+1):]) == uint64(at)
}

// Data returns the index of the first data buffer of field i, a view column, and the number of its data buffers.
func (c *Chunk) Data(i int) (first, n int) {
	f := &c.Layout.Fields[i]
	return f.Buffer + 2 + c.Shift[f.Views], c.Shift[f.Views+1] - c.Shift[f.Views]
}

// Valid returns the validity bitmap of field i, nil if no value is null.
func (c *Chunk) Valid(i int) []byte {
	f := &c.Layout.Fields[i]
	if f.Kind == KindNull || f.Kind == KindRunEnd || f.Kind == KindSparse || f.Kind == KindDense {
		return nil
	}
	if _, nulls := c.Node(i); nulls == 0 {
		return nil
	}
	return c.Buffer(i, 0)
}

// IsNull reports whether row of field i is null.
func (c *Chunk) IsNull(i, row int) bool {
	if c.Layout.Fields[i].Kind == KindNull {
		return true
	}
	v := c.Valid(i)
	return v != nil && v[row>>3]>>(row&7)&1 == 0
}

// Text returns a value of a text, integer or boolean field as text: of a text at most the first limit bytes.
func (c *Chunk) Text(i, row, limit int) string {
	f := &c.Layout.Fields[i]
	switch {
	case f.Kind == KindBool:
		return strconv.FormatBool(c.Buffer(i, 1)[row>>3]>>(row&7)&1 == 1)
	case f.Number == Uint64:
		v, _ := c.Index(i, row)
		return strconv.FormatUint(v, 10)
	case f.Number != NotNumber:
		v, _ := c.Index(i, row)
		return strconv.FormatInt(int64(v), 10)
	}
	b := c.binary(i, row)
	return string(b[:min(len(b), limit)])
}

// binary returns the bytes of a valid value of a binary or view field.
func (c *Chunk) binary(i, row int) []byte {
	f := &c.Layout.Fields[i]
	if f.Kind == KindBinary {
		o := c.Buffer(i, 1)
		return c.Buffer(i, 2)[Offset(o, f.Width, row):Offset(o, f.Width, row+1)]
	}
	v := c.Buffer(i, 1)[16*row : 16*row+16]
	n := int(le.Uint32(v))
	if n <= 12 {
		return v[4 : 4+n]
	}
	first, _ := c.Data(i)
	from := int(le.Uint32(v[12:]))
	return c.Buf(first + int(le.Uint32(v[8:])))[from : from+n]
}

// Release returns the memory of a decompressed body. The chunk has no body afterwards.
func (c *Chunk) Release(codecs *Decompressor) {
	if c.isUnpacked {
		codecs.Buffers.Put(c.Body)
		c.Body, c.isUnpacked = nil, false
	}
}

// ReadChunk reads a RecordBatch table. budget is the rest of Limits.Body; each buffer counts, so that many small ranges
// of the same bytes cannot expand to more.
func ReadChunk(f *Frame, head flat.Table, l *Layout, limits Limits, budget *int, codecs *Decompressor) Chunk {
	c := Chunk{Layout: l, Body: f.Body}
	rows := head.Integer(0, 8, 0, "a batch's length")
	if rows < 0 {
		panic(Malformed("a batch of %d rows", rows))
	}
	if f.Kind == HeadRecord && rows > int64(limits.Rows) {
		panic(TooManyRows(rows, limits.Rows))
	}
	c.Rows = int(rows)
	nodes := head.Vector(1, 16, "the list of nodes")
	buffers := head.Vector(2, 16, "the list of buffers")
	if nodes.Len != len(l.Fields) {
		panic(Malformed("a batch with %d nodes, and the schema has %d fields", nodes.Len, len(l.Fields)))
	}
	want := l.Buffers
	if l.Views > 0 {
		want = c.readVariadic(head, want, buffers.Len)
	}
	if buffers.Len != want {
		panic(Malformed("a batch with %d buffers, and the schema needs %d", buffers.Len, want))
	}
	c.nodes, c.Ranges = nodes.Bytes(), buffers.Bytes()
	total, outside := sizeOf(c.Ranges, len(c.Body))
	if outside >= 0 {
		r := c.Ranges[16*outside:]
		panic(Malformed("buffer %d is %d bytes from %d, and the body has %d", outside, int64(le.Uint64(r[8:])),
			int64(le.Uint64(r)), len(c.Body)))
	}
	if total > *budget {
		panic(TooLarge(limits.Body))
	}
	if packed, ok := head.Table(3, "the compression"); ok {
		codecs.unpack(&c, packed, limits, budget)
	} else {
		*budget -= total
	}
	return c
}

// sizeOf returns the total length of the buffers at these ranges of a body, and the first that is not inside, -1 if all
// are.
func sizeOf(ranges []byte, body int) (total, outside int) {
	for i, r := 0, ranges; len(r) >= 16; i, r = i+1, r[16:] {
		from, n := le.Uint64(r), le.Uint64(r[8:])
		if from > uint64(body) || n > uint64(body)-from {
			return 0, i
		}
		total += int(n)
	}
	return total, -1
}

// readVariadic reads the numbers of data buffers of the view columns and returns the total number of buffers.
func (c *Chunk) readVariadic(head flat.Table, want, most int) int {
	v := head.Vector(4, 8, "the list of data buffer counts")
	if v.Len != c.Layout.Views {
		panic(Malformed("a batch with %d data buffer counts, and the schema has %d view columns", v.Len,
			c.Layout.Views))
	}
	c.variadic = v.Bytes()
	c.Shift = make([]int, v.Len+1)
	for i := 0; i < v.Len; i++ {
		n := int64(le.Uint64(c.variadic[8*i:]))
		if n < 0 || n > int64(most) {
			panic(Malformed("a view column with %d data buffers, and the batch has %d", n, most))
		}
		c.Shift[i+1] = c.Shift[i] + int(n)
		if c.Shift[i+1] > most {
			panic(Malformed("view columns with %d data buffers, and the batch has %d", c.Shift[i+1], most))
		}
	}
	return want + c.Shift[v.Len]
}

// TooManyRows returns the error for n rows.
func TooManyRows(n int64, limit int) *wire.Error {
	return wire.Errorf(wire.TooManyRows, "%d rows, and the limit is %d", n, limit).WithHint(
		"send smaller batches or raise limits.rows")
}

// TooLarge returns the error for buffers of more than limit bytes.
func TooLarge(limit int) *wire.Error {
	return wire.Errorf(wire.TooLarge, "the message's buffers take more than %d bytes", limit).WithHint(
		"send fewer rows a message, or raise limits.expanded")
}
