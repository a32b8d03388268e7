package file

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
)

// depth notes how deep the stack is when it is read from.
type depth struct {
	io.Reader
	most int
}

func (d *depth) Read(p []byte) (int, error) {
	var callers [1000]uintptr
	d.most = max(d.most, runtime.Callers(0, callers[:]))
	return d.Reader.Read(p)
}

// TestManyStreams: the stack does not grow with the streams that follow each other without rows. A sender could exhaust
// it, which ends the process (Invariant 11).
func TestManyStreams(t *testing.T) {
	var one bytes.Buffer
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float32}}, nil)
	if err := ipc.NewWriter(&one, ipc.WithSchema(schema)).Close(); err != nil {
		t.Fatal(err)
	}
	in := &depth{Reader: bytes.NewReader(bytes.Repeat(one.Bytes(), 500))}
	next := Messages(in, 1<<20)
	if msg, err := next(); err != nil || !bytes.Equal(msg, one.Bytes()) {
		t.Errorf("%d bytes, %v", len(msg), err)
	}
	if _, err := next(); err != io.EOF || in.most > 50 {
		t.Errorf("%d calls deep, %v", in.most, err)
	}
}

// TestFramesAreBounded: metadata of more than 256 MiB and a body of more than 2 GiB are refused by the declared size.
func TestFramesAreBounded(t *testing.T) {
	for size, want := range map[uint32]string{256 << 20: "cut off", 256<<20 + 1: "the limit is 268435456"} {
		head := binary.LittleEndian.AppendUint32(bytes.Clone(continuation), size)
		if _, err := readFrame(bytes.NewReader(head), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("metadata of %d bytes: %v", size, err)
		}
	}
	b := array.NewInt8Builder(memory.DefaultAllocator)
	defer b.Release()
	for range 5000 {
		b.Append(1)
	}
	column := b.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: column.DataType()}}, nil)
	msg, err := arrowio.FromRecords(schema, array.NewRecord(schema, []arrow.Array{column}, 5000))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, err := cut(msg)
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := cut(rest)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(f.Meta, binary.LittleEndian.AppendUint64(nil, uint64(len(f.Body))))
	for size, want := range map[uint64]bool{2 << 30: true, 2<<30 + 1: false} {
		binary.LittleEndian.PutUint64(f.Meta[at:], size)
		if n, err := bodyBytes(f.Meta); (err == nil) != want || want && n != 2<<30 {
			t.Errorf("a body of %d bytes: %d, %v", size, n, err)
		}
	}
}

// TestBlocksOfAFooter: each batch of an Arrow file is inside the file, up to its last byte.
func TestBlocksOfAFooter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.arrow")
	write(t, path, columns(t, arrow.PrimitiveTypes.Int8, `[1,2,3]`), 2)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := cut(whole[8:])
	if err != nil {
		t.Fatal(err)
	}
	_, blocks, err := readFooter(bytes.NewReader(whole), int64(len(whole)))
	if err != nil || len(blocks) != 2 || blocks[0].offset != 8+int64(len(head.bytes)) ||
		blocks[1].offset != blocks[0].offset+blocks[0].meta+blocks[0].body {
		t.Fatalf("blocks %+v, %v", blocks, err)
	}
	for _, c := range []struct {
		block func(size int64) block
		want  bool
	}{
		{func(size int64) block { return block{8, 8, size - 16} }, true},
		{func(size int64) block { return block{8, 8, size - 15} }, false},
		{func(size int64) block { return block{8, size - 8, 0} }, true},
		{func(size int64) block { return block{8, size - 7, 0} }, false},
		{func(size int64) block { return block{size, 0, 0} }, true},
		{func(size int64) block { return block{size + 1, 0, 0} }, false},
		{func(size int64) block { return block{7, 8, 8} }, false}, {func(size int64) block { return block{8, 8, -1} }, false},
	} {
		file := []byte(magic + "\x00\x00")
		for range 2 { // the footer is as long each time
			w := &frameWriter{head: head.bytes, headFrame: head, rowBlocks: []block{c.block(int64(len(file)))}}
			footer := w.buildFooter()
			file = append([]byte(magic+"\x00\x00"), footer...)
			file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), magic...)
		}
		_, got, err := readFooter(bytes.NewReader(file), int64(len(file)))
		if (err == nil) != c.want || c.want && (len(got) != 1 || got[0] != c.block(int64(len(file)))) {
			t.Errorf("%+v of %d bytes: %+v, %v", c.block(int64(len(file))), len(file), got, err)
		}
		if err != nil && err.Error() != "the footer says that batch 0 is outside the file: the file was cut off" {
			t.Error(err)
		}
	}
	for n := range 18 { // fewer bytes than those around a footer
		if _, _, err := readFooter(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Errorf("a file of %d bytes has a footer", n)
		}
	}
}

// TestRefusedStreams: a stream is an error if it does not begin with a schema, or if another schema follows; so is a
// batch one byte above the limit.
func TestRefusedStreams(t *testing.T) {
	message := func(rec arrow.Record) []byte {
		msg, err := arrowio.FromRecords(rec.Schema(), rec)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	msg := message(columns(t, dictionary, `["a","b","a"]`))
	var frames []*frame
	for rest := msg; ; {
		f, tail, err := cut(rest)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			break
		}
		frames, rest = append(frames, f), tail
	}
	if len(frames) != 3 || frames[1].id != 0 || frames[1].delta {
		t.Fatalf("%d frames", len(frames))
	}
	batch := int64(len(frames[2].bytes) + len(frames[1].bytes) + len(frames[0].bytes) + len(endOfStream))
	for _, c := range []struct {
		stream [][]byte
		limit  int64
		want   string
	}{
		{[][]byte{msg}, batch, ""},
		{[][]byte{msg}, batch - 1,
			"a batch has 512 bytes, and the limit is 511; write batches of fewer rows, or shorter values"},
		{[][]byte{frames[1].bytes}, 0, "the stream: the first frame is not a schema"},
		{nil, 0, "the stream is empty: an Arrow IPC stream begins with a schema"},
		{[][]byte{msg[:len(msg)-8], frames[0].bytes}, 0,
			"the stream: after batch 1: a second schema follows, of other rows: split the streams"},
		{[][]byte{msg, message(columns(t, arrow.Null, `[null]`))}, 0,
			"the stream: after batch 1: a second stream with another schema follows the first: split them"},
		{[][]byte{msg, frames[0].bytes, frames[2].bytes}, 0, ""},
		{[][]byte{msg[:len(msg)-8], frames[2].bytes[:20]}, 0,
			"the stream: after batch 1: the stream ends in the middle of a frame: it was cut off"},
	} {
		next := Messages(bytes.NewReader(bytes.Join(c.stream, nil)), c.limit)
		got, err := next()
		for err == nil {
			if len(got) != int(batch) {
				t.Errorf("a message of %d bytes, want %d", len(got), batch)
			}
			got, err = next()
		}
		if c.want == "" && err != io.EOF || c.want != "" && err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	limit := int64(len(frames[1].bytes)) // the largest frame
	for n, want := range map[int64]bool{0: true, limit: true, limit - 1: false} {
		if _, err := readFrame(bytes.NewReader(frames[1].bytes), n); (err == nil) != want {
			t.Errorf("a frame of %d bytes with a limit of %d: %v", limit, n, err)
		}
	}
}
