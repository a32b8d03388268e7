package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// holders are the replicas that train.
func holders(replicas []*runner) (out []*runner) {
	for _, r := range replicas {
		for _, s := range r.Status() {
			if s.IsTrainer {
				out = append(out, r)
			}
		}
	}
	return out
}

// history reads every pointer of pipeline p from now on, until the end of the test.
type history struct {
	mu       sync.Mutex
	pointers []registry.Pointer
	at       []uint64
}

func (s *site) history() *history {
	s.Helper()
	h := &history{}
	kv, err := s.js.KeyValue(s.Context(), registry.Bucket)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := kv.Watch(ctx, "p", jetstream.IncludeHistory())
	if err != nil {
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.Updates() {
			var p registry.Pointer
			if e == nil || json.Unmarshal(e.Value(), &p) != nil {
				continue
			}
			h.mu.Lock()
			h.pointers, h.at = append(h.pointers, p), append(h.at, e.Revision())
			h.mu.Unlock()
		}
	}()
	s.Cleanup(func() {
		_ = w.Stop()
		cancel()
		<-done
	})
	return h
}

// read is how many pointers were read.
func (h *history) read() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pointers)
}

// violations are pointers of an older term after a newer one, and those that do not replace the pointer before.
func (h *history) violations() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range h.pointers[min(1, len(h.pointers)):] {
		before := h.pointers[i]
		if p.Term < before.Term {
			out = append(out, fmt.Sprintf("revision %d is of term %d, and the one before of %d", h.at[i+1], p.Term, before.Term))
		}
		if p.Replaces != h.at[i] {
			out = append(out, fmt.Sprintf("revision %d replaces %d, and the one before is %d", h.at[i+1], p.Replaces, h.at[i]))
		}
	}
	return out
}

// TestOneLearns: one of the replicas fits, all answer with its models; when it ends, another continues from its model.
func TestOneLearns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var replicas []*runner
	for range 3 {
		p := holdingPipeline()
		p.Lease = longLease
		replicas = append(replicas, s.replica(p))
	}
	s.until("all are open", func() bool {
		return !slices.ContainsFunc(replicas, func(r *runner) bool { return len(r.Status()) == 0 })
	})
	h := s.history()
	var epoch int
	for len(replicas) > 0 {
		s.until("one learns", func() bool { return len(holders(replicas)) == 1 })
		holder := holders(replicas)[0]
		s.send(300)
		s.until("all answer with one model", func() bool {
			for _, r := range replicas {
				if r.live() == "" || r.live() != holder.live() {
					return false
				}
			}
			return holder.Status()[0].Stage.Backlog == 0
		})
		for _, r := range replicas {
			g := r.Status()[0]
			if r != holder && g.Stage.Fits > 0 {
				t.Errorf("a replica without the lease has fitted %d models", g.Stage.Fits)
			}
			if epoch > 0 && g.Stage.Live.Epoch != epoch {
				t.Errorf("after a takeover the epoch is %d, before it was %d: it started again", g.Stage.Live.Epoch, epoch)
			}
			epoch = g.Stage.Live.Epoch
		}
		s.acknowledged("p")
		holder.end()
		replicas = slices.DeleteFunc(replicas, func(r *runner) bool { return r == holder })
	}
	s.until("six pointers are read", func() bool { return h.read() >= 6 })
	if v := h.violations(); v != nil {
		t.Errorf("of %d pointers: %q", h.read(), v)
	}
	s.once(s.sent)
}

// TestRoles: a replica of role transform answers and does not read for training; one of role train trains and does not
// answer; a replica with other settings reports the difference; a work queue allows no second consumer for training.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	of := func(role Role) Pipeline {
		p := holdingPipeline()
		p.Role, p.Lease = role, longLease
		p.Settings = []Setting{{Key: "model.method", Value: "lda", IsLearning: true}, {Key: "schema.nulls", Value: "reject"},
			{Key: "limits.in_flight", Value: string(role)}} // the last may differ
		return p
	}
	transform, train := s.replica(of(RoleTransform)), s.replica(of(RoleTrain))
	s.until("role train learns", func() bool { return len(holders([]*runner{transform, train})) == 1 })
	other := of(RoleTrain)
	other.Settings[0].Value, other.Settings[1].Value = "srda", "skip"
	differs := s.replica(other)
	s.until("the one that differs says so", func() bool {
		return len(differs.Status()) == 1 && slices.Equal(differs.Status()[0].Changes, []Change{
			{Key: "model.method", Was: "lda", Now: "srda", Effect: spec.EffectTrainer},
			{Key: "schema.nulls", Was: "reject", Now: "skip", Effect: spec.EffectTrainer}})
	})
	s.send(300)
	s.until("role transform answers", func() bool { return transform.live() != "" })
	s.acknowledged("p")
	s.once(300)
	a, b := transform.Status()[0], train.Status()[0]
	if a.IsTrainer || a.Stage.Fits+a.Stage.Rows > 0 || !b.IsTrainer || b.Stage.Rows == 0 {
		t.Errorf("role transform: %+v\nrole train: %+v", a, b)
	}
	if a.Revision == 0 || b.Term == 0 || a.Term != 0 {
		t.Errorf("role transform: revision %d, term %d; role train: term %d", a.Revision, a.Term, b.Term)
	}
	// The model works without its trainer.
	train.end()
	s.send(50)
	s.acknowledged("p")
	s.once(350)
	s.until("the next takes over", func() bool { return differs.Status()[0].IsTrainer })

	s.make(jetstream.StreamConfig{Name: "queue", Retention: jetstream.WorkQueuePolicy})
	queued := of(RoleTrain)
	queued.Name, queued.Stream, queued.Subject = "q", "queue", "queue.x"
	e, err := New(Options{Conn: s.dial().Conn(), Pipelines: []Pipeline{queued}, Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "role train") {
		t.Errorf("role train on a work queue: %v", err)
	}
	for _, bad := range []func(*Pipeline){
		func(p *Pipeline) { p.Role = "boss" },
		func(p *Pipeline) { p.Role, p.Models.None = RoleTransform, true },
		func(p *Pipeline) { p.Role, p.Stream = RoleTrain, "" },
		func(p *Pipeline) { p.Lease = time.Second },
	} {
		p := holdingPipeline()
		bad(&p)
		if _, err := New(Options{Conn: s.js.Conn(), Pipelines: []Pipeline{p}}); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestRoleTransformOnCoreNATS: role transform learns nothing on core NATS either.
func TestRoleTransformOnCoreNATS(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := holdingPipeline()
	p.Stream, p.Subject, p.Role, p.Models.Directory = "", "core.x", RoleTransform, t.TempDir()
	r := s.replica(p)
	s.until("it subscribes", func() bool {
		found, err := s.server.Subsz(&server.SubszOptions{Subscriptions: true, Test: p.Subject})
		return err == nil && found.Total > 0
	})
	for _, running := range r.running {
		if running.training.Feed != nil {
			t.Error("messages are queued to be learned")
		}
	}
}

// TestOneStandbyReads: of the standbys one reads for training and the others do not; when the trainer ends, that
// standby takes over and another reads. With cold standbys none reads, and the one that takes over reads the window of
// the live model.
func TestOneStandbyReads(t *testing.T) {
	t.Parallel()
	for _, kind := range spec.Standbys {
		s := newSite(t)
		var replicas []*runner
		for i := range 4 {
			p := holdingPipeline()
			p.Lease, p.Standby = longLease, kind
			replicas = append(replicas, s.replica(p))
			s.until("it is open", func() bool { return len(replicas[i].Status()) > 0 })
		}
		// reading are the replicas that have learned rows, other than the trainer.
		reading := func() (out []*runner) {
			for _, r := range replicas {
				if g := r.Status()[0]; !g.IsTrainer && g.Stage.Rows > 0 {
					out = append(out, r)
				}
			}
			return out
		}
		want := map[Standby]int{StandbyWarm: 1, StandbyCold: 0}[kind]
		s.until("one is the standby", func() bool {
			n := 0
			for _, r := range replicas {
				for _, p := range r.running {
					if p.replica.IsStandby() {
						n++
					}
				}
			}
			return n == want && len(holders(replicas)) == 1
		})
		s.send(300)
		s.until("all answer", func() bool {
			return !slices.ContainsFunc(replicas, func(r *runner) bool { return r.live() == "" })
		})
		s.acknowledged("p")
		s.until("the standby reads", func() bool { return len(reading()) == want })
		first := holders(replicas)[0]
		next := reading()
		first.end()
		replicas = slices.DeleteFunc(replicas, func(r *runner) bool { return r == first })
		s.until("another learns", func() bool { return len(holders(replicas)) == 1 })
		if taken := holders(replicas)[0]; kind == StandbyWarm && taken != next[0] {
			t.Errorf("%s: another than the standby took over", kind)
		}
		s.send(300)
		s.until("who took over has learned", func() bool { return holders(replicas)[0].Status()[0].Stage.Rows >= 300 })
		s.until("another reads", func() bool { return len(reading()) == want })
		s.acknowledged("p")
		s.once(600)
		for _, r := range replicas {
			r.end()
		}
	}
}
