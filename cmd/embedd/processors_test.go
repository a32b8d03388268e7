package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestProcessors: a daemon that answers has one thread of Go's, twice as many once it has used nearly all of its
// processors, up to those of the machine, and one fewer once those would be enough.
func TestProcessors(t *testing.T) {
	p := processors{1, 6}
	var got []int
	for _, busy := range []float64{0, 0.3, 0.84, 0.9, 0.9, 1.5, 1.8, 3, 3.9, 6, 5, 3.1, 2.9, 2.5, 2.3, 1.5, 0.7, 0.5, 0.5, 0} {
		p.now = p.next(busy)
		got = append(got, p.now)
	}
	if want := []int{1, 1, 1, 2, 2, 2, 4, 4, 6, 6, 6, 6, 5, 5, 4, 3, 2, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestProcessorsFollow: it begins with one, and leaves those that were there.
func TestProcessorsFollow(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { processors{most: 3}.follow(ctx) })
	for end := time.Now().Add(time.Minute); runtime.GOMAXPROCS(0) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d threads, want 1", runtime.GOMAXPROCS(0))
			break
		}
	}
	cancel()
	following.Wait()
	if got := runtime.GOMAXPROCS(0); got != 3 {
		t.Errorf("%d threads once it ended, want 3", got)
	}
}
