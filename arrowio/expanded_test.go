package arrowio

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	arrowipc "github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// The decoded size of a message is known before it is decompressed: it is never less than what decoding allocates, for
// any writer.
func TestExpandedIsKnownBefore(t *testing.T) {
	const dim = 3
	d := newDecoder(t, Spec{})
	for name, msg := range fixtures(t) {
		m := decode(t, d, msg)
		want := len(msg) + m.Bytes() + 4*dim*m.Rows()
		if got := expanded(d, msg, dim); got != want {
			t.Errorf("%s: %d bytes are predicted and %d found", name, got, want)
		}
	}
	for name, c := range crafts(t) {
		if got := expanded(d, c.msg, dim); got < len(c.msg) || got > len(c.msg)+d.limits.Body+4*dim*d.limits.Rows {
			t.Errorf("%s: %d bytes for a message of %d", name, got, len(c.msg))
		}
	}
	bomb := zstdBomb(t, 1<<24)
	if got := expanded(d, bomb, dim); got < 1<<24 || got > 1<<24+1<<20 {
		t.Errorf("16 MiB in %d bytes count as %d", len(bomb), got)
	}
	small := compressedWith(t, ipc.CodecZSTD, 16, make([]byte, 8))
	large := compressedWith(t, ipc.CodecZSTD, 1<<63-8, make([]byte, 8)) // both together exceed an int
	both := append(small, large[8+len(frames(t, large)[0].Meta):]...)
	if got := expanded(d, both, dim); got != len(both) {
		t.Errorf("batches of 2^63 bytes in a message of %d count as %d", len(both), got)
	}
	outside := patched(t, sample(t, 3, 2, false, false), func(f []ipc.Frame) {
		le.PutUint64(f[1].Head.Vector(2, 16, "").Bytes(), 1<<40) // where the first buffer begins
	})
	if got := expanded(d, outside, dim); got != len(outside) {
		t.Errorf("a message of %d whose first buffer is outside of the frame counts as %d", len(outside), got)
	}
	msg := sample(t, 64, 64, true, true)
	if n := testing.AllocsPerRun(100, func() { expanded(d, msg, dim) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestEnvelope: a message whose frames were read for its size, by an envelope that had other messages before, is
// decoded as one whose frames were not.
func TestEnvelope(t *testing.T) {
	d := newDecoder(t, Spec{})
	msgs := fixtures(t)
	for name, c := range crafts(t) {
		msgs["crafted "+name] = c.msg
	}
	whole := sample(t, 3, 4, false, true)
	for end := range whole {
		msgs[fmt.Sprintf("the first %d bytes", end)] = whole[:end]
	}
	one := sample(t, 64, 3, false, true)
	schema, _, _ := ipc.NextFrame(one, true)
	batches := one[8+len(schema.Meta) : len(one)-8]
	msgs["nine batches"] = slices.Concat(one[:len(one)-8], bytes.Repeat(batches, 8), one[len(one)-8:])
	msgs["a second schema after nine"] = slices.Concat(one[:len(one)-8], bytes.Repeat(batches, 8), one)
	var e Envelope
	for name, msg := range msgs { // in any order
		e.Open(d, msg)
		if got, want := e.Expanded(2), expanded(d, msg, 2); got != want {
			t.Errorf("%s: %d bytes are predicted, and %d by a new envelope", name, got, want)
		}
		have, err := e.Decode(nil)
		want, fault := d.Decode(msg, nil)
		if (err == nil) != (fault == nil) || err != nil && err.Error() != fault.Error() {
			t.Errorf("%s: the error is %v, want %v", name, err, fault)
			continue
		}
		if err == nil && (have.Rows() != want.Rows() || have.Bytes() != want.Bytes() ||
			fmt.Sprint(featuresOf(have)) != fmt.Sprint(featuresOf(want))) {
			t.Errorf("%s: %d rows, want %d, or other features", name, have.Rows(), want.Rows())
		}
	}
}

// featuresOf returns the features of all batches.
func featuresOf(m *Message) (blocks [][]Block) {
	for _, b := range m.Batches() {
		blocks = append(blocks, b.Features())
	}
	return blocks
}

// expanded returns the memory that a message needs.
func expanded(d *Decoder, msg []byte, dim int) int {
	var e Envelope
	e.Open(d, msg)
	return e.Expanded(dim)
}

// TestExpandedOfText: what a text message and its output hold is at most what is known before, for rows of few bytes
// too.
func TestExpandedOfText(t *testing.T) {
	const dim, rows = 8, 20_000
	each := func(one, between string) string { return strings.Repeat(one+between, rows-1) + one }
	for _, c := range []struct {
		format wire.Format
		text   string
	}{
		{wire.FormatJSON, "[" + each(`{"x":1}`, ",") + "]"},
		{wire.FormatJSON, `[{"x":1},` + each("0", ",") + "]"},
		{wire.FormatJSON, `[{"x":1},` + each("{}", ",") + "]"},
		{wire.FormatJSON, `{"columns":["{"],"data":[` + each("[1]", ",") + "]}"},
		{wire.FormatJSON, `{"columns":["x"],"data":[[1],` + each("0", ",") + "]}"},
		{wire.FormatNDJSON, "{\"x\":1}\n" + each("0", "\n")},
		{wire.FormatNDJSON, each(`{"x":1}`, "\n")},
		{wire.FormatCSV, "x\n" + each("1", "\n")},
		{wire.FormatCSV, "x\n1\n" + each(`"`, "\n")},
	} {
		d := newDecoder(t, Spec{Features: []string{"?"}, Format: c.format})
		e, msg := newEncoder(t, Output{Format: c.format}), []byte(c.text)
		before := live()
		m := decode(t, d, msg)
		y := make([]float32, dim*m.Rows())
		for i := range y {
			y[i] = -1.2345678e-30
		}
		faults := m.Batches()[0].Faults()
		out, err := e.Encode(Reduced{Message: m, Dim: dim, Y: [][]float32{y}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s %.40q", c.format, c.text)
		if have, most := live()-before+len(msg), expanded(d, msg, dim); have > most {
			t.Errorf("%s: %d bytes are held, and %d were predicted", name, have, most)
		}
		runtime.KeepAlive(out)
		runtime.KeepAlive(faults)
		m.Release()
	}
}

// live returns the bytes of the heap that are in use.
func live() int {
	runtime.GC()
	runtime.GC() // what pools hold is gone with the second
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// BenchmarkEnvelope is what the hot path does with a message before it transforms it.
func BenchmarkEnvelope(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{})
			var e Envelope
			for b.Loop() {
				e.Open(d, msg)
				e.Expanded(2)
				if _, err := e.Decode(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAnswerOfRows: what is predicted for the rows of a text message is for at most as many as the limit of rows.
func TestAnswerOfRows(t *testing.T) {
	d := newDecoder(t, Spec{Format: wire.FormatNDJSON, Limits: Limits{Rows: 100}})
	answer := func(rows int) int { return d.texts.answer([]byte(strings.Repeat("{}\n", rows)), 3) }
	if one, all := answer(1)/2, answer(99); all != 100*one || answer(1000) != all || one < 300 || one > 600 {
		t.Errorf("%d bytes for a row, %d for 100, %d for 1,000", one, all, answer(1000))
	}
}

// TestManyBuffersExpandWithinTheLimit: compressed buffers that only together exceed Limits.Body are not decompressed.
func TestManyBuffersExpandWithinTheLimit(t *testing.T) {
	const columns, rows = 40, 100_000
	var fields []arrow.Field
	var arrays []arrow.Array
	for k := range columns {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(0)
		}
		fields, arrays = append(fields, arrow.Field{Name: fmt.Sprint("x", k), Type: arrow.PrimitiveTypes.Float64}),
			append(arrays, b.NewArray())
	}
	schema := arrow.NewSchema(fields, nil)
	var msg bytes.Buffer
	w := arrowipc.NewWriter(&msg, arrowipc.WithSchema(schema), arrowipc.WithZstd())
	if err := errors.Join(w.Write(array.NewRecord(schema, arrays, rows)), w.Close()); err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, Spec{Limits: Limits{Body: 1 << 20}}) // one column has 800 KB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.Decode(msg.Bytes(), nil)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, wire.TooLarge) || n > 8<<20 {
		t.Errorf("%d bytes were allocated: %v", n, err)
	}
}
