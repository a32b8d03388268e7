package relay

import (
	"math"
	"testing"
	"time"
)

// TestBusy: the ratio follows how much of the time there was nothing to do, a wait that is not over included.
func TestBusy(t *testing.T) {
	s := &utilization{}
	now := time.Now()
	s.sample(now)
	step := func(seconds int, waits func()) {
		for range seconds {
			waits()
			now = now.Add(time.Second)
			s.sample(now)
		}
	}
	near := func(want float64) {
		t.Helper()
		if got := s.value(); math.Abs(got-want) > 0.01 {
			t.Errorf("busy %.3f, want %.3f", got, want)
		}
	}
	near(0)
	step(60, func() {})
	near(1)
	step(60, func() { s.waited.Add(int64(time.Second / 4)) })
	near(0.75)
	s.waitingSince.Store(now.UnixNano())
	step(60, func() {})
	near(0)

	from := make(chan *input, 2)
	from <- &input{}
	go func() { from <- &input{}; close(from) }()
	n := 0
	for range (&utilization{}).receive(from) {
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
	}{{0.00001, maxPending}, {0.005, 400}, {0.05, 40}, {3, minMessages}} {
		s := &utilization{}
		if got := s.maxMessages(); got != maxPending {
			t.Errorf("before anything is known it holds %d", got)
		}
		for range 20000 {
			s.processed(c.seconds)
		}
		if got := s.maxMessages(); got < c.want*9/10 || got > c.want {
			t.Errorf("at %v s for an input it holds %d, want %d", c.seconds, got, c.want)
		}
	}
}
