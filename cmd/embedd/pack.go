package main

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// packRecord replaces the numeric columns, label and key apart, by one fixed-size list of float32, in schema order.
// Nulls become null elements.
func packRecord(rec arrow.Record, name, label, key string) (arrow.Record, error) {
	var fields []arrow.Field
	var kept []arrow.Array
	var numbers []func(int) (float32, bool)
	for i, f := range rec.Schema().Fields() {
		get := numberOf(rec.Column(i))
		if get == nil || f.Name == label || f.Name == key {
			fields, kept = append(fields, f), append(kept, rec.Column(i))
			continue
		}
		numbers = append(numbers, get)
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("there is no numeric column to pack into %q", name)
	}
	list := arrow.FixedSizeListOf(int32(len(numbers)), arrow.PrimitiveTypes.Float32)
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(len(numbers)), arrow.PrimitiveTypes.Float32)
	defer b.Release()
	values := b.ValueBuilder().(*array.Float32Builder)
	for row := range int(rec.NumRows()) {
		b.Append(true)
		for _, get := range numbers {
			if v, ok := get(row); ok {
				values.Append(v)
			} else {
				values.AppendNull()
			}
		}
	}
	packed := b.NewArray()
	defer packed.Release()
	fields = append([]arrow.Field{{Name: name, Type: list}}, fields...)
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), append([]arrow.Array{packed}, kept...), rec.NumRows()), nil
}

// numberOf reads a numeric column as float32; nil for another type.
func numberOf(a arrow.Array) func(int) (float32, bool) {
	switch a := a.(type) {
	case *array.Float64:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Float32:
		return func(i int) (float32, bool) { return a.Value(i), a.IsValid(i) }
	case *array.Int64:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Int32:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Int16:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Int8:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Uint64:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Uint32:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Uint16:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	case *array.Uint8:
		return func(i int) (float32, bool) { return float32(a.Value(i)), a.IsValid(i) }
	}
	return nil
}
