package registry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
)

// TestFetch: a process that fetched a version before it is live needs only the pointer from the store.
func TestFetch(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		follower := New(s, "digits", Options{})
		staged := 0
		r := New(s, "digits", Options{BeforePromote: func(ctx context.Context, version string) {
			staged++
			if p, err := follower.Pointer(ctx); err != nil || p.Live == version {
				t.Errorf("while %s is staged, %s is live: %v", version, p.Live, err)
			}
			if err := follower.Prefetch(ctx, version); err != nil {
				t.Error(err)
			}
		}})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		if err := s.remove(t.Context(), "digits", b); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := follower.CatchUp(t.Context(), func(c *Choice) error { got = c.Live.Version; return nil }); err != nil {
			t.Fatal(err)
		}
		if staged != 2 || got != b {
			t.Errorf("%d versions were staged, and the follower took %q, want %s", staged, got, b)
		}
		if err := follower.Prefetch(t.Context(), "other-1-01234567"); err == nil {
			t.Error("a version of another pipeline is fetched")
		}
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := follower.Prefetch(short, "digits-9-01234567"); err == nil {
			t.Error("a version that is not there is fetched")
		}
	})
}

// TestReached: a follower knows at every moment that its model is live, or since when it is not.
func TestReached(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r, other := New(s, "digits", Options{MaxStaleness: 100 * time.Millisecond}), New(s, "digits", Options{})
		begin := time.Now()
		if _, err := r.Live(t.Context()); err != nil || r.ConfirmedAt().Before(begin) {
			t.Fatalf("reached %v before %v: %v", r.ConfirmedAt(), begin, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		may := make(chan bool, 1)
		defer r.Follow(ctx, func(c *Choice) error {
			if c.Live.Epoch == 1 {
				return nil
			}
			select {
			case <-may:
				return nil
			default:
				return ErrDim // as what cannot be taken
			}
		})()
		later := func(why string) {
			t.Helper()
			asked := time.Now()
			natstest.Await(t, why, func() bool { return !r.ConfirmedAt().Before(asked) })
		}
		later("nothing is there")
		a := save(t, other, 1, "")
		later("the first")
		later("nothing happens")
		next := release(t, 2, a)
		next.Epoch, next.NewEpoch = 2, true
		b, err := other.Save(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		natstest.Await(t, "what cannot be taken is trouble", func() bool { return r.Problem() != "" })
		stood := r.ConfirmedAt()
		time.Sleep(2 * r.options.MaxStaleness)
		if now := r.ConfirmedAt(); !now.Equal(stood) {
			t.Errorf("an epoch that is not followed is reached, %v later", now.Sub(stood))
		}
		if text := r.Problem(); !strings.Contains(text, b) {
			t.Errorf("trouble %q does not name %s", text, b)
		}
		may <- true
		if _, err := other.Pin(t.Context(), Request{Version: b}); err != nil {
			t.Fatal(err)
		}
		later("the new epoch")
		if text := r.Problem(); text != "" {
			t.Errorf("trouble %q", text)
		}
	})
}

// TestReachedWithoutAModel: a follower without a model that cannot read the live one answers with no model of an
// earlier epoch. It reports this, and still knows which model is live.
func TestReachedWithoutAModel(t *testing.T) {
	t.Parallel()
	refuse := func(*Choice) error { return ErrDim }
	eachStore(t, func(t *testing.T, s Store) {
		for name, leave := range map[string]func(t *testing.T, r, other *Registry, live string) string{
			"dropped": func(_ *testing.T, r, _ *Registry, live string) string { r.Forget(); return live },
			"retired": func(t *testing.T, r, other *Registry, _ string) string {
				if err := r.Retire(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				next := release(t, 2, "")
				next.Epoch, next.NewEpoch = 2, true
				live, err := other.Save(t.Context(), next)
				if err != nil {
					t.Fatal(err)
				}
				return live
			},
		} {
			r, other := New(s, name, Options{}), New(s, name, Options{})
			live := save(t, other, 1, "")
			if c, err := r.Live(t.Context()); err != nil || c.Live == nil {
				t.Fatalf("%s: %v, %v", name, c, err)
			}
			live = leave(t, r, other, live)
			for range 2 { // it is offered once
				before := time.Now()
				if err := r.CatchUp(t.Context(), refuse); err != nil {
					t.Fatal(err)
				}
				if r.ConfirmedAt().Before(before) {
					t.Errorf("%s: the store was read, and what is live counts as unknown for %v", name, time.Since(r.ConfirmedAt()))
				}
				if text := r.Problem(); !strings.Contains(text, live+", cannot go live, and no model answers here") {
					t.Errorf("%s: trouble %q", name, text)
				}
			}
		}
	})
}

// TestCannotFollow: if a pointer has a newer format, a digest does not match, or a model is missing, the live model
// stays; the reason is logged once and shown.
func TestCannotFollow(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		for name, c := range map[string]struct {
			spoil func(p *Pointer)
			want  string
		}{
			"newer": {func(p *Pointer) { p.Format = Format + 1 }, "use a newer embedd"},
			"digest": {func(p *Pointer) { p.Versions[1].Digest = strings.Repeat("0", 64) },
				"its pointer says 0000000000000000"},
			"missing": {func(p *Pointer) { _ = s.remove(t.Context(), "missing", p.Live) }, "has no model"},
		} {
			var says strings.Builder
			r, other := New(s, name, Options{Logger: slog.New(slog.NewTextHandler(&says, nil)),
				MaxStaleness: 20 * time.Millisecond}),
				New(s, name, Options{})
			a := save(t, other, 1, "")
			adopted := ""
			look := func() {
				t.Helper()
				if err := r.CatchUp(t.Context(), func(c *Choice) error { adopted = c.Live.Version; return nil }); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			look()
			save(t, other, 2, a)
			p, revision, err := other.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(p)
			value, err := json.Marshal(p)
			if err == nil {
				_, err = s.compareAndSet(t.Context(), name, value, revision)
			}
			if err != nil {
				t.Fatal(err)
			}
			// A server that follows may only not have it yet, so it is looked for again for a while.
			_ = r.CatchUp(t.Context(), func(*Choice) error { return errors.New("it is not to be offered") })
			if name != "newer" && r.Problem() != "" {
				t.Errorf("%s: at once there is %q", name, r.Problem())
			}
			time.Sleep(2 * r.settleTime())
			look()
			look()
			if n := strings.Count(says.String(), c.want); adopted != a || n != 1 || !strings.Contains(r.Problem(), c.want) {
				t.Errorf("%s: %s is live, it is said %d times: %q; %s", name, adopted, n, r.Problem(), says.String())
			}
			if since := time.Since(r.ConfirmedAt()); since > time.Minute {
				t.Errorf("%s: the store was not reached for %v", name, since)
			}
		}
	})
}

// TestStoreRolledBack: a state of the store that is older than one seen before is ignored until it persists: then the
// store has lost its last changes, and the follower continues from it.
func TestStoreRolledBack(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r, other := New(s, "digits", Options{MaxStaleness: 20 * time.Millisecond}), New(s, "digits", Options{})
		save(t, other, 1, "")
		look := func() error {
			return r.CatchUp(t.Context(), func(*Choice) error { return nil })
		}
		if err := look(); err != nil {
			t.Fatal(err)
		}
		state, _, err := s.state(t.Context(), "digits")
		if err != nil {
			t.Fatal(err)
		}
		r.created = state.Created
		r.revision.Add(3) // they were written and seen, and are gone
		before := r.ConfirmedAt()
		if err := look(); !errors.Is(err, errOutdated) || r.ConfirmedAt() != before {
			t.Fatalf("the first look: %v", err)
		}
		time.Sleep(2 * r.settleTime())
		if err := look(); err != nil || !r.ConfirmedAt().After(before) {
			t.Errorf("when it stays so: %v", err)
		}
		if p, revision, err := other.read(t.Context()); err != nil || r.Revision() != revision || p.Live == "" {
			t.Errorf("revision %d is followed, %d is stored: %v", r.Revision(), revision, err)
		}
	})
}

// TestPinHolds: while one process trains and stores as fast as it can, another pins a version, and it stays live until
// it is unpinned; a hundred times.
func TestPinHolds(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r, other := New(s, "digits", Options{Keep: Keep{Versions: 5}}), New(s, "digits", Options{})
		save(t, r, 1, "")
		one := release(t, 2, "")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		tries := make(chan error)
		wg.Go(func() {
			for ctx.Err() == nil {
				p, err := r.Pointer(ctx)
				if err == nil {
					next := *one
					next.Parent = p.Live
					_, err = r.Save(ctx, &next)
				}
				select {
				case tries <- err:
				case <-ctx.Done():
				}
			}
		})
		refused := 0
		for round := range 100 {
			<-tries
			p, err := other.Pin(t.Context(), Request{})
			if err != nil {
				t.Fatal(err)
			}
			version := p.Live
			for range 2 { // one may have begun before
				if err := <-tries; err != nil {
					refused++
				}
			}
			if p, err = other.Pointer(t.Context()); err != nil || p.Live != version || p.Pin != version {
				t.Fatalf("round %d: %s was pinned, %s is live and %q pinned: %v", round, version, p.Live, p.Pin, err)
			}
			if _, err := other.Unpin(t.Context(), Request{}); err != nil {
				t.Fatal(err)
			}
		}
		if refused < 100 {
			t.Errorf("%d of 200 models were refused while a version was pinned", refused)
		}
	})
}

// TestFollowerKnowsGood: a follower is notified that the live model was confirmed, which is not a new choice.
func TestFollowerKnowsGood(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		r, follower := New(s, "digits", Options{Clock: func() time.Time { return at }}), New(s, "digits", Options{})
		a := save(t, r, 1, "")
		look := func() time.Time {
			if err := follower.CatchUp(t.Context(), func(*Choice) error { return nil }); err != nil {
				t.Fatal(err)
			}
			return follower.GoodAsOf(a)
		}
		made := look()
		at = made.Add(time.Hour)
		if err := r.Checkpoint(t.Context(), []byte("state")); err != nil {
			t.Fatal(err)
		}
		if good := look(); !good.Equal(at) {
			t.Errorf("the model was found good at %v, and the follower knows of %v", at, good)
		}
		if good := follower.GoodAsOf("digits-9-01234567"); !good.IsZero() {
			t.Errorf("another version is good as of %v", good)
		}
	})
}
