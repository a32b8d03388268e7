package rewrite

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Compressor compresses buffers of outputs.
type Compressor struct {
	Codec int64
	zstd  *zstd.Encoder
	lz4   sync.Pool
}

// NewCompressor returns the compressor of this name: lz4 or zstd; nil for none.
func NewCompressor(name string) (*Compressor, *wire.Error) {
	switch name {
	case "", "none":
		return nil, nil
	case "lz4":
		return &Compressor{Codec: ipc.CodecLZ4}, nil
	case "zstd":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, wire.Errorf(wire.Internal, "zstd: %v", err)
		}
		return &Compressor{Codec: ipc.CodecZSTD, zstd: z}, nil
	}
	return nil, wire.Errorf(wire.Internal, "compression %q", name).WithHint("use none, lz4 or zstd")
}

// pack compresses buffers and puts the size in front of each; a buffer that would grow is stored uncompressed with size
// -1. Empty buffers stay empty.
func (c *Compressor) pack(buffers [][]byte) [][]byte {
	out := make([][]byte, len(buffers))
	for i, b := range buffers {
		if len(b) == 0 {
			continue
		}
		dst := le.AppendUint64(make([]byte, 0, len(b)+8), uint64(len(b)))
		if c.Codec == ipc.CodecZSTD {
			dst = c.zstd.EncodeAll(b, dst)
		} else {
			var err error
			if dst, err = c.packLZ4(dst, b); err != nil {
				panic(wire.Errorf(wire.Internal, "lz4: %v", err))
			}
		}
		if len(dst) >= len(b)+8 {
			dst = append(le.AppendUint64(dst[:0], ^uint64(0)), b...)
		}
		out[i] = dst
	}
	return out
}

func (c *Compressor) packLZ4(dst, src []byte) ([]byte, error) {
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
