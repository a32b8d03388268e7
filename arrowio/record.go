package arrowio

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A recordSchema is the schema of records as a frame, so that plans of records are cached like those of messages.
type recordSchema struct {
	schema *arrow.Schema
	frame  ipc.Frame
}

// FromRecord is Decode for a record: the message has one batch, with the same features, limits (except Limits.Message),
// nulls, labels and faults, bit for bit. The error is always an *Error.
//
// The message is a view on the record's memory: fixed-size lists and columns of float32 or float64 without nulls are
// not copied, even if sliced. It takes no reference: the caller retains the record and does not write to it while the
// message, or a result that shares memory with it, is in use. Goroutines may share a record.
func (d *Decoder) FromRecord(rec arrow.Record, c *Contract) (m *Message, err error) {
	defer rescue(&err)
	s := d.recent.Load()
	if s == nil || s.schema != rec.Schema() {
		if s, err = schemaFrameOf(rec.Schema()); err != nil {
			return nil, err
		}
		d.recent.Store(s)
	}
	return d.withoutVaryingLists(func(excluded []string) (m *Message, err error) {
		defer rescue(&err)
		return d.fromRecord(&s.frame, rec, c, excluded), nil
	})
}

// schemaFrameOf encodes a schema with Arrow's own writer.
func schemaFrameOf(schema *arrow.Schema) (*recordSchema, error) {
	msg, err := writeStream(schema)
	if err != nil {
		return nil, err
	}
	f, _, _ := ipc.NextFrame(msg, true)
	return &recordSchema{schema, f}, nil
}

func (d *Decoder) fromRecord(f *ipc.Frame, rec arrow.Record, c *Contract, excluded []string) *Message {
	p, _ := d.planOf(f, c, excluded)
	m := &Message{decoder: d, plan: p}
	b := &Batch{message: m}
	budget := d.limits.Body
	b.data.Chunk, m.dicts = ipc.ImportRecord(p.schema, rec, d.ipcLimits, &budget)
	d.dictionaries(m, nil)
	d.add(m, b, &budget)
	m.size = d.limits.Body - budget
	return m
}
