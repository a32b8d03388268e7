package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// runner is an engine of one pipeline on a separate connection, one of several replicas.
type runner struct {
	*Engine
	kill context.CancelFunc // ends it as an orderly stop does
	end  func()
}

// longLease is the lease of tests in which no replica dies: none takes over where the machine pauses.
const longLease = 10 * time.Minute

// holdingPipeline is a pipeline that holds messages until some replica has trained a model of the numbered messages.
func holdingPipeline() Pipeline {
	return Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
}

// replica starts a replica; it is open when the pipelines are.
func (s *site) replica(p Pipeline) *runner {
	s.Helper()
	return s.replicaAt(s.url(), p)
}

func (s *site) replicaAt(urls string, p Pipeline, options ...nats.Option) *runner {
	s.Helper()
	nc := connect(s.T, urls, append(options, nats.DontRandomize())...)
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Logger: s.log, Wait: ample})
	if err != nil {
		s.Fatal(err)
	}
	return s.run(e)
}

// run runs an engine until the end of the test, or of the replica.
func (s *site) run(e *Engine) *runner {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	r := &runner{Engine: e, kill: cancel}
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the replica ended with: %v", err)
		}
		e.options.Conn.Close()
	})
	s.Cleanup(r.end)
	return r
}

// live is the version that a replica answers with; "" before the first.
func (r *runner) live() string {
	for _, one := range r.Status() {
		if one.Stage.Live != nil {
			return one.Stage.Live.Version
		}
	}
	return ""
}

// TestReplicasBeginTogether: replicas that start concurrently on an empty stream all answer, with one model, as soon as
// the first of them has one.
func TestReplicasBeginTogether(t *testing.T) {
	t.Parallel()
	for round := range replicaRounds() {
		s := newSite(t)
		replicas := make([]*runner, 2+round%3)
		var wg sync.WaitGroup
		for i := range replicas {
			wg.Go(func() { replicas[i] = s.replica(holdingPipeline()) })
		}
		wg.Wait()
		s.send(250)
		var first time.Time
		all := func() bool {
			same := true
			for _, r := range replicas {
				v := r.live()
				if v != "" && first.IsZero() {
					first = time.Now()
				}
				same = same && v != "" && v == replicas[0].live() && r.Status()[0].Ready
			}
			return same
		}
		s.until("all replicas answer with the same model", all)
		if took := time.Since(first); took > 5*time.Second && testsize.Soak() {
			t.Errorf("round %d: the last of %d replicas answered %v after the first model", round, len(replicas), took)
		}
		s.acknowledged("p")
		s.once(250)
		for _, r := range replicas {
			r.end()
		}
		s.stop()
	}
}

// replicaRounds is the number of rounds of tests that depend on chance.
func replicaRounds() int {
	if testsize.Soak() {
		return 20
	}
	return 2
}

// TestTrainerCountsLag: of the replicas of a pipeline only the trainer asks how far behind it is. The others, those of
// role transform included, have no such figure. When the trainer has ended, the next one asks.
func TestTrainerCountsLag(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	of := func(role Role) Pipeline {
		p := holdingPipeline()
		p.Role, p.Lease = role, longLease
		return p
	}
	replicas := []*runner{s.replica(of(RoleAll))}
	s.until("the first learns", func() bool { return len(holders(replicas)) == 1 })
	replicas = append(replicas, s.replica(of(RoleAll)), s.replica(of(RoleTransform)))
	s.send(3) // too few to learn from: nothing is answered
	counts := func(want ...bool) func() bool {
		return func() bool {
			for i, r := range replicas {
				all := r.Status()
				if len(all) == 0 || all[0].Report().Lag == nil == want[i] || want[i] && all[0].Lag != 3 {
					return false
				}
			}
			return true
		}
	}
	s.until("the first counts alone", counts(true, false, false))
	replicas[0].end()
	replicas = replicas[1:]
	s.until("the second counts", counts(true, false))
}
