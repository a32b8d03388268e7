package arrowio

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// slicesOf returns a record and slices of it that begin on and off a byte of their bitmaps.
func slicesOf(rec arrow.Record) []arrow.Record {
	out := []arrow.Record{rec}
	n := rec.NumRows()
	for _, from := range []int64{1, 3, 8} {
		if from <= n {
			out = append(out, rec.NewSlice(from, n), rec.NewSlice(from, from+(n-from)/2))
		}
	}
	return out
}

// same compares the content of two messages: features bit for bit, faults, labels and keys.
func same(t *testing.T, got, want *Message) {
	t.Helper()
	if got.Rows() != want.Rows() || len(got.Batches()) != len(want.Batches()) {
		t.Fatalf("%d rows in %d batches, not %d in %d", got.Rows(), len(got.Batches()), want.Rows(),
			len(want.Batches()))
	}
	for k, b := range want.Batches() {
		a := got.Batches()[k]
		if x, y := fmt.Sprint(a.Faults()), fmt.Sprint(b.Faults()); x != y {
			t.Errorf("faults %s, not %s", x, y)
		}
		for i := range b.Rows() {
			if x, y := bitsOfRow(a, i), bitsOfRow(b, i); x != y {
				t.Errorf("row %d: features %s, not %s", i, x, y)
			}
			for _, f := range []func(*Batch, int) (string, bool){(*Batch).Label, (*Batch).Key} {
				x, xok := f(a, i)
				if y, yok := f(b, i); x != y || xok != yok {
					t.Errorf("row %d: %q %v, not %q %v", i, x, xok, y, yok)
				}
			}
		}
	}
}

func bitsOfRow(b *Batch, i int) string {
	var bits []uint64
	for _, k := range b.Features() {
		for j := range k.Cols {
			bits = append(bits, math.Float64bits(k.At(i, j)))
		}
	}
	return fmt.Sprint(bits)
}

// TestRecordsAreAsTheirWireForm: every form of features, labels and keys, sliced or not, is read as from its stream.
func TestRecordsAreAsTheirWireForm(t *testing.T) {
	const rows = 19
	column := func(typ arrow.DataType, value func(i int) string) arrow.Array {
		s := "["
		for i := range rows {
			if i > 0 {
				s += ","
			}
			s += value(i)
		}
		return from(t, typ, s+"]")
	}
	number := func(i int) string { return fmt.Sprint(i * 3) }
	gaps := func(i int) string {
		if i%5 == 2 {
			return "null"
		}
		return fmt.Sprint(i * 3)
	}
	pairs := func(i int) string { return fmt.Sprintf("[%d,%d]", i, 2*i) }
	holes := func(i int) string {
		switch i % 6 {
		case 1:
			return "null"
		case 4:
			return fmt.Sprintf("[null,%d]", i)
		}
		return pairs(i)
	}
	texts := func(i int) string {
		if i%4 == 3 {
			return "null"
		}
		return fmt.Sprintf("%q", fmt.Sprint("class ", i%3))
	}
	truths := func(i int) string { return fmt.Sprint(i%3 == 0) }
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str}
	for name, columns := range map[string][]arrow.Array{
		"float32 list":      {column(arrow.FixedSizeListOf(2, f32), pairs)},
		"float64 list":      {column(arrow.FixedSizeListOf(2, f64), pairs)},
		"list with nulls":   {column(arrow.FixedSizeListOf(2, f32), holes)},
		"integer list":      {column(arrow.FixedSizeListOf(2, i32), holes)},
		"list":              {column(arrow.ListOf(f64), pairs)},
		"list with holes":   {column(arrow.LargeListOf(f32), holes)},
		"columns":           {column(f32, number), column(f32, number), column(f64, number)},
		"columns and nulls": {column(f32, gaps), column(arrow.PrimitiveTypes.Uint8, gaps), column(f64, gaps)},
	} {
		for label, labels := range map[string]arrow.Array{"string": column(str, texts),
			"large string": column(arrow.BinaryTypes.LargeString, texts),
			"dictionary":   column(dict, texts), "integer": column(i32, gaps),
			"boolean": column(arrow.FixedWidthTypes.Boolean, truths)} {
			t.Run(name+"/"+label, func(t *testing.T) {
				var fields []arrow.Field
				for k, c := range columns {
					fields = append(fields, arrow.Field{Name: fmt.Sprint("x", k), Type: c.DataType(), Nullable: true})
				}
				fields = append(fields, arrow.Field{Name: "label", Type: labels.DataType(), Nullable: true},
					arrow.Field{Name: "key", Type: str})
				schema := arrow.NewSchema(fields, nil)
				arrays := append(append([]arrow.Array{}, columns...), labels,
					column(str, func(i int) string { return fmt.Sprintf("\"%d\"", i) }))
				spec := Spec{Features: []string{"x*"}, Label: "label", Key: "key"}
				direct, wire := newDecoder(t, spec), newDecoder(t, spec)
				for _, rec := range slicesOf(array.NewRecord(schema, arrays, rows)) {
					got, err := direct.FromRecord(rec, nil)
					if err != nil {
						t.Fatal(err)
					}
					msg, err := FromRecords(schema, rec)
					if err != nil {
						t.Fatal(err)
					}
					want := decode(t, wire, msg)
					same(t, got, want)
					if x, y := fmt.Sprint(got.Contract()), fmt.Sprint(want.Contract()); x != y {
						t.Errorf("contract %s, not %s", x, y)
					}
				}
			})
		}
	}
}

// TestRecordColumnsPassThrough: columns of every type are unchanged in outputs, also from slices.
func TestRecordColumnsPassThrough(t *testing.T) {
	for name, in := range fixtures(t) {
		_, recs := records(t, in)
		for k, rec := range recs {
			for j, part := range slicesOf(rec) {
				t.Run(fmt.Sprint(name, "/", k, "/", j), func(t *testing.T) {
					m, err := newDecoder(t, Spec{}).FromRecord(part, nil)
					if err != nil {
						t.Fatal(err)
					}
					out, err := newEncoder(t, Output{}).Record(numbered(m, 2), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer out.Release()
					for c := range int(part.NumCols()) {
						// As text too, because NaN does not equal NaN.
						equal := array.Equal(out.Column(c), part.Column(c)) ||
							out.Column(c).String() == part.Column(c).String()
						if out.ColumnName(c) != part.ColumnName(c) || !equal {
							t.Errorf("column %s came back as %v, not %v", part.ColumnName(c), out.Column(c),
								part.Column(c))
						}
					}
					embedding := out.Column(int(part.NumCols())).(*array.FixedSizeList).ListValues().(*array.Float32)
					for i, y := range numbered(m, 2).Y[0] {
						if embedding.Value(i) != y {
							t.Fatalf("output %d is %g, not %g", i, embedding.Value(i), y)
						}
					}
				})
			}
		}
	}
}

// TestRecordsAreViews: float features are views on the record's memory, also of a slice.
func TestRecordsAreViews(t *testing.T) {
	values := from(t, f32, `[1,2,3,4,5,6]`)
	list := array.NewFixedSizeListData(array.NewData(arrow.FixedSizeListOf(2, f32), 3, []*memory.Buffer{nil},
		[]arrow.ArrayData{values.Data()}, 0, 0))
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: list.DataType()}, {Name: "y", Type: f32}}, nil)
	column := from(t, f32, `[7,8,9]`)
	rec := array.NewRecord(schema, []arrow.Array{list, column}, 3).NewSlice(1, 3)
	m, err := newDecoder(t, Spec{Features: []string{"x", "y"}}).FromRecord(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	blocks := m.Batches()[0].Features()
	if &blocks[0].F32[0] != &values.(*array.Float32).Float32Values()[2] ||
		&blocks[1].F32[0] != &column.(*array.Float32).Float32Values()[1] {
		t.Error("the features are a copy")
	}
}

// TestRecordsAreRefused: the contract of the schema and the limits apply to records, and an inconsistent array is an
// error.
func TestRecordsAreRefused(t *testing.T) {
	record := func(rows int, columns ...arrow.Array) arrow.Record {
		var fields []arrow.Field
		for k, c := range columns {
			fields = append(fields, arrow.Field{Name: string("xyz"[k]), Type: c.DataType(), Nullable: true})
		}
		return array.NewRecord(arrow.NewSchema(fields, nil), columns, int64(rows))
	}
	d := newDecoder(t, Spec{Features: []string{"x"}, Label: "y", Limits: Limits{Rows: 9, Body: 64, LabelBytes: 8}})
	m, err := d.FromRecord(record(2, from(t, f32, `[1,2]`), from(t, str, `["a","b"]`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	made := func(typ arrow.DataType, rows int, buffers ...[]byte) arrow.Array {
		var b []*memory.Buffer
		for _, x := range buffers {
			b = append(b, memory.NewBufferBytes(x))
		}
		return array.MakeFromData(array.NewData(typ, rows, b, nil, array.UnknownNullCount, 0))
	}
	for _, c := range []struct {
		name string
		rec  arrow.Record
		want wire.Code
	}{
		{"lists where the contract has numbers", record(1, from(t, arrow.ListOf(f32), `[[1,2]]`)), wire.SchemaChanged},
		{"no feature", array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "other", Type: f32}}, nil),
			[]arrow.Array{from(t, f32, `[1]`)}, 1), wire.MissingColumn},
		{"too many rows", record(10, from(t, f32, `[1,2,3,4,5,6,7,8,9,10]`)), wire.TooManyRows},
		{"too many bytes", record(4, from(t, f32, `[1,2,3,4]`),
			from(t, str, `["aaaaaaaa","bbbbbbbb","cccccccc","dddddddd"]`)), wire.TooLarge},
		{"a long label", record(1, from(t, f32, `[1]`), from(t, str, `["a label of many bytes"]`)), wire.TooLarge},
		{"a short bitmap", record(9, made(f32, 9, []byte{255}, make([]byte, 36))), wire.Malformed},
		{"offsets that go back", record(2, from(t, f32, `[1,2]`),
			made(str, 2, nil, []byte{0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0}, []byte("ab"))), wire.Malformed},
	} {
		if _, err := d.FromRecord(c.rec, m.Contract()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %s", c.name, err, c.want)
		}
	}
}

// TestRecordIsShared reads one record from many goroutines; run it with -race.
func TestRecordIsShared(t *testing.T) {
	_, recs := records(t, fixtures(t)["everything"])
	rec := recs[0].NewSlice(1, recs[0].NumRows())
	d, e := newDecoder(t, Spec{}), newEncoder(t, Output{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				m, err := d.FromRecord(rec, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := e.Encode(numbered(m, 2), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestRecordOfOneBatch: a message of no batch or of several is not one record.
func TestRecordOfOneBatch(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: f64}}, nil)
	rec := array.NewRecord(schema, []arrow.Array{from(t, f64, "[1]")}, 1)
	for batches, want := range []string{"a message of 0 batches is not one record", "", "a message of 2 batches"} {
		msg, err := FromRecords(schema, slices.Repeat([]arrow.Record{rec}, batches)...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := newEncoder(t, Output{}).Record(numbered(decode(t, newDecoder(t, Spec{}), msg), 2), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) ||
			err == nil && out.NumRows() != 1 {
			t.Errorf("%d batches: %v", batches, err)
		}
	}
}
