package training

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
)

// storing is a JetStream client that stores a message before it requests the state of a stream.
type storing struct {
	jetstream.JetStream
	store func()
}

func (s storing) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s.store()
	return s.JetStream.Stream(ctx, name)
}

// TestReadBeyondTheEnd: a message that is stored after the consumer of a read beyond the end of the stream was created,
// and before the state of the stream is requested, is not skipped.
func TestReadBeyondTheEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.publish(5)
	p := s.open()
	p.Conn, p.JS = s.JS.Conn(), storing{s.JS, sync.OnceFunc(func() { s.publish(1) })}
	metrics, err := health.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Series = metrics.Series("p", false, false)
	var read []uint64
	p.hooks.MayLearn = func(_ context.Context, m *scope.Message, _ time.Time) bool {
		read = append(read, m.Origin.Seq)
		return false
	}
	r := newReader(p, nil)
	r.at.next = 6
	defer r.closeCursor(t.Context())
	if err := r.read(t.Context(), 10); err != nil || len(read) != 1 || read[0] != 6 {
		t.Errorf("messages %v are read, want 6; %v", read, err)
	}
}
