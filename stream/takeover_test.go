package stream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/registry"
)

// takenOver is a pipeline of which one replica, or many, store the same versions.
func takenOver(name string) Pipeline {
	return Pipeline{Name: name, Stream: "in", Subject: "in.x", Output: "out." + name, Dead: "out.dead" + name,
		Lease: lease.MinTTL, Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Window: plugin.Window{Rows: 2000},
				Every: plugin.Every{Rows: 400}}}}
}

// versions is one line for each version of a pipeline in the store.
func (s *site) versions(name string) string {
	s.Helper()
	store, err := registry.JetStream(s.Context(), s.js)
	if err != nil {
		s.Fatal(err)
	}
	p, err := registry.New(store, name, registry.Options{}).Pointer(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, v := range p.Versions {
		out = append(out, fmt.Sprint(v.Digest, " epoch ", v.Epoch))
	}
	return strings.Join(out, "\n")
}

// storesAlike waits until pipeline p has the versions that a replica stores alone, which learns these rows: at least
// some.
func (s *site) storesAlike(alone *runner, rows, least int) {
	s.Helper()
	s.until("it has learned alone", func() bool {
		g := alone.Status()[0].Stage
		return g.Received == rows && g.Backlog == 0 && !g.Fitting
	})
	want := s.versions("alone")
	if strings.Count(want, "\n")+1 < least {
		s.Fatalf("the test shows nothing: alone it stored\n%s", want)
	}
	got := ""
	s.eventually(func() any { return fmt.Sprintf("alone it stored\n%s\nwith takeovers\n%s", want, got) }, func() bool {
		got = s.versions("p")
		return got == want
	})
}

// depose deletes the lease of the trainer of a pipeline.
func (s *site) depose(name string) {
	s.Helper()
	leases, err := s.js.KeyValue(s.Context(), lease.BucketName)
	if err == nil {
		err = leases.Delete(s.Context(), name)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// TestTakeoversPromoteAlike: replicas that end, or that lose the lease while they live, so that training moves between
// them at random points, store the versions that one replica stores which sees the same stream alone.
func TestTakeoversPromoteAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := takenOver("alone")
	one.Lease = longLease
	alone := s.replica(one)
	random := rand.New(rand.NewPCG(31, 32))
	replicas := []*runner{s.replica(takenOver("p")), s.replica(takenOver("p"))}
	const messages = 320
	for sent := 0; sent < messages; {
		for range min(20+random.IntN(60), messages-sent) {
			s.store("in.x", drifting(random, sent/160))
			sent++
		}
		s.until("one trains", func() bool { return len(holders(replicas)) == 1 })
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // some rows are learned, or all
		if random.IntN(2) == 0 {
			s.depose("p")
			continue
		}
		i := 0
		if len(holders(replicas[1:])) > 0 {
			i = 1
		}
		replicas[i].end()
		replicas[i] = s.replica(takenOver("p"))
	}
	s.storesAlike(alone, 8*messages, 3)
}

// TestTakeoverOfPurgedRows: before the first model a new trainer keeps the rows that it has read, if they have left the
// stream.
func TestTakeoverOfPurgedRows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pipeline := takenOver("p")
	pipeline.Lease = longLease
	pipeline.Stage.Spec.Sizes = map[string]int{"x": 32}
	replicas := []*runner{s.replica(pipeline), s.replica(pipeline)}
	s.until("one trains", func() bool { return len(holders(replicas)) == 1 })
	random := rand.New(rand.NewPCG(35, 36))
	for range 6 {
		s.store("in.x", drifting(random, 0))
	}
	s.until("both have read", func() bool {
		for _, r := range replicas {
			if g := r.Status(); len(g) == 0 || g[0].Stage.Rows < 48 {
				return false
			}
		}
		return true
	})
	former := holders(replicas)[0]
	s.purge(5)
	former.end()
	s.until("the other trains", func() bool { return len(holders(replicas)) == 1 && holders(replicas)[0] != former })
	s.store("in.x", drifting(random, 0))
	s.until("it has learned", func() bool { return holders(replicas)[0].Status()[0].Stage.Rows != 48 })
	if n := holders(replicas)[0].Status()[0].Stage.Rows; n != 56 {
		t.Errorf("the new trainer has %d of 56 rows", n)
	}
}
