package arrowio

import (
	"bytes"

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
