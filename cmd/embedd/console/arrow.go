package console

import (
	"bytes"
	"math"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/stream"
)

// arrowOf writes points as an Arrow stream: a column class, then live_0 ... and previous_0 ...
func arrowOf(p *stream.Points) ([]byte, error) {
	names := array.NewStringBuilder(memory.DefaultAllocator)
	for _, class := range p.Class {
		names.Append(p.Classes[class].Name)
	}
	fields := []arrow.Field{{Name: "class", Type: arrow.BinaryTypes.String}}
	columns := []arrow.Array{names.NewArray()}
	var keys, values []string
	add := func(prefix string, m *stream.PointModel) {
		if m == nil {
			return
		}
		keys, values = append(keys, prefix), append(values, m.Version)
		for k, outputs := range m.Outputs {
			b := array.NewFloat32Builder(memory.DefaultAllocator)
			for _, v := range outputs {
				if math.IsNaN(float64(v)) {
					b.AppendNull()
				} else {
					b.Append(float32(v))
				}
			}
			fields = append(fields, arrow.Field{Name: prefix + "_" + strconv.Itoa(k), Type: arrow.PrimitiveTypes.Float32,
				Nullable: true})
			columns = append(columns, b.NewArray())
		}
	}
	add("live", p.Live)
	add("previous", p.Previous)
	metadata := arrow.NewMetadata(keys, values)
	schema := arrow.NewSchema(fields, &metadata)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(array.NewRecord(schema, columns, int64(len(p.Class)))); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}
