package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// eachStore runs a test on both stores.
func eachStore(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("jetstream", func(t *testing.T) {
		s, err := CreateReplicated(t.Context(), natstest.New(t).JS, 1)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
	t.Run("directory", func(t *testing.T) {
		s, err := Directory(filepath.Join(t.TempDir(), "models"))
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// fitted is a different model for each seed.
func fitted(t testing.TB, seed uint64, features int) *model.Model {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	const n = 30
	x := make([]float64, n*features)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	names := make([]string, features)
	for j := range names {
		names[j] = fmt.Sprintf("x%d", j)
	}
	m, err := fit.Fit(context.Background(), &model.Data{X: x, N: n, M: features, Features: names},
		fit.Config{Method: "pca", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func release(t testing.TB, seed uint64, parent string) *plugin.Release {
	return &plugin.Release{Model: fitted(t, seed, 5), Epoch: 1, Parent: parent, First: seed, Last: seed + 10, Rows: 30,
		Score: 0.9, LiveScore: math.NaN(), Why: "a test", State: fmt.Appendf(nil, "state %d", seed)}
}

func save(t testing.TB, r *Registry, seed uint64, parent string) string {
	t.Helper()
	v, err := r.Save(context.Background(), release(t, seed, parent))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// live is the model that a start would use.
func live(t testing.TB, s Store) (*plugin.Live, *Pointer) {
	t.Helper()
	r := New(s, "digits", Options{})
	c, err := r.Live(context.Background())
	if err != nil || c.Live == nil {
		t.Fatalf("live is %v: %v", c, err)
	}
	p, err := r.Pointer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c.Live, p
}

// there are the names of the models in a store.
func there(t testing.TB, s Store) (names []string) {
	t.Helper()
	all, err := s.versions(context.Background(), "digits")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// TestSave: a start finds what was saved, with all its fields.
func TestSave(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		if c, err := r.Live(t.Context()); err != nil || c.Live != nil || !c.New {
			t.Fatalf("an empty store has %v, %v", c, err)
		}
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		if err := r.Checkpoint(t.Context(), make([]byte, 400<<10)); err != nil { // of a window of 100 million rows
			t.Fatal(err)
		}
		if err := r.Checkpoint(t.Context(), []byte("newer")); err != nil {
			t.Fatal(err)
		}
		l, p := live(t, s)
		if l.Version != b || l.Epoch != 1 || string(l.State) != "newer" ||
			l.Model.Digest() != fitted(t, 2, 5).Digest() ||
			l.Model.Note().Version != b {
			t.Errorf("live is %+v with state %q, want %s", l, l.State, b)
		}
		v := p.Find(b)
		if p.Previous != a || p.Candidate != "" || len(p.Versions) != 2 || v.Parent != a || v.First != 2 ||
			v.Last != 12 ||
			*v.Score != 0.9 || v.LiveScore != nil || v.Why != "a test" || v.Method != "pca" || v.Dim != 2 ||
			v.Size == 0 {
			t.Errorf("the pointer is %+v", p)
		}
		if got := there(t, s); !slices.Equal(got, []string{a, b}) {
			t.Errorf("there are %v", got)
		}
		for name, want := range map[string]string{a: a, b: b, "digits": b} {
			m, err := Read(t.Context(), s, name)
			if err != nil || m.Note().Version != want {
				t.Errorf("reading %s: %v, %v", name, m, err)
			}
		}
		for _, name := range []string{"other", "digits-9-00000000", "other-1-00000000"} {
			if _, err := Read(t.Context(), s, name); !errors.Is(err, ErrMissing) {
				t.Errorf("reading %s: %v", name, err)
			}
		}
	})
}

// cut is a store that fails at one of its calls: before it was done, or after it without reporting success.
type cut struct {
	Store
	mu    sync.Mutex
	left  int
	after bool
}

var errCut = errors.New("cut")

func (c *cut) step(do func() error) error {
	c.mu.Lock()
	c.left--
	left := c.left
	c.mu.Unlock()
	switch {
	case left < 0 || left == 0 && !c.after:
		return errCut
	case left == 0:
		_ = do()
		return errCut
	}
	return do()
}

func (c *cut) put(ctx context.Context, pipeline, version string, data []byte) error {
	return c.step(func() error { return c.Store.put(ctx, pipeline, version, data) })
}

func (c *cut) get(ctx context.Context, pipeline, version string, limit int64) (m *model.Model, err error) {
	err = c.step(func() (err error) { m, err = c.Store.get(ctx, pipeline, version, limit); return err })
	return m, err
}

func (c *cut) remove(ctx context.Context, pipeline, version string) error {
	return c.step(func() error { return c.Store.remove(ctx, pipeline, version) })
}

func (c *cut) load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error) {
	err = c.step(func() (err error) { value, revision, err = c.Store.load(ctx, pipeline); return err })
	return value, revision, err
}

func (c *cut) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (
	next uint64, err error) {
	err = c.step(func() (err error) { next, err = c.Store.compareAndSet(ctx, pipeline, value, revision); return err })
	return next, err
}

// TestCutAtEachStep interrupts a save at each of its calls on the store, before the call and after it. A start finds
// the model from before or the new one, complete; the next save continues; no unused files are left.
func TestCutAtEachStep(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		first := New(s, "digits", Options{Keep: Keep{Versions: 3}})
		at := save(t, first, 1, "")
		for seed := uint64(2); seed < 5; seed++ {
			at = save(t, first, seed, at)
		}
		cuts, seed := 0, uint64(10)
		for _, after := range []bool{false, true} {
			for left := 1; ; left++ {
				seed++
				r := New(&cut{Store: s, left: left, after: after}, "digits", Options{Keep: Keep{Versions: 3}})
				version, err := r.Save(t.Context(), release(t, seed, at))
				l, p := live(t, s)
				if l.Version != at && l.Model.Digest() != fitted(t, seed, 5).Digest() {
					t.Fatalf("cut at %d: live is %s, neither the one before nor the new one", left, l.Version)
				}
				for _, v := range p.Versions {
					if _, err := first.get(t.Context(), v); err != nil {
						t.Errorf("cut at %d: the pointer lists a model that cannot be read: %v", left, err)
					}
				}
				at = l.Version
				if err == nil && version != at {
					t.Errorf("cut at %d: saved %s, live is %s", left, version, at)
				}
				cuts++
				if c := r.store.(*cut); c.left > 0 {
					break // this one was not cut any more
				}
			}
		}
		t.Logf("%d cuts", cuts)
		seed++
		save(t, New(s, "digits", Options{Keep: Keep{Versions: 3}}), seed, at)
		if err := first.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, p := live(t, s)
		var listed []string
		for _, v := range p.Versions {
			listed = append(listed, v.Name)
		}
		slices.Sort(listed)
		if got := there(t, s); !slices.Equal(got, listed) || len(listed) != 3 || p.Candidate != "" {
			t.Errorf("there are %v, the pointer lists %v and candidate %q", got, listed, p.Candidate)
		}
	})
}

// TestDamaged: a live model that was damaged in the store is an error that names the fix, and the fix works.
func TestDamaged(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		damage(t, s, b)
		ctx, stop := context.WithTimeout(t.Context(), natstest.Timeout)
		defer stop()
		_, err := New(s, "digits", Options{Strict: true}).Live(ctx)
		if err == nil || !strings.Contains(err.Error(), "embedd model rollback digits") ||
			!strings.Contains(err.Error(), a) {
			t.Fatalf("a damaged model: %v", err)
		}
		if _, err := r.Pin(ctx, Request{Version: b}); err == nil {
			t.Error("a damaged model was pinned")
		}
		if _, err := r.Rollback(ctx, Request{}); err != nil {
			t.Fatal(err)
		}
		if l, _ := live(t, s); l.Version != a {
			t.Errorf("live is %s, want %s", l.Version, a)
		}
	})
}

// TestTooLarge: a model that a start could not read is not written, with an error that names the fix; one that was
// stored under a larger limit is still read.
func TestTooLarge(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		_, p := live(t, s)
		small := New(s, "digits", Options{Limit: p.Find(a).Size / 2})
		_, err := small.Save(t.Context(), release(t, 2, a))
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "limits.model") {
			t.Errorf("saving over the limit: %v", err)
		}
		if c, err := small.Live(t.Context()); err != nil || c.Live.Version != a {
			t.Errorf("with a lower limit the live model is %v, %v", c, err)
		}
		if got := there(t, s); !slices.Equal(got, []string{a}) {
			t.Errorf("there are %v", got)
		}
		save(t, r, 3, a)
	})
}

// TestFormats: a pointer of an earlier format counts as damaged, and is written again from the models; one of a later
// embedd is refused and left unchanged.
func TestFormats(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		_, revision, err := s.load(t.Context(), "digits")
		if err != nil {
			t.Fatal(err)
		}
		old := fmt.Sprintf(`{"format":1,"version":%q,"epoch":3,"number":2}`, b)
		if _, err = s.compareAndSet(t.Context(), "digits", []byte(old), revision); err != nil {
			t.Fatal(err)
		}
		fresh := New(s, "digits", Options{})
		if err := fresh.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, _ := live(t, s); l.Version != b {
			t.Errorf("of format 1, live is %+v", l)
		}
		c := save(t, fresh, 3, b)
		if l, p := live(t, s); l.Version != c || p.Format != Format || p.Previous != b || p.Find(a) == nil || p.Number != 3 {
			t.Errorf("after the next save live is %s, the pointer %+v", l.Version, p)
		}

		_, revision, _ = s.load(t.Context(), "digits")
		newer := []byte(`{"format":99,"live":{"some":"thing"}}`)
		if _, err = s.compareAndSet(t.Context(), "digits", newer, revision); err != nil {
			t.Fatal(err)
		}
		for what, do := range map[string]func() error{
			"live":       func() error { _, err := fresh.Live(t.Context()); return err },
			"save":       func() error { _, err := fresh.Save(t.Context(), release(t, 4, c)); return err },
			"pin":        func() error { _, err := fresh.Pin(t.Context(), Request{Version: a}); return err },
			"checkpoint": func() error { return fresh.Checkpoint(t.Context(), nil) },
			"refuse":     func() error { return fresh.RecordRefusal(t.Context(), plugin.Outcome{}) },
			"sweep":      func() error { return fresh.Sweep(t.Context()) },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "use a newer embedd") {
				t.Errorf("%s of a newer format: %v", what, err)
			}
		}
		if value, _, _ := s.load(t.Context(), "digits"); string(value) != string(newer) {
			t.Errorf("the newer pointer became %s", value)
		}
		if got := there(t, s); len(got) != 3 {
			t.Errorf("of the models of a newer store there are %v", got)
		}
	})
}

// TestPrune: versions are removed by count and by age, but never the live, the previous and the pinned one.
func TestPrune(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		r := New(s, "digits", Options{Keep: Keep{Versions: 4, Age: 10 * time.Hour},
			Clock: func() time.Time { return now }})
		var all []string
		at := ""
		for seed := uint64(1); seed <= 6; seed++ {
			at = save(t, r, seed, at)
			all = append(all, at)
			now = now.Add(time.Hour)
		}
		if got := there(t, s); !slices.Equal(got, all[2:]) {
			t.Errorf("by count there are %v, want %v", got, all[2:])
		}
		// The oldest is pinned and so the live one, and stays so for a hundred hours.
		if _, err := r.Pin(t.Context(), Request{Version: all[2]}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(100 * time.Hour)
		if _, err := r.Unpin(t.Context(), Request{}); err != nil {
			t.Fatal(err)
		}
		last := save(t, r, 7, all[2])
		if got := there(t, s); !slices.Equal(got, []string{all[2], last}) {
			t.Errorf("by age there are %v, want the previous %s and the live %s", got, all[2], last)
		}
		for range 3 * maxRefused {
			if err := r.RecordRefusal(t.Context(), plugin.Outcome{Candidate: 0.5, Previous: math.NaN(), Rows: 7,
				Reason: strings.Repeat("é", maxText)}); err != nil {
				t.Fatal(err)
			}
		}
		_, p := live(t, s)
		if n := len(p.Refused); n != maxRefused || *p.Refused[0].Score != 0.5 || p.Refused[0].LiveScore != nil ||
			len(p.Refused[0].Reason) > maxText+3 {
			t.Errorf("%d refused candidates are kept, the first %+v", n, p.Refused[0])
		}
	})
}

// TestEpochs: the first model of an epoch is returned with every model of it, and is kept as long as one of them is.
// The number of an epoch is never used twice.
func TestEpochs(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{Keep: Keep{Versions: 3}})
		at := ""
		epoch := func(seed uint64, epoch int, first bool) string {
			t.Helper()
			one := release(t, seed, at)
			one.Epoch, one.NewEpoch = epoch, first
			v, err := r.Save(t.Context(), one)
			if err != nil {
				t.Fatal(err)
			}
			at = v
			return v
		}
		a := epoch(1, 1, true)
		if l, _ := live(t, s); l.Origin != nil || l.Epochs != 1 {
			t.Errorf("the first of its epoch has the origin %v and %d epochs", l.Origin, l.Epochs)
		}
		for seed := uint64(2); seed < 7; seed++ {
			epoch(seed, 1, false)
		}
		l, p := live(t, s)
		if l.Origin == nil || l.Origin.Digest() != fitted(t, 1, 5).Digest() || p.Find(a) == nil ||
			len(p.Versions) != 3 {
			t.Errorf("the epoch's first model is %v; versions %s", l.Origin, p.names())
		}
		before := at
		c := epoch(10, 2, true)
		epoch(11, 2, false)
		epoch(13, 2, false)
		if l, p := live(t, s); l.Origin.Digest() != fitted(t, 10, 5).Digest() || p.Find(a) != nil || p.Find(c) == nil {
			t.Errorf("in the second epoch the first model is of %v; versions %s", l.Origin.Note(), p.names())
		}
		if _, err := r.Rollback(t.Context(), Request{Version: before}); !errors.Is(err, ErrMissing) {
			t.Errorf("going back to what was pruned: %v", err)
		}
		r.options.Keep.Versions = 4
		epoch(12, 3, true)
		if _, err := r.Rollback(t.Context(), Request{Version: c}); err != nil {
			t.Fatal(err)
		}
		if l, _ := live(t, s); l.Epoch != 2 || l.Epochs != 3 || l.Origin != nil {
			t.Errorf("back in epoch 2 live is %+v", l)
		}
	})
}

// TestPin: a pinned version stays live, whatever is trained; after it is unpinned, training continues from it.
func TestPin(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		if _, err := r.Pin(t.Context(), Request{}); !errors.Is(err, ErrMissing) {
			t.Errorf("pinning nothing: %v", err)
		}
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		if _, err := r.Rollback(t.Context(), Request{}); err != nil {
			t.Fatal(err)
		}
		if l, p := live(t, s); l.Version != a || p.Previous != b || l.State != nil {
			t.Errorf("rolled back, live is %s with state %q, before it %s", l.Version, l.State, p.Previous)
		}
		if _, err := r.Save(t.Context(), release(t, 3, b)); !errors.Is(err, ErrOvertaken) {
			t.Errorf("a model that was to replace another than the live one: %v", err)
		}
		if p, err := r.Pin(t.Context(), Request{Version: b}); err != nil || p.Live != b || p.Pin != b {
			t.Errorf("pinned: %+v, %v", p, err)
		}
		if _, err := r.Save(t.Context(), release(t, 3, b)); !errors.Is(err, ErrPinned) {
			t.Errorf("saving while pinned: %v", err)
		}
		if _, err := r.Rollback(t.Context(), Request{}); !errors.Is(err, ErrPinned) {
			t.Errorf("rolling back while pinned: %v", err)
		}
		if _, err := r.Pin(t.Context(), Request{Version: "digits-9-00000000"}); !errors.Is(err, ErrMissing) {
			t.Errorf("pinning what is not there: %v", err)
		}
		if _, err := r.Unpin(t.Context(), Request{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Unpin(t.Context(), Request{}); err == nil {
			t.Error("unpinned twice")
		}
		save(t, r, 3, b)
		if got := there(t, s); len(got) != 3 {
			t.Errorf("there are %v", got)
		}
	})
}

// TestReset: a reset keeps the live model and every version, is followed, is replaced only by a model that was fitted
// for it, and ends when a version is chosen.
func TestReset(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r, other := New(s, "digits", Options{}), New(s, "digits", Options{})
		if p, err := r.Reset(t.Context()); err != nil || p.Live != "" {
			t.Fatalf("a reset without a model: %+v, %v", p, err)
		}
		a := save(t, r, 1, "")
		if _, err := other.Live(t.Context()); err != nil {
			t.Fatal(err)
		}
		var followed []bool
		follow := func() {
			t.Helper()
			if err := other.CatchUp(t.Context(), func(c *Choice) error {
				followed = append(followed, c.Live.WasReset)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		follow()
		if l, p := live(t, s); l.Version != a || !l.WasReset || len(p.Versions) != 1 {
			t.Errorf("after a reset live is %+v of %s", l, p.names())
		}
		if _, err := r.Save(t.Context(), release(t, 2, a)); !errors.Is(err, ErrOvertaken) {
			t.Errorf("a candidate from before the reset: %v", err)
		}
		if _, err := r.Rollback(t.Context(), Request{Version: a}); err != nil {
			t.Fatal(err)
		}
		follow()
		if !slices.Equal(followed, []bool{true, false}) {
			t.Errorf("another process followed %v", followed)
		}
		late := release(t, 3, a)
		late.AfterReset = true
		if _, err := r.Save(t.Context(), late); !errors.Is(err, ErrOvertaken) {
			t.Errorf("a first model after the reset was cancelled: %v", err)
		}
		if _, err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		late.Epoch, late.NewEpoch = 2, true
		b, err := r.Save(t.Context(), late)
		if err != nil {
			t.Fatal(err)
		}
		if l, p := live(t, s); l.Version != b || l.WasReset || p.Find(a).WasReset || p.Previous != a {
			t.Errorf("after the first model live is %+v; previous %s", l, p.Previous)
		}
		if _, err := r.Pin(t.Context(), Request{Version: b}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reset(t.Context()); !errors.Is(err, ErrPinned) {
			t.Errorf("a reset while a version is pinned: %v", err)
		}
	})
}

// TestTwoWriters: two processes train one pipeline and find the same model concurrently. One of them wins each round,
// and its model is complete.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		rs := []*Registry{New(s, "digits", Options{Keep: Keep{Versions: 3}}),
			New(s, "digits", Options{Keep: Keep{Versions: 3}})}
		at, lost := "", 0
		for round := uint64(1); round <= 15; round++ {
			var wg sync.WaitGroup
			var versions [2]string
			var errs [2]error
			for i, r := range rs {
				one := release(t, round, at)
				wg.Go(func() { versions[i], errs[i] = r.Save(t.Context(), one) })
			}
			wg.Wait()
			won := 0
			for i := range rs {
				switch {
				case errs[i] == nil:
					won++
					at = versions[i]
				case errors.Is(errs[i], ErrOvertaken):
					lost++
				case strings.Contains(errs[i].Error(), "differs from what was written"): // cleared by who took its place
					lost++
				default:
					t.Fatal(errs[i])
				}
			}
			if won != 1 {
				t.Fatalf("round %d: %d won: %v", round, won, errs)
			}
			if l, _ := live(t, s); l.Version != at {
				t.Fatalf("round %d: live is %s, %s won", round, l.Version, at)
			}
		}
		if lost != 15 {
			t.Errorf("%d lost", lost)
		}
		if err := rs[0].Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := there(t, s); len(got) != 3 {
			t.Errorf("there are %v", got)
		}
	})
}

// TestSwap: concurrent changes of one pointer are not lost.
func TestSwap(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		const writers, each = 6, 20
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				r := New(s, "digits", Options{})
				for done := 0; done < each; {
					_, err := r.update(t.Context(), func(p *Pointer) error { p.Number++; return nil })
					switch {
					case err == nil:
						done++
					case !errors.Is(err, natsx.ErrConflict): // it may have to try again for long
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		p, err := New(s, "digits", Options{}).Pointer(t.Context())
		if err != nil || p.Number != writers*each {
			t.Errorf("after %d changes the pointer counts %+v, %v", writers*each, p, err)
		}
	})
}

// TestFollow: a follower is notified once of what others chose, and not of what it saved itself.
func TestFollow(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r, other := New(s, "digits", Options{}), New(s, "digits", Options{})
		ctx, stop := context.WithCancel(t.Context())
		heard := make(chan string, 10)
		end := r.Follow(ctx, func(c *Choice) error {
			heard <- fmt.Sprint(c.Live.Version, c.Pinned)
			return nil
		})
		want := func(what string) {
			t.Helper()
			select {
			case got := <-heard:
				if got != what {
					t.Fatalf("heard %s, want %s", got, what)
				}
			case <-time.After(natstest.Timeout):
				t.Fatalf("did not hear %s", what)
			}
		}
		a := save(t, r, 1, "")
		b := save(t, r, 2, a)
		if _, err := other.Pin(t.Context(), Request{Version: a}); err != nil {
			t.Fatal(err)
		}
		want(a + "true")
		if _, err := other.Unpin(t.Context(), Request{}); err != nil {
			t.Fatal(err)
		}
		want(a + "false")
		c := save(t, other, 3, a)
		want(c + "false")
		if _, err := other.Rollback(t.Context(), Request{Version: b}); err != nil {
			t.Fatal(err)
		}
		want(b + "false")
		save(t, r, 4, b)
		time.Sleep(1500 * time.Millisecond)
		stop()
		end()
		if len(heard) > 0 {
			t.Errorf("heard %s too", <-heard)
		}
	})
}

// TestSmallMessages: a server with a small max_payload can store models too.
func TestSmallMessages(t *testing.T) {
	t.Parallel()
	s, err := CreateReplicated(t.Context(), natstest.New(t, func(o *server.Options) { o.MaxPayload = 16 << 10 }).JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := New(s, "digits", Options{})
	one := release(t, 1, "")
	one.Model = fitted(t, 1, 3000)
	one.State = make([]byte, 20<<10)
	version, err := r.Save(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := live(t, s); l.Version != version || l.State != nil {
		t.Errorf("live is %s with a state of %d bytes", l.Version, len(l.State))
	}
}
