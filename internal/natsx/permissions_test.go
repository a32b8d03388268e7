package natsx

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// TestDeniedOnce: the host receives a repeated denial once, and never that of the request for permissions.
func TestDeniedOnce(t *testing.T) {
	t.Parallel()
	s := natstest.New(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "test"}, {Username: "embedd", Password: "secret",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"out.x", "$SYS.>"}}}}}
		o.NoAuthUser = "test"
	})
	var reported, others atomic.Int64
	nc := s.Connect(nats.UserInfo("embedd", "secret"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(err.Error(), `"out.x"`) {
				reported.Add(1)
			} else {
				others.Add(1)
			}
		}))
	m := MonitorPermissions(nc)
	defer m.Stop()
	p := Permission{Publish, "out.x"}
	if m.IsDenied(p) {
		t.Error("a permission is denied before anything was")
	}
	m.Refresh(t.Context())
	for range 20 {
		if err := nc.Publish("out.x", nil); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Await(t, "the denial is noticed", func() bool { return m.IsDenied(p) })
	if err := nc.Publish("other", nil); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the host hears of the denial", func() bool { return reported.Load() == 1 })
	if err := nc.FlushTimeout(natstest.Timeout); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if reported.Load() != 1 || others.Load() != 0 || m.IsKnown() {
		t.Errorf("reported %d times and %d others, known %t", reported.Load(), others.Load(), m.IsKnown())
	}
	m.MarkAllowed(p)
	if m.IsDenied(p) {
		t.Error("a permission is denied after it was used")
	}
}

// TestHandlersDoNotPileUp: after any number of monitors, in sequence and two concurrently, the connection has the
// host's handler again, and an error passes through one handler of ours.
func TestHandlersDoNotPileUp(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	depth := 0
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
		var frames [1024]uintptr
		depth = runtime.Callers(0, frames[:])
	})
	nc.ErrorHandler()(nc, nil, nats.ErrSlowConsumer)
	direct := depth
	for range 100 {
		a, b := MonitorPermissions(nc), MonitorPermissions(nc)
		a.Stop()
		nc.ErrorHandler()(nc, nil, nats.ErrSlowConsumer)
		if depth > direct+2 {
			t.Fatalf("%d frames, and %d without a monitor", depth, direct)
		}
		b.Stop()
	}
	nc.ErrorHandler()(nc, nil, nats.ErrSlowConsumer)
	errorHandlers.Lock()
	left := errorHandlers.byConn[nc]
	errorHandlers.Unlock()
	if depth != direct || left != nil {
		t.Errorf("%d frames, and %d before; the handler is still registered: %t", depth, direct, left != nil)
	}
	// A host that wraps the handler while a monitor runs keeps its own.
	m := MonitorPermissions(nc)
	wrapped, calls := nc.ErrorHandler(), 0
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		calls++
		wrapped(nc, sub, err)
	})
	m.Stop()
	for range 10 {
		MonitorPermissions(nc).Stop()
	}
	nc.ErrorHandler()(nc, nil, nats.ErrSlowConsumer)
	if calls != 1 || depth > direct+3 {
		t.Errorf("the host's handler is called %d times, through %d frames", calls, depth)
	}
}

func TestGeneralSubject(t *testing.T) {
	for subject, want := range map[string]string{
		"$JS.ACK.in.embedd_p.1.2.3.4.5":              "$JS.ACK.>",
		"$JS.API.CONSUMER.CREATE.OUT.hKWWpA1C.out.x": "$JS.API.CONSUMER.CREATE.OUT.*.out.x",
		"$JS.API.CONSUMER.CREATE.in.embedd_p.in.x":   "$JS.API.CONSUMER.CREATE.in.embedd_p.in.x",
		"$JS.hub.API.CONSUMER.MSG.NEXT.OUT.hKWWpA1C": "$JS.hub.API.CONSUMER.MSG.NEXT.OUT.*",
		"$JS.API.CONSUMER.DELETE.OUT.hKWWpA1C":       "$JS.API.CONSUMER.DELETE.OUT.*",
		"$JS.API.STREAM.INFO.in":                     "$JS.API.STREAM.INFO.in",
		"$JS.API.CONSUMER.LIST.in":                   "$JS.API.CONSUMER.LIST.in",
		"my.CONSUMER.CREATE.in.hKWWpA1C":             "my.CONSUMER.CREATE.in.hKWWpA1C",
	} {
		if got := generalSubject(subject); got != want {
			t.Errorf("%s becomes %s, want %s", subject, got, want)
		}
	}
}

// TestFullStorage: the error of a publish that is refused because the storage of the server, or of the account, is full
// names the setting to raise.
func TestFullStorage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(path, []byte(`accounts {A {jetstream {max_file: 1MB}, users [{user: u, password: p}]}}
no_auth_user: u`), 0o600); err != nil {
		t.Fatal(err)
	}
	account, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for fix, limit := range map[string]func(*server.Options){
		"raise max_file_store of the server": func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 },
		"raise max_file of the account": func(o *server.Options) {
			o.Accounts, o.Users, o.NoAuthUser = account.Accounts, account.Users, account.NoAuthUser
		},
	} {
		s := natstest.New(t, limit)
		s.Stream(jetstream.StreamConfig{Name: "in"})
		var err error
		for range 20 {
			if _, err = s.JS.Publish(t.Context(), "in.x", make([]byte, 100<<10)); err != nil {
				break
			}
		}
		if err = ExplainPublishError(err, "in.x"); err == nil || !strings.Contains(err.Error(), fix) {
			t.Errorf("the error is %v, want %q in it", err, fix)
		}
	}
}

// TestGuardsWithoutLock: whether a denial is relevant to a request is decided without a lock, so the function may ask
// the monitor.
func TestGuardsWithoutLock(t *testing.T) {
	t.Parallel()
	m := MonitorPermissions(natstest.New(t).JS.Conn())
	defer m.Stop()
	isRelevant := func(p Permission) bool {
		if !m.mu.TryLock() {
			t.Error("the monitor is locked")
			return false
		}
		m.mu.Unlock()
		return m.WasDenied(p)
	}
	err := m.Guard(t.Context(), isRelevant, func(ctx context.Context) error {
		m.observe(errors.New(`nats: permissions violation for publish to "in.x"`))
		return ctx.Err()
	})
	if !errors.Is(err, ErrPermissionDenied) {
		t.Errorf("the error is %v", err)
	}
}
