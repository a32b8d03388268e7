package arrowio

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Codec numbers of the Arrow format (format/Message.fbs, CompressionType).
const (
	codecLZ4  = 0
	codecZSTD = 1
)

// codecs decompresses bodies. The zstd decoder is made at first use; it is safe for concurrent use.
type codecs struct {
	body int
	once sync.Once
	zstd *zstd.Decoder
	err  error
	lz4  sync.Pool
}

func (d *codecs) zstdDecoder() (*zstd.Decoder, error) {
	d.once.Do(func() {
		// Output never outgrows the slice that was allocated for the checked size; a window is never larger than that limit either.
		window := uint64(max(d.body, zstd.MinWindowSize))
		d.zstd, d.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(window),
			zstd.WithDecoderMaxWindow(min(window, zstd.MaxWindowSize)), zstd.WithDecodeAllCapLimit(true))
	})
	return d.zstd, d.err
}

// unpack replaces body and ranges of c by their decompressed form. The declared sizes are summed and checked before
// anything is allocated.
func (d *codecs) unpack(c *chunk, t flat.Table, limits Limits, budget *int) *Error {
	codec, err := t.Integer(0, 1, 0, "the compression codec")
	if err != nil {
		return broken(err)
	}
	method, err := t.Integer(1, 1, 0, "the compression method")
	if err != nil {
		return broken(err)
	}
	if codec != codecLZ4 && codec != codecZSTD || method != 0 {
		return fault(wire.Unsupported, "compression codec %d, method %d", codec, method).hint(
			"use lz4 frames, zstd or no compression")
	}
	n := len(c.ranges) / 16
	total := 0
	for i := 0; i < n; i++ {
		size, e := unpackedSize(c.buf(i))
		if e != nil {
			return e
		}
		if size > int64(*budget-total) {
			return tooLarge(limits.Body)
		}
		total += (int(size) + 7) &^ 7
	}
	*budget -= total
	body := make([]byte, total)
	ranges := make([]byte, len(c.ranges))
	at := 0
	for i := 0; i < n; i++ {
		src := c.buf(i)
		size, _ := unpackedSize(src)
		if size > 0 {
			if e := d.buffer(body[at:at+int(size):at+int(size)], src, codec); e != nil {
				return e
			}
		}
		le.PutUint64(ranges[16*i:], uint64(at))
		le.PutUint64(ranges[16*i+8:], uint64(size))
		at += (int(size) + 7) &^ 7
	}
	c.body, c.ranges = body, ranges
	return nil
}

// unpackedSize reads the size before a compressed buffer: -1 says that the rest is stored as it is.
func unpackedSize(src []byte) (int64, *Error) {
	if len(src) == 0 {
		return 0, nil
	}
	if len(src) < 8 {
		return 0, fault(wire.Malformed, "a compressed buffer of %d bytes is too short for its size",
			len(src)).hint(streamHint)
	}
	size := int64(le.Uint64(src))
	if size == -1 {
		return int64(len(src) - 8), nil
	}
	if size < 0 {
		return 0, fault(wire.Malformed, "a compressed buffer declares %d bytes", size).hint(streamHint)
	}
	return size, nil
}

// buffer decompresses src into dst, which it must fill exactly.
func (d *codecs) buffer(dst, src []byte, codec int64) *Error {
	stored := int64(le.Uint64(src)) == -1
	src = src[8:]
	var err error
	switch {
	case stored:
		copy(dst, src)
	case codec == codecZSTD:
		err = d.unzstd(dst, src)
	default:
		err = d.unlz4(dst, src)
	}
	if err != nil {
		return fault(wire.Malformed, "a compressed buffer that should hold %d bytes: %v", len(dst),
			err).hint(streamHint)
	}
	return nil
}

var errSize = errors.New("it holds another number")

func (d *codecs) unzstd(dst, src []byte) error {
	dec, err := d.zstdDecoder()
	if err != nil {
		return err
	}
	out, err := dec.DecodeAll(src, dst[:0:len(dst)])
	if err == nil && len(out) != len(dst) {
		err = errSize
	}
	return err
}

func (d *codecs) unlz4(dst, src []byte) error {
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

// A compressor compresses buffers of outputs.
type compressor struct {
	codec int64
	zstd  *zstd.Encoder
	lz4   sync.Pool
}

func newCompressor(name string) (*compressor, *Error) {
	switch name {
	case "", "none":
		return nil, nil
	case "lz4":
		return &compressor{codec: codecLZ4}, nil
	case "zstd":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fault(wire.Internal, "zstd: %v", err)
		}
		return &compressor{codec: codecZSTD, zstd: z}, nil
	}
	return nil, fault(wire.Internal, "compression %q", name).hint("use none, lz4 or zstd")
}

// pack compresses buffers, each behind its size; one that would grow is stored behind the size -1. Empty ones stay
// empty.
func (c *compressor) pack(buffers [][]byte) ([][]byte, *Error) {
	out := make([][]byte, len(buffers))
	for i, b := range buffers {
		if len(b) == 0 {
			continue
		}
		dst := le.AppendUint64(make([]byte, 0, len(b)+8), uint64(len(b)))
		if c.codec == codecZSTD {
			dst = c.zstd.EncodeAll(b, dst)
		} else {
			var err error
			if dst, err = c.packLZ4(dst, b); err != nil {
				return nil, fault(wire.Internal, "lz4: %v", err)
			}
		}
		if len(dst) >= len(b)+8 {
			dst = append(le.AppendUint64(dst[:0], ^uint64(0)), b...)
		}
		out[i] = dst
	}
	return out, nil
}

func (c *compressor) packLZ4(dst, src []byte) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	w, _ := c.lz4.Get().(*lz4.Writer)
	if w == nil {
		w = lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block256Kb)); err != nil {
			return nil, err
		}
	}
	w.Reset(buf)
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	c.lz4.Put(w)
	return buf.Bytes(), nil
}
