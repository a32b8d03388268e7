package stream_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// TestPromotedTrainerCountsItsStart: with late labels, a replica that becomes the trainer counts a start before its
// first fit, which may crash the process. After too many such starts it fits nothing.
func TestPromotedTrainerCountsItsStart(t *testing.T) {
	t.Parallel()
	for _, starts := range []int{0, 20} {
		t.Run(fmt.Sprint(starts), func(t *testing.T) {
			t.Parallel()
			s := natstest.New(t)
			for _, name := range []string{"labels", "out", "dead"} {
				s.Stream(jetstream.StreamConfig{Name: name})
			}
			in := s.Stream(jetstream.StreamConfig{Name: "in"})
			leases, err := lease.Open(t.Context(), s.JS, 1)
			if err != nil {
				t.Fatal(err)
			}
			other := leases.Lease(lease.Options{Key: "p", Claim: lease.NewClaim("other", nil), TTL: lease.MaxTTL})
			if err := other.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			state, err := statestore.Open(t.Context(), s.JS, 1)
			if err != nil {
				t.Fatal(err)
			}
			key := statestore.TrainingKey("p")
			note := fmt.Appendf(nil, `{"stream_created":%d,"starts":%d}`, in.CachedInfo().Created.UnixNano(), starts)
			if _, err := state.Update(t.Context(), key, note, 0); err != nil {
				t.Fatal(err)
			}
			p := basicPipeline()
			p.Labels, p.Lease, p.Stage.Spec.Key = "labels.x", lease.MinTTL, "key"
			p.Stage.Spec.Sizes = map[string]int{"x": 2} // rows are learned as they come
			counted := make(chan int, 1)
			p.Stage.Observe = func(plugin.Outcome) {
				var note struct{ Starts int }
				value, _, err := state.Get(t.Context(), key)
				if err == nil {
					err = json.Unmarshal(value, &note)
				}
				if err != nil {
					t.Error(err)
				}
				select {
				case counted <- note.Starts:
				default:
				}
			}
			const rows = 200
			var keys, classes []string
			var x [][]float32
			for i := range rows {
				keys, classes = append(keys, fmt.Sprint(i)), append(classes, []string{"even", "odd"}[i%2])
				x = append(x, []float32{float32(i % 2 * 10), float32(i * 31 % 17)})
			}
			s.Publish(&nats.Msg{Subject: "in.x", Data: arrowMessage(t, column{"key", keys}, column{"x", x})})
			s.Publish(&nats.Msg{Subject: "labels.x", Data: arrowMessage(t, column{"key", keys}, column{"label", classes})})
			r := startReplica(t, s.Connect(), p)
			natstest.Await(t, "the standby has learned", func() bool { return r.pipeline().Stage.Rows == rows })
			other.Release(t.Context())
			natstest.Await(t, "it is the trainer, and fits or is stopped", func() bool {
				st := r.pipeline()
				return st.IsTrainer && (st.TrainingStopped || st.Stage.Fits > 0 && !st.Stage.Fitting)
			})
			st := r.pipeline()
			if isStopped := starts > 0; st.TrainingStopped != isStopped || (st.Stage.Fits == 0) != isStopped {
				t.Fatalf("after %d starts it has fitted %d times; stopped: %t", starts, st.Stage.Fits, st.TrainingStopped)
			}
			if starts == 0 {
				if n := <-counted; n != 1 {
					t.Errorf("at the first fit %d starts are counted", n)
				}
			}
		})
	}
}
