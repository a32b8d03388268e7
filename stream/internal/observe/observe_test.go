package observe

import (
	"testing"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestDueWhileDisconnected: an inspection that is due while the connection is lost is not postponed for long.
func TestDueWhileDisconnected(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	nc.Close()
	w := New(&scope.Scope{Conn: nc}, nil, nil)
	if pause := w.observe(t.Context()); pause != interval {
		t.Errorf("the next inspection is in %v", pause)
	}
}
