package arrowio

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestTextForms: each type has the form that docs/wire.md says, with all digits, at the ends of its range, and null.
func TestTextForms(t *testing.T) {
	seconds := &arrow.TimestampType{Unit: arrow.Second}
	micros := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "CET"}
	entries := arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: `b"`, Type: arrow.BinaryTypes.String, Nullable: true})
	const minYear, maxYear = -62135596800, 253402300799 // the years 1 to 9999, in seconds
	for _, c := range []struct {
		of   arrow.DataType
		add  func(b array.Builder)
		want string
	}{
		{arrow.FixedWidthTypes.Boolean, func(b array.Builder) {
			b.(*array.BooleanBuilder).AppendValues([]bool{true, false}, nil)
		}, "true false null"},
		{arrow.PrimitiveTypes.Int8, func(b array.Builder) { b.(*array.Int8Builder).AppendValues([]int8{-128, 127}, nil) },
			"-128 127 null"},
		{arrow.PrimitiveTypes.Int16, func(b array.Builder) { b.(*array.Int16Builder).AppendValues([]int16{-32768, 12}, nil) },
			"-32768 12 null"},
		{arrow.PrimitiveTypes.Int32, func(b array.Builder) { b.(*array.Int32Builder).Append(math.MinInt32) },
			"-2147483648 null"},
		{arrow.PrimitiveTypes.Int64, func(b array.Builder) { b.(*array.Int64Builder).Append(math.MinInt64) },
			"-9223372036854775808 null"},
		{arrow.PrimitiveTypes.Uint8, func(b array.Builder) { b.(*array.Uint8Builder).Append(255) }, "255 null"},
		{arrow.PrimitiveTypes.Uint16, func(b array.Builder) { b.(*array.Uint16Builder).Append(65535) }, "65535 null"},
		{arrow.PrimitiveTypes.Uint32, func(b array.Builder) { b.(*array.Uint32Builder).Append(math.MaxUint32) },
			"4294967295 null"},
		{arrow.PrimitiveTypes.Uint64, func(b array.Builder) { b.(*array.Uint64Builder).Append(math.MaxUint64) },
			"18446744073709551615 null"},
		{arrow.FixedWidthTypes.Float16, func(b array.Builder) {
			b.(*array.Float16Builder).AppendValues([]float16.Num{float16.New(0.1), float16.FromBits(1)}, nil)
		}, "0.099975586 5.9604645e-08 null"},
		{arrow.PrimitiveTypes.Float32, func(b array.Builder) {
			b.(*array.Float32Builder).AppendValues([]float32{0.1, float32(math.NaN()), float32(math.Inf(-1))}, nil)
		}, `0.1 "NaN" "-Inf" null`},
		{arrow.PrimitiveTypes.Float64, func(b array.Builder) {
			b.(*array.Float64Builder).AppendValues([]float64{0.1, 1e300, math.NaN(), math.Inf(1)}, nil)
		}, `0.1 1e+300 "NaN" "+Inf" null`},
		{arrow.BinaryTypes.String, func(b array.Builder) { b.(*array.StringBuilder).AppendValues([]string{"", `a"`}, nil) },
			`"" "a\"" null`},
		{arrow.BinaryTypes.LargeString, func(b array.Builder) { b.(*array.LargeStringBuilder).Append("ä") }, `"ä" null`},
		{arrow.BinaryTypes.Binary, func(b array.Builder) { b.(*array.BinaryBuilder).Append([]byte{0, 255}) },
			`"AP8=" null`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, func(b array.Builder) {
			b.(*array.FixedSizeBinaryBuilder).Append([]byte("abc"))
		}, `"YWJj" null`},
		{arrow.FixedWidthTypes.Date32, func(b array.Builder) {
			b.(*array.Date32Builder).AppendValues([]arrow.Date32{0, minYear / 86400, minYear/86400 - 1, maxYear / 86400,
				maxYear/86400 + 1, -1}, nil)
		}, `"1970-01-01" "0001-01-01" -719163 "9999-12-31" 2932897 "1969-12-31" null`},
		{arrow.FixedWidthTypes.Date64, func(b array.Builder) {
			b.(*array.Date64Builder).AppendValues([]arrow.Date64{86400_000, minYear * 1000, minYear*1000 - 86400_000}, nil)
		}, `"1970-01-02" "0001-01-01" -62135683200000 null`},
		{arrow.FixedWidthTypes.Time32s, func(b array.Builder) { b.(*array.Time32Builder).Append(86399) }, `"23:59:59" null`},
		{arrow.FixedWidthTypes.Time32ms, func(b array.Builder) { b.(*array.Time32Builder).Append(1002) },
			`"00:00:01.002" null`},
		{arrow.FixedWidthTypes.Time64ns, func(b array.Builder) { b.(*array.Time64Builder).Append(60_000_000_003) },
			`"00:01:00.000000003" null`},
		{seconds, func(b array.Builder) {
			b.(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{-1, minYear, minYear - 1, maxYear, maxYear + 1}, nil)
		}, `"1969-12-31T23:59:59" "0001-01-01T00:00:00" -62135596801 "9999-12-31T23:59:59" 253402300800 null`},
		{micros, func(b array.Builder) {
			b.(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{-1, 1_000_020, math.MaxInt64}, nil)
		}, `"1969-12-31T23:59:59.999999Z" "1970-01-01T00:00:01.000020Z" 9223372036854775807 null`},
		{arrow.FixedWidthTypes.Duration_ms, func(b array.Builder) { b.(*array.DurationBuilder).Append(-1234) },
			"-1234 null"},
		{arrow.FixedWidthTypes.MonthInterval, func(b array.Builder) { b.(*array.MonthIntervalBuilder).Append(-25) },
			"-25 null"},
		{arrow.FixedWidthTypes.DayTimeInterval, func(b array.Builder) {
			b.(*array.DayTimeIntervalBuilder).Append(arrow.DayTimeInterval{Days: -12, Milliseconds: 345})
		}, "[-12,345] null"},
		{arrow.FixedWidthTypes.MonthDayNanoInterval, func(b array.Builder) {
			b.(*array.MonthDayNanoIntervalBuilder).Append(arrow.MonthDayNanoInterval{Months: 11, Days: -22, Nanoseconds: 33})
		}, "[11,-22,33] null"},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), func(b array.Builder) {
			l := b.(*array.ListBuilder)
			l.Append(true)
			l.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{10, -20, 0}, []bool{true, true, false})
			l.Append(true)
		}, "[10,-20,null] [] null"},
		{entries, func(b array.Builder) {
			m := b.(*array.MapBuilder)
			m.Append(true)
			m.KeyBuilder().(*array.StringBuilder).AppendValues([]string{"x", "y"}, nil)
			m.ItemBuilder().(*array.Int32Builder).AppendValues([]int32{10, 0}, []bool{true, false})
			m.Append(true)
		}, `[["x",10],["y",null]] [] null`},
		{pair, func(b array.Builder) {
			s := b.(*array.StructBuilder)
			s.Append(true)
			s.FieldBuilder(0).(*array.Int32Builder).Append(10)
			s.FieldBuilder(1).AppendNull()
		}, `{"a":10,"b\"":null} null`},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
			func(b array.Builder) {
				d := b.(*array.BinaryDictionaryBuilder)
				for _, s := range []string{"red", "green", "red"} {
					if err := d.AppendString(s); err != nil {
						t.Fatal(err)
					}
				}
			}, `"red" "green" "red" null`},
		{arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64), func(b array.Builder) {
			r := b.(*array.RunEndEncodedBuilder)
			r.Append(2)
			r.ValueBuilder().(*array.Int64Builder).Append(70)
		}, "70 70 null"},
		{arrow.Null, func(b array.Builder) {}, "null"},
	} {
		b := array.NewBuilder(memory.DefaultAllocator, c.of)
		c.add(b)
		b.AppendNull()
		a := b.NewArray()
		var got []string
		for i := range a.Len() {
			got = append(got, string((&arrowRows{limit: 1000}).appendValue(nil, a, i)))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.of, text, c.want)
		}
	}
}

// TestUnionForms: a union's value has the form of its child's.
func TestUnionForms(t *testing.T) {
	fields := []arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}
	codes, pool := []arrow.UnionTypeCode{3, 7}, memory.DefaultAllocator
	sparse := array.NewSparseUnionBuilder(pool, arrow.SparseUnionOf(fields, codes))
	dense := array.NewDenseUnionBuilder(pool, arrow.DenseUnionOf(fields, codes))
	for _, b := range []array.UnionBuilder{sparse, dense} {
		number, text := b.Child(0).(*array.Int32Builder), b.Child(1).(*array.StringBuilder)
		for _, code := range []arrow.UnionTypeCode{7, 3, 7} {
			b.Append(code)
			if code == 3 {
				number.Append(42)
			} else {
				text.Append("word")
			}
			if b == array.UnionBuilder(sparse) { // it has a place in each child
				if code == 3 {
					text.AppendNull()
				} else {
					number.AppendNull()
				}
			}
		}
		a := b.NewArray()
		got := ""
		for i := range a.Len() {
			got += string((&arrowRows{limit: 1000}).appendValue(nil, a, i)) + " "
		}
		if got != `"word" 42 "word" ` {
			t.Errorf("%s: %s", a.DataType(), got)
		}
	}
}

// TestTextOfArrow: the rows of an Arrow message as text have all of its columns; one row of JSON is one object.
func TestTextOfArrow(t *testing.T) {
	for rows, want := range map[int]string{1: `{"x0":1,"x1":2,"id":0}`,
		2: `[{"x0":1,"x1":2,"id":0},{"x0":3,"x1":4,"id":10}]`} {
		of := func(all ...string) string { return "[" + strings.Join(all[:rows], ",") + "]" }
		d, err := NewDecoder(Spec{})
		if err != nil {
			t.Fatal(err)
		}
		m := decode(t, d, message(t, "x0", from(t, f64, of("1", "3")), "x1", from(t, f32, of("2", "4")),
			"id", from(t, i32, of("0", "10"))))
		for format, want := range map[wire.Format]string{wire.FormatJSON: want,
			wire.FormatCSV: []string{1: "x0,x1,id\n1,2,0\n", 2: "x0,x1,id\n1,2,0\n3,4,10\n"}[rows]} {
			if text, err := Text(m, format); err != nil || string(text) != want {
				t.Errorf("%s: %s, %v; want %s", format, text, err, want)
			}
		}
	}
}

// TestDroppedRowsOfText: rows that are left out are in no form of text, wherever they are.
func TestDroppedRowsOfText(t *testing.T) {
	msg := message(t, "x", from(t, f64, "[1,2,3,4,5]"), "id", from(t, i32, "[10,20,30,40,50]"))
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), msg)
	for _, c := range []struct {
		drop []int
		want string
	}{{nil, "10 20 30 40 50"}, {[]int{0}, "20 30 40 50"}, {[]int{0, 2, 3}, "20 50"}, {[]int{3, 4}, "10 20 30"},
		{[]int{0, 1, 2, 3, 4}, ""}} {
		r := Reduced{Message: m, Dim: 1, Y: [][]float32{{1, 2, 3, 4, 5}}, Drop: [][]int{c.drop}}
		for _, format := range []wire.Format{wire.FormatNDJSON, wire.FormatCSV, wire.FormatJSON} {
			out, err := newEncoder(t, Output{Format: format, Keep: []string{"id"}}).Encode(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, id := range []string{"10", "20", "30", "40", "50"} {
				if strings.Contains(string(out), id) {
					got = append(got, id)
				}
			}
			if ids := strings.Join(got, " "); ids != c.want {
				t.Errorf("%s without the rows %v: %s", format, c.drop, out)
			}
		}
	}
}

// TestVaryingListsOfText: a column of lists whose lengths vary is no feature if only "*" selects it, in each message
// with these fields.
func TestVaryingListsOfText(t *testing.T) {
	d, err := NewDecoder(Spec{Format: wire.FormatJSON, Features: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := d.Decode([]byte(`[{"a":1,"z":[1]},{"a":2,"z":[1,2]}]`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Contract().Elements(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the features are %v", got)
		}
		m.Release()
	}
}

// TestTextAfterNoRows: a message without rows does not change how the next one is read. It may lack all features, and
// a message with rows may not.
func TestTextAfterNoRows(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"a", "b"}, Label: "l", Format: wire.FormatCSV})
	c := contractOf(t, d, []byte("a,b,l\n1,2,p\n"))
	for range 2 {
		if _, err := d.Decode([]byte("l\np\n"), c); err == nil {
			t.Error("a message without the features is read")
		}
		if m, err := d.Decode([]byte("l\n"), c); err != nil || m.Rows() != 0 {
			t.Errorf("a message without rows: %v", err)
		}
	}
}

// TestLayoutsAreBounded: the newest eight layouts of messages are remembered, but none with names of more than 64 KiB.
func TestLayoutsAreBounded(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"a"}, Format: wire.FormatCSV})
	known := func() (names []string) {
		for _, l := range *d.texts.layouts.Load() {
			names = append(names, l.names[1])
		}
		return names
	}
	send := func(name string) {
		if _, err := d.Decode([]byte("a,"+name+"\n1,2\n"), nil); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 10 {
		name := fmt.Sprint("other", i)
		send(name)
		want = append([]string{name}, want...)
	}
	if got := known(); !slices.Equal(got, want[:8]) {
		t.Errorf("layouts of %q are known", got)
	}
	send("other9")
	send(strings.Repeat("x", 64<<10))
	if got := known(); !slices.Equal(got, want[:8]) {
		t.Errorf("after long names, layouts of %.40q are known", got)
	}
	if send(strings.Repeat("x", 64<<10-1)); len(known()[0]) != 64<<10-1 {
		t.Errorf("the newest layout is of %.40q", known()[0])
	}
}
