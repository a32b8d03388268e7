package file

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
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
