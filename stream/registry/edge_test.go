package registry

import (
	"errors"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
)

// TestMirrorIsBehind: what the mirror lacks, in whole or in part, is read from the hub. While the hub does not answer,
// its last answer counts, which a mirror may be behind; nothing is written then.
func TestMirrorIsBehind(t *testing.T) {
	t.Parallel()
	open := func(s *natstest.Server) *jetStream {
		store, err := CreateReplicated(t.Context(), s.JS, 1)
		if err != nil {
			t.Fatal(err)
		}
		return store.(*jetStream)
	}
	server := natstest.New(t)
	hub, mirror := open(server), open(natstest.New(t))
	e := &Edge{jetStream: mirror, hub: hub, domain: "hub"}
	a := save(t, New(hub, "digits", Options{}), 1, "")
	save(t, New(mirror, "digits", Options{}), 1, "") // the same
	damage(t, mirror, a)
	b := save(t, New(hub, "digits", Options{}), 2, a)
	r := New(e, "digits", Options{})
	for _, version := range []string{a, b} {
		if m, err := r.Model(t.Context(), version); err != nil || m.Note().Version != version {
			t.Errorf("%s is read as %v, %v", version, m, err)
		}
	}
	if _, err := r.Pin(t.Context(), Request{Version: a}); err != nil {
		t.Fatal(err)
	}
	if p, err := New(hub, "digits", Options{}).Pointer(t.Context()); err != nil || p.Pin != a {
		t.Errorf("at the hub %+v, %v", p, err)
	}
	if p, err := r.Pointer(t.Context()); err != nil || p.Pin != a {
		t.Errorf("at the edge %+v, %v", p, err)
	}
	answered := e.HubAnsweredAt()
	server.JS.Conn().Close()
	if p, err := r.Pointer(t.Context()); err != nil || p.Pin != a || !e.HubAnsweredAt().Equal(answered) {
		t.Errorf("without the hub %+v, %v", p, err)
	}
	if state, at, err := e.state(t.Context(), "digits"); err != nil || !at.Equal(answered) {
		t.Errorf("without the hub the state is %+v, %v", state, err)
	}
	if _, err := r.Unpin(t.Context(), Request{}); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("an unpin without the hub: %v", err)
	}
}

// TestHubCannotListItsModels: while the hub answers and cannot list its models, a pipeline without a pointer is an
// error and not one without models.
func TestHubCannotListItsModels(t *testing.T) {
	t.Parallel()
	server, local := natstest.New(t), natstest.New(t)
	at, err := CreateReplicated(t.Context(), server.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := CreateReplicated(t.Context(), local.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	save(t, New(at, "digits", Options{}), 1, "")
	hub := &jetStream{js: server.JS, bucket: natsx.NewBucket(server.JS, Bucket)}
	r := New(&Edge{jetStream: mirror.(*jetStream), hub: hub, domain: "hub"}, "digits", Options{})
	pointers, err := server.JS.Stream(t.Context(), pointerStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := pointers.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.JS.DeleteStream(t.Context(), objectStream); err != nil {
		t.Fatal(err)
	}
	if p, err := r.Pointer(t.Context()); err == nil {
		t.Errorf("the pointer is %+v", p)
	}
	server.JS.Conn().Close()
	time.Sleep(hubWait)
	if p, err := r.Pointer(t.Context()); err != nil || p.Live != "" {
		t.Errorf("without the hub, and with an empty mirror, the pointer is %+v, %v", p, err)
	}
}
