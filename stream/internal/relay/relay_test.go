package relay

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/scope"
)

// oldServer is a connection to a server that reports a version before 2.10.
type oldServer struct{ net.Conn }

func (c oldServer) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	copy(data, bytes.Replace(data[:n], []byte(`"version":"2.`), []byte(`"version":"1.`), 1))
	return n, err
}

// Dial implements nats.CustomDialer.
func (oldServer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return oldServer{c}, err
}

// TestOldServer: a pipeline does not start with a server before 2.10, which would create a consumer that is to be
// updated, for instance.
func TestOldServer(t *testing.T) {
	t.Parallel()
	r := New(&scope.Scope{Conn: newServer(t).Connect(nats.SetCustomDialer(oldServer{}))}, &Activity{}, 0)
	if err := r.Bind(t.Context()); err == nil || !strings.Contains(err.Error(), "needs 2.10 or later") {
		t.Errorf("the error is %v", err)
	}
}
