package ipc

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// TestPlainLZ4: frames that are decompressed in place are accepted by the library's reader too, with the same result,
// whatever was changed in them.
func TestPlainLZ4(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	library, inPlace, rejected := lz4.NewReader(nil), 0, 0
	for _, frame := range plainFrames(t, r) {
		want := readFrame(library, frame)
		if have := make([]byte, len(want)); want == nil || !unlz4Plain(have, frame) || !bytes.Equal(have, want) {
			t.Fatalf("a frame of %d bytes with the header %x is not decompressed in place", len(frame), frame[:7])
		}
		for range 100 {
			changed := bytes.Clone(frame)
			for range 1 + r.IntN(3) {
				at := r.IntN(len(changed))
				if r.IntN(2) == 0 {
					at = min(at, r.IntN(40)) // header and first block
				}
				changed[at] = byte(r.Uint32())
			}
			changed = changed[:len(changed)-r.IntN(2)*r.IntN(9)]
			want := readFrame(library, changed)
			have := make([]byte, max(0, len(want)+r.IntN(3)-1))
			if !unlz4Plain(have, changed) {
				rejected++
				continue
			}
			if inPlace++; !bytes.Equal(have, want) {
				t.Fatalf("%d bytes are decompressed in place from %x..., the library has %d", len(have), changed[:16], len(want))
			}
		}
	}
	if inPlace < 50 || rejected < 50 {
		t.Fatalf("%d frames were decompressed in place and %d rejected", inPlace, rejected)
	}
}

// plainFrames returns frames of blocks of all sizes, independent and linked, compressed and stored.
func plainFrames(t *testing.T, r *rand.Rand) (frames [][]byte) {
	t.Helper()
	data := make([]byte, 200_000)
	for i := range data {
		data[i] = byte(r.IntN(3) * r.IntN(3))
	}
	for i := range 100_000 {
		data[i] = byte(r.Uint32()) // blocks that are stored
	}
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, n := range []int{1, 1000, len(data)} {
			var out bytes.Buffer
			w := lz4.NewWriter(&out)
			if err := w.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(size)); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data[:n]); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			frames = append(frames, out.Bytes())
		}
	}
	for header := range plainLZ4 {
		if header[4] == 0x40 {
			frames = append(frames, linkedFrame(header, data[:50_000]))
		}
	}
	return frames
}

// linkedFrame is a frame of a stored block, twice, and of a block that repeats the beginning of the first.
func linkedFrame(header [7]byte, data []byte) []byte {
	frame := header[:]
	for range 2 {
		frame = append(le.AppendUint32(frame, uint32(len(data))|1<<31), data...)
	}
	// one literal; 4 + 10 bytes from 60,001 bytes back, which is in the first block; five literals
	block := []byte{0x1a, 7, 0x61, 0xea, 0x50, 1, 2, 3, 4, 5}
	frame = append(le.AppendUint32(frame, uint32(len(block))), block...)
	return append(frame, 0, 0, 0, 0)
}

// readFrame is what the library's reader decompresses, nil if it returns an error.
func readFrame(with *lz4.Reader, frame []byte) []byte {
	with.Reset(bytes.NewReader(frame))
	var out bytes.Buffer
	if _, err := io.Copy(&out, with); err != nil {
		return nil
	}
	return out.Bytes()
}
