package arrowio

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/narrow"
)

// message writes one batch of the given columns.
func message(t testing.TB, columns ...any) []byte {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for k := 0; k < len(columns); k += 2 {
		a := columns[k+1].(arrow.Array)
		fields = append(fields, arrow.Field{Name: columns[k].(string), Type: a.DataType(), Nullable: true})
		arrays = append(arrays, a)
	}
	schema := arrow.NewSchema(fields, nil)
	msg, err := FromRecords(schema, array.NewRecord(schema, arrays, int64(arrays[0].Len())))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// from creates an array from its JSON form.
func from(t testing.TB, typ arrow.DataType, json string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var (
	f32 = arrow.PrimitiveTypes.Float32
	f64 = arrow.PrimitiveTypes.Float64
	f16 = arrow.FixedWidthTypes.Float16

	truth = arrow.FixedWidthTypes.Boolean
	i32   = arrow.PrimitiveTypes.Int32
	str   = arrow.BinaryTypes.String
)

func decode(t testing.TB, d *Decoder, msg []byte) *Message {
	t.Helper()
	m, err := d.Decode(msg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// matrix returns the features as rows of text, which distinguishes NaNs and shows types.
func matrix(b *Batch) (rows []string) {
	for i := range b.Rows() {
		var s []string
		for _, k := range b.Features() {
			for j := range k.Cols {
				s = append(s, fmt.Sprint(k.At(i, j)))
			}
		}
		rows = append(rows, strings.Join(s, " "))
	}
	return rows
}

func TestFeaturesOfEveryForm(t *testing.T) {
	fsl := func(typ arrow.DataType) arrow.DataType { return arrow.FixedSizeListOf(2, typ) }
	for _, c := range []struct {
		name   string
		typ    arrow.DataType
		json   string
		want   []string
		names  string
		faults string
	}{
		{"float32 list", fsl(f32), `[[1,2],[3,4]]`, []string{"1 2", "3 4"}, "x[0] x[1]", ""},
		{"float64 list", fsl(f64), `[[1,2],[3,4.5]]`, []string{"1 2", "3 4.5"}, "x[0] x[1]", ""},
		{"uint8 list", fsl(arrow.PrimitiveTypes.Uint8), `[[1,255],[3,4]]`, []string{"1 255", "3 4"}, "x[0] x[1]", ""},
		{"list with a null row", fsl(f32), `[null,[3,4]]`, []string{"NaN NaN", "3 4"}, "x[0] x[1]", "0 x[0] null"},
		{"list with a null element", fsl(f64), `[[1,null],[3,4]]`, []string{"1 NaN", "3 4"}, "x[0] x[1]",
			"0 x[1] null"},
		{"integers with nulls", fsl(i32), `[[1,null],null,[-3,4]]`, []string{"1 NaN", "NaN NaN", "-3 4"}, "x[0] x[1]",
			"0 x[1] null 1 x[0] null"},
		{"list of one length", arrow.ListOf(f32), `[[1,2],[3,4]]`, []string{"1 2", "3 4"}, "x[0] x[1]", ""},
		{"list of one length with nulls", arrow.ListOf(f32), `[[1,2],null,[3,null]]`,
			[]string{"1 2", "NaN NaN", "3 NaN"}, "x[0] x[1]", "1 x[0] null 2 x[1] null"},
		{"large list of integers", arrow.LargeListOf(i32), `[null,[1,2],[3,4]]`, []string{"NaN NaN", "1 2", "3 4"},
			"x[0] x[1]", "0 x[0] null"},
		{"list view", arrow.ListViewOf(f32), `[[1,2],null,[3,null]]`, []string{"1 2", "NaN NaN", "3 NaN"}, "x[0] x[1]",
			"1 x[0] null 2 x[1] null"},
		{"large list view of decimals", arrow.LargeListViewOf(&arrow.Decimal128Type{Precision: 5, Scale: 1}),
			`[["0.3","1"],["-0.1","2"]]`, []string{"0.3 1", "-0.1 2"}, "x[0] x[1]", ""},
		{"float32", f32, `[1,2]`, []string{"1", "2"}, "x", ""},
		{"float32 with null", f32, `[1,null]`, []string{"1", "NaN"}, "x", "1 x null"},
		{"int8", arrow.PrimitiveTypes.Int8, `[-1,2]`, []string{"-1", "2"}, "x", ""},
		{"int16", arrow.PrimitiveTypes.Int16, `[-1,2]`, []string{"-1", "2"}, "x", ""},
		{"uint16", arrow.PrimitiveTypes.Uint16, `[65535,2]`, []string{"65535", "2"}, "x", ""},
		{"uint32", arrow.PrimitiveTypes.Uint32, `[4294967295,2]`, []string{"4.294967295e+09", "2"}, "x", ""},
		{"int64", arrow.PrimitiveTypes.Int64, `[-9007199254740992,null]`, []string{"-9.007199254740992e+15", "NaN"},
			"x", "1 x null"},
		{"uint64", arrow.PrimitiveTypes.Uint64, `[9007199254740992,1]`, []string{"9.007199254740992e+15", "1"},
			"x", ""},
		{"float16", f16, `[1.5,-65504,null]`, []string{"1.5", "-65504", "NaN"}, "x", "2 x null"},
		{"float16 list", fsl(f16), `[[1,2],[0.25,4]]`, []string{"1 2", "0.25 4"}, "x[0] x[1]", ""},
		{"booleans", truth, `[true,false,null,true,true,true,true,false,true]`,
			[]string{"1", "0", "NaN", "1", "1", "1", "1", "0", "1"}, "x", "2 x null"},
		{"list of booleans", arrow.ListOf(truth), `[[true,false,true],[false,false,true],null,[true,true,false]]`,
			[]string{"1 0 1", "0 0 1", "NaN NaN NaN", "1 1 0"}, "x[0] x[1] x[2]", "2 x[0] null"},
		{"decimal128", &arrow.Decimal128Type{Precision: 38, Scale: 2}, `["0.10","-12.25",null,"12345678901234567890.12"]`,
			[]string{"0.1", "-12.25", "NaN", "1.2345678901234567e+19"}, "x", "2 x null"},
		{"decimal256", &arrow.Decimal256Type{Precision: 76, Scale: 0}, `["-3","123456789012345678901234567890123456789"]`,
			[]string{"-3", "1.2345678901234568e+38"}, "x", ""},
		{"decimal128 list", fsl(&arrow.Decimal128Type{Precision: 5, Scale: 1}), `[["0.3",null],["-0.1","2"]]`,
			[]string{"0.3 NaN", "-0.1 2"}, "x[0] x[1]", "0 x[1] null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, Spec{Features: []string{"x"}})
			m := decode(t, d, message(t, "x", from(t, c.typ, c.json), "other", array.NewNull(len(c.want))))
			b := m.Batches()[0]
			if got := matrix(b); !slices.Equal(got, c.want) {
				t.Errorf("matrix %q, not %q", got, c.want)
			}
			if got := strings.Join(m.Contract().Elements(), " "); got != c.names {
				t.Errorf("names %q, not %q", got, c.names)
			}
			var faults []string
			for _, f := range b.Faults() {
				faults = append(faults, fmt.Sprint(f.Row), f.Feature, f.What)
			}
			if got := strings.Join(faults, " "); got != c.faults {
				t.Errorf("faults %q, not %q", got, c.faults)
			}
		})
	}
}

// The smallest float16 numbers are not 0.
func TestSubnormalFloat16(t *testing.T) {
	b := array.NewFloat16Builder(memory.DefaultAllocator)
	b.AppendValues([]float16.Num{float16.FromBits(1), float16.FromBits(0x83ff)}, nil)
	got := matrix(decode(t, newDecoder(t, Spec{Features: []string{"x"}}), message(t, "x", b.NewArray())).Batches()[0])
	if want := []string{"5.960464477539063e-08", "-6.097555160522461e-05"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// Numbers of one or two bytes are views on the message, in columns and in lists, and the columns are one block.
func TestNarrowFeaturesAreViews(t *testing.T) {
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8,
		arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint16, f16} {
		column := from(t, typ, `[1,2,3,4,5,6,7,8,9]`)
		list := from(t, arrow.FixedSizeListOf(2, typ), `[[1,2],[3,4],[5,6],[7,8],[9,10],[11,12],[13,14],[15,16],[17,18]]`)
		msg := message(t, "x", column, "y", column, "z", column, "list", list)
		for _, offset := range []int{0, 1} {
			moved := append(make([]byte, offset, offset+len(msg)), msg...)[offset:]
			b := decode(t, newDecoder(t, Spec{Features: []string{"x", "y", "z", "list"}}), moved).Batches()[0]
			if n := len(b.Features()); n != 2 || b.Features()[0].Raw == nil || b.Features()[1].Raw == nil {
				t.Fatalf("%s: %d blocks: %v", typ, n, b.Features())
			}
			for i, row := range matrix(b) {
				if want := fmt.Sprint(i+1, i+1, i+1, 2*i+1, 2*i+2); row != want {
					t.Errorf("%s: row %d is %s, not %s", typ, i, row, want)
				}
			}
			if faults := b.Faults(); len(faults) != 0 {
				t.Errorf("%s: faults %v", typ, faults)
			}
		}
	}
}

// Lists of a list view may be in any order, and may share elements.
func TestListViewsOfAnyOrder(t *testing.T) {
	values := from(t, f64, `[0.5,1.5,2.5,3.5]`)
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes([]byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}),
		memory.NewBufferBytes([]byte{2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0})}
	view := array.NewListViewData(array.NewData(arrow.ListViewOf(f64), 3, buffers, []arrow.ArrayData{values.Data()}, 0, 0))
	d := newDecoder(t, Spec{Features: []string{"x"}})
	want := []string{"2.5 3.5", "0.5 1.5", "1.5 2.5"}
	if got := matrix(decode(t, d, message(t, "x", view)).Batches()[0]); !slices.Equal(got, want) {
		t.Errorf("matrix %q, not %q", got, want)
	}
}

// The length of the lists in the first batch of a message applies to those after it.
func TestListsInBatches(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.ListOf(f64), Nullable: true}}, nil)
	batch := func(json string) arrow.Record {
		x := from(t, schema.Field(0).Type, json)
		return array.NewRecord(schema, []arrow.Array{x}, int64(x.Len()))
	}
	d := newDecoder(t, Spec{Features: []string{"x"}})
	msg, err := FromRecords(schema, batch(`[[1,2],[3,4]]`), batch(`[null,[5,6]]`), batch(`[null]`))
	if err != nil {
		t.Fatal(err)
	}
	batches := decode(t, d, msg).Batches()
	for k, want := range [][]string{{"1 2", "3 4"}, {"NaN NaN", "5 6"}, {"NaN NaN"}} {
		if got := matrix(batches[k]); !slices.Equal(got, want) {
			t.Errorf("batch %d: matrix %q, not %q", k, got, want)
		}
	}
	if msg, err = FromRecords(schema, batch(`[[1,2]]`), batch(`[[1,2,3]]`)); err != nil {
		t.Fatal(err)
	}
	if _, err := newDecoder(t, Spec{Features: []string{"x"}}).Decode(msg, nil); err == nil ||
		!strings.Contains(err.Error(), "lists of 3 elements, and 2 are expected") {
		t.Errorf("lists of another length in the second batch: %v", err)
	}
}

// Float features are views on the message's bytes: a change there changes the block.
func TestFeaturesAreViews(t *testing.T) {
	for _, list := range []bool{true, false} {
		msg := sample(t, 16, 24, list, true)
		for offset := range 5 {
			// headers of a message leave payloads unaligned
			moved := append(make([]byte, offset, offset+len(msg)), msg...)[offset:]
			b := decode(t, newDecoder(t, Spec{Features: []string{"x*"}}), moved).Batches()[0]
			if n := len(b.Features()); n != 1 {
				t.Errorf("%d blocks where the columns are contiguous", n)
			}
			want := b.Features()[0].At(3, 5)
			at := -1
			for i := range moved[4:] {
				if math.Float32frombits(le.Uint32(moved[i:])) == float32(want) {
					at = i
				}
			}
			le.PutUint32(moved[at:], math.Float32bits(-7))
			if got := b.Features()[0].At(3, 5); got != -7 {
				t.Errorf("the block is a copy: %v", got)
			}
		}
	}
}

func TestFaultsNameTheFirstBadElement(t *testing.T) {
	m := decode(t, newDecoder(t, Spec{Features: []string{"a", "b", "c", "v", "w"}, Label: "label"}),
		fixtures(t)["mixed"])
	want := []Fault{{Row: 1, Feature: "a", What: "null"}, {Row: 2, Feature: "a", What: "NaN"},
		{Row: 3, Feature: "a", What: "+Inf"}}
	if got := m.Batches()[0].Faults(); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	m = decode(t, newDecoder(t, Spec{Features: []string{"c", "v", "b"}}), fixtures(t)["mixed"])
	want = []Fault{{Row: 2, Feature: "v[0]", What: "null"}, {Row: 3, Feature: "c", What: "-Inf"}}
	if got := m.Batches()[0].Faults(); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// With the rows that may have faults given, the same faults are found in them, and the result is cached for all
// callers.
func TestFaultsIn(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"a", "b", "c", "v", "w"}, Label: "label"})
	want := decode(t, d, fixtures(t)["mixed"]).Batches()[0].Faults()
	if len(want) != 3 {
		t.Fatalf("%d faults", len(want))
	}
	for _, rows := range [][]int{{1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}} {
		b := decode(t, d, fixtures(t)["mixed"]).Batches()[0]
		if got := b.FaultsIn(rows[:min(len(rows), b.Rows())]); !slices.Equal(got, want) {
			t.Errorf("in %v: %v, not %v", rows, got, want)
		}
		if got := b.Faults(); !slices.Equal(got, want) {
			t.Errorf("after %v: %v, not %v", rows, got, want)
		}
	}
	b := decode(t, d, fixtures(t)["mixed"]).Batches()[0]
	if got := append(b.FaultsIn([]int{2}), b.Faults()...); len(got) != 2 || got[0] != want[1] || got[1] != want[1] {
		t.Errorf("in row 2 alone: %v", got)
	}
}

// halves are n of the least float16, with an infinity or NaN at one place.
func halves(n, at int, v float64) (raw []byte) {
	for i := range n {
		bits := uint16(0xfbff)
		if i == at {
			bits = 0x7c00
			if v != v {
				bits = 0x7e00
			}
		}
		raw = le.AppendUint16(raw, bits)
	}
	return raw
}

// Each bad value is found at any position, for every width and both layouts.
func TestFaultsFindEveryPlace(t *testing.T) {
	for _, err := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1 << 128, -1e160, math.MaxFloat64} {
		for n := 1; n < 40; n++ {
			for at := range n {
				x, y := make([]float32, n), make([]float64, n)
				for i := range x {
					x[i], y[i] = -math.MaxFloat32, math.Nextafter(-1<<128, 0)
				}
				if k := (&Block{F32: x}); !k.clean(0, n) {
					t.Fatalf("%d of the largest values are unclean", n)
				}
				if k := (&Block{F64: y}); !k.clean(0, n) {
					t.Fatalf("%d of the largest values are unclean", n)
				}
				x[at], y[at] = float32(err), err
				for _, k := range []Block{
					{F32: x, Cols: n, RowStride: n, ColStride: 1}, {F64: y, Cols: n, RowStride: n, ColStride: 1},
					{Raw: halves(n, at, err), Format: narrow.Float16, Cols: n, RowStride: n, ColStride: 1},
				} {
					if got := k.mark(nil, 1); !slices.Equal(got, []bool{true}) {
						t.Fatalf("%v at %d of %d: %v", err, at, n, got)
					}
					if got, bad := (&Batch{blocks: []Block{k}}).firstBad(0); got != at || !bad {
						t.Fatalf("%v at %d of %d: %v, %v", err, at, n, got, bad)
					}
					k.Cols, k.RowStride, k.ColStride = 1, 1, n
					want := make([]bool, n)
					want[at] = true
					if got := k.mark(nil, n); !slices.Equal(got, want) {
						t.Fatalf("%v at row %d of %d: %v", err, at, n, got)
					}
				}
			}
		}
	}
}

// A label is its text, for any type.
func TestLabelsAreText(t *testing.T) {
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: str}
	numbers := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int64, ValueType: i32}
	for _, c := range []struct {
		typ  arrow.DataType
		json string
		want string
	}{
		{str, `["3", null, ""]`, "3 - "},
		{arrow.BinaryTypes.LargeString, `["3", null, "é"]`, "3 - é"},
		{arrow.BinaryTypes.StringView, `["3", null, "a label longer than twelve bytes"]`,
			"3 - a label longer than twelve bytes"},
		{dict, `["3", null, "x"]`, "3 - x"},
		{numbers, `[3, null, -4]`, "3 - -4"},
		{arrow.PrimitiveTypes.Int8, `[3, null, -128]`, "3 - -128"},
		{arrow.PrimitiveTypes.Uint64, `[3, null, 17]`, "3 - 17"},
		{arrow.FixedWidthTypes.Boolean, `[true, null, false]`, "true - false"},
		{arrow.Null, `[null, null, null]`, "- - -"},
	} {
		m := decode(t, newDecoder(t, Spec{Label: "l"}), message(t, "l", from(t, c.typ, c.json)))
		var got []string
		for i := range m.Rows() {
			s, ok := m.Batches()[0].Label(i)
			if !ok {
				s = "-"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %q, not %q", c.typ, got, c.want)
		}
	}
	if l, _ := decode(t, newDecoder(t, Spec{Label: "uint64"}),
		fixtures(t)["everything"]).Batches()[0].Label(0); l != "18446744073709551615" {
		t.Error(l)
	}
	m := decode(t, newDecoder(t, Spec{Label: "gone", Key: "k"}), message(t, "k", from(t, i32, `[7]`)))
	if _, ok := m.Batches()[0].Label(0); ok {
		t.Error("an absent label column labels a row")
	}
	if k, ok := m.Batches()[0].Key(0); !ok || k != "7" {
		t.Errorf("key %q %v", k, ok)
	}
}

func TestWhatIsRefused(t *testing.T) {
	x := from(t, arrow.FixedSizeListOf(2, f32), `[[1,2],[3,4]]`)
	for _, c := range []struct {
		name  string
		spec  Spec
		msg   []byte
		code  wire.Code
		words []string
	}{
		{"missing", Spec{Features: []string{"y"}}, message(t, "x", x), wire.MissingColumn, []string{`"y"`, "x"}},
		{"missing by glob", Spec{Features: []string{"y*"}}, message(t, "x", x), wire.MissingColumn, []string{`"y*"`}},
		{"text", Spec{Features: []string{"x"}}, message(t, "x", from(t, str, `["1","2"]`)), wire.NotNumeric,
			[]string{`"x"`, "string", "decimals"}},
		{"text by glob", Spec{Features: []string{"x*"}}, message(t, "x", x, "xs", from(t, str, `["1","2"]`)),
			wire.NotNumeric, []string{`"xs"`}},
		{"date", Spec{Features: []string{"x"}}, message(t, "x", from(t, arrow.FixedWidthTypes.Date32, `["2024-01-01"]`)),
			wire.NotNumeric, []string{"date"}},
		{"list of text", Spec{Features: []string{"x"}}, message(t, "x", from(t, arrow.ListOf(str), `[["1"]]`)),
			wire.NotNumeric, []string{"list of string"}},
		{"uneven list", Spec{Features: []string{"x"}}, message(t, "x", from(t, arrow.ListOf(f32), `[[1,2],[3]]`)),
			wire.FeatureCount, []string{"row 1", "1 elements", "2"}},
		{"empty lists", Spec{Features: []string{"x"}}, message(t, "x", from(t, arrow.ListOf(f32), `[[],[]]`)),
			wire.FeatureCount, nil},
		{"float label", Spec{Label: "l"}, message(t, "l", from(t, f64, `[1]`)), wire.LabelType, []string{`"l"`}},
		{"date label", Spec{Label: "l"}, message(t, "l", from(t, arrow.FixedWidthTypes.Date32, `["2024-01-01"]`)),
			wire.LabelType, nil},
		{"bool key", Spec{Key: "k"}, message(t, "k", from(t, arrow.FixedWidthTypes.Boolean, `[true]`)), wire.KeyType,
			[]string{`"k"`}},
		{"long label", Spec{Label: "l", Limits: Limits{LabelBytes: 8}},
			message(t, "l", from(t, str, `["short","much too long"]`)), wire.TooLarge, []string{"row 1", "8"}},
		{"long dictionary label", Spec{Label: "l", Limits: Limits{LabelBytes: 8}},
			message(t, "l", from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str},
				`["short","much too long"]`)), wire.TooLarge, []string{"8"}},
		{"two of a name", Spec{Features: []string{"x"}}, message(t, "x", x, "x", x), wire.Malformed,
			[]string{"rename"}},
		{"large", Spec{Limits: Limits{Message: 100}}, message(t, "x", x), wire.TooLarge, []string{"100"}},
		{"many rows", Spec{Limits: Limits{Rows: 1}}, message(t, "x", x), wire.TooManyRows,
			[]string{"2 rows", "limit is 1"}},
		{"many fields", Spec{Limits: Limits{Fields: 2}}, message(t, "x", x, "y", x), wire.TooManyFields, []string{"2"}},
		{"deep", Spec{Limits: Limits{Depth: 1}}, message(t, "x", x), wire.TooManyFields, []string{"1 deep"}},
		{"large body", Spec{Limits: Limits{Body: 15}}, message(t, "x", x), wire.TooLarge, []string{"15"}},
		{"large compressed body", Spec{Limits: Limits{Body: 4096}}, fixtures(t)["fsl_zstd"], wire.TooLarge,
			[]string{"4096"}},
		{"large copy", Spec{Features: []string{"x"}, Limits: Limits{Body: 64}},
			message(t, "x", from(t, arrow.FixedSizeListOf(4, truth),
				`[[true,true,true,true],[true,true,true,true],[true,true,true,true]]`)), wire.TooLarge, nil},
		{"batches", Spec{Limits: Limits{Batches: 1}}, fixtures(t)["fsl"], wire.TooManyRows, []string{"1"}},
		{"empty", Spec{}, nil, wire.NotArrow, []string{"empty"}},
		{"json", Spec{}, []byte(`{"x":[1,2]}`), wire.NotArrow, []string{"JSON", "stream"}},
		{"file", Spec{}, []byte("ARROW1\x00\x00...."), wire.NotArrow, []string{"file", "stream"}},
		{"noise", Spec{}, []byte("hello, world"), wire.NotArrow, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newDecoder(t, c.spec).Decode(c.msg, nil)
			wantCode(t, err, c.code, c.words...)
		})
	}
}

// TestErrorsByCode: errors.Is finds a code through wraps, and no other code.
func TestErrorsByCode(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"x"}})
	contract := decode(t, d, message(t, "x", from(t, f32, `[1]`))).Contract()
	for _, c := range []struct {
		msg  []byte
		want wire.Code
	}{
		{[]byte("{}"), wire.NotArrow},
		{message(t, "x", from(t, arrow.ListOf(i32), `[[1]]`)), wire.SchemaChanged},
		{message(t, "y", from(t, f32, `[1]`)), wire.MissingColumn},
	} {
		_, err := d.Decode(c.msg, contract)
		err = fmt.Errorf("a host's own words: %w", err)
		for _, code := range []wire.Code{wire.NotArrow, wire.SchemaChanged, wire.MissingColumn} {
			if errors.Is(err, code) != (code == c.want) {
				t.Errorf("%v: errors.Is(err, %q) is %v", err, code, code != c.want)
			}
		}
	}
}

func TestEntriesConcatenateInOrder(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"b*", "a", "*"}, Label: "l", Key: "k"})
	m := decode(t, d, message(t, "a", from(t, f32, `[1]`), "k", from(t, i32, `[9]`), "l", from(t, i32, `[9]`), "s",
		from(t, str, `["s"]`),
		"b2", from(t, i32, `[2]`), "c", from(t, arrow.FixedSizeListOf(2, f64), `[[5,6]]`), "b1", from(t, f32, `[3]`)))
	if got := strings.Join(m.Contract().Elements(), " "); got != "b2 b1 a c[0] c[1]" {
		t.Error(got)
	}
	if got := matrix(m.Batches()[0])[0]; got != "2 3 1 5 6" {
		t.Error(got)
	}
}

// Dictionaries that are numbered differently in every message are one cached schema.
func TestDictionaryNumbersAreNormalised(t *testing.T) {
	msg := fixtures(t)["everything"]
	d := newDecoder(t, Spec{Features: []string{"x"}, Label: "label"})
	decode(t, d, msg)
	s := d.schemas[metaLength(msg)][0].schema
	for round := int64(1); round < 20; round++ {
		other := slices.Clone(msg)
		renumber(other, s, round)
		m := decode(t, d, other)
		out, err := newEncoder(t, Output{}).Encode(numbered(m, 2),
			[]wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}})
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, other, out, "x")
	}
	if d.count != 1 {
		t.Errorf("%d schemas are cached", d.count)
	}
}

func metaLength(msg []byte) int { return int(le.Uint32(msg[4:])) }

// renumber adds to the numbers of all dictionaries of a message.
func renumber(msg []byte, s *ipc.Schema, by int64) {
	for _, at := range s.IDAt {
		if at != 0 {
			le.PutUint64(msg[8+at:], le.Uint64(msg[8+at:])+uint64(by)*1000)
		}
	}
	rest := msg
	for first := true; ; first = false {
		f, tail, end := ipc.NextFrame(rest, first)
		if end {
			return
		}
		if f.Kind == ipc.HeadDictionary {
			if p := f.Head.Slot(0, 8, ""); p != 0 {
				le.PutUint64(f.Meta[p:], le.Uint64(f.Meta[p:])+uint64(by)*1000)
			} // the number 0 is omitted in the schema and here, and is not changed
		}
		rest = tail
	}
}

// The cache is limited in schemas and in bytes, and decoding works beyond its limit.
func TestPlanCacheIsBounded(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"x"}})
	e := newEncoder(t, Output{})
	x := from(t, f32, `[1]`)
	peak := 0
	for k := range 3 * 64 {
		m := decode(t, d, message(t, "x", x, fmt.Sprint("c", k), x, strings.Repeat("long", 400*k), x))
		if _, err := e.Encode(numbered(m, 1), nil); err != nil {
			t.Fatal(err)
		}
		if d.cached > 4<<20 || len(e.forms) > 64 || e.cached > 4<<20 {
			t.Fatalf("%d schemas of %d bytes, %d drafts", d.count, d.cached, len(e.forms))
		}
		peak = max(peak, d.count)
	}
	if peak != 64 {
		t.Errorf("%d schemas are cached", peak)
	}
}

func TestMessagesWithoutRows(t *testing.T) {
	dict, err := FromRecords(arrow.NewSchema(
		[]arrow.Field{{Name: "d", Type: &arrow.DictionaryType{IndexType: i32, ValueType: str}}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newEncoder(t, Output{}).Encode(numbered(decode(t, newDecoder(t, Spec{}), dict), 2), nil); err != nil {
		t.Errorf("a dictionary column without batches: %v", err)
	}
	for _, name := range []string{"empty_stream", "empty_batches"} {
		d := newDecoder(t, Spec{Features: []string{"x"}})
		m := decode(t, d, fixtures(t)[name])
		if m.Rows() != 0 {
			t.Errorf("%d rows", m.Rows())
		}
		out, err := newEncoder(t, Output{}).Encode(numbered(m, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, recs := records(t, out)
		if len(recs) != len(m.Batches()) {
			t.Errorf("%s: %d batches became %d", name, len(m.Batches()), len(recs))
		}
		if m.Contract().Len() != 4 {
			t.Errorf("%s proposes %v", name, m.Contract())
		}
	}
}

// Many goroutines may decode and encode concurrently, with a contract and without.
func TestConcurrentUse(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"x*"}, Label: "label"})
	e := newEncoder(t, Output{Compression: "zstd"})
	good := [][]byte{sample(t, 4, 3, false, true), sample(t, 4, 3, false, false)}
	contracts := [2]*Contract{nil, decode(t, d, good[0]).Contract()}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 50 {
				m, err := d.Decode(good[(g+k)%2], contracts[k/2%2])
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := e.Encode(numbered(m, 2), []wire.Pair{{Key: "k", Value: "v"}}); err != nil {
					t.Error(err)
				}
				m.Batches()[0].Faults()
				if got := strings.Join(m.Contract().Elements(), " "); got != "x0 x1 x2" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

// Every prefix of a message is rejected, except those that end between two batches: the end marker is optional.
func TestTruncation(t *testing.T) {
	for name, msg := range fixtures(t) {
		if len(msg) > 6000 {
			continue
		}
		d := newDecoder(t, Spec{})
		accepted := 0
		for n := range msg {
			m, err := d.Decode(msg[:n], nil)
			if err == nil {
				if accepted++; m.Rows() == 0 && name != "empty_batches" {
					t.Errorf("%s: %d bytes are accepted without a row", name, n)
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != wire.Truncated && e.Code != wire.NotArrow {
				t.Errorf("%s: %d of %d bytes: %v", name, n, len(msg), err)
			}
		}
		if batches := len(decode(t, d, msg).Batches()); accepted != batches {
			t.Errorf("%s: %d prefixes are accepted, and it has %d batches", name, accepted, batches)
		}
	}
}

func TestSpecIsChecked(t *testing.T) {
	for _, s := range []Spec{{Features: []string{""}}, {Features: []string{"["}}, {Features: []string{"x"}, Label: "x"},
		{Label: "x", Key: "x"}} {
		if _, err := NewDecoder(s); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// Neither decoding nor encoding starts a goroutine, compressed or not: there is nothing to close.
func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, name := range []string{"fsl", "fsl_lz4", "fsl_zstd"} {
		m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), fixtures(t)[name])
		for _, c := range []string{"none", "lz4", "zstd"} {
			if _, err := newEncoder(t, Output{Compression: c}).Encode(numbered(m, 2), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines more", after-before)
	}
}

// TestEachLimit: a message is read at each limit, and refused one above with the limit in its error.
func TestEachLimit(t *testing.T) {
	x := from(t, arrow.FixedSizeListOf(2, f32), `[[1,2],[3,4],[5,6]]`)
	msg := message(t, "x", x, "label", from(t, str, `["a","bcd","e"]`), "n", from(t, arrow.ListOf(i32), `[[1],[2],[3]]`))
	schema, recs := records(t, msg)
	batches, err := FromRecords(schema, recs[0], recs[0])
	if err != nil {
		t.Fatal(err)
	}
	meta := arrow.NewMetadata([]string{"a", "b"}, []string{"c", "d"})
	noted := arrow.NewSchema(schema.Fields(), &meta)
	metadata, err := FromRecords(noted, array.NewRecord(noted, recs[0].Columns(), 3))
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Features: []string{"x"}, Label: "label"}
	text := "a,b,c\n1,2,3\n4,5,6\n"
	for _, c := range []struct {
		name  string
		msg   []byte
		limit func(l *Limits, n int)
		most  int
		spec  Spec
		code  wire.Code
		want  string // with %d for the limit
	}{
		{"message", msg, func(l *Limits, n int) { l.Message = n }, len(msg), spec, wire.TooLarge,
			"the message has 752 bytes, and the limit is 751; send smaller batches or raise limits.message"},
		{"body", msg, func(l *Limits, n int) { l.Body = n }, decode(t, newDecoder(t, spec), msg).Bytes(), spec,
			wire.TooLarge,
			"the message's buffers take more than 72 bytes; send fewer rows a message, or raise " +
				"limits.expanded"},
		{"rows", msg, func(l *Limits, n int) { l.Rows = n }, 3, spec, wire.TooManyRows,
			"3 rows, and the limit is 2; send smaller batches or raise limits.rows"},
		{"rows of batches", batches, func(l *Limits, n int) { l.Rows = n }, 6, spec, wire.TooManyRows,
			"6 rows, and the limit is 5; send smaller batches or raise limits.rows"},
		{"fields", msg, func(l *Limits, n int) { l.Fields = n }, 5, spec, wire.TooManyFields,
			`column "n": the schema has more than 4 fields; send the features as one fixed-size list ` +
				`column, or leave columns out`},
		{"depth", msg, func(l *Limits, n int) { l.Depth = n }, 2, spec, wire.TooManyFields,
			`column "x": a column is nested more than 1 deep; flatten it or leave it out`},
		{"metadata", metadata, func(l *Limits, n int) { l.Metadata = n }, 2, spec, wire.TooManyFields,
			"more than 1 metadata entries on one schema or field, or 4097 in all; send less metadata"},
		{"batches", batches, func(l *Limits, n int) { l.Batches = n }, 2, spec, wire.TooManyRows,
			"more than 1 record batches; send larger batches or more messages"},
		{"label", msg, func(l *Limits, n int) { l.LabelBytes = n }, 3, spec, wire.TooLarge,
			`column "label", row 1: a text of 3 bytes, and the limit for labels and keys is 2; send a ` +
				`short name`},
		{"features", msg, func(l *Limits, n int) { l.Features = n }, 2, spec, wire.TooManyFields,
			`column "x": more than 1 features; send fewer, choose fewer columns, or raise limits.features ` +
				`(at most 65536)`},
		{"features of lists", msg, func(l *Limits, n int) { l.Features = n }, 3, Spec{Features: []string{"x", "n"}},
			wire.TooManyFields,
			`column "n": more than 2 features; send fewer, choose fewer columns, or raise ` +
				`limits.features (at most 65536)`},
		{"text", []byte(text), func(l *Limits, n int) { l.Message = n }, len(text), Spec{Format: wire.FormatCSV},
			wire.TooLarge, "the message has 18 bytes, and the limit is 17; send smaller batches or raise limits.message"},
		{"rows of text", []byte(text), func(l *Limits, n int) { l.Rows = n }, 2, Spec{Format: wire.FormatCSV},
			wire.TooManyRows, "more than 1 rows; send smaller batches or raise limits.rows"},
		{"fields of text", []byte(text), func(l *Limits, n int) { l.Fields = n }, 3, Spec{Format: wire.FormatCSV},
			wire.TooManyFields,
			"the message has more than 2 fields of different names; send the features as one array, or " +
				"leave fields out"},
	} {
		for _, n := range []int{c.most, c.most - 1} {
			c.limit(&c.spec.Limits, n)
			d := newDecoder(t, c.spec)
			m, err := d.Decode(c.msg, nil)
			if n == c.most {
				if err != nil || m.Rows() == 0 {
					t.Errorf("%s at the limit of %d: %v", c.name, n, err)
				}
				continue
			}
			checkError(t, c.name, err, c.want)
			if e, ok := err.(*Error); !ok || e.Code != c.code {
				t.Errorf("%s: %v, want code %s", c.name, err, c.code)
			}
		}
	}
}

// TestRefusedForms: the error about a stream in an older form, which pyarrow writes on request, has the fix.
func TestRefusedForms(t *testing.T) {
	for name, want := range map[string][]string{
		"legacy":  {string(wire.NotArrow), "before Arrow 0.15", "use_legacy_format"},
		"v4_runs": {string(wire.Unsupported), "run-end encoded column in metadata version 4", "metadata version 5"},
	} {
		msg, err := os.ReadFile(filepath.Join("testdata", "refused", name+".arrows"))
		if err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, err := newDecoder(t, Spec{Features: []string{"x"}}).Decode(msg, nil); !errors.As(err, &e) ||
			string(e.Code) != want[0] || !strings.Contains(e.Detail, want[1]) || !strings.Contains(e.Hint, want[2]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
