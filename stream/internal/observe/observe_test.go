package observe

import (
	"testing"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestDueWhileDisconnected: an inspection that is asked for while the connection is lost leaves out none after that.
func TestDueWhileDisconnected(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	nc.Close()
	w := New(&scope.Scope{Conn: nc}, nil, nil, nil, nil)
	w.skip = othersFactor
	w.Now()
	w.observe(t.Context())
	if w.skip > 0 {
		t.Errorf("%d inspections are left out after one was asked for", w.skip)
	}
}
