package ipc

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Constants of the Arrow IPC message format (format/Message.fbs).
const (
	HeadSchema     = 1
	HeadDictionary = 2
	HeadRecord     = 3

	versionV4 = 3
	VersionV5 = 4
)

// A Frame is one encapsulated IPC message: metadata and body, views on the received bytes.
type Frame struct {
	Meta    []byte
	Body    []byte
	Head    flat.Table // the header table: Schema, DictionaryBatch or RecordBatch
	Kind    int
	version int
	Message flat.Table
}

const StreamHint = "publish one Arrow IPC stream a message (pyarrow.ipc.new_stream, ipc.NewWriter)"

// notArrow returns an error that describes what the bytes look like. Many senders do not know that Arrow IPC has two
// formats.
func notArrow(msg []byte) *wire.Error {
	e := wire.Errorf(wire.NotArrow, "the message does not begin with an Arrow IPC stream marker")
	switch {
	case len(msg) == 0:
		e.Detail = "the message is empty"
	case bytes.HasPrefix(msg, []byte("ARROW1")):
		e.Detail = "the message is an Arrow IPC file, not a stream"
	case bytes.HasPrefix(msg, []byte("PAR1")):
		e.Detail = "the message is a Parquet file"
	case msg[0] == '{' || msg[0] == '[':
		e.Detail = "the message looks like JSON"
		return e.WithHint("set input.format to json or ndjson, or " + StreamHint)
	case len(msg) >= 8 && int(le.Uint32(msg)) <= len(msg)-4 && le.Uint32(msg[4:]) < le.Uint32(msg):
		e.Detail = "the message looks like an Arrow IPC stream of before Arrow 0.15, whose frames have no marker"
		return e.WithHint("write with Arrow 0.15 or later, without use_legacy_format and ARROW_PRE_0_15_IPC_FORMAT")
	}
	return e.WithHint(StreamHint)
}

// NextFrame returns the first frame of rest and what follows it. end is true at the end of the stream. first means that
// rest is the beginning of a message: if it is no Arrow stream, the error explains that. It panics with a *wire.Error.
func NextFrame(rest []byte, first bool) (_ Frame, tail []byte, end bool) {
	if len(rest) == 0 && !first {
		return Frame{}, nil, true // the end-of-stream mark is optional
	}
	if len(rest) < 4 || le.Uint32(rest) != 0xFFFFFFFF {
		if first {
			panic(notArrow(rest))
		}
		if len(rest) < 4 && bytes.HasPrefix([]byte{0xff, 0xff, 0xff, 0xff}, rest) {
			panic(truncated("a frame's length", 8, len(rest)))
		}
		panic(wire.Errorf(wire.Malformed, "%d bytes follow that are not an Arrow frame", len(rest)).WithHint(
			"send one stream a message and nothing after it"))
	}
	if len(rest) < 8 {
		panic(truncated("a frame's length", 8, len(rest)))
	}
	n := int(int32(le.Uint32(rest[4:])))
	rest = rest[8:]
	if n == 0 {
		if len(rest) != 0 {
			panic(wire.Errorf(wire.Malformed, "%d bytes follow the end of the stream", len(rest)).WithHint(
				"send one stream a message and nothing after it"))
		}
		return Frame{}, nil, true
	}
	if n < 16 || n%8 != 0 {
		panic(Malformed("a frame declares %d bytes of metadata, which is below 16 or not a multiple of 8", n))
	}
	if n > len(rest) {
		panic(truncated("a frame's metadata", int64(n), len(rest)))
	}
	f, body := OpenFrame(rest[:n:n])
	rest = rest[n:]
	if body > int64(len(rest)) {
		panic(truncated("a frame's body", body, len(rest)))
	}
	f.Body = rest[:body:body]
	return f, rest[body:], false
}

// A Stream is the frames of a message. It keeps the first ones, which are all frames of a usual message, so that frames
// are read once for the size of the message and for decoding it. One goroutine uses it.
type Stream struct {
	msg   []byte
	kept  [3]Frame // a schema, a dictionary and a batch
	tails [3][]byte
	read  int   // frames that are kept
	other Frame // the newest frame that is not kept
}

// Reset begins with another message.
func (s *Stream) Reset(msg []byte) { s.msg, s.read = msg, 0 }

// A Cursor is a place in a Stream.
type Cursor struct {
	frames int
	tail   []byte // after the first frame: what follows
}

// Next returns the next frame, which is valid until the next call, and nil at the end of the stream. It panics with a
// *wire.Error.
func (s *Stream) Next(at *Cursor) *Frame {
	k := at.frames
	at.frames++
	if k < s.read {
		at.tail = s.tails[k]
		return &s.kept[k]
	}
	rest, f := at.tail, &s.other
	if k == 0 {
		rest = s.msg
	}
	if k < len(s.kept) {
		f = &s.kept[k]
	}
	var end bool
	if *f, at.tail, end = NextFrame(rest, k == 0); end {
		return nil
	}
	if k < len(s.kept) {
		s.tails[k], s.read = at.tail, k+1
	}
	return f
}

// IsAtEnd reports whether no byte follows.
func (c *Cursor) IsAtEnd() bool { return len(c.tail) == 0 }

// OpenFrame reads the metadata of a frame. It returns the frame without its body, and the declared length of that.
func OpenFrame(meta []byte) (f Frame, body int64) {
	f.Meta, f.Message = meta, flat.Root(meta, "the message table")
	version := f.Message.Integer(0, 2, 0, "the metadata version")
	if version != versionV4 && version != VersionV5 {
		panic(wire.Errorf(wire.Unsupported, "metadata version %d", version+1).WithHint(
			"write with Arrow 0.8 or later (version 4 or 5)"))
	}
	kind := f.Message.Integer(1, 1, 0, "the header's type")
	if kind < HeadSchema || kind > HeadRecord {
		panic(wire.Errorf(wire.Unsupported, "a frame with header type %d", kind).WithHint(
			"send schema, dictionaries and record batches only; tensors are not read"))
	}
	f.version, f.Kind = int(version), int(kind)
	head, ok := f.Message.Table(2, "the header")
	if !ok {
		panic(Malformed("a frame without header"))
	}
	f.Head = head
	if body = f.Message.Integer(3, 8, 0, "the body's length"); body < 0 {
		panic(Malformed("a frame declares a body of %d bytes", body))
	}
	return f, body
}

func truncated(what string, want int64, have int) *wire.Error {
	return wire.Errorf(wire.Truncated, "%s needs %d bytes and %d are left", what, want, have).WithHint(
		"send the whole stream in one message")
}

// Malformed returns the error for a message that breaks the format.
func Malformed(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.Malformed, format, args...).WithHint(StreamHint)
}

// Annotate, deferred, calls f with the error that the function stopped with, which continues.
func Annotate(f func(*wire.Error)) {
	if r := recover(); r != nil {
		if e, ok := r.(*wire.Error); ok {
			f(e)
		}
		panic(r)
	}
}

// EntryError rewrites an error about a row as one about an entry of a dictionary.
func EntryError(e *wire.Error) *wire.Error {
	if e != nil && e.Row >= 0 {
		e.Detail = fmt.Sprintf("dictionary entry %d: %s", e.Row, e.Detail)
		e.Row = -1
	}
	return e
}

var le = binary.LittleEndian
