package arrowio

import (
	"testing"
)

// The decoded size of a message is known before it is decompressed: it is never less than what decoding allocates, for
// any writer.
func TestExpandedIsKnownBefore(t *testing.T) {
	const dim = 3
	d := newDecoder(t, Spec{})
	for name, msg := range fixtures(t) {
		m := decode(t, d, msg)
		want := len(msg) + m.Bytes() + 4*dim*m.Rows()
		if got := d.Expanded(msg, dim); got != want {
			t.Errorf("%s: %d bytes are predicted and %d found", name, got, want)
		}
	}
	for name, c := range crafts(t) {
		if got := d.Expanded(c.msg, dim); got < len(c.msg) || got > len(c.msg)+d.limits.Body+4*dim*d.limits.Rows {
			t.Errorf("%s: %d bytes for a message of %d", name, got, len(c.msg))
		}
	}
	bomb := zstdBomb(t, 1<<24)
	if got := d.Expanded(bomb, dim); got < 1<<24 || got > 1<<24+1<<20 {
		t.Errorf("16 MiB in %d bytes count as %d", len(bomb), got)
	}
	msg := sample(t, 64, 64, true, true)
	if n := testing.AllocsPerRun(100, func() { d.Expanded(msg, dim) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkExpanded(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{})
			for b.Loop() {
				d.Expanded(msg, 2)
			}
		})
	}
}
