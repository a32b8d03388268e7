package registry

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

// flooded is a store whose writes a test announces. It counts the requests for its state.
type flooded struct {
	Store
	notify chan func(uint64)
	states atomic.Int64
}

func (f *flooded) watch(_ string, notify func(uint64)) (time.Duration, func()) {
	f.notify <- notify
	return math.MaxInt64, func() {}
}

func (f *flooded) state(ctx context.Context, pipeline string) (state, error) {
	f.states.Add(1)
	return f.Store.state(ctx, pipeline)
}

// TestFloodOfAnnouncements: any client can announce writes. However many come, the pointer is read a few times a
// second.
func TestFloodOfAnnouncements(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	save(t, New(s, "digits", Options{}), 1, "")
	f := &flooded{Store: s, notify: make(chan func(uint64), 1)}
	defer New(f, "digits", Options{}).Follow(t.Context(), func(*Choice) error { return nil })()
	notify := <-f.notify
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		notify(math.MaxUint64)
	}
	if n := f.states.Load(); n == 0 || n > 40 {
		t.Errorf("the store was read %d times in 2 s", n)
	}
}
