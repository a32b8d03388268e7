package natsx

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
)

// TestReceiver: one goroutine receives the messages of all subscriptions, a drain handles what was sent before it, and
// nothing is handled or left behind after the end.
func TestReceiver(t *testing.T) {
	s := natstest.New(t)
	sender, nc := s.Connect(), s.Connect()
	r := NewReceiver(nc)
	started := func(by string) int { // goroutines
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by "+by)
	}
	const ours, clients = "github.com/embedd/embedd/internal/natsx.(*Receiver)", "github.com/nats-io/nats.go.(*Conn).sub"
	before, clientsBefore := started(ours), started(clients)
	handled := map[string]int{}
	var subs []*nats.Subscription
	for _, subject := range []string{"a", "b", "c.*"} {
		for _, queue := range []string{"", "q"} {
			sub, err := r.Subscribe(subject, queue, func(msg *nats.Msg) { handled[msg.Subject+queue]++ })
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
	}
	if own, clients := started(ours)-before, started(clients)-clientsBefore; own != 1 || clients != 0 {
		t.Errorf("%d goroutines, and %d of the client, for %d subscriptions", own, clients, len(subs))
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	const each = 100
	send := func() {
		for range each {
			for _, subject := range []string{"a", "b", "c.d"} {
				if err := sender.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := sender.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	send()
	r.Drain(subs[:4])
	send()
	r.Drain(subs[4:])
	for name, n := range handled {
		want := each
		if strings.HasPrefix(name, "c") {
			want = 2 * each
		}
		if n != want {
			t.Errorf("%d of %d messages of %s are handled", n, want, name)
		}
	}
	if len(handled) != len(subs) || r.arrived != nil || len(r.handlers) > 0 {
		t.Errorf("handled are %v, and left %d subscriptions", handled, len(r.handlers))
	}
	if sub, err := r.Subscribe("a", "", func(*nats.Msg) {}); err != nil {
		t.Error("after the end, another subscription:", err)
	} else {
		r.Unsubscribe(sub)
	}
	nc.Close()
	if _, err := r.Subscribe("a", "", func(*nats.Msg) {}); err == nil || r.arrived != nil {
		t.Error("a closed connection is subscribed to")
	}
}

// TestDrainWhileDisconnected: a subscription that is drained while the connection is down does not return after a
// reconnect. The server would send it messages of the queue group, which would get no answer.
func TestDrainWhileDisconnected(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	l, err := link.New(strings.TrimPrefix(s.URL(), "nats://"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mayReconnect, isConnected := make(chan struct{}), make(chan struct{})
	nc, err := nats.Connect("nats://"+l.Address(), nats.MaxReconnects(-1), nats.Timeout(natstest.Timeout),
		nats.CustomReconnectDelay(func(int) time.Duration { <-mayReconnect; return 0 }),
		nats.ReconnectHandler(func(*nats.Conn) { close(isConnected) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	r, isDown := NewReceiver(nc), nc.StatusChanged(nats.RECONNECTING)
	sub, err := r.Subscribe("a", "q", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	l.Cut()
	<-isDown
	r.Drain([]*nats.Subscription{sub})
	close(mayReconnect)
	<-isConnected
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect().Request("a", nil, natstest.Timeout); !errors.Is(err, nats.ErrNoResponders) {
		t.Error("a request without a subscriber:", err)
	}
}
