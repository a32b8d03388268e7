package file

import (
	"bytes"
	"encoding/binary"
	"io"
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
