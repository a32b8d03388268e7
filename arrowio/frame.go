package arrowio

import (
	"bytes"
	"encoding/binary"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

var le = binary.LittleEndian

// Numbers of the Arrow IPC message format (format/Message.fbs).
const (
	headSchema     = 1
	headDictionary = 2
	headRecord     = 3

	versionV4 = 3
	versionV5 = 4
)

// A frame is one encapsulated IPC message: its metadata and its body, both inside what arrived.
type frame struct {
	meta    []byte
	body    []byte
	head    flat.Table // the header table: Schema, DictionaryBatch or RecordBatch
	kind    int
	version int
	message flat.Table
}

const streamHint = "publish one Arrow IPC stream a message (pyarrow.ipc.new_stream, ipc.NewWriter)"

// notArrow says what the bytes look like, because a sender seldom knows that there are two forms of Arrow IPC.
func notArrow(msg []byte) *Error {
	e := fault(wire.NotArrow, "the message does not begin with an Arrow IPC stream marker")
	switch {
	case len(msg) == 0:
		e.Detail = "the message is empty"
	case bytes.HasPrefix(msg, []byte("ARROW1")):
		e.Detail = "the message is an Arrow IPC file, not a stream"
	case bytes.HasPrefix(msg, []byte("PAR1")):
		e.Detail = "the message is a Parquet file"
	case msg[0] == '{' || msg[0] == '[':
		e.Detail = "the message looks like JSON"
	}
	return e.hint(streamHint)
}

// nextFrame cuts one frame off rest. end is true at the end of the stream.
func nextFrame(rest []byte, first bool) (f frame, tail []byte, end bool, e *Error) {
	if len(rest) == 0 && !first {
		return f, nil, true, nil // the end-of-stream mark is optional
	}
	if len(rest) < 4 || le.Uint32(rest) != 0xFFFFFFFF {
		if first {
			return f, nil, false, notArrow(rest)
		}
		if len(rest) < 4 && bytes.HasPrefix([]byte{0xff, 0xff, 0xff, 0xff}, rest) {
			return f, nil, false, truncated("a frame's length", 8, len(rest))
		}
		return f, nil, false, fault(wire.Malformed, "%d bytes follow that are no Arrow frame", len(rest)).hint(
			"send one stream a message and nothing after it")
	}
	if len(rest) < 8 {
		return f, nil, false, truncated("a frame's length", 8, len(rest))
	}
	n := int(int32(le.Uint32(rest[4:])))
	rest = rest[8:]
	if n == 0 {
		if len(rest) != 0 {
			return f, nil, false, fault(wire.Malformed, "%d bytes follow the end of the stream", len(rest)).hint(
				"send one stream a message and nothing after it")
		}
		return f, nil, true, nil
	}
	if n < 16 || n%8 != 0 {
		return f, nil, false, fault(wire.Malformed,
			"a frame declares %d bytes of metadata, which is no multiple of 8 from 16 up", n).hint(streamHint)
	}
	if n > len(rest) {
		return f, nil, false, truncated("a frame's metadata", int64(n), len(rest))
	}
	f.meta, rest = rest[:n:n], rest[n:]
	root, err := flat.Root(f.meta, "the message table")
	if err != nil {
		return f, nil, false, broken(err)
	}
	f.message = root
	body, e := f.open()
	if e != nil {
		return f, nil, false, e
	}
	if body < 0 {
		return f, nil, false, fault(wire.Malformed, "a frame declares a body of %d bytes", body).hint(streamHint)
	}
	if body > int64(len(rest)) {
		return f, nil, false, truncated("a frame's body", body, len(rest))
	}
	f.body = rest[:body:body]
	return f, rest[body:], false, nil
}

// open reads the message table and returns the declared length of the body.
func (f *frame) open() (body int64, e *Error) {
	version, err := f.message.Integer(0, 2, 0, "the metadata version")
	if err != nil {
		return 0, broken(err)
	}
	if version != versionV4 && version != versionV5 {
		return 0, fault(wire.Unsupported, "metadata version %d", version+1).hint(
			"write with Arrow 0.8 or later (version 4 or 5)")
	}
	kind, err := f.message.Integer(1, 1, 0, "the header's type")
	if err != nil {
		return 0, broken(err)
	}
	if kind < headSchema || kind > headRecord {
		return 0, fault(wire.Unsupported, "a frame with header type %d", kind).hint(
			"send schema, dictionaries and record batches only; tensors are not read")
	}
	f.version, f.kind = int(version), int(kind)
	head, ok, err := f.message.Table(2, "the header")
	if err != nil {
		return 0, broken(err)
	}
	if !ok {
		return 0, fault(wire.Malformed, "a frame without header").hint(streamHint)
	}
	f.head = head
	if body, err = f.message.Integer(3, 8, 0, "the body's length"); err != nil {
		return 0, broken(err)
	}
	return body, nil
}

func truncated(what string, want int64, have int) *Error {
	return fault(wire.Truncated, "%s needs %d bytes and %d are left", what, want, have).hint(
		"send the whole stream in one message")
}
