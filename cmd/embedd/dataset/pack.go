package dataset

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
)

// Pack replaces the numeric columns except label and key by one fixed-size list of float32, in schema order. Nulls
// become null elements. List columns are unchanged.
func Pack(rec arrow.Record, name, label, key string) (arrow.Record, error) {
	all, err := messageOf(rec, nil)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	var kept, packed []arrow.Array
	var names []string
	for i, f := range rec.Schema().Fields() {
		if all.Fields()[i].Holds != "number" || f.Name == label || f.Name == key {
			fields, kept = append(fields, f), append(kept, rec.Column(i))
			continue
		}
		names, packed = append(names, f.Name), append(packed, rec.Column(i))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no numeric column to pack into %q", name)
	}
	m, err := messageOf(rec, names)
	if err != nil {
		return nil, err
	}
	list := arrow.FixedSizeListOf(int32(len(names)), arrow.PrimitiveTypes.Float32)
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(len(names)), arrow.PrimitiveTypes.Float32)
	defer b.Release()
	values := b.ValueBuilder().(*array.Float32Builder)
	blocks := m.Batches()[0].Features()
	var x []float64
	for row := range int(rec.NumRows()) {
		b.Append(true)
		x = x[:0]
		for _, block := range blocks {
			x = appendRow(x, block, row)
		}
		for j, v := range x {
			if packed[j].IsNull(row) {
				values.AppendNull()
			} else {
				values.Append(float32(v))
			}
		}
	}
	lists := b.NewArray()
	defer lists.Release()
	fields = append([]arrow.Field{{Name: name, Type: list}}, fields...)
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), append([]arrow.Array{lists}, kept...), rec.NumRows()), nil
}

// messageOf decodes a record as a pipeline with these features does.
func messageOf(rec arrow.Record, features []string) (*arrowio.Message, error) {
	decoder, err := arrowio.NewDecoder(arrowio.Spec{Features: features, Limits: file.Limits()})
	if err != nil {
		return nil, err
	}
	return decoder.FromRecord(rec, nil)
}
