package observe

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestDueWhileDisconnected: an inspection that is due while the connection is lost is not postponed for long.
func TestDueWhileDisconnected(t *testing.T) {
	nc, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true)) // nothing listens
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w := New(&scope.Scope{Conn: nc}, nil, nil)
	if pause := w.observe(t.Context()); pause != interval {
		t.Errorf("the next inspection is in %v", pause)
	}
}
