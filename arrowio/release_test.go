package arrowio

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// TestRelease: messages whose memory was used before, by messages of any content, are answered as in new memory.
func TestRelease(t *testing.T) {
	reuses := newDecoder(t, Spec{})
	e := newEncoder(t, Output{Keep: []string{"*"}})
	answer := func(d *Decoder, msg []byte) (*Message, []byte) {
		m := decode(t, d, msg)
		out, err := e.Encode(numbered(m, 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range m.Batches() {
			for _, k := range b.Features() {
				out = append(append(out, ipc.AsBytes(k.F32, 4)...), ipc.AsBytes(k.F64, 8)...)
			}
		}
		return m, out
	}
	for range 3 {
		for name, msg := range fixtures(t) {
			_, want := answer(newDecoder(t, Spec{}), msg)
			m, have := answer(reuses, msg)
			if !bytes.Equal(have, want) {
				t.Fatalf("%s: the answer differs in reused memory", name)
			}
			releasePoisoned(m)
		}
	}
}

// releasePoisoned releases a message and overwrites its memory.
func releasePoisoned(m *Message) {
	var copies, bodies [][]byte
	for _, b := range m.batches {
		copies, bodies = append(copies, b.copies), append(bodies, b.data.Body)
	}
	m.Release()
	for k, b := range m.batches {
		if b.data.Body == nil { // it was decompressed
			copies = append(copies, bodies[k])
		}
	}
	for _, c := range copies {
		for i := range c[:cap(c)] {
			c[:cap(c)][i] = 0xff
		}
	}
}

// A message has as many users as called Retain, and the caller of Decode.
func TestRetain(t *testing.T) {
	d := newDecoder(t, Spec{})
	m := decode(t, d, fixtures(t)["fsl_zstd"])
	m.Retain()
	m.Release()
	if m.Batches()[0].Features() == nil {
		t.Fatal("the message is released while it has a user")
	}
	m.Release()
	if m.Batches()[0].Features() != nil {
		t.Fatal("the message is not released")
	}
	m.Release() // once too often
}

// TestReleasedMemoryIsUsed: a message is decompressed, and its features are copied, into the memory of one before it.
func TestReleasedMemoryIsUsed(t *testing.T) {
	if raceEnabled { // pools drop buffers at random then
		return
	}
	d := newDecoder(t, Spec{Features: []string{"x"}})
	m := decode(t, d, sample(t, 256, 256, true, true))
	for _, compression := range []string{"lz4", "zstd"} {
		msg, err := newEncoder(t, Output{Keep: []string{"*"}, Compression: compression}).Rejected(m, [][]int{allRows(m)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const rounds = 50
		if n := allocatedBytes(func() {
			for range rounds {
				decode(t, d, msg).Release()
			}
		}); n > rounds/2*256*256*4 { // a collection may empty the pool now and then
			t.Errorf("%s: %d messages allocated %d bytes", compression, rounds, n)
		}
	}
}

func allRows(m *Message) (rows []int) {
	for i := range m.Rows() {
		rows = append(rows, i)
	}
	return rows
}

func allocatedBytes(f func()) uint64 {
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	f()
	runtime.ReadMemStats(&to)
	return to.TotalAlloc - from.TotalAlloc
}
