package ipc

import (
	"bytes"
	"errors"
	"io"

	"github.com/pierrec/lz4/v4"
)

var errSize = errors.New("it has another length")

// unlz4 decompresses LZ4 frames.
func (d *Decompressor) unlz4(dst, src []byte) error {
	if unlz4Plain(dst, src) {
		return nil
	}
	r, _ := d.lz4.Get().(*lz4.Reader)
	if r == nil {
		r = lz4.NewReader(nil)
	}
	r.Reset(bytes.NewReader(src))
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n != 0 || err != io.EOF {
		return errSize
	}
	r.Reset(nil)
	d.lz4.Put(r)
	return nil
}

// plainLZ4 are the headers of frames that have neither checksums of their data nor a size nor a dictionary, as Arrow's
// libraries write them, and the largest block of each. Blocks of the first four may refer to the 64 KiB before them.
// The last byte is a checksum of the two before it.
var plainLZ4 = map[[7]byte]int{
	{4, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0}: 1 << 16,
	{4, 0x22, 0x4d, 0x18, 0x40, 0x50, 0x77}: 1 << 18,
	{4, 0x22, 0x4d, 0x18, 0x40, 0x60, 0x96}: 1 << 20,
	{4, 0x22, 0x4d, 0x18, 0x40, 0x70, 0xdf}: 1 << 22,
	{4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}: 1 << 16,
	{4, 0x22, 0x4d, 0x18, 0x60, 0x50, 0xfb}: 1 << 18,
	{4, 0x22, 0x4d, 0x18, 0x60, 0x60, 0x51}: 1 << 20,
	{4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73}: 1 << 22,
}

// unlz4Plain decompresses one frame with a header in plainLZ4 block by block, in place: the reader of the library
// needs two buffers of a block each, and copies. It returns false for other bytes, which that reader then decompresses
// or rejects; what it accepts, the reader accepts with the same result.
func unlz4Plain(dst, src []byte) bool {
	const window = 1 << 16 // bytes that a linked block may refer to
	if len(src) < 7 {
		return false
	}
	block, ok := plainLZ4[[7]byte(src)]
	if !ok {
		return false
	}
	isLinked := src[4] == 0x40
	at := 0
	for src = src[7:]; len(src) >= 4; {
		size := le.Uint32(src)
		n, isStored := int(size&^(1<<31)), size>>31 == 1
		src = src[4:]
		if size == 0 {
			return at == len(dst) && len(src) == 0
		}
		if n > len(src) || n > block {
			return false
		}
		to := dst[at:min(len(dst), at+block)]
		var m int
		var err error
		switch {
		case isStored && n > len(to):
			return false
		case isStored:
			m = copy(to, src[:n])
		case isLinked:
			m, err = lz4.UncompressBlockWithDict(src[:n], to, dst[max(0, at-window):at])
		default:
			m, err = lz4.UncompressBlock(src[:n], to)
		}
		if err != nil {
			return false
		}
		at, src = at+m, src[n:]
	}
	return false
}
