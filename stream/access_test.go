package stream

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestDeniedOnce: what is refused again and again is handed on once, and what nobody needs not at all.
func TestDeniedOnce(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	s.grant(denied("out.x", "$SYS.>"))
	var heard, idle atomic.Int64
	nc := connect(t, s.server.ClientURL(), nats.UserInfo("embedd", "secret"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(err.Error(), `"out.x"`) {
				heard.Add(1)
			} else {
				idle.Add(1)
			}
		}))
	defer nc.Close()
	a := watchAccess(nc)
	one := right{actPublish, "out.x"}
	if a.lacks(one) {
		t.Error("a right is missing before anything was refused")
	}
	a.ask(t.Context())
	for range 20 {
		if err := nc.Publish("out.x", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually(func() any { return heard.Load() }, func() bool { return a.lacks(one) })
	if err := nc.Publish("other", nil); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() any { return heard.Load() }, func() bool { return heard.Load() == 1 })
	if heard.Load() != 1 || idle.Load() != 0 || a.known() {
		t.Errorf("handed on %d times and %d others, known %t", heard.Load(), idle.Load(), a.known())
	}
	a.has(one)
	if a.lacks(one) {
		t.Error("a right is missing after what it is for was done")
	}
}

func TestAlike(t *testing.T) {
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
		if got := alike(subject); got != want {
			t.Errorf("%s is alike to %s, want %s", subject, got, want)
		}
	}
}
