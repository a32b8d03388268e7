package arrowio

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	arrowipc "github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

type flatType func(*flatbuffers.Builder) flatbuffers.UOffsetT

// columnOf returns a message with one batch of one column.
func columnOf(typ byte, typeTable flatType, children []flatType, r rewrite.Record) []byte {
	return withBatch(schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		var kids []flatbuffers.UOffsetT
		for _, k := range children {
			kids = append(kids, k(b))
		}
		at := rewrite.References(b, kids)
		return []flatbuffers.UOffsetT{rewrite.FieldTable(b, b.CreateString("c"), true, typ, typeTable(b), 0, at, 0)}
	}), r)
}

func integerField(bits int32) flatType {
	return func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		return rewrite.FieldTable(b, b.CreateString("i"), false, ipc.TypeInt, integer(bits, true)(b), 0, 0, 0)
	}
}

func textField(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	return rewrite.FieldTable(b, b.CreateString("s"), false, ipc.TypeUtf8, emptyType(b), 0, 0, 0)
}

func denseUnion(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	b.StartObject(2)
	b.PrependInt16Slot(0, 1, 0)
	return b.EndObject()
}

// repeated returns n copies of a 32-bit integer.
func repeated(n int, v ...int) (b []byte) {
	for range n {
		for _, x := range v {
			b = le.AppendUint32(b, uint32(x))
		}
	}
	return b
}

// packed returns a message as Arrow's writer compresses it.
func packed(t testing.TB, name string, a arrow.Array) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: name, Type: a.DataType(), Nullable: true}}, nil)
	var out bytes.Buffer
	w := arrowipc.NewWriter(&out, arrowipc.WithSchema(schema), arrowipc.WithZstd())
	if err := w.Write(array.NewRecord(schema, []arrow.Array{a}, int64(a.Len()))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// entries returns a dictionary column: row i has entry index(i).
func entries(n int, index func(int) int, values arrow.Array) arrow.Array {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(int32(index(i)))
	}
	return array.NewDictionaryArray(&arrow.DictionaryType{IndexType: i32, ValueType: values.DataType()},
		b.NewArray(), values)
}

func texts(n, size int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(string(bytes.Repeat(fmt.Appendf(nil, "%06d", i), size/6)))
	}
	return b.NewArray()
}

// sharing are messages with many rows that all refer to one megabyte.
func sharing(t testing.TB) map[string][]byte {
	const rows, size = 8000, 1_042_000 // a part of one mebibyte has room for it and a few rows
	shared := bytes.Repeat([]byte("embedd!!"), size/8)
	c := map[string][]byte{
		"dictionary": packed(t, "c", entries(rows, func(int) int { return 0 }, texts(1, size))),
		"views": columnOf(ipc.TypeUtf8View, emptyType, nil, rewrite.Record{Rows: rows, Nodes: nodes(rows, 0),
			Buffers: [][]byte{nil, repeated(rows, size, int(le.Uint32(shared)), 0, 0), shared}, Variadic: []int{1}}),
		"list views": columnOf(ipc.TypeListView, emptyType, []flatType{integerField(8)}, rewrite.Record{Rows: rows,
			Nodes:   nodes(rows, 0, size, 0),
			Buffers: [][]byte{nil, repeated(rows, 0), repeated(rows, size), nil, shared}}),
		"dense union": columnOf(ipc.TypeUnion, denseUnion, []flatType{textField}, rewrite.Record{Rows: rows,
			Nodes:   nodes(rows, 0, 1, 0),
			Buffers: [][]byte{make([]byte, rows), repeated(rows, 0), nil, repeated(1, 0, size), shared}}),
		"runs": columnOf(ipc.TypeRunEnd, emptyType, []flatType{integerField(32), textField}, rewrite.Record{Rows: rows,
			Nodes:   nodes(rows, 0, 1, 0, 1, 0),
			Buffers: [][]byte{nil, repeated(1, rows), nil, repeated(1, 0, size), shared}}),
	}
	c["metadata"] = withBatch(schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		kv := rewrite.Pair(b, b.CreateString("k"), b.CreateByteString(shared))
		pairs := rewrite.References(b, []flatbuffers.UOffsetT{kv})
		b.StartObject(1)
		b.PrependInt32Slot(0, 100, -1)
		wide := b.EndObject()
		return []flatbuffers.UOffsetT{rewrite.FieldTable(b, b.CreateString("c"), false, ipc.TypeFixedBinary, wide, 0, 0,
			pairs)}
	}), rewrite.Record{Rows: 10_000, Nodes: nodes(10_000, 0), Buffers: [][]byte{nil, make([]byte, size)}})
	return c
}

// If many parts would repeat what rows share, the message is rejected, within memory of a small multiple of its size.
func TestWhatRowsShareIsNotMultiplied(t *testing.T) {
	for name, msg := range sharing(t) {
		t.Run(name, func(t *testing.T) {
			const most = 16 << 20
			d := newDecoder(t, Spec{Limits: Limits{Body: most}})
			expanded := uint64(expanded(d, msg, 2))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m := decode(t, d, msg)
			parts, err := newEncoder(t, Output{}).Split(numbered(m, 2), 1<<20, func(int, int) []wire.Pair { return nil })
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes expand to %d; %d parts, %d bytes allocated, error %v", len(msg), expanded, len(parts),
				after.TotalAlloc-before.TotalAlloc, err)
			if err != nil {
				wantCode(t, err, wire.TooLarge, "max_payload")
			}
			if total := len(slices.Concat(parts...)); total > max(2*int(expanded)+64<<10, most) {
				t.Errorf("%d bytes in %d parts", total, len(parts))
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 12*expanded {
				t.Errorf("%d bytes allocated for a message that expands to %d", spent, expanded)
			}
		})
	}
}

// A dictionary that all rows use, with most of the size of a part, is repeated in every part, if all parts together are
// not larger than a message may expand to.
func TestSharedWithinTheLimit(t *testing.T) {
	const rows, limit = 400, 1 << 20
	msg := message(t, "d", entries(rows, func(i int) int { return i * 7 % 20 }, texts(20, 40_000)), "s", texts(rows,
		5_000))
	for name, c := range map[string]struct {
		most int
		ok   bool
	}{"within": {16 << 20, true}, "beyond": {6 << 20, false}} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, Spec{Limits: Limits{Body: c.most}})
			parts, err := newEncoder(t, Output{}).Split(numbered(decode(t, d, msg), 2), limit,
				func(int, int) []wire.Pair { return nil })
			total := len(slices.Concat(parts...))
			t.Logf("%d bytes in %d parts of %d bytes: %v", len(msg), len(parts), total, err)
			if !c.ok {
				wantCode(t, err, wire.TooLarge, "limits.expanded")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var seen []int
			for _, p := range parts {
				if len(p) > limit {
					t.Errorf("a part of %d bytes", len(p))
				}
				seen = append(seen, sameRows(t, msg, p, "")...)
			}
			if total <= 2*expanded(d, msg, 2) || total > c.most || !slices.Equal(seen, upTo(rows)) {
				t.Errorf("%d rows in %d bytes", len(seen), total)
			}
		})
	}
}

// TestPartsRepeatLittle: parts of an output take 64 KiB more than twice its length at most. Each repeats the schema.
func TestPartsRepeatLittle(t *testing.T) {
	msg := message(t, strings.Repeat("s", 2000), texts(60, 1200))
	d := newDecoder(t, Spec{Limits: Limits{Body: 100 << 10}})
	for limit, want := range map[int]bool{10 << 10: true, 7 << 10: false} {
		parts, err := newEncoder(t, Output{}).Split(numbered(decode(t, d, msg), 2), limit,
			func(int, int) []wire.Pair { return nil })
		if (err == nil) != want {
			t.Errorf("%d parts of at most %d bytes: %v", len(parts), limit, err)
		}
	}
}

// If rows refer to different entries, each part has those of its rows, and all parts are little larger than the whole.
func TestPartsHaveTheirOwnEntries(t *testing.T) {
	const rows, limit = 2000, 256 << 10
	values := texts(300, 12_000)
	flat := entries(rows, func(i int) int { return i * 300 / rows }, values)
	spread := entries(rows, func(i int) int { return i * 7919 % 300 }, texts(300, 600))
	sparse := entries(rows, func(i int) int { return i * 31 }, texts(62_000, 60))
	none := array.MakeArrayOfNull(memory.DefaultAllocator, flat.DataType(), rows)
	for name, a := range map[string]arrow.Array{"ordered": flat, "spread": spread, "sparse": sparse, "none": none} {
		t.Run(name, func(t *testing.T) {
			plain := texts(rows, 600)
			msg := message(t, "d", a, "s", plain)
			d := newDecoder(t, Spec{})
			m := decode(t, d, msg)
			parts, err := newEncoder(t, Output{}).Split(numbered(m, 2), limit,
				func(int, int) []wire.Pair { return nil })
			if err != nil {
				t.Fatal(err)
			}
			var seen []int
			total := 0
			for _, p := range parts {
				if len(p) > limit {
					t.Errorf("a part of %d bytes", len(p))
				}
				total += len(p)
				seen = append(seen, sameRows(t, msg, p, "")...)
			}
			if most := 2*expanded(d, msg, 2) + 64<<10; len(parts) < 4 || total > most {
				t.Errorf("%d parts of %d bytes; the bound is %d", len(parts), total, most)
			}
			if !slices.Equal(seen, upTo(rows)) {
				t.Errorf("rows are missing: %d of %d", len(seen), rows)
			}
		})
	}
}
