package arrowio

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/klauspost/compress/zstd"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/testsize"
)

// A craft is a message that no writer would write, and the code with which it must be rejected.
type craft struct {
	msg  []byte
	code wire.Code
}

// frames splits a well-formed message; the parts are views on it.
func frames(t testing.TB, msg []byte) (list []ipc.Frame) {
	t.Helper()
	rest := msg
	for {
		f, tail, end := ipc.NextFrame(rest, len(list) == 0)
		if end {
			return list
		}
		list, rest = append(list, f), tail
	}
}

// slotAt returns the position of a slot that must exist.
func slotAt(t testing.TB, tab flat.Table, i int) []byte {
	t.Helper()
	p := tab.Slot(i, 4, "")
	if p == 0 {
		t.Fatalf("slot %d is absent", i)
	}
	return tab.Buf[p:]
}

// lengthAt returns the length field of the vector in a slot.
func lengthAt(t testing.TB, tab flat.Table, i int) []byte {
	t.Helper()
	v := tab.Vector(i, 1, "")
	if v.Pos == 0 {
		t.Fatalf("vector %d is absent", i)
	}
	return v.Buf[v.Pos-4:]
}

// patched changes a copy of msg.
func patched(t testing.TB, msg []byte, change func(f []ipc.Frame)) []byte {
	msg = slices.Clone(msg)
	change(frames(t, msg))
	return msg
}

// schemaOf writes a message with only a schema. fields writes the field tables.
func schemaOf(fields func(b *flatbuffers.Builder) []flatbuffers.UOffsetT) []byte {
	b := flatbuffers.NewBuilder(1024)
	at := rewrite.References(b, fields(b))
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, at, 0)
	msg := rewrite.AppendFrame(nil, b, ipc.HeadSchema, b.EndObject(), 0, 0)
	return append(msg, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
}

func emptyType(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	b.StartObject(0)
	return b.EndObject()
}

// shared returns n references to one field, nested levels deep.
func shared(n, levels int) []byte {
	return schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		leaf := rewrite.FieldTable(b, b.CreateString("a"), true, ipc.TypeNull, emptyType(b), 0, 0, 0)
		for range levels - 1 {
			kids := rewrite.References(b, slices.Repeat([]flatbuffers.UOffsetT{leaf}, n))
			leaf = rewrite.FieldTable(b, b.CreateString("a"), true, ipc.TypeStruct, emptyType(b), 0, kids, 0)
		}
		return slices.Repeat([]flatbuffers.UOffsetT{leaf}, n)
	})
}

// nodes are pairs of rows and nulls.
func nodes(v ...int) (list []rewrite.Node) {
	for k := 0; k < len(v); k += 2 {
		list = append(list, rewrite.Node{Rows: v[k], Nulls: v[k+1]})
	}
	return list
}

// withBatch appends a batch of the given nodes and buffers to a message with only a schema.
func withBatch(schema []byte, r rewrite.Record) []byte {
	return append(r.DataFrame(schema[:len(schema)-8], -1, nil, nil), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
}

func nullColumn(rows int) []byte {
	return withBatch(shared(1, 1), rewrite.Record{Rows: rows, Nodes: nodes(rows, rows)})
}

// compressedWith replaces the body of a message's only compressed buffer of values.
func compressedWith(t testing.TB, codec int8, size uint64, body []byte) []byte {
	t.Helper()
	schema := frames(t, message(t, "x", from(t, f32, `[1]`)))[0]
	msg := le.AppendUint32(nil, 0xFFFFFFFF)
	msg = le.AppendUint32(msg, uint32(len(schema.Meta)))
	msg = append(msg, schema.Meta...)
	r := rewrite.Record{Rows: 1, Nodes: nodes(1, 0), Buffers: [][]byte{nil, append(le.AppendUint64(nil, size), body...)}}
	b := flatbuffers.NewBuilder(256)
	head, n := r.Header(b, r.Buffers, &rewrite.Compressor{Codec: int64(codec)})
	msg = rewrite.AppendFrame(msg, b, ipc.HeadRecord, head, n, 0)
	msg = append(msg, r.Buffers[1]...)
	return rewrite.Pad(msg, len(r.Buffers[1]))
}

// zstdFrame is a frame header with a window descriptor, and one raw block of 8 bytes.
func zstdFrame(windowLog byte) []byte {
	f := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, (windowLog - 10) << 3}
	return append(f, 1|8<<3, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)
}

func crafts(t testing.TB) map[string]craft {
	list := from(t, arrow.FixedSizeListOf(2, f32), `[[1,2],[3,4]]`)
	plain := message(t, "x", list, "s", from(t, str, `["a","bc"]`))
	dict := message(t, "x", list, "d", from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["a","bc"]`))
	edit := func(msg []byte, change func(f []ipc.Frame)) []byte { return patched(t, msg, change) }
	batch := func(msg []byte, change func(nodes, ranges, body []byte, f ipc.Frame)) []byte {
		return edit(msg, func(f []ipc.Frame) {
			last := f[len(f)-1]
			nodes := last.Head.Vector(1, 16, "")
			ranges := last.Head.Vector(2, 16, "")
			change(nodes.Bytes(), ranges.Bytes(), last.Body, last)
		})
	}
	put := func(b []byte, v int64) { le.PutUint64(b, uint64(v)) }
	c := map[string]craft{
		"fields length": {edit(plain, func(f []ipc.Frame) { le.PutUint32(lengthAt(t, f[0].Head, 1), math.MaxUint32) }),
			wire.Malformed},
		"metadata length": {edit(fixtures(t)["everything"],
			func(f []ipc.Frame) { le.PutUint32(lengthAt(t, f[0].Head, 2), math.MaxUint32) }), wire.Malformed},
		"child is itself": {edit(plain, func(f []ipc.Frame) {
			fields := f[0].Head.Vector(1, 4, "")
			x := fields.Table(0, "")
			kids := x.Vector(5, 4, "")
			le.PutUint32(kids.Bytes(), uint32(x.Pos-kids.Pos)) // overflows
		}), wire.Malformed},
		"body 1 TiB":      {edit(plain, func(f []ipc.Frame) { put(slotAt(t, f[1].Message, 3), 1<<40) }), wire.Truncated},
		"body 2 GiB":      {edit(plain, func(f []ipc.Frame) { put(slotAt(t, f[1].Message, 3), 1<<31) }), wire.Truncated},
		"body negative":   {edit(plain, func(f []ipc.Frame) { put(slotAt(t, f[1].Message, 3), -8) }), wire.Malformed},
		"frame 2 GiB":     {binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, 1<<31-8), wire.Truncated},
		"frame negative":  {binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, 1<<31+8), wire.Malformed},
		"buffer 1 TiB":    {batch(plain, func(_, r, _ []byte, _ ipc.Frame) { put(r[16*2+8:], 1<<40) }), wire.Malformed},
		"buffer negative": {batch(plain, func(_, r, _ []byte, _ ipc.Frame) { put(r[16*2+8:], -1) }), wire.Malformed},
		"buffer wraps": {batch(plain, func(_, r, _ []byte,
			_ ipc.Frame) {
			put(r[16*2:], 8)
			put(r[16*2+8:], math.MaxInt64)
		}), wire.Malformed},
		"zstd 1 TiB": {compressedWith(t, ipc.CodecZSTD, 1<<40, zstdFrame(20)), wire.TooLarge},
		"lz4 1 TiB": {compressedWith(t, ipc.CodecLZ4, 1<<40, []byte{4, 34, 77, 24, 96, 112, 115, 0, 0, 0, 0}),
			wire.TooLarge},
		"lz4 garbage":   {compressedWith(t, ipc.CodecLZ4, 64, []byte("no lz4 frame at all")), wire.Malformed},
		"zstd garbage":  {compressedWith(t, ipc.CodecZSTD, 64, []byte("no zstd frame at all")), wire.Malformed},
		"zstd negative": {compressedWith(t, ipc.CodecZSTD, 1<<63, zstdFrame(20)), wire.Malformed},
		"zstd longer":   {compressedWith(t, ipc.CodecZSTD, 4, zstdFrame(20)), wire.Malformed}, // within the slack
		"zstd window":   {compressedWith(t, ipc.CodecZSTD, 8, zstdFrame(29)), wire.Malformed},
		"codec":         {compressedWith(t, 7, 8, zstdFrame(20)), wire.Unsupported},
		"DAG 24 x 2":    {shared(2, 24), wire.TooManyFields},
		"DAG 12 x 2":    {shared(2, 12), wire.TooManyFields},
		"DAG 1000^3":    {shared(1000, 3), wire.TooManyFields},
		"deep":          {shared(1, 15000), wire.TooManyFields},
		"250k columns":  {shared(250_000, 1), wire.TooManyFields},
		"2^62 nulls":    {nullColumn(1 << 62), wire.TooManyRows},
		"2^31 nulls":    {nullColumn(1 << 31), wire.TooManyRows},
		"negative rows": {nullColumn(-1), wire.Malformed},
		"no columns":    {withBatch(shared(0, 1), rewrite.Record{Rows: 1 << 62}), wire.TooManyRows},
		"short values": {batch(plain, func(n, r, _ []byte, f ipc.Frame) {
			put(n, 9)
			put(n[16:], 18)
			put(n[32:], 9)
			put(slotAt(t, f.Head, 0), 9)
		}), wire.Malformed},
		"short child":      {batch(plain, func(n, _, _ []byte, _ ipc.Frame) { put(n[16:], 3) }), wire.Malformed},
		"column length":    {batch(plain, func(n, _, _ []byte, _ ipc.Frame) { put(n, 1) }), wire.Malformed},
		"too many nulls":   {batch(plain, func(n, _, _ []byte, _ ipc.Frame) { put(n[8:], 3) }), wire.Malformed},
		"nulls, no bitmap": {batch(plain, func(n, _, _ []byte, _ ipc.Frame) { put(n[8:], 1) }), wire.Malformed},
		"offsets descend": {batch(plain, func(_, r, b []byte,
			_ ipc.Frame) {
			le.PutUint32(b[le.Uint64(r[16*4:])+4:], 9)
		}), wire.Malformed},
		"offsets negative": {batch(plain, func(_, r, b []byte,
			_ ipc.Frame) {
			le.PutUint32(b[le.Uint64(r[16*4:]):], 1<<31)
		}), wire.Malformed},
		"fewer nodes": {edit(plain, func(f []ipc.Frame) { le.PutUint32(lengthAt(t, f[1].Head, 1), 2) }),
			wire.Malformed},
		"fewer buffers": {edit(plain, func(f []ipc.Frame) { le.PutUint32(lengthAt(t, f[1].Head, 2), 5) }),
			wire.Malformed},
		"list size": {edit(plain, func(f []ipc.Frame) { le.PutUint32(slotAt(t, fieldType(t, f[0], 0), 0), 1<<31) }),
			wire.Malformed},
		"list size large": {edit(plain, func(f []ipc.Frame) {
			le.PutUint32(slotAt(t, fieldType(t, f[0], 0), 0),
				1<<31-1)
		}), wire.Malformed},
		"index": {batch(dict, func(_, r, b []byte, _ ipc.Frame) { le.PutUint32(b[le.Uint64(r[16*4:]):], 2) }),
			wire.Malformed},
		"index negative": {batch(dict, func(_, r, b []byte,
			_ ipc.Frame) {
			le.PutUint32(b[le.Uint64(r[16*4:]):], math.MaxUint32)
		}), wire.Malformed},
		"no schema":         {plain[8+metaLength(plain):], wire.Malformed},
		"two schemas":       {append(slices.Clone(plain[:8+metaLength(plain)]), plain...), wire.Malformed},
		"trailing":          {append(slices.Clone(plain), 0), wire.Malformed},
		"trailing stream":   {append(slices.Clone(plain), plain...), wire.Malformed},
		"shared body":       {sharedBody(t), wire.TooLarge},
		"metadata bomb":     {metadataBomb(10_000, 700), wire.TooManyFields},
		"metadata texts":    {metadataBomb(200, 100<<10), wire.TooManyFields},
		"union ids":         {unionWith([]int32{3, 3}), wire.Malformed},
		"union id":          {unionWith([]int32{-1, 3}), wire.Malformed},
		"union id 200":      {unionWith([]int32{200, 3}), wire.Malformed},
		"zstd 1 GiB":        {zstdBomb(t, 1<<30), wire.TooLarge},
		"zstd understated":  {zstdBomb(t, 64), wire.Malformed},
		"many batches":      {manyBatches(5000), wire.TooManyRows},
		"run ends":          {runsWith(4, []int32{2, 2}), wire.Malformed},
		"runs too short":    {runsWith(4, []int32{2, 3}), wire.Malformed},
		"2^40 rows of runs": {runsWith(1<<40, []int32{2, 3}), wire.TooManyRows},
	}
	fs := frames(t, dict)
	cut := func(keep ...int) (msg []byte) {
		for _, k := range keep {
			msg = le.AppendUint32(msg, math.MaxUint32)
			msg = le.AppendUint32(msg, uint32(len(fs[k].Meta)))
			msg = append(append(msg, fs[k].Meta...), fs[k].Body...)
		}
		return msg
	}
	maps.Copy(c, map[string]craft{
		"dictionary missing":  {cut(0, 2), wire.Malformed},
		"dictionary twice":    {cut(0, 1, 1, 2), wire.Dictionary},
		"dictionary replaced": {cut(0, 1, 2, 1, 2), wire.Dictionary},
		"dictionary late":     {cut(0, 2, 1), wire.Malformed},
		"dictionary unknown":  {cut(0, 1, 2), ""},
	})
	delete(c, "dictionary unknown")
	for name, msg := range viewCrafts(t) {
		c[name] = craft{msg, wire.Malformed}
	}
	return c
}

func fieldType(t testing.TB, f ipc.Frame, i int) flat.Table {
	t.Helper()
	fields := f.Head.Vector(1, 4, "")
	typ, ok := fields.Table(i, "").Table(3, "")
	if !ok {
		t.Fatal("no type")
	}
	return typ
}

// sharedBody has 3000 columns that all point at one megabyte.
func sharedBody(t testing.TB) []byte {
	schema := schemaOf(func(b *flatbuffers.Builder) (at []flatbuffers.UOffsetT) {
		for range 3000 {
			at = append(at, rewrite.FieldTable(b, b.CreateString("a"), false, ipc.TypeFloat, rewrite.FloatType(b), 0, 0, 0))
		}
		return at
	})
	r := rewrite.Record{Rows: 1}
	for range 3000 {
		r.Nodes = append(r.Nodes, nodes(1, 0)...)
		r.Buffers = append(r.Buffers, nil, nil)
	}
	r.Buffers[0] = make([]byte, 1<<20)
	return patched(t, withBatch(schema, r), func(f []ipc.Frame) {
		v := f[1].Head.Vector(2, 16, "")
		for i := range v.Len {
			le.PutUint64(v.Bytes()[16*i:], 0)
			le.PutUint64(v.Bytes()[16*i+8:], 1<<20)
		}
	})
}

func metadataBomb(n, size int) []byte {
	b := flatbuffers.NewBuilder(1024)
	text := b.CreateByteString(make([]byte, size))
	kv := rewrite.Pair(b, text, text)
	pairs := rewrite.References(b, slices.Repeat([]flatbuffers.UOffsetT{kv}, n))
	fields := rewrite.References(b, nil)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	b.PrependUOffsetTSlot(2, pairs, 0)
	return append(rewrite.AppendFrame(nil, b, ipc.HeadSchema, b.EndObject(), 0, 0), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
}

func unionWith(ids []int32) []byte {
	return schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		kid := rewrite.FieldTable(b, b.CreateString("a"), true, ipc.TypeNull, emptyType(b), 0, 0, 0)
		kids := rewrite.References(b, slices.Repeat([]flatbuffers.UOffsetT{kid}, len(ids)))
		b.StartVector(4, len(ids), 4)
		for _, id := range slices.Backward(ids) {
			b.PrependInt32(id)
		}
		list := b.EndVector(len(ids))
		b.StartObject(2)
		b.PrependUOffsetTSlot(1, list, 0)
		typ := b.EndObject()
		return []flatbuffers.UOffsetT{rewrite.FieldTable(b, b.CreateString("u"), true, ipc.TypeUnion, typ, 0, kids, 0)}
	})
}

func runsWith(rows int, ends []int32) []byte {
	schema := schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		b.StartObject(2)
		b.PrependInt32Slot(0, 32, 0)
		b.PrependBoolSlot(1, true, false)
		integer := b.EndObject()
		kids := rewrite.References(b, []flatbuffers.UOffsetT{
			rewrite.FieldTable(b, b.CreateString("run_ends"), false, ipc.TypeInt, integer, 0, 0, 0),
			rewrite.FieldTable(b, b.CreateString("values"), true, ipc.TypeNull, integer, 0, 0, 0),
		})
		return []flatbuffers.UOffsetT{
			rewrite.FieldTable(b, b.CreateString("n"), true, ipc.TypeNull, integer, 0, 0, 0),
			rewrite.FieldTable(b, b.CreateString("r"), true, ipc.TypeRunEnd, integer, 0, kids, 0),
		}
	})
	var values []byte
	for _, e := range ends {
		values = le.AppendUint32(values, uint32(e))
	}
	n := len(ends)
	return withBatch(schema, rewrite.Record{Rows: rows, Nodes: nodes(rows, rows, rows, 0, n, 0, n, n),
		Buffers: [][]byte{nil, values}})
}

func zstdBomb(t testing.TB, declared uint64) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	return compressedWith(t, ipc.CodecZSTD, declared, z.EncodeAll(make([]byte, 1<<24), nil))
}

func manyBatches(n int) []byte {
	msg := shared(1, 1)
	msg = msg[:len(msg)-8]
	for range n {
		msg = (&rewrite.Record{Nodes: nodes(0, 0)}).DataFrame(msg, -1, nil, nil)
	}
	return msg
}

// viewCrafts are views and list views that point outside the buffers, and unions with types that do not exist.
func viewCrafts(t testing.TB) map[string][]byte {
	msg := fixtures(t)["everything"]
	d := newDecoder(t, Spec{})
	l := &decode(t, d, msg).plan.schema.Layout
	c := map[string][]byte{}
	edit := func(name, column string, buffer int, change func(b []byte)) {
		copied := slices.Clone(msg)
		m := decode(t, d, copied)
		for _, i := range l.Columns {
			if l.Fields[i].Name == column {
				change(m.Batches()[0].data.Buffer(i, buffer))
				c[name] = copied
				return
			}
		}
		t.Fatal("no column", column)
	}
	edit("view buffer", "string_view", 1, func(b []byte) { le.PutUint32(b[16+8:], 5) })
	edit("view offset", "string_view", 1, func(b []byte) { le.PutUint32(b[16+12:], 1<<30) })
	edit("view offset negative", "string_view", 1, func(b []byte) { le.PutUint32(b[16+12:], 1<<31) })
	edit("view size negative", "binary_view", 1, func(b []byte) { le.PutUint32(b, 1<<31) })
	edit("list-view size", "list_view", 2, func(b []byte) { le.PutUint32(b[4:], 1<<20) })
	edit("list-view offset", "large_list_view", 1, func(b []byte) { le.PutUint64(b[8:], 1<<63) })
	edit("union type", "sparse_union", 0, func(b []byte) { b[2] = 77 })
	edit("union offset", "dense_union", 1, func(b []byte) { le.PutUint32(b[8:], 100) })
	edit("map offset", "map", 1, func(b []byte) { le.PutUint32(b[8:], 100) })
	edit("large offset", "large_string", 1, func(b []byte) { le.PutUint64(b[16:], 1<<50) })
	edit("nested index", "list_of_dictionary", 1, func(b []byte) { le.PutUint32(b[len(b)-4:], 1<<20) })
	return c
}

// No crafted message is accepted, and none allocates more than a little over its size (Invariant 6).
func TestCraftedMessages(t *testing.T) {
	for name, c := range crafts(t) {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, Spec{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.Decode(c.msg, nil)
			runtime.ReadMemStats(&after)
			wantCode(t, err, c.code)
			if _, err := newDecoder(t, Spec{Features: []string{"*"}}).Decode(c.msg, nil); err == nil {
				t.Error("it is accepted where features are wanted")
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > uint64(4*len(c.msg)+2<<20) {
				t.Errorf("%d bytes allocated for a message of %d", spent, len(c.msg))
			}
		})
	}
}

// With every length in the metadata set to critical values, a message is rejected or harmless.
func TestEveryMetadataWord(t *testing.T) {
	step := testsize.Of(12, 4)
	if raceEnabled {
		step = 28
	}
	for _, name := range []string{"everything", "everything_zstd", "runs", "fsl", "mixed"} {
		msg := fixtures(t)[name]
		d := newDecoder(t, Spec{Features: []string{"*"}, Label: "label", Key: "id"})
		e := newEncoder(t, Output{})
		for _, f := range frames(t, msg) {
			for at := 0; at+4 <= len(f.Meta); at += step {
				for _, v := range []uint32{0, 1, 8, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8} {
					old := le.Uint32(f.Meta[at:])
					le.PutUint32(f.Meta[at:], v)
					if err := touch(d, e, msg, nil); err != nil {
						t.Errorf("%s: %d at byte %d of a frame of kind %d: %v", name, v, at, f.Kind, err)
					}
					le.PutUint32(f.Meta[at:], old)
				}
			}
		}
	}
}

// touch decodes an arbitrary message and uses all of it. It returns an error unless the message is valid or rejected
// with a code.
func touch(d *Decoder, e *Encoder, msg []byte, c *Contract) error {
	m, err := d.Decode(msg, c)
	if err != nil {
		return clean(err)
	}
	var all, odd [][]int
	for _, b := range m.Batches() {
		for _, k := range b.Features() {
			for i := range b.Rows() {
				for j := range k.Cols {
					k.At(i, j)
				}
			}
		}
		var every, second []int
		for i := range b.Rows() {
			b.Label(i)
			b.Key(i)
			if every = append(every, i); i%2 == 1 {
				second = append(second, i)
			}
		}
		for _, f := range b.Faults() {
			if f.Row < 0 || f.Row >= b.Rows() || f.What == "" {
				return fmt.Errorf("fault %+v of %d rows", f, b.Rows())
			}
		}
		all, odd = append(all, every), append(odd, second)
	}
	r := numbered(m, 2)
	dropped := r
	dropped.Drop = odd
	for _, write := range []func() ([]byte, error){
		func() ([]byte, error) { return e.Encode(r, []wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}}) },
		func() ([]byte, error) { return e.Encode(dropped, nil) },
		func() ([]byte, error) { return e.Rejected(m, all, nil) },
		func() ([]byte, error) { return e.Rejected(m, odd, nil) },
	} {
		out, err := write()
		if err == nil && len(out) > 2*len(msg)+1<<20 && e.codec == nil {
			err = fmt.Errorf("%d bytes out of %d", len(out), len(msg))
		}
		if err := again(out, err); err != nil {
			return err
		}
	}
	predicted := expanded(d, msg, 2)
	if predicted < len(msg)+4*2*m.Rows() {
		return fmt.Errorf("a message of %d bytes and %d rows is predicted to expand to %d", len(msg), m.Rows(), predicted)
	}
	parts, err := e.Split(r, max(256, len(msg)/2),
		func(k, n int) []wire.Pair { return []wire.Pair{{Key: wire.HeaderPart, Value: fmt.Sprint(k, n)}} })
	if err != nil {
		return clean(err)
	}
	total := 0
	for _, p := range parts {
		if total += len(p); total > max(2*predicted+8*len(msg)+64<<10, d.limits.Body) {
			return fmt.Errorf("%d parts of %d bytes, and %d bytes are predicted", len(parts), total, predicted)
		}
		if err := again(p, nil); err != nil {
			return err
		}
	}
	return nil
}

// again checks that an output can be decoded: outputs pass the checks of inputs.
func again(out []byte, err error) error {
	if err != nil {
		return clean(err)
	}
	d, err := NewDecoder(Spec{Limits: Limits{Message: 1 << 30, Body: 1 << 30, Fields: 1 << 20, Metadata: 1 << 16}})
	if err == nil {
		_, err = d.Decode(out, nil)
	}
	if err != nil {
		return fmt.Errorf("the output is refused: %w", err)
	}
	return nil
}

// clean accepts only a rejection.
func clean(err error) error {
	if e, ok := err.(*Error); !ok || e.Code == wire.Internal {
		return fmt.Errorf("no clean refusal: %w", err)
	}
	return nil
}

// TestLongNames: the name of a feature column is repeated for each of its elements, so a long one is rejected.
func TestLongNames(t *testing.T) {
	name := "x" + string(make([]byte, 1<<20))
	msg := sample(t, 2, 2000, true, false)
	m := decode(t, newDecoder(t, Spec{}), msg)
	schema, recs := records(t, msg)
	field := schema.Field(0)
	field.Name = name
	long := arrow.NewSchema([]arrow.Field{field}, nil)
	msg, err := FromRecords(long, array.NewRecord(long, recs[0].Columns(), int64(m.Rows())))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = newDecoder(t, Spec{Features: []string{"x*"}}).Decode(msg, nil)
	runtime.ReadMemStats(&after)
	wantCode(t, err, wire.TooLarge, "name")
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 16<<20 {
		t.Errorf("%d bytes allocated", spent)
	}
}
