package ipc

import (
	"sync"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Compression codecs of the Arrow format (format/Message.fbs, CompressionType).
const (
	CodecLZ4  = 0
	CodecZSTD = 1
)

// Decompressor decompresses bodies into memory from Buffers. It creates its decoders at first use and is safe for
// concurrent use.
type Decompressor struct {
	Body      int
	Buffers   Buffers
	zstd, lz4 sync.Pool
}

// unpack replaces body and ranges of c by the decompressed ones. It checks the sum of the declared sizes before it
// allocates.
func (d *Decompressor) unpack(c *Chunk, t flat.Table, limits Limits, budget *int) {
	codec := t.Integer(0, 1, 0, "the compression codec")
	method := t.Integer(1, 1, 0, "the compression method")
	if codec != CodecLZ4 && codec != CodecZSTD || method != 0 {
		panic(wire.Errorf(wire.Unsupported, "compression codec %d, method %d", codec, method).WithHint(
			"use lz4 frames, zstd or no compression"))
	}
	n := len(c.Ranges) / 16
	total := 0
	for i := 0; i < n; i++ {
		size := unpackedSize(c.Buf(i))
		if size > int64(*budget-total) {
			panic(TooLarge(limits.Body))
		}
		total += (int(size) + 7) &^ 7
	}
	*budget -= total
	body := d.Buffers.Get(total + zstdSlack)[:total]
	ranges := make([]byte, len(c.Ranges))
	at := 0
	for i := 0; i < n; i++ {
		src := c.Buf(i)
		size := unpackedSize(src)
		if size > 0 {
			d.buffer(body[at:at+int(size):at+int(size)+zstdSlack], src, codec)
		}
		le.PutUint64(ranges[16*i:], uint64(at))
		le.PutUint64(ranges[16*i+8:], uint64(size))
		end := (at + int(size) + 7) &^ 7
		clear(body[at+int(size) : end])
		at = end
	}
	c.Body, c.Ranges, c.isUnpacked = body, ranges, true
}

// unpackedSize reads the size in front of a compressed buffer; -1 means that the rest is not compressed.
func unpackedSize(src []byte) int64 {
	if len(src) == 0 {
		return 0
	}
	if len(src) < 8 {
		panic(Malformed("a compressed buffer of %d bytes is too short for its size", len(src)))
	}
	size := int64(le.Uint64(src))
	if size == -1 {
		return int64(len(src) - 8)
	}
	if size < 0 {
		panic(Malformed("a compressed buffer declares %d bytes", size))
	}
	return size
}

// buffer decompresses src into dst, which must become exactly full.
func (d *Decompressor) buffer(dst, src []byte, codec int64) {
	stored := int64(le.Uint64(src)) == -1
	src = src[8:]
	var err error
	switch {
	case stored:
		copy(dst, src)
	case codec == CodecZSTD:
		err = d.unzstd(dst, src)
	default:
		err = d.unlz4(dst, src)
	}
	if err != nil {
		panic(Malformed("a compressed buffer that should hold %d bytes: %v", len(dst), err))
	}
}
