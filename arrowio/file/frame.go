package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// An Arrow IPC stream is a sequence of frames: 0xFFFFFFFF, the length of the metadata (int32), the metadata (a
// flatbuffer "Message", padded to 8 bytes) and a body. A length of zero ends the stream. An Arrow IPC file is the
// magic, such a stream, a footer that lists the positions of its dictionary and record batch frames, the footer's
// length, and the magic. See "Serialization and Interprocess Communication (IPC)" in the Arrow columnar format.

const (
	maxFrame    = 2 << 30   // bytes of one frame
	maxMetadata = 256 << 20 // bytes of a frame's metadata
	magic       = "ARROW1"
	prefixBytes = 8 // continuation marker and metadata length
	footerTail  = 4 + len(magic)
	blockBytes  = 24
)

var (
	continuation = []byte{0xff, 0xff, 0xff, 0xff}
	endOfStream  = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	errFrame     = errors.New("the frame's metadata is malformed")
)

// frame is one frame of a stream.
type frame struct {
	ipc.Frame
	bytes []byte // prefix, metadata and body
	id    int64  // of a dictionary
	delta bool   // it extends a dictionary
}

// cut returns the first frame of a message and what follows it. At the end of the stream the frame is nil.
func cut(b []byte) (_ *frame, rest []byte, err error) {
	defer insteadOf(&err, nil)
	head, rest, end := ipc.NextFrame(b, false)
	if end {
		return nil, nil, nil
	}
	n := len(b) - len(rest)
	f := &frame{Frame: head, bytes: b[:n:n]}
	if f.Kind == ipc.HeadDictionary {
		f.id = f.Head.Integer(0, 8, 0, "a dictionary's number")
		f.delta = f.Head.Integer(2, 1, 0, "a dictionary's delta mark") != 0
	}
	return f, rest, nil
}

// bodyBytes returns the declared length of a frame's body.
func bodyBytes(meta []byte) (n int64, err error) {
	defer insteadOf(&err, nil)
	if _, n = ipc.OpenFrame(meta); n > maxFrame {
		return 0, fmt.Errorf("a frame declares that its body has %d bytes; the limit is %d: write smaller batches", n,
			int64(maxFrame))
	}
	return n, nil
}

// insteadOf is deferred: it replaces the error with which package ipc or flat stopped, or returns it if other is nil.
func insteadOf(err *error, other error) {
	switch r := recover().(type) {
	case nil:
	case *arrowio.Error:
		if *err = other; other == nil {
			*err = r
		}
	default:
		panic(r)
	}
}

// frames reads the frames of a stream or a file and returns self-contained messages.
type frames struct {
	name    string
	read    func() (*frame, error) // io.EOF at the end
	closer  io.Closer
	head    []byte // the schema frame
	order   []int64
	dicts   map[int64][]byte
	held    int   // bytes of dicts
	batches int   // record batches read
	limit   int64 // of a message, in bytes; 0: none
}

// Messages returns a function that returns the next batch of an Arrow IPC stream, which is read no further, as a
// self-contained message of at most limit bytes, and io.EOF at the end. Nothing but frames is checked.
func Messages(in io.Reader, limit int64) (next func() ([]byte, error)) {
	var fs *frames
	return func() (msg []byte, err error) {
		if fs == nil {
			if fs, err = openArrowStream(in, "the stream", limit); err != nil {
				return nil, err
			}
		}
		if msg, err = fs.next(); err == io.EOF && fs.batches == 0 {
			fs.batches++
			return fs.empty(), nil // a schema alone
		}
		return msg, err
	}
}

func openArrowStream(in io.Reader, name string, limit int64) (*frames, error) {
	fs := &frames{name: name, dicts: map[int64][]byte{}, limit: limit}
	fs.read = func() (*frame, error) {
		for ended := false; ; {
			f, err := readFrame(in, limit)
			switch {
			case err != nil:
				return nil, err
			case f == nil: // the stream ended; another may follow
				ended = true
			case !ended:
				return f, nil
			case f.Kind != ipc.HeadSchema || !bytes.Equal(f.bytes, fs.head):
				return nil, errors.New("a second stream with another schema follows the first: split them")
			default:
				ended = false
			}
		}
	}
	return fs, fs.first()
}

// first reads the schema.
func (fs *frames) first() error {
	f, err := fs.read()
	if err == io.EOF {
		return fmt.Errorf("%s is empty: an Arrow IPC stream begins with a schema", fs.name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", fs.name, err)
	}
	if f.Kind != ipc.HeadSchema {
		return fmt.Errorf("%s: the first frame is not a schema", fs.name)
	}
	fs.head = f.bytes
	return nil
}

// readFrame reads one frame; nil without an error is an end-of-stream marker. It allocates memory as bytes arrive.
func readFrame(in io.Reader, limit int64) (*frame, error) {
	var prefix [prefixBytes]byte
	n, err := io.ReadFull(in, prefix[:4])
	if err != nil {
		if n == 0 && err == io.EOF {
			return nil, io.EOF
		}
		return nil, errTruncated(err)
	}
	if !bytes.Equal(prefix[:4], continuation) {
		return nil, errors.New("this is not an Arrow IPC stream (or one that was written before Arrow 0.15): write it " +
			"again, for example with pyarrow.ipc.new_stream")
	}
	if _, err := io.ReadFull(in, prefix[4:]); err != nil {
		return nil, errTruncated(err)
	}
	size := int64(binary.LittleEndian.Uint32(prefix[4:]))
	if size == 0 {
		return nil, nil
	}
	if limit > 0 && size > limit {
		return nil, tooLarge(size, limit)
	}
	if size > maxMetadata {
		return nil, fmt.Errorf("a frame declares that its metadata has %d bytes; the limit is %d", size, maxMetadata)
	}
	var b bytes.Buffer
	b.Write(prefix[:])
	if err := grow(&b, in, size); err != nil {
		return nil, err
	}
	body, err := bodyBytes(b.Bytes()[prefixBytes:])
	if err != nil {
		return nil, err
	}
	if n := prefixBytes + size + body; limit > 0 && n > limit {
		return nil, tooLarge(n, limit)
	}
	if err := grow(&b, in, body); err != nil {
		return nil, err
	}
	whole, _, err := cut(b.Bytes())
	return whole, err
}

func tooLarge(n, limit int64) error {
	return wire.Errorf(wire.TooLarge, "a batch has %d bytes, and the limit is %d", n, limit).WithHint(
		"write batches of fewer rows, or shorter values")
}

// grow reads n more bytes. It allocates up to 1 MiB for a declared length, and more only as bytes arrive (Invariant 6).
func grow(b *bytes.Buffer, in io.Reader, n int64) error {
	b.Grow(int(min(n, 1<<20)))
	_, err := io.CopyN(b, in, n)
	return errTruncated(err)
}

func errTruncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the stream ends in the middle of a frame: it was cut off")
	}
	return err
}

// openArrowFile reads the footer of an Arrow IPC file.
func openArrowFile(file *os.File, name string) (*frames, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	footer, blocks, err := readFooter(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fs := &frames{name: name, dicts: map[int64][]byte{}, closer: file}
	// After the magic the file has a whole stream, whose first frame is the schema. Polars leaves out the prefix of
	// that frame; only then is the footer's copy used, because otherwise it costs as many bytes again as there are
	// batches.
	start := io.NewSectionReader(file, 8, info.Size()-8)
	schemaRead := false
	fs.read = func() (*frame, error) {
		if !schemaRead {
			schemaRead = true
			var mark [4]byte
			if _, err := file.ReadAt(mark[:], 8); err == nil && !bytes.Equal(mark[:], continuation) {
				return schemaOf(footer)
			}
			return readFrame(start, 0)
		}
		if len(blocks) == 0 {
			return nil, io.EOF
		}
		b := blocks[0]
		blocks = blocks[1:]
		whole := make([]byte, b.meta+b.body) // readFooter checked that it is inside the file
		if _, err := file.ReadAt(whole, b.offset); err != nil {
			return nil, err
		}
		f, _, err := cut(whole)
		if err == nil && f == nil {
			err = errFrame
		}
		return f, err
	}
	return fs, fs.first()
}

// block is the position of a frame in an Arrow IPC file; meta is the length of prefix and metadata.
type block struct{ offset, meta, body int64 }

// schemaOf makes a schema frame from a footer: a Message table whose header points into the footer behind it, for
// offsets in a flatbuffer are relative.
//
//	0 root offset   4 vtable   16 table: vtable, header, body's length (none), version and kind   28 .. footer
func schemaOf(footer []byte) (_ *frame, err error) {
	defer insteadOf(&err, errFrame)
	const tableAt, headerField, footerAt = 16, 20, 32
	root := flat.Root(footer, "the footer")
	schema, ok := root.Table(1, "the schema")
	if !ok {
		return nil, errFrame
	}
	version := root.Integer(0, 2, 0, "the metadata version")
	le := binary.LittleEndian
	b := bytes.Clone(continuation)
	b = le.AppendUint32(b, uint32(footerAt+(len(footer)+7)&^7))
	b = le.AppendUint32(b, tableAt)
	for _, v := range []uint16{10, 12, 8, 10, 4} { // sizes of vtable and table, then positions of version, kind and header
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, tableAt-4)
	b = le.AppendUint32(b, uint32(footerAt+schema.Pos-headerField))
	b = le.AppendUint16(b, uint16(version))
	b = append(b, ipc.HeadSchema, 0, 0, 0, 0, 0)
	b = append(b, footer...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	f, _, err := cut(b)
	return f, err
}

// readFooter returns the footer, and the blocks of the dictionaries followed by those of the record batches.
func readFooter(file io.ReaderAt, size int64) (footer []byte, blocks []block, err error) {
	bad := errors.New("the footer is missing or malformed: the Arrow file was cut off or not closed by its writer")
	tail := make([]byte, footerTail)
	if size < int64(8+footerTail) {
		return nil, nil, bad
	}
	if _, err := file.ReadAt(tail, size-int64(footerTail)); err != nil {
		return nil, nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != magic || n > size-int64(8+footerTail) {
		return nil, nil, bad
	}
	footer = make([]byte, n)
	if _, err := file.ReadAt(footer, size-int64(footerTail)-n); err != nil {
		return nil, nil, err
	}
	defer insteadOf(&err, bad)
	root := flat.Root(footer, "the footer")
	for _, slot := range []int{2, 3} { // dictionaries, record batches
		v := root.Vector(slot, blockBytes, "the list of blocks")
		le := binary.LittleEndian
		for i := range v.Len {
			at := v.Bytes()[i*blockBytes:]
			offset, meta, body := int64(le.Uint64(at)), le.Uint32(at[8:]), int64(le.Uint64(at[16:]))
			b := block{offset, int64(meta), body}
			if b.offset < 8 || b.body < 0 || b.offset > size || b.meta > size-b.offset ||
				b.body > size-b.offset-b.meta {
				return nil, nil, fmt.Errorf("the footer says that batch %d is outside the file: the file was cut off", i)
			}
			blocks = append(blocks, b)
		}
	}
	return footer, blocks, nil
}

// empty returns a message with only the schema.
func (fs *frames) empty() []byte {
	return slices.Concat(fs.head, endOfStream)
}

// next reads up to the next record batch and returns it as a message.
func (fs *frames) next() ([]byte, error) {
	for {
		f, err := fs.read()
		if err == io.EOF {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("%s: after batch %d: %w", fs.name, fs.batches, err)
		}
		switch f.Kind {
		case ipc.HeadDictionary:
			_, known := fs.dicts[f.id]
			if f.delta {
				return nil, fmt.Errorf("%s: dictionary %d is extended by a delta, which is not supported: write it without "+
					"deltas, for example from pyarrow.Table.unify_dictionaries", fs.name, f.id)
			}
			if !known {
				fs.order = append(fs.order, f.id)
			}
			fs.held += len(f.bytes) - len(fs.dicts[f.id])
			fs.dicts[f.id] = f.bytes
			if n := fs.size(0); fs.limit > 0 && n > fs.limit {
				return nil, tooLarge(n, fs.limit)
			}
		case ipc.HeadRecord:
			fs.batches++
			size := fs.size(len(f.bytes))
			if fs.limit > 0 && size > fs.limit {
				return nil, tooLarge(size, fs.limit)
			}
			msg := append(make([]byte, 0, size), fs.head...)
			for _, id := range fs.order {
				msg = append(msg, fs.dicts[id]...)
			}
			return append(append(msg, f.bytes...), endOfStream...), nil
		default:
			return nil, fmt.Errorf("%s: after batch %d: a second schema follows, of other rows: split the streams",
				fs.name, fs.batches)
		}
	}
}

// size is the size of a message with a batch of n bytes. It is called for each dictionary, and a stream
// may have thousands of them.
func (fs *frames) size(n int) int64 { return int64(n + len(fs.head) + fs.held + len(endOfStream)) }

func (fs *frames) close() error {
	if fs.closer == nil {
		return nil
	}
	return fs.closer.Close()
}

// frameWriter combines the frames of messages into one stream, or into a file with a footer.
type frameWriter struct {
	out        io.Writer
	footer     bool
	head       []byte
	headFrame  *frame
	dicts      map[int64][]byte
	offset     int64
	dictBlocks []block
	rowBlocks  []block
}

func (w *frameWriter) write(msg []byte) error {
	var buf bytes.Buffer // one Write per batch
	f, rest, err := cut(msg)
	if err != nil || f == nil || f.Kind != ipc.HeadSchema {
		return errors.New("a message without a schema cannot be written")
	}
	if w.head == nil {
		f.bytes, f.Meta = bytes.Clone(f.bytes), bytes.Clone(f.Meta)
		w.head, w.headFrame, w.dicts = f.bytes, f, map[int64][]byte{}
		if w.footer {
			buf.WriteString(magic + "\x00\x00")
		}
		buf.Write(w.head)
	} else if !bytes.Equal(w.head, f.bytes) {
		return errSchema
	}
	for {
		if f, rest, err = cut(rest); err != nil {
			return err
		}
		if f == nil {
			break
		}
		at := block{w.offset + int64(buf.Len()), int64(len(f.bytes) - len(f.Body)), int64(len(f.Body))}
		if f.Kind == ipc.HeadDictionary {
			last, known := w.dicts[f.id]
			if bytes.Equal(last, f.bytes) {
				continue // every message has its dictionaries; a stream needs them once
			}
			if known && w.footer {
				return errors.New("a dictionary changes between batches, which an Arrow IPC file does not allow: write " +
					".arrows or .parquet")
			}
			w.dicts[f.id] = bytes.Clone(f.bytes)
			w.dictBlocks = append(w.dictBlocks, at)
		} else {
			w.rowBlocks = append(w.rowBlocks, at)
		}
		buf.Write(f.bytes)
	}
	n, err := w.out.Write(buf.Bytes())
	w.offset += int64(n)
	return err
}

func (w *frameWriter) close() error {
	if w.head == nil {
		return errNothing
	}
	end := bytes.Clone(endOfStream)
	if w.footer {
		footer := w.buildFooter()
		end = append(end, footer...)
		end = binary.LittleEndian.AppendUint32(end, uint32(len(footer)))
		end = append(end, magic...)
	}
	_, err := w.out.Write(end)
	return err
}

// buildFooter writes the Footer table by hand: offsets in a flatbuffer are relative, so the bytes of the schema are
// copied unchanged, and no column type needs to be understood.
//
//	 0 root offset   4 vtable   16 table: vtable, schema, dictionaries, batches, version
//	36 dictionaries  .. batches  .. metadata of the schema frame
func (w *frameWriter) buildFooter() []byte {
	const tableAt, schemaField = 16, 20
	dictAt := 36
	rowAt := dictAt + 4 + blockBytes*len(w.dictBlocks) + 4
	metaAt := rowAt + 4 + blockBytes*len(w.rowBlocks)
	version := flat.Root(w.headFrame.Meta, "the message").Integer(0, 2, 0, "the metadata version")
	le := binary.LittleEndian
	b := le.AppendUint32(nil, tableAt)
	for _, v := range []uint16{12, 20, 16, 4, 8, 12} { // sizes of vtable and table, then positions of the fields
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, tableAt-4)
	b = le.AppendUint32(b, uint32(metaAt+w.headFrame.Head.Pos-schemaField))
	b = le.AppendUint32(b, uint32(dictAt-(schemaField+4)))
	b = le.AppendUint32(b, uint32(rowAt-(schemaField+8)))
	b = le.AppendUint16(le.AppendUint16(b, uint16(version)), 0)
	b = appendBlocks(b, w.dictBlocks)
	b = le.AppendUint32(b, 0) // the elements of the next vector are aligned to 8 bytes
	b = appendBlocks(b, w.rowBlocks)
	return append(b, w.headFrame.Meta...)
}

func appendBlocks(b []byte, blocks []block) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(blocks)))
	for _, k := range blocks {
		b = le.AppendUint64(b, uint64(k.offset))
		b = le.AppendUint64(b, uint64(k.meta))
		b = le.AppendUint64(b, uint64(k.body))
	}
	return b
}
