package arrowio

import (
	"bytes"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	arrowipc "github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/embedd/embedd/arrowio/wire"
)

// writeStream encodes records of one schema with Arrow's own writer.
func writeStream(schema *arrow.Schema, recs ...arrow.Record) ([]byte, error) {
	var buf bytes.Buffer
	w := arrowipc.NewWriter(&buf, arrowipc.WithSchema(schema))
	for k, r := range recs {
		if err := w.Write(r); err != nil {
			return nil, wire.Errorf(wire.Internal, "record %d cannot be written: %v", k, err).WithHint(
				"give records of the schema")
		}
	}
	if err := w.Close(); err != nil {
		return nil, wire.Errorf(wire.Internal, "the stream cannot be closed: %v", err)
	}
	return buf.Bytes(), nil
}

// Records reads a message with Arrow's own reader. A Decoder must have accepted the message, because unchecked
// bytes can crash the process. The records do not share memory with msg; the caller releases them.
func Records(msg []byte) (*arrow.Schema, []arrow.Record, error) {
	r, err := arrowipc.NewReader(bytes.NewReader(msg))
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	var recs []arrow.Record
	for r.Next() {
		rec := r.Record()
		rec.Retain()
		recs = append(recs, rec)
	}
	if err := r.Err(); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return r.Schema(), recs, nil
}
