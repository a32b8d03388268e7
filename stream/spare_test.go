package stream

import (
	"math"
	"testing"
	"time"
)

// TestBusy: the ratio follows how much of the time there was nothing to do, a wait that is not over included.
func TestBusy(t *testing.T) {
	s := &spare{}
	now := time.Now()
	s.look(now)
	step := func(seconds int, waits func()) {
		for range seconds {
			waits()
			now = now.Add(time.Second)
			s.look(now)
		}
	}
	near := func(want float64) {
		t.Helper()
		if got := s.busy(); math.Abs(got-want) > 0.01 {
			t.Errorf("busy %.3f, want %.3f", got, want)
		}
	}
	near(0)
	step(60, func() {})
	near(1)
	step(60, func() { s.waited.Add(int64(time.Second / 4)) })
	near(0.75)
	s.since.Store(now.UnixNano())
	step(60, func() {})
	near(0)

	from := make(chan *input, 2)
	from <- &input{}
	go func() { from <- &input{}; close(from) }()
	n := 0
	for range (&spare{}).each(from) {
		n++
	}
	if n != 2 {
		t.Errorf("%d inputs, want 2", n)
	}
}

// TestShare: a process holds two seconds' work, between few and many messages.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    int
	}{{0.00001, ackPending}, {0.005, 400}, {0.05, 40}, {3, leastShare}} {
		s := &spare{}
		if got := s.share(); got != ackPending {
			t.Errorf("before anything is known it holds %d", got)
		}
		for range 20000 {
			s.did(c.seconds)
		}
		if got := s.share(); got < c.want*9/10 || got > c.want {
			t.Errorf("at %v s for an input it holds %d, want %d", c.seconds, got, c.want)
		}
	}
}
