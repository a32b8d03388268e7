package ipc

import (
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// zstdSlack is the capacity after a buffer's end. With it the zstd library copies whole 16-byte vectors, which is a
// fifth faster. These bytes are padding or belong to the next buffer, which is decoded later.
const zstdSlack = 16

// unzstd decompresses zstd frames.
func (d *Decompressor) unzstd(dst, src []byte) error {
	decoder, _ := d.zstd.Get().(*zstd.Decoder)
	if decoder == nil {
		var err error
		if decoder, err = newZSTDDecoder(d.Body); err != nil {
			return err
		}
	}
	out, err := decoder.DecodeAll(src, dst[:0])
	d.zstd.Put(decoder)
	if err == nil && len(out) != len(dst) {
		err = errSize
	}
	return err
}

// newZSTDDecoder returns the faster of two decoders. One in twelve takes two to eight times as long as the others for
// as long as it lives: the library stores 16 bytes of its state with one instruction at each match, and the allocator
// may place them across a page boundary. The output never exceeds the slice allocated for the checked size, and a
// window never exceeds limit, or the sample.
func newZSTDDecoder(limit int) (*zstd.Decoder, error) {
	window := uint64(max(limit, zstdSampleSize))
	var decoders [2]*zstd.Decoder
	var shortest [2]time.Duration
	for i := range decoders {
		var err error
		decoders[i], err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(window),
			zstd.WithDecoderMaxWindow(min(window, zstd.MaxWindowSize)), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		shortest[i] = time.Hour
	}
	sample, dst := zstdSample(), make([]byte, 0, zstdSampleSize+zstdSlack)
	for range 16 {
		for i, d := range decoders {
			begin := time.Now()
			_, _ = d.DecodeAll(sample, dst)
			shortest[i] = min(shortest[i], time.Since(begin))
		}
	}
	if shortest[0] < shortest[1] {
		return decoders[0], nil
	}
	return decoders[1], nil
}

const zstdSampleSize = 16 << 10 // bytes; the least window of a decoder

// zstdSample is a frame of many short matches: shuffled words of eight bytes. Its size is zstdSampleSize.
var zstdSample = sync.OnceValue(func() []byte {
	var plain []byte
	for r := uint32(1); len(plain) < zstdSampleSize; r = r*1664525 + 1013904223 {
		plain = append(plain, "alpha   beta    gamma   delta   epsilon zeta    eta     theta   "[r>>29*8:][:8]...)
	}
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdSampleSize)) // valid options
	return encoder.EncodeAll(plain, nil)
})
