package file

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// integerLabelSchema returns the schema with the label column as integers if its type has fractions, and the index of
// that column, else -1.
func integerLabelSchema(s *arrow.Schema, label string) (*arrow.Schema, int) {
	at := s.FieldIndices(label)
	if label == "" || len(at) != 1 {
		return s, -1
	}
	switch s.Field(at[0]).Type.ID() {
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128, arrow.DECIMAL256:
	default:
		return s, -1
	}
	fields := slices.Clone(s.Fields())
	fields[at[0]].Type, fields[at[0]].Nullable = arrow.PrimitiveTypes.Int64, true
	meta := s.Metadata()
	return arrow.NewSchema(fields, &meta), at[0]
}

// integerLabels converts the numbers of column at to integers. NaN is null.
func integerLabels(rec arrow.Record, at int, schema *arrow.Schema) (arrow.Record, error) {
	col := rec.Column(at)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for row := range col.Len() {
		v := fraction(col, row)
		switch {
		case col.IsNull(row) || math.IsNaN(v):
			b.AppendNull()
		case v != math.Trunc(v) || math.Abs(v) > 1<<53:
			return nil, fmt.Errorf("column %q is the label and holds %s: a class is text, a whole number (1.0 is read as "+
				"1) or a boolean",
				rec.ColumnName(at), col.ValueStr(row))
		default:
			b.Append(int64(v))
		}
	}
	whole := b.NewArray()
	defer whole.Release()
	columns := slices.Clone(rec.Columns())
	columns[at] = whole
	return array.NewRecord(schema, columns, rec.NumRows()), nil
}

// fraction returns a value of a type that integerLabelSchema converts.
func fraction(col arrow.Array, row int) float64 {
	switch a := col.(type) {
	case *array.Float16:
		return float64(a.Value(row).Float32())
	case *array.Float32:
		return float64(a.Value(row))
	case *array.Float64:
		return a.Value(row)
	}
	v, _ := strconv.ParseFloat(col.ValueStr(row), 64) // the text of a decimal
	return v
}
