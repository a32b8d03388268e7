package arrowio

import (
	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// A chunk is the data of one record batch or dictionary batch: nodes and buffer ranges as they stand in the metadata,
// and the body they point into. After readChunk every range lies inside the body; after check the columns may be
// read.
type chunk struct {
	layout   *layout
	rows     int
	nodes    []byte // 16 bytes a field: length, null count
	ranges   []byte // 16 bytes a buffer: offset, length
	variadic []byte // 8 bytes a view column: its number of data buffers
	shift    []int  // data buffers of the views before view i, with the total at the end; nil without views
	body     []byte
	arrays   [][]byte // of a record instead of ranges and body: the buffers, each by itself
}

// node returns the length and the null count of field i.
func (c *chunk) node(i int) (rows, nulls int) {
	b := c.nodes[16*i:]
	return int(le.Uint64(b)), int(le.Uint64(b[8:]))
}

// buffer returns own buffer k of field i.
func (c *chunk) buffer(i, k int) []byte {
	f := &c.layout.fields[i]
	at := f.buffer + k
	if c.shift != nil {
		at += c.shift[f.views]
	}
	return c.buf(at)
}

func (c *chunk) buf(at int) []byte {
	if c.arrays != nil {
		return c.arrays[at]
	}
	b := c.ranges[16*at:]
	from, n := le.Uint64(b), le.Uint64(b[8:])
	return c.body[from : from+n : from+n]
}

// data returns the data buffers of view column i.
func (c *chunk) data(i int) (first, n int) {
	f := &c.layout.fields[i]
	return f.buffer + 2 + c.shift[f.views], c.shift[f.views+1] - c.shift[f.views]
}

// valid returns the validity bitmap of field i, nil when no value is null.
func (c *chunk) valid(i int) []byte {
	f := &c.layout.fields[i]
	if f.kind == kindNull || f.kind == kindRunEnd || f.kind == kindSparse || f.kind == kindDense {
		return nil
	}
	if _, nulls := c.node(i); nulls == 0 {
		return nil
	}
	return c.buffer(i, 0)
}

// isNull reports whether row of field i is null.
func (c *chunk) isNull(i, row int) bool {
	if c.layout.fields[i].kind == kindNull {
		return true
	}
	v := c.valid(i)
	return v != nil && v[row>>3]>>(row&7)&1 == 0
}

// readChunk reads a RecordBatch table. budget is what is left of Limits.Body; it counts every buffer, so that many
// small ranges on one piece of body cannot unfold to more.
func readChunk(f frame, head flat.Table, l *layout, limits Limits, budget *int, codecs *codecs) (chunk, *Error) {
	c := chunk{layout: l, body: f.body}
	rows, err := head.Integer(0, 8, 0, "a batch's length")
	if err != nil {
		return c, broken(err)
	}
	if rows < 0 {
		return c, fault(wire.Malformed, "a batch of %d rows", rows).hint(streamHint)
	}
	if f.kind == headRecord && rows > int64(limits.Rows) {
		return c, tooManyRows(rows, limits.Rows)
	}
	c.rows = int(rows)
	nodes, err := head.Vector(1, 16, "the list of nodes")
	if err != nil {
		return c, broken(err)
	}
	buffers, err := head.Vector(2, 16, "the list of buffers")
	if err != nil {
		return c, broken(err)
	}
	if nodes.Len != len(l.fields) {
		return c, fault(wire.Malformed, "a batch with %d nodes, and the schema has %d fields", nodes.Len,
			len(l.fields)).hint(streamHint)
	}
	want := l.buffers
	if l.views > 0 {
		var e *Error
		if want, e = c.readVariadic(head, want, buffers.Len); e != nil {
			return c, e
		}
	}
	if buffers.Len != want {
		return c, fault(wire.Malformed, "a batch with %d buffers, and the schema needs %d", buffers.Len,
			want).hint(streamHint)
	}
	c.nodes, c.ranges = nodes.Bytes(), buffers.Bytes()
	total := 0
	for i := 0; i < buffers.Len; i++ {
		from, n := int64(le.Uint64(c.ranges[16*i:])), int64(le.Uint64(c.ranges[16*i+8:]))
		if from < 0 || n < 0 || from > int64(len(c.body)) || n > int64(len(c.body))-from {
			return c, fault(wire.Malformed, "buffer %d is %d bytes from %d, and the body has %d", i, n, from,
				len(c.body)).hint(streamHint)
		}
		if total += int(n); total > *budget {
			return c, tooLarge(limits.Body)
		}
	}
	packed, ok, err := head.Table(3, "the compression")
	if err != nil {
		return c, broken(err)
	}
	if ok {
		return c, codecs.unpack(&c, packed, limits, budget)
	}
	*budget -= total
	return c, nil
}

// readVariadic reads the numbers of data buffers of the view columns and returns the number of buffers they come to.
func (c *chunk) readVariadic(head flat.Table, want, most int) (int, *Error) {
	v, err := head.Vector(4, 8, "the list of data buffer counts")
	if err != nil {
		return 0, broken(err)
	}
	if v.Len != c.layout.views {
		return 0, fault(wire.Malformed, "a batch with %d data buffer counts, and the schema has %d view columns", v.Len,
			c.layout.views).hint(streamHint)
	}
	c.variadic = v.Bytes()
	c.shift = make([]int, v.Len+1)
	for i := 0; i < v.Len; i++ {
		n := int64(le.Uint64(c.variadic[8*i:]))
		if n < 0 || n > int64(most) {
			return 0, fault(wire.Malformed, "a view column with %d data buffers, and the batch has %d", n,
				most).hint(streamHint)
		}
		c.shift[i+1] = c.shift[i] + int(n)
		if c.shift[i+1] > most {
			return 0, fault(wire.Malformed, "view columns with %d data buffers, and the batch has %d", c.shift[i+1],
				most).hint(streamHint)
		}
	}
	return want + c.shift[v.Len], nil
}

func tooManyRows(n int64, limit int) *Error {
	return fault(wire.TooManyRows, "%d rows, and the limit is %d", n, limit).hint(
		"send smaller batches or raise limits.rows")
}

func tooLarge(limit int) *Error {
	return fault(wire.TooLarge, "the message's buffers come to more than %d bytes", limit).hint(
		"send fewer rows a message, or raise limits.expanded")
}
