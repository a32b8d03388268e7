package arrowio

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// varying is a record with the feature a, and lists b of the given lengths.
func varying(t *testing.T, lengths ...int) (arrow.Record, []byte) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64},
		{Name: "b", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, n := range lengths {
		b.Field(0).(*array.Float64Builder).Append(float64(i))
		list := b.Field(1).(*array.ListBuilder)
		list.Append(true)
		for range n {
			list.ValueBuilder().(*array.Float32Builder).Append(1)
		}
	}
	rec := b.NewRecord()
	t.Cleanup(rec.Release)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return rec, out.Bytes()
}

// TestVaryingLists: "*" selects lists of one length, and no lists whose lengths vary in a message; a name or another
// glob still does, and fails. Other messages of the schema do not matter.
func TestVaryingLists(t *testing.T) {
	star, err := NewDecoder(Spec{Features: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lengths []int
		want    int // features
	}{{[]int{3, 3}, 4}, {[]int{3, 2}, 1}, {[]int{2, 2}, 3}, {[]int{2, 0, 2}, 1}} {
		rec, msg := varying(t, c.lengths...)
		m, err := star.Decode(msg, nil)
		if err != nil {
			t.Fatalf("lists of %v: %v", c.lengths, err)
		}
		if got := m.Contract().Len(); got != c.want {
			t.Errorf("lists of %v: %d features, want %d", c.lengths, got, c.want)
		}
		if m, err = star.FromRecord(rec, nil); err != nil || m.Contract().Len() != c.want {
			t.Errorf("a record with lists of %v: %v", c.lengths, err)
		}
	}
	_, msg := varying(t, 3, 2)
	for _, features := range [][]string{{"a", "b"}, {"*", "b*"}, {"b"}} {
		d, err := NewDecoder(Spec{Features: features})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(msg, nil); err == nil {
			t.Errorf("features %q: lists whose lengths vary were taken", features)
		}
	}
}

// TestManyVaryingLists: a message is decoded twice at most, however many of its columns have lists whose lengths vary.
// A sender could otherwise keep a pipeline without a schema busy for minutes.
func TestManyVaryingLists(t *testing.T) {
	const columns = 400
	text := []byte(`[{"a":1`)
	for k := range columns {
		text = fmt.Appendf(text, `,"b%d":[1]`, k)
	}
	text = append(text, `},{"a":2`...)
	for k := range columns {
		text = fmt.Appendf(text, `,"b%d":[1,2]`, k)
	}
	d, err := NewDecoder(Spec{Features: []string{"*"}, Format: wire.FormatJSON})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := d.Decode(append(text, `}]`...), nil)
	runtime.ReadMemStats(&after)
	if err != nil || m.Contract().Len() != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("decoding %d bytes allocated %d MiB", len(text), n>>20)
	}
}
