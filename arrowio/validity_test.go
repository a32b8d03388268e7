package arrowio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

// table returns a type table: 16-bit or 32-bit parameters.
func table(parameters ...any) flatType {
	return func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		b.StartObject(len(parameters))
		for k, p := range parameters {
			switch v := p.(type) {
			case int16:
				b.PrependInt16Slot(k, v, ^v)
			case int32:
				b.PrependInt32Slot(k, v, ^v)
			}
		}
		return b.EndObject()
	}
}

// entriesField is the struct of a map of int32 to int32.
func entriesField(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	kids := rewrite.References(b, []flatbuffers.UOffsetT{integerField(32)(b), integerField(32)(b)})
	return rewrite.FieldTable(b, b.CreateString("entries"), false, ipc.TypeStruct, emptyType(b), 0, kids, 0)
}

// longs returns 64-bit integers.
func longs(v ...int64) (b []byte) {
	for _, x := range v {
		b = le.AppendUint64(b, uint64(x))
	}
	return b
}

// textBuffers returns the buffers of a string column.
func textBuffers(list ...string) [][]byte {
	offsets, data := repeated(1, 0), ""
	for _, s := range list {
		data += s
		offsets = le.AppendUint32(offsets, uint32(len(data)))
	}
	return [][]byte{nil, offsets, []byte(data)}
}

// view returns a view of size bytes: its bytes, or their prefix with the number of a data buffer and an offset in it.
func view(size int, text string, where ...int) []byte {
	v := append(repeated(1, size), text...)
	v = append(v, repeated(1, where...)...)
	return append(v, make([]byte, 16-len(v))...)
}

// validityCases lists columns of three values. A case with a row has an invalid value there; the others are valid.
func validityCases() map[string]validityCase {
	const day = 86_400_000
	const tail = "a text that has é and continues with \xff" // its data buffer is not UTF-8 as a whole
	accent := strings.Index(tail, "é")
	all := len(tail) - 1
	date, time := table(int16(1)), table(int16(1), int32(32))
	list := func(b ...[]byte) [][]byte { return b }
	views := func(v ...[]byte) [][]byte { return [][]byte{nil, slices.Concat(v...), []byte(tail)} }
	return map[string]validityCase{
		"text":       {typ: ipc.TypeUtf8, buffers: textBuffers("a", "\xff", "c"), row: 1, want: "not UTF-8"},
		"character":  {typ: ipc.TypeUtf8, buffers: textBuffers("a", "\xc3", "\xa9"), row: 1, want: "not UTF-8"},
		"characters": {typ: ipc.TypeUtf8, buffers: textBuffers("ä", "", "日本")},
		"binary":     {typ: ipc.TypeBinary, buffers: textBuffers("a", "\xff", "c")},
		"views": {typ: ipc.TypeUtf8View, buffers: views(view(2, "é"), view(all, "a te", 0, 0),
			view(all-2, tail[2:6], 0, 2))},
		"view": {typ: ipc.TypeUtf8View, buffers: views(view(1, "a"), view(1, "\xc3"), view(0, "")), row: 1,
			want: "not UTF-8"},
		"padding": {typ: ipc.TypeBinaryView, buffers: views(view(1, "a"), view(1, "ab"), view(0, "")), row: 1,
			want: "zeros"},
		"prefix": {typ: ipc.TypeBinaryView, buffers: views(view(1, "a"), view(1, "b"), view(20, "b te", 0, 0)), row: 2,
			want: "begins with"},
		"end of view": {typ: ipc.TypeUtf8View, buffers: views(view(all, "a te", 0, 0), view(accent+1, "a te", 0, 0),
			view(0, "")), row: 1, want: "not UTF-8"},
		"begin of view": {typ: ipc.TypeUtf8View, buffers: views(view(all, "a te", 0, 0), view(0, ""),
			view(all-accent-1, tail[accent+1:accent+5], 0, accent+1)), row: 2, want: "not UTF-8"},
		"bytes of view": {typ: ipc.TypeUtf8View, buffers: views(view(0, ""), view(len(tail), "a te", 0, 0), view(0, "")),
			row: 1, want: "not UTF-8"},
		"dates": {typ: ipc.TypeDate, table: date, buffers: list(nil, longs(0, day, -day))},
		"date":  {typ: ipc.TypeDate, table: date, buffers: list(nil, longs(0, day, day+1)), row: 2, want: "whole number"},
		"days":  {typ: ipc.TypeDate, table: table(int16(0)), buffers: list(nil, repeated(1, 0, 1, -1))},
		"times": {typ: ipc.TypeTime, table: time, buffers: list(nil, repeated(1, 0, 1, day-1))},
		"time":  {typ: ipc.TypeTime, table: time, buffers: list(nil, repeated(1, 0, day, 1)), row: 1, want: "time of day"},
		"before": {typ: ipc.TypeTime, table: table(int16(3), int32(64)), buffers: list(nil, longs(0, 1, -1)), row: 2,
			want: "time of day"},
		"decimal32": {typ: ipc.TypeDecimal, table: table(int32(9), int32(0), int32(32)),
			buffers: list(nil, repeated(1, 999_999_999, -999_999_999, 1_000_000_000)), row: 2, want: "9 digits"},
		"decimal64": {typ: ipc.TypeDecimal, table: table(int32(3), int32(0), int32(64)),
			buffers: list(nil, longs(999, -1000, -999)), row: 1, want: "3 digits"},
		"decimal128": {typ: ipc.TypeDecimal, table: table(int32(20), int32(0), int32(128)),
			buffers: list(nil, longs(-1, 0, -1, -1, 0, 6)), row: 2, want: "20 digits"},
		"decimals": {typ: ipc.TypeDecimal, table: table(int32(76), int32(0), int32(256)),
			buffers: list(nil, append(longs(0, 0, 0, 1<<60, -1, -1, -1, -1<<60), make([]byte, 32)...))},
		"decimal256": {typ: ipc.TypeDecimal, table: table(int32(76), int32(0), int32(256)),
			buffers: list(nil, append(longs(0, 0, 0, 1<<62), make([]byte, 64)...)), row: 0, want: "76 digits"},
		"list view": {typ: ipc.TypeListView, children: []flatType{integerField(32)}, nodes: nodes(3, 1, 1, 0),
			buffers: list([]byte{0b101}, repeated(1, 0, 9, 0), repeated(1, 1, 1, 1), nil, repeated(1, 7)), row: 1,
			want: "1 elements from 9"},
		"union": {typ: ipc.TypeUnion, table: denseUnion, children: []flatType{integerField(32)}, nodes: nodes(3, 0, 2, 0),
			buffers: list(make([]byte, 3), repeated(1, 0, 1, 0), nil, repeated(1, 7, 8)), row: 2, want: "after offset 1"},
		"null count": {typ: ipc.TypeFixedBinary, table: table(int32(4)), nodes: nodes(3, 2),
			buffers: list([]byte{0b101}, repeated(3, 1)), row: -1, want: "null count of 2"},
		"null": {typ: ipc.TypeNull, nodes: nodes(3, 0), row: -1, want: "null count of 0"},
		"map key": {typ: ipc.TypeMap, children: []flatType{entriesField}, nodes: nodes(3, 0, 3, 0, 3, 1, 3, 0),
			buffers: list(nil, repeated(1, 0, 1, 2, 3), nil, []byte{0b101}, repeated(3, 1), nil, repeated(3, 1)), row: -1,
			want: "1 null keys"},
		"element": {typ: ipc.TypeList, children: []flatType{textField}, nodes: nodes(3, 0, 2, 0),
			buffers: append(list(nil, repeated(1, 0, 0, 1, 2)), textBuffers("a", "\xff")...), row: 2,
			want: `value 1 of child "s": a text that is not UTF-8`},
	}
}

type validityCase struct {
	typ      byte
	table    flatType // nil: without parameters
	children []flatType
	nodes    []rewrite.Node // nil: three values, none null
	buffers  [][]byte
	row      int    // of the error, -1: it has none
	want     string // part of the error; "": the column is valid
}

func (c validityCase) message(nodes []rewrite.Node, bitmap []byte) []byte {
	r := rewrite.Record{Rows: 3, Nodes: nodes, Buffers: c.buffers}
	if bitmap != nil {
		r.Buffers = append([][]byte{bitmap}, c.buffers[1:]...)
	}
	if c.typ == ipc.TypeUtf8View || c.typ == ipc.TypeBinaryView {
		r.Variadic = []int{1}
	}
	typ := c.table
	if typ == nil {
		typ = emptyType
	}
	return columnOf(c.typ, typ, c.children, r)
}

// TestValidity checks that a value that breaks its type makes a message malformed, with column and row, while a null
// may have any bytes (Invariant 6). TestMutants compares with pyarrow.
func TestValidity(t *testing.T) {
	d := newDecoder(t, Spec{})
	for name, c := range validityCases() {
		t.Run(name, func(t *testing.T) {
			if c.nodes != nil {
				_, err := d.Decode(c.message(c.nodes, nil), nil)
				c.check(t, err)
				return
			}
			_, err := d.Decode(c.message(nodes(3, 0), nil), nil)
			c.check(t, err)
			if _, err := d.Decode(c.message(nodes(3, 3-c.row), []byte{1<<c.row - 1}), nil); err != nil {
				t.Errorf("with nulls from there: %v", err)
			}
		})
	}
}

func (c validityCase) check(t *testing.T, err error) {
	t.Helper()
	if c.want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	wantCode(t, err, wire.Malformed, `column "c"`, c.want)
	if row := fmt.Sprintf("row %d", c.row); c.row >= 0 && !strings.Contains(fmt.Sprint(err), row) {
		t.Errorf("%v, want %s", err, row)
	}
}

// TestParametersOfADecimal: a decimal of 128 bits has 1 to 38 digits, and a scale of at most as many on either side.
func TestParametersOfADecimal(t *testing.T) {
	for _, c := range []struct {
		digits, scale int32
		want          bool
	}{{38, 0, true}, {39, 0, false}, {1, 0, true}, {0, 0, false}, {38, 38, true}, {38, 39, false}, {38, -38, true},
		{38, -39, false}} {
		column := validityCase{typ: ipc.TypeDecimal, table: table(c.digits, c.scale, int32(128)),
			buffers: [][]byte{nil, make([]byte, 48)}}
		_, err := newDecoder(t, Spec{}).Decode(column.message(nodes(3, 0), nil), nil)
		if (err == nil) != c.want || err != nil && !errors.Is(err, wire.Malformed) {
			t.Errorf("%d digits, scale %d: %v", c.digits, c.scale, err)
		}
	}
}

// TestUnionOfManyTypes: a union may have as many types as Arrow has numbers for them, 128.
func TestUnionOfManyTypes(t *testing.T) {
	for _, n := range []int{1, 100, 128} {
		fields, codes := make([]arrow.Field, n), make([]arrow.UnionTypeCode, n)
		for k := range n {
			fields[k] = arrow.Field{Name: fmt.Sprint("u", k), Type: arrow.PrimitiveTypes.Int32, Nullable: true}
			codes[k] = arrow.UnionTypeCode(k)
		}
		b := array.NewSparseUnionBuilder(memory.DefaultAllocator, arrow.SparseUnionOf(fields, codes))
		for range 3 {
			b.AppendNull()
		}
		msg := message(t, "x", from(t, f32, `[1,2,3]`), "u", b.NewArray())
		m, err := newDecoder(t, Spec{Features: []string{"x"}}).Decode(msg, nil)
		if err != nil || m.Rows() != 3 {
			t.Errorf("%d types: %v", n, err)
		}
	}
}
