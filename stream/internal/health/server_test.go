package health

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestIsPartitioned checks that a leader counts as partitioned when it has lost a majority.
func TestIsPartitioned(t *testing.T) {
	near, far := &jetstream.PeerInfo{Active: time.Second}, &jetstream.PeerInfo{Active: 5 * time.Second}
	off := &jetstream.PeerInfo{Offline: true}
	for _, c := range []struct {
		others []*jetstream.PeerInfo
		want   bool
	}{
		{nil, false},
		{[]*jetstream.PeerInfo{near, near}, false},
		{[]*jetstream.PeerInfo{near, far}, false},
		{[]*jetstream.PeerInfo{near, off}, false},
		{[]*jetstream.PeerInfo{far, off}, true},
		{[]*jetstream.PeerInfo{near, near, far, far}, false},
		{[]*jetstream.PeerInfo{near, far, far, far}, true},
	} {
		if got := isPartitioned(&jetstream.ClusterInfo{Leader: "a", Replicas: c.others}); got != c.want {
			t.Errorf("isPartitioned is %v with %v", got, c.others)
		}
	}
	if isPartitioned(nil) {
		t.Error("a server without a cluster is alone")
	}
}
