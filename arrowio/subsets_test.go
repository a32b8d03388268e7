package arrowio

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// TestRowsOfEachType: an output has the values of the rows that stay, for columns of each type with and without nulls,
// whichever rows are dropped: around the borders of bytes of bitmaps, all but one, one, and every second.
func TestRowsOfEachType(t *testing.T) {
	const rows = 19
	long := func(i int) string { return fmt.Sprintf(`"a text of more than twelve bytes, %d"`, rows-i) }
	number := func(i int) string { return fmt.Sprint(i % 7) }
	list := func(i int) string { return fmt.Sprintf("[%d,%d]", i%7, i%5) }
	some := func(i int) string { return []string{"[]", "[1]", "[1,2,3]"}[i%3] }
	b := arrow.BinaryTypes
	for _, c := range []struct {
		typ   arrow.DataType
		value func(i int) string
	}{
		{arrow.Null, func(int) string { return "null" }},
		{truth, func(i int) string { return fmt.Sprint(i%3 == 0) }}, {arrow.PrimitiveTypes.Int8, number},
		{i32, number}, {f64, number}, {str, long}, {b.LargeString, long}, {b.StringView, long},
		{b.StringView, func(i int) string { return []string{`"short"`, long(i / 2)}[i%2] }},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, func(i int) string { return []string{`"AAEC"`, `"BAUG"`}[i%2] }},
		{arrow.ListOf(i32), some}, {arrow.LargeListOf(str), func(i int) string { return "[" + long(i) + "]" }},
		{arrow.FixedSizeListOf(2, i32), list}, {arrow.FixedSizeListOf(2, truth), func(i int) string {
			return fmt.Sprintf("[%v,%v]", i%2 == 0, i%3 == 0)
		}},
		{arrow.StructOf(arrow.Field{Name: "p", Type: i32, Nullable: true}, arrow.Field{Name: "q", Type: str, Nullable: true}),
			func(i int) string { return fmt.Sprintf(`{"p":%d,"q":%s}`, i, long(i)) }},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str},
			func(i int) string { return long(i % 4) }},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: str},
			func(i int) string { return long(i % 9) }},
		{arrow.ListOf(&arrow.DictionaryType{IndexType: i32, ValueType: str}), func(i int) string {
			return "[" + long(i%3) + "," + long(i%4) + "]"
		}},
	} {
		for _, nulls := range []bool{false, true} {
			if nulls && c.typ.ID() == arrow.DICTIONARY {
				continue // FromJSON has no nulls of dictionaries
			}
			values := make([]string, rows)
			for i := range values {
				if values[i] = c.value(i); nulls && i%4 == 1 {
					values[i] = "null"
				}
			}
			whole := from(t, c.typ, "["+strings.Join(values, ",")+"]")
			m := decode(t, newDecoder(t, Spec{}), message(t, "c", whole))
			for _, drop := range [][]int{nil, {0}, {7}, {8}, {18}, {0, 1, 2, 3, 4, 5, 6}, {7, 8, 9},
				{1, 3, 5, 7, 9, 11, 13, 15, 17},
				{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18}} {
				r := numbered(m, 1)
				r.Drop = [][]int{drop}
				var kept, others []string
				for i := range rows {
					if slices.Contains(drop, i) {
						others = append(others, whole.ValueStr(i))
					} else {
						kept = append(kept, whole.ValueStr(i))
					}
				}
				out, err := newEncoder(t, Output{}).Encode(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				rejected, err := newEncoder(t, Output{}).Rejected(m, [][]int{drop}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for msg, want := range map[string][]string{string(out): kept, string(rejected): others} {
					if err := again([]byte(msg), nil); err != nil {
						t.Errorf("%s without %v: %v", c.typ, drop, err)
					}
					_, recs := records(t, []byte(msg))
					var got []string
					for i := range int(recs[0].NumRows()) {
						got = append(got, recs[0].Column(0).ValueStr(i))
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s without %v: %q, want %q", c.typ, drop, got, want)
					}
				}
			}
		}
	}
}

// TestViewsInAnyOrder: long values whose views go back in their data buffer keep their values when rows are dropped,
// also if there are far more bytes than rows.
func TestViewsInAnyOrder(t *testing.T) {
	pad := strings.Repeat("x", 6000)
	var parts []string
	for k := range 5 {
		parts = append(parts, fmt.Sprintf("text %d of the buffer", k), pad)
	}
	data := strings.Join(parts, "")
	for _, order := range [][]int{{4, 3, 2, 1, 0}, {0, 4, 1, 3, 2}, {2, 2, 2, 0, 0}, {0, 1, 2, 3, 4}} {
		var views []byte
		for _, k := range order {
			at := strings.Index(data, parts[2*k])
			views = append(views, view(len(parts[2*k]), parts[2*k][:4], 0, at)...)
		}
		c := validityCase{typ: ipc.TypeUtf8View, nodes: nodes(5, 0), buffers: [][]byte{nil, views, []byte(data)}}
		m, err := newDecoder(t, Spec{}).Decode(rowsIn(t, c.message(c.nodes, nil), 5), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, drop := range [][]int{{0}, {1, 3}, {4}, {0, 1, 2, 3}} {
			r := numbered(m, 1)
			r.Drop = [][]int{drop}
			out, err := newEncoder(t, Output{}).Encode(r, nil)
			if err != nil {
				t.Errorf("order %v without %v: %v", order, drop, err)
				continue
			}
			_, recs := records(t, out)
			var got, want []string
			for i, k := range order {
				if !slices.Contains(drop, i) {
					want = append(want, parts[2*k])
				}
			}
			for i := range int(recs[0].NumRows()) {
				got = append(got, recs[0].Column(0).(*array.StringView).Value(i))
			}
			if !slices.Equal(got, want) || len(out) > 2000 {
				t.Errorf("order %v without %v: %q in %d bytes, want %q", order, drop, got, len(out), want)
			}
		}
	}
}

// rowsIn sets the number of rows of a batch.
func rowsIn(t *testing.T, msg []byte, rows uint64) []byte {
	return patched(t, msg, func(f []ipc.Frame) { le.PutUint64(slotAt(t, f[1].Head, 0), rows) })
}

// TestMetadataOfADictionary: the metadata of a dictionary-encoded column counts once.
func TestMetadataOfADictionary(t *testing.T) {
	d := from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["a","b"]`)
	meta := arrow.NewMetadata([]string{"a", "b", "c"}, []string{"d", "e", "f"})
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: d.DataType(), Metadata: meta}}, nil)
	msg, err := FromRecords(schema, array.NewRecord(schema, []arrow.Array{d}, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limits Limits
		want   bool
	}{{Limits{Metadata: 3, Fields: 2}, true}, {Limits{Metadata: 2, Fields: 2}, false},
		{Limits{Metadata: 3, Fields: 1}, false}} {
		if _, err := newDecoder(t, Spec{Limits: c.limits}).Decode(msg, nil); (err == nil) != c.want {
			t.Errorf("%+v: %v", c.limits, err)
		}
	}
}

// TestFeaturesOfSizedLists: the elements of lists whose length a Spec fixes count for the limit of features.
func TestFeaturesOfSizedLists(t *testing.T) {
	msg := message(t, "x", from(t, arrow.ListOf(f32), `[[1,2,3]]`), "y", from(t, arrow.FixedSizeListOf(2, f32), `[[1,2]]`))
	for most, want := range map[int]bool{4: false, 5: true} {
		d := newDecoder(t, Spec{Features: []string{"x", "y"}, Sizes: map[string]int{"x": 3}, Limits: Limits{Features: most}})
		if _, err := d.Decode(msg, nil); (err == nil) != want {
			t.Errorf("of at most %d: %v", most, err)
		}
	}
}

// TestFramesAreAligned: the metadata and the body of each frame of an output are multiples of 8 bytes, and a number of
// 8 bytes in the metadata is at such a multiple, as flatbuffers require.
func TestFramesAreAligned(t *testing.T) {
	for n := range 24 {
		name := strings.Repeat("n", n+1)
		m := decode(t, newDecoder(t, Spec{}), message(t, name, from(t, str, `["a","b","c"]`), "d",
			from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["a","b","a"]`)))
		out, err := newEncoder(t, Output{}).Encode(numbered(m, 1), []wire.Pair{{Key: "k", Value: name}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames(t, out) {
			if len(f.Meta)%8 != 0 || len(f.Body)%8 != 0 || f.Message.Slot(3, 8, "")%8 != 0 {
				t.Errorf("a frame of kind %d has %d bytes of metadata, %d of body, whose length is at %d", f.Kind,
					len(f.Meta), len(f.Body), f.Message.Slot(3, 8, ""))
			}
			fields := f.Head.Vector(1, 4, "")
			for i := 0; f.Kind == ipc.HeadSchema && i < fields.Len; i++ {
				d, encoded := fields.Table(i, "").Table(4, "")
				if encoded && d.Slot(0, 8, "")%8 != 0 {
					t.Errorf("a dictionary's number is at %d", d.Slot(0, 8, ""))
				}
			}
			if head := f.Head; f.Kind == ipc.HeadRecord && (head.Slot(0, 8, "")%8 != 0 || head.Vector(1, 16, "").Pos%8 != 0 ||
				head.Vector(2, 16, "").Pos%8 != 0 || head.Vector(4, 8, "").Pos != 0) {
				t.Errorf("the numbers of a batch are at %d, %d and %d, of views at %d", head.Slot(0, 8, ""),
					head.Vector(1, 16, "").Pos, head.Vector(2, 16, "").Pos, head.Vector(4, 8, "").Pos)
			}
		}
	}
}

// TestLateDictionaries: the errors of dictionaries that are extended, late, unknown or without data.
func TestLateDictionaries(t *testing.T) {
	msg := message(t, "d", from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["a","b"]`))
	const fix = "; send each dictionary whole, once, before the first batch (pyarrow.Table.unify_dictionaries), or one " +
		"batch a message"
	bytesOf := func(order ...int) []byte {
		var out []byte
		fs := frames(t, msg)
		for _, k := range order {
			out = append(le.AppendUint32(le.AppendUint32(out, 0xffffffff), uint32(len(fs[k].Meta))), fs[k].Meta...)
			out = append(out, fs[k].Body...)
		}
		return append(out, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
	}
	for _, c := range []struct {
		msg  []byte
		want string
	}{
		{bytesOf(0, 1, 2), ""}, {bytesOf(0, 1, 1, 2), `column "d": dictionary 0 comes twice` + fix},
		{bytesOf(0, 1, 2, 1), `column "d": dictionary 0 comes after a record batch` + fix},
		{bytesOf(0, 2), `column "d": a dictionary is missing; send each dictionary before the first batch`},
		{bytesOf(0, 0), "a second schema; send one stream a message"},
		{bytesOf(2), "the stream does not begin with a schema; send a whole stream in each message, not one batch of a " +
			"longer stream"},
		{bytesOf(), "the stream ends before its schema; " + ipc.StreamHint},
		{bytesOf(0, 1), ""}, {bytesOf(0), ""},
		{bytesOf(0)[:len(bytesOf(0))-8], "the stream stops before its first batch and " +
			"without an end mark; send the whole stream in one message"},
		{bytesOf(0, 1, 2)[:len(bytesOf(0, 1, 2))-8], ""},
	} {
		_, err := newDecoder(t, Spec{}).Decode(c.msg, nil)
		checkError(t, fmt.Sprintf("%d bytes", len(c.msg)), err, c.want)
	}
}

// TestSharedDictionaries: a schema whose columns share a dictionary is another than one whose columns have two, also
// where they differ only in a number and the other was read before.
func TestSharedDictionaries(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: i32, ValueType: str}
	apart := message(t, "a", from(t, typ, `["p","q"]`), "b", from(t, typ, `["r","s"]`))
	fs := frames(t, apart)
	meta := slices.Clone(fs[0].Meta)
	ids := ipc.ParseSchema(&fs[0], DefaultLimits().forIPC()).IDAt
	le.PutUint64(meta[ids[len(ids)-1]:], 0)
	var together []byte
	for _, f := range []ipc.Frame{{Meta: meta}, fs[1], fs[3]} {
		together = append(le.AppendUint32(le.AppendUint32(together, 0xffffffff), uint32(len(f.Meta))), f.Meta...)
		together = append(together, f.Body...)
	}
	for _, order := range [][][]byte{{apart, together}, {together, apart}} {
		d := newDecoder(t, Spec{Label: "b"})
		for _, msg := range order {
			m, err := d.Decode(msg, nil)
			if err != nil {
				t.Fatal(err)
			}
			label, _ := m.Batches()[0].Label(1)
			if want := map[bool]string{true: "s", false: "q"}[len(msg) == len(apart)]; label != want {
				t.Errorf("the label is %q, want %q", label, want)
			}
		}
	}
}
