package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
)

// TestDirectoryWithoutAName: an empty path is not the current directory.
func TestDirectoryWithoutAName(t *testing.T) {
	if _, err := Directory(""); err == nil {
		t.Error("the store is in the current directory")
	}
}

// TestRejectedAndChosenAgain: a version that was rejected once is offered again when it is chosen after another one.
func TestRejectedAndChosenAgain(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, other := New(s, "digits", Options{}), New(s, "digits", Options{})
	a := save(t, other, 1, "")
	b := save(t, other, 2, a)
	var offered []string
	for _, version := range []string{a, b, a} {
		if _, err := other.Rollback(t.Context(), Request{Version: version}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := r.CatchUp(t.Context(), func(c *Choice) error {
				offered = append(offered, c.Live.Version)
				if len(offered) == 1 {
					return ErrDim
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(offered, []string{a, b, a}) || r.Problem() != "" {
		t.Errorf("offered %v; %s", offered, r.Problem())
	}
}

// late is a store that does not confirm a write in time. The write arrives before or after it is looked up.
type late struct {
	Store
	isStored bool
	arrives  func()
	writes   int
}

func (l *late) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	if l.writes++; l.writes == 1 {
		l.arrives = func() { _, _ = l.Store.compareAndSet(ctx, pipeline, value, revision) }
		if l.isStored {
			l.arrives()
		}
		return 0, context.DeadlineExceeded
	}
	l.arrives() // it was on its way when it was looked up
	return l.Store.compareAndSet(context.WithoutCancel(ctx), pipeline, value, revision)
}

// TestLateServer: a write that is stored and was not confirmed in time is done once.
func TestLateServer(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		for i, isStored := range []bool{true, false} {
			r := New(&late{Store: s, isStored: isStored}, "digits", Options{})
			changes := 0
			_, err := r.update(t.Context(), func(p *Pointer) error { p.Number++; changes++; return nil })
			p, errRead := New(s, "digits", Options{}).Pointer(t.Context())
			if err != nil || errRead != nil || p.Number != i+1 || changes != 1 {
				t.Errorf("stored %t: %d changes, the pointer has number %d: %v, %v", isStored, changes, p.Number, err, errRead)
			}
		}
	})
}

// TestForeignEntries: what another program has put into the store is no pipeline, no pointer and no model.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		switch s := s.(type) {
		case *jetStream:
			kv, err := s.js.KeyValue(t.Context(), Bucket)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"notes", "digits.notes"} {
				if _, err := kv.PutString(t.Context(), key, "{}"); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"notes", "digits-x.embedd"} {
				if _, err := s.objects.PutString(t.Context(), name, "text"); err != nil {
					t.Fatal(err)
				}
			}
		case *directory:
			dir := filepath.Join(s.path, "digits")
			for _, name := range []string{"pointer-9.json.old", "pointer-007.json", "pointer--9.json", "digits-x.embedd"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		if l, p := live(t, s); l.Version != a || p.Damage() != "" {
			t.Errorf("live is %s: %s", l.Version, p.Damage())
		}
		names, err := Pipelines(t.Context(), s)
		_, isJetStream := s.(*jetStream)
		// Keys that were put without compare-and-set are listed, since they may have replaced a pointer.
		names = slices.DeleteFunc(names, func(name string) bool { return isJetStream && strings.HasSuffix(name, "notes") })
		if err != nil || !slices.Equal(names, []string{"digits"}) {
			t.Errorf("the pipelines are %v, %v", names, err)
		}
		if err := r.Sweep(t.Context()); err != nil || !slices.Equal(there(t, s), []string{a}) {
			t.Errorf("there are %v, %v", there(t, s), err)
		}
	})
}

// TestDanglingPointer: a pointer that is listed and cannot be opened is an error, not an endless search.
func TestDanglingPointer(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.(*directory).path, "digits")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "pointer-3.json")); err != nil {
		t.Skip(err)
	}
	_, err = New(s, "digits", Options{}).Pointer(t.Context())
	if err == nil || !strings.Contains(err.Error(), "pointer-3") {
		t.Errorf("reading it: %v", err)
	}
}

// TestEndlessPointer: of a file in place of a pointer no more is read than a pointer may have.
func TestEndlessPointer(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	save(t, New(s, "digits", Options{}), 1, "")
	ruin(t, s, strings.Repeat(" ", maxPointer+1))
	if value, _, err := s.load(t.Context(), "digits"); len(value) != maxPointer || err != nil {
		t.Errorf("%d bytes are read: %v", len(value), err)
	}
	if live, err := New(s, "digits", Options{}).Live(t.Context()); live == nil || err != nil {
		t.Errorf("live is %v: %v", live, err)
	}
}

// TestDeletedBeforeTheFirst: a running daemon without a model whose object store is deleted creates it again.
func TestDeletedBeforeTheFirst(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	s, err := CreateReplicated(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteObjectStore(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	r := New(s, "digits", Options{})
	if _, err := r.Pointer(t.Context()); err == nil {
		t.Error("the pointer is read although it is unknown whether there are models")
	}
	a := save(t, r, 1, "")
	if l, _ := live(t, s); l.Version != a {
		t.Errorf("live is %s", l.Version)
	}
}

// TestDeletedObjectStore: a running daemon whose object store is deleted creates it again for the next model.
func TestDeletedObjectStore(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	s, err := CreateReplicated(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := New(s, "digits", Options{})
	a := save(t, r, 1, "")
	if err := js.DeleteObjectStore(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	b := save(t, r, 2, a)
	if l, p := live(t, s); l.Version != b || p.Previous != a {
		t.Errorf("live is %s before %s", l.Version, p.Previous)
	}
}

// TestThousandVersions: a pointer that lists a thousand versions, with Keep.Versions as large before, is pruned to the
// newest by the next save.
func TestThousandVersions(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := New(s, "digits", Options{})
	a := save(t, r, 1, "")
	if _, err := r.update(t.Context(), func(p *Pointer) error {
		for i := range 1000 {
			v := *p.Find(a)
			v.Name = nameOf("digits", i+2, 0, v.Digest)
			p.Versions = append(p.Versions, v)
		}
		p.Number = 1001
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b := save(t, r, 2, a)
	_, p := live(t, s)
	if len(p.Versions) != 20 || p.Find(a) == nil || p.Find(b) == nil || numberOf(b) != 1002 {
		t.Errorf("%s is live, and the pointer lists %s", b, p.names())
	}
}

// TestClockSteps: the age of what was confirmed does not depend on the wall clock, and a clock that is set back or
// forward removes no version that is needed.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := New(s, "digits", Options{Clock: func() time.Time { return at }, Keep: Keep{Versions: 5, Age: time.Hour}})
	version, previous := "", ""
	for i, step := range []time.Duration{0, 1000 * time.Hour, -2000 * time.Hour, time.Minute, 5000 * time.Hour} {
		at = at.Add(step)
		previous, version = version, save(t, r, uint64(i+1), version)
		if l, p := live(t, s); l.Version != version || p.Previous != previous {
			t.Errorf("after a step of %v live is %s before %s", step, l.Version, p.Previous)
		}
	}
	if text := fmt.Sprint(r.ConfirmedAt()); !strings.Contains(text, "m=") {
		t.Errorf("confirmed at %s, without the monotonic clock", text)
	}
}

// TestRepairEnds: a pointer that lists a version twice, or one without a name, and no model that can be read, is
// repaired.
func TestRepairEnds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"format":2,"versions":[{"version":""}]}`,
		`{"format":2,"live":"digits-1-00000000","versions":[{"version":"digits-1-00000000"},{"version":"digits-1-00000000"},
			{"version":"digits-2-00000000"},{"version":"digits-2-00000000"},{"version":""}]}`,
	} {
		s, err := Directory(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.compareAndSet(t.Context(), "digits", []byte(text), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		result := make(chan error, 1)
		go func() {
			c, err := New(s, "digits", Options{}).Live(ctx)
			if err == nil && c.Live != nil {
				err = fmt.Errorf("%s is live", c.Live.Version)
			}
			result <- err
		}()
		select {
		case err := <-result:
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case <-ctx.Done():
			t.Fatalf("%s: the repair does not end", text)
		}
	}
}

// overwritten is a store whose first write is stored and not confirmed, and replaced by that of another process before
// it is looked up.
type overwritten struct {
	Store
	other  func()
	writes int
}

func (o *overwritten) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64,
	error) {
	next, err := o.Store.compareAndSet(ctx, pipeline, value, revision)
	if o.writes++; o.writes == 1 {
		o.other()
		return 0, context.DeadlineExceeded
	}
	return next, err
}

// TestUnconfirmedRollback: a rollback that is stored and not confirmed is not undone by its own repetition.
func TestUnconfirmedRollback(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{})
		a := save(t, r, 1, "")
		save(t, r, 2, a)
		unconfirmed := &overwritten{Store: s, other: func() {
			if err := r.Record(t.Context(), "retrain", "an operator"); err != nil {
				t.Error(err)
			}
		}}
		p, err := New(unconfirmed, "digits", Options{}).Rollback(t.Context(), Request{})
		if err != nil || p.Live != a {
			t.Errorf("%s is live instead of %s: %v", p.Live, a, err)
		}
	})
}

// TestListingReadsOnePipeline: to list the models of a pipeline requests no metadata of others.
func TestListingReadsOnePipeline(t *testing.T) {
	t.Parallel()
	s, err := CreateReplicated(t.Context(), natstest.New(t).JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := save(t, New(s, "digits", Options{}), 1, "")
	for i := range 30 {
		other := strings.Replace(a, "digits", fmt.Sprintf("other%d", i), 1)
		if err := s.put(t.Context(), fmt.Sprint("other", i), other, []byte("a model")); err != nil {
			t.Fatal(err)
		}
	}
	conn := s.(*jetStream).js.Conn()
	before := conn.Stats().OutMsgs
	there, err := s.versions(t.Context(), "digits")
	if requests := conn.Stats().OutMsgs - before; err != nil || len(there) != 1 || requests > 10 {
		t.Errorf("%d models after %d requests: %v", len(there), requests, err)
	}
}

// TestSweepAsksTheHubOnce: an edge lists the versions of its hub with one request, since each takes a round trip.
func TestSweepAsksTheHubOnce(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	s, err := CreateReplicated(t.Context(), server.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := save(t, New(s, "digits", Options{}), 1, "")
	for i := range 20 {
		name := strings.Replace(a, "-1-", fmt.Sprintf("-%d-", i+2), 1)
		if err := s.put(t.Context(), "digits", name, []byte("a model")); err != nil {
			t.Fatal(err)
		}
	}
	conn := server.Connect()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := JetStream(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	e := &Edge{jetStream: s.(*jetStream), hub: hub.(*jetStream)}
	before := conn.Stats().OutMsgs
	if err := e.Sweep(t.Context(), "digits"); err != nil {
		t.Fatal(err)
	}
	if requests := conn.Stats().OutMsgs - before; requests < 1 || requests > 4 {
		t.Errorf("%d requests to the hub", requests)
	}
	if there, err := s.versions(t.Context(), "digits"); err != nil || len(there) != 21 {
		t.Errorf("%d versions are left: %v", len(there), err)
	}
}

// TestSettledWhileChosen: a pin and a reset that arrive while the trainer records what it found of an epoch are offered
// to it.
func TestSettledWhileChosen(t *testing.T) {
	t.Parallel()
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, other := New(s, "digits", Options{}), New(s, "digits", Options{})
	a := save(t, r, 1, "")
	for i, change := range []func() error{
		func() error { _, err := other.Reset(t.Context()); return err },
		func() error { _, err := other.Pin(t.Context(), Request{}); return err },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		l, _ := live(t, s)
		l.SameAs = i
		if err := r.SettleEpoch(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		var offered *Choice
		if err := r.CatchUp(t.Context(), func(c *Choice) error { offered = c; return nil }); err != nil {
			t.Fatal(err)
		}
		if offered == nil || offered.Live.Version != a || offered.Live.WasReset != (i == 0) || offered.Pinned != (i == 1) {
			t.Errorf("after change %d: offered %+v", i, offered)
		}
	}
}
