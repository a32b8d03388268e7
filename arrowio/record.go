package arrowio

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A recordSchema is the schema of records as a frame, so that a record is planned and cached as a message is.
type recordSchema struct {
	schema *arrow.Schema
	frame  ipc.Frame
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
	msg, err := writeStream(schema)
	if err != nil {
		return nil, err
	}
	f, _, _, e := ipc.NextFrame(msg, true)
	if e != nil {
		return nil, e
	}
	return &recordSchema{schema, f}, nil
}

func (d *Decoder) fromRecord(f ipc.Frame, rec arrow.Record, c *Contract) (*Message, *Error) {
	p, _, e := d.planOf(f, c)
	if e != nil {
		return nil, e
	}
	m := &Message{plan: p, most: d.limits.Body}
	b := &Batch{message: m}
	budget := d.limits.Body
	if b.data.Chunk, m.dicts, e = ipc.ImportRecord(p.schema, rec, d.read, &budget); e != nil {
		return nil, e
	}
	if e := d.dictionaries(m, nil); e != nil {
		return nil, e
	}
	e = d.add(m, b, &budget)
	m.size = d.limits.Body - budget
	return m, e
}
