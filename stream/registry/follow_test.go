package registry

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// counted counts the reads of the pointer of a store.
type counted struct {
	Store
	reads atomic.Int64
}

func (c *counted) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	c.reads.Add(1)
	return c.Store.load(ctx, pipeline)
}

// announcedStore gives the test the function that receives announcements.
type announcedStore struct {
	counted
	notify chan func(natsx.Change)
}

func (f *announcedStore) watch(_ string, notify func(natsx.Change)) (time.Duration, func()) {
	f.notify <- notify
	return math.MaxInt64, func() {}
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
	f := &announcedStore{counted: counted{Store: s}, notify: make(chan func(natsx.Change), 1)}
	defer New(f, "digits", Options{}).Follow(t.Context(), func(*Choice) error { return nil })()
	notify := <-f.notify
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		notify(natsx.Change{Key: "digits", Revision: math.MaxUint64})
	}
	if n := f.reads.Load(); n == 0 || n > 40 {
		t.Errorf("the pointer was read %d times in 2 s", n)
	}
}

// recreated is a store that is replaced by another one, in which its revisions begin again.
type recreated struct {
	Store
	next      Store
	isCreated atomic.Bool
}

func (r *recreated) now() (Store, time.Time) {
	if r.isCreated.Load() {
		return r.next, time.Unix(2, 0)
	}
	return r.Store, time.Unix(1, 0)
}

func (r *recreated) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	s, _ := r.now()
	return s.load(ctx, pipeline)
}

func (r *recreated) get(ctx context.Context, pipeline, version string, limit int64) (*model.Model, error) {
	s, _ := r.now()
	return s.get(ctx, pipeline, version, limit)
}

func (r *recreated) state(ctx context.Context, pipeline string) (natsx.KeySourceState, time.Time, error) {
	s, created := r.now()
	now, at, err := s.state(ctx, pipeline)
	now.Created = created.UnixNano()
	return now, at, err
}

// TestFollowRecreatedStore: a follower adopts the live model of a store that was recreated with as many writes.
func TestFollowRecreatedStore(t *testing.T) {
	t.Parallel()
	r := &recreated{}
	var versions [2]string
	for i, s := range []*Store{&r.Store, &r.next} {
		var err error
		if *s, err = Directory(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		versions[i] = save(t, New(*s, "digits", Options{}), uint64(i+1), "")
	}
	adopted := make(chan string, 10)
	follower := New(r, "digits", Options{MaxStaleness: 40 * time.Millisecond})
	defer follower.Follow(t.Context(), func(c *Choice) error {
		adopted <- c.Live.Version
		return nil
	})()
	for i, want := range versions {
		r.isCreated.Store(i > 0)
		select {
		case got := <-adopted:
			if got != want {
				t.Errorf("%s is adopted, want %s", got, want)
			}
		case <-time.After(natstest.Timeout):
			t.Fatalf("%s is not adopted", want)
		}
		natstest.Await(t, "it is known to be live", func() bool {
			return follower.GoodAsOf(want) != (time.Time{})
		})
	}
}

// TestFollowRejected: a follower that cannot use the live model, of another epoch than its own, does not know that its
// outputs are current, and does not read the pointer again until it has changed.
func TestFollowRejected(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := &counted{Store: s}
	r, other := New(store, "digits", Options{MaxStaleness: 40 * time.Millisecond}), New(s, "digits", Options{})
	a := save(t, other, 1, "")
	defer r.Follow(t.Context(), func(c *Choice) error {
		if c.Live.Epoch > 1 {
			return ErrDim
		}
		return nil
	})()
	natstest.Await(t, "the first model is adopted", func() bool { return r.GoodAsOf(a) != (time.Time{}) })
	next := release(t, 2, a)
	next.Epoch = 2
	if _, err := other.Save(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the next model is rejected", func() bool { return r.Problem() != "" })
	confirmed := r.ConfirmedAt()
	natstest.Await(t, "the pointer is not read for 200 ms", func() bool { // once more, since the store has changed
		reads := store.reads.Load()
		time.Sleep(200 * time.Millisecond)
		return store.reads.Load() == reads
	})
	if !r.ConfirmedAt().Equal(confirmed) {
		t.Errorf("the pointer is known as of %v, before %v", r.ConfirmedAt(), confirmed)
	}
	if _, err := other.Rollback(t.Context(), Request{Version: a}); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the first model is current again", func() bool {
		return r.Problem() == "" && r.ConfirmedAt().After(confirmed)
	})
}
