package console

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/embedd/embedd/stream"
)

// maxMessages bounds what clients that send a message or read its answer make the process hold (Invariant 5), in
// messages as large as limits.message. Only what has arrived counts: a client that stalls after a few bytes takes no
// room from others.
const maxMessages = 16

// messageUnits is the number of units of heldUnits in limits.message: pipelines with different limits share the room.
const messageUnits = 1 << 24

// heldUnits is what all requests hold.
var heldUnits atomic.Int64

// heldMemory is what a request holds: what has arrived of a message, then the answer.
type heldMemory struct{ limit, bytes int64 }

// set changes the number of bytes. There is always room for fewer.
func (m *heldMemory) set(bytes int64) error {
	more := bytes*messageUnits/m.limit - m.bytes*messageUnits/m.limit
	if heldUnits.Add(more) > maxMessages*messageUnits && more > 0 {
		heldUnits.Add(-more)
		return stream.WithCode(codeClients, fmt.Errorf("requests hold as much as %d messages of limits.message, which is "+
			"the limit: try again", maxMessages))
	}
	m.bytes = bytes
	return nil
}

// reader counts what is read.
func (m *heldMemory) reader(in io.Reader) io.Reader { return &countedReader{in, m} }

type countedReader struct {
	in     io.Reader
	memory *heldMemory
}

// Read implements io.Reader.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if full := r.memory.set(r.memory.bytes + int64(n)); full != nil {
		return n, full
	}
	return n, err
}
