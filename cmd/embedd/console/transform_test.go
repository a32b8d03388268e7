package console

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/embedd/embedd/stream"
)

// TestLineChunks: text is cut into messages of whole rows, those that have arrived, CSV with its header in each.
func TestLineChunks(t *testing.T) {
	for name, c := range map[string]struct {
		isCSV    bool
		in, want string // messages are separated by |
	}{
		"lines":            {false, "{\"x\":1}\n{\"x\":2}\n", "{\"x\":1}\n|{\"x\":2}\n"},
		"no last break":    {false, "{}\r\n{}", "{}\r\n|{}\n"},
		"blank lines":      {false, "\n{}\n\n\n", "{}\n"},
		"nothing":          {false, "", ""},
		"csv":              {true, "a,b\n1,2\n3,4\n", "a,b\n1,2\n|a,b\n3,4\n"},
		"break in quotes":  {true, "a,b\n1,\"x\ny\"\n3,4", "a,b\n1,\"x\ny\"\n|a,b\n3,4\n"},
		"header in quotes": {true, "\"a\nb\"\n1\n2\n", "\"a\nb\"\n1\n|\"a\nb\"\n2\n"},
		"header":           {true, "a,b\n", "a,b\n"},
	} {
		// One byte at a time: a message ends where no more has arrived.
		in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(c.in)))
		var got []string
		for l := (&lineChunks{in: in, limit: 50, isCSV: c.isCSV}); ; {
			chunk, err := l.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			got = append(got, string(chunk))
			if _, err := in.Peek(1); err != nil {
				break
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	l := &lineChunks{in: bufio.NewReader(strings.NewReader(strings.Repeat("x", 9000))), limit: 50}
	if _, err := l.next(); err == nil || !strings.Contains(err.Error(), "limits.message") {
		t.Errorf("a long line: %v", err)
	}
	l = &lineChunks{in: bufio.NewReader(strings.NewReader(strings.Repeat("{\"x\":1}\n", 20_000))), limit: 1 << 20}
	if chunk, err := l.next(); err != nil || len(chunk) < 4000 || len(chunk) > chunkBytes+9 {
		t.Errorf("%d bytes, %v", len(chunk), err)
	}
}

// TestLineChunksProgress: a header larger than a chunk does not keep rows from being read, and a message exceeds the
// limit only if a row does.
func TestLineChunksProgress(t *testing.T) {
	for name, c := range map[string]struct{ header, row, want int }{
		"long header": {2 * chunkBytes, 10, 100},
		"low limit":   {10, 300, 100},
	} {
		header, row := strings.Repeat("a", c.header)+",b\n", strings.Repeat("1", c.row)+",2\n"
		limit := len(header) + 3*len(row) + len(row)/2
		in := bufio.NewReaderSize(strings.NewReader(header+strings.Repeat(row, c.want)), chunkBytes)
		l := &lineChunks{in: in, limit: int64(limit), isCSV: true}
		rows := 0
		for range c.want {
			if l.more() != nil {
				break
			}
			chunk, err := l.next()
			if err != nil || len(chunk) > limit {
				t.Fatalf("%s: %d bytes, %v", name, len(chunk), err)
			}
			rows += strings.Count(string(chunk), "\n") - 1
		}
		if rows != c.want || l.more() != io.EOF {
			t.Errorf("%s: %d rows of %d", name, rows, c.want)
		}
	}
}

// TestBusy: a message whose turn does not come is answered with what to do.
func TestBusy(t *testing.T) {
	for range cap(transforms) {
		transforms <- struct{}{}
	}
	defer func() {
		for range cap(transforms) {
			<-transforms
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := (&transform{}).do(ctx, nil)
	isTryAgain(t, err)
}

// TestHeldMemory: a message takes room for what has arrived of it, then for its answer, of a limit for all.
func TestHeldMemory(t *testing.T) {
	read := func(bytes, limit int) (*transform, error) {
		one := &transform{form: stream.Messages{Limit: int64(limit)}, held: heldMemory{limit: int64(limit)}}
		t.Cleanup(func() { one.held.set(0) })
		_, err := one.whole(strings.NewReader(strings.Repeat("x", bytes)))
		return one, err
	}
	var last *transform
	for i := range maxMessages {
		limit := 1000 << i
		one, err := read(limit, limit)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		last = one
	}
	_, err := read(100, 1000)
	isTryAgain(t, err)
	if err := last.held.set(last.held.limit / 2); err != nil {
		t.Error(err)
	}
	if _, err := read(400, 1000); err != nil {
		t.Errorf("where an answer is smaller than its message: %v", err)
	}
}

func isTryAgain(t *testing.T, err error) {
	t.Helper()
	code := stream.ErrorCode(err)
	if statuses[code] != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "try again") {
		t.Errorf("%s: %v", code, err)
	}
}
