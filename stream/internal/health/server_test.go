package health

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
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

// TestSilentServerAfterAClockStep: a server that stops answering is noticed although the wall clock was set back, so
// that what others confirmed is in the future.
func TestSilentServerAfterAClockStep(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	nc := s.Connect(nats.MaxReconnects(-1))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	permissions := natsx.MonitorPermissions(nc)
	defer permissions.Stop()
	later := time.Now().Add(time.Hour)
	conditions := &Conditions{}
	m := &ServerMonitor{Conn: nc, JS: js, Log: slog.New(slog.DiscardHandler), Permissions: permissions,
		Timeout: 400 * time.Millisecond, Subject: "out", Conditions: []*Conditions{conditions},
		Confirmed: func() time.Time { return later }}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.Run(ctx) })
	natstest.Await(t, "the server has answered", func() bool { return m.answered.Load() != nil })
	time.Sleep(2 * m.Timeout)
	s.Stop()
	natstest.Await(t, "the silence is reported", func() bool { return conditions.Reason(Server) != "" })
}

// TestPauseOfTheMonitor: after an answer the monitor waits for half of the timeout. While it reports a reason it looks
// again soon, also right after an answer.
func TestPauseOfTheMonitor(t *testing.T) {
	t.Parallel()
	const timeout = 16 * time.Hour
	reason := "partitioned"
	for name, c := range map[string]struct {
		answered    time.Duration // how long ago
		reason      string
		partitioned *string
		want        time.Duration
	}{
		"answered":          {0, "", nil, 8 * time.Hour},
		"an hour ago":       {time.Hour, "", nil, 7 * time.Hour},
		"long ago":          {20 * time.Hour, "", nil, time.Hour},
		"answered again":    {0, reason, nil, time.Hour},
		"partitioned since": {0, "", &reason, time.Hour},
	} {
		m := ServerMonitor{Timeout: timeout, reason: c.reason}
		m.partitioned.Store(c.partitioned)
		m.answered.Store(new(time.Now().Add(-c.answered)))
		if got := m.pause(); (got - c.want).Abs() > time.Minute {
			t.Errorf("%s: a pause of %v, want %v", name, got, c.want)
		}
	}
}
