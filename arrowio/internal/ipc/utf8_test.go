package ipc

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	avx "github.com/segmentio/asm/utf8"
)

func checkUTF8(t *testing.T, b []byte) {
	t.Helper()
	wantASCII := !slices.ContainsFunc(b, func(x byte) bool { return x >= utf8.RuneSelf })
	found := avx.Validate(slices.Clip(b))
	valid, ascii := found.IsUTF8(), found.IsASCII()
	if valid != utf8.Valid(b) || valid && ascii != wantASCII {
		t.Fatalf("%q: valid %v, ASCII %v, want %v, %v", b, valid, ascii, utf8.Valid(b), wantASCII)
	}
}

// TestUTF8 compares the library that checks UTF-8 with unicode/utf8: pairs, triples and quadruples of bytes at the
// boundary of two blocks, and random texts with errors.
func TestUTF8(t *testing.T) {
	around := []byte(strings.Repeat("é日a𝄞", 30))[:96]
	plain := []byte(strings.Repeat("x", 96))
	for _, base := range [][]byte{around, plain} {
		for a := range 256 {
			for b := range 256 {
				msg := slices.Clone(base)
				at := 30 + (a+b)%4
				copy(msg[at:], []byte{byte(a), byte(b)})
				checkUTF8(t, msg)
				checkUTF8(t, msg[:at+2])
				for _, c := range []byte{0, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff} {
					copy(msg[at:], []byte{byte(a), byte(b), c, 'x'})
					checkUTF8(t, msg)
					if a >= 0xe0 {
						for _, d := range []byte{0x7f, 0x80, 0xbf, 0xc0} {
							copy(msg[at:], []byte{byte(a), byte(b), c, d, 'y'})
							checkUTF8(t, msg)
							checkUTF8(t, msg[:at+4])
						}
					}
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var msg []byte
		for range r.IntN(80) {
			msg = utf8.AppendRune(msg, rune(r.IntN(1<<(7+r.IntN(15)))))
		}
		checkUTF8(t, msg)
		if len(msg) > 0 {
			msg[r.IntN(len(msg))] ^= 1 << r.IntN(8)
			checkUTF8(t, msg)
			checkUTF8(t, msg[r.IntN(len(msg)):])
		}
	}
}

func BenchmarkUTF8(b *testing.B) {
	for name, piece := range map[string]string{"ascii": "plain text, ", "latin": "naïve façade, ", "cjk": "日本語の文章"} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(piece, 8192/len(piece)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !avx.Valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
