package stream_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
)

// TestDoAsksTheTrainer: what only the trainer knows is answered by each replica. Requests for pipelines or endpoints
// that do not exist are errors.
func TestDoAsksTheTrainer(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>", "out.>", "dead.>"}})
	replicas := []*replica{startReplica(t, s.Connect(), basicPipeline()), startReplica(t, s.Connect(), basicPipeline())}
	for i := range 3 {
		msg := nats.NewMsg("in.x")
		msg.Data = drawRows(uint64(i), 100, 4).message(t)
		s.Publish(msg)
	}
	for i, r := range replicas {
		var points stream.Points
		natstest.Await(t, "all rows are among the points of each replica", func() bool {
			answer, err := r.Do(t.Context(), "p", "points", stream.Request{Limit: 300})
			if err != nil {
				return false
			}
			data, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			points = stream.Points{}
			return json.Unmarshal(data, &points) == nil && points.Rows == 300 && points.Live != nil
		})
		n := len(points.Class) // at most a hundred of each class
		if n < 250 || len(points.Classes) != 3 || len(points.Live.Outputs[0]) != n {
			t.Errorf("replica %d: %d rows of %d classes", i, n, len(points.Classes))
		}
		if _, err := r.Do(t.Context(), "p", "history", stream.Request{}); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
		if _, err := r.Do(t.Context(), "p", "points", stream.Request{Limit: 1e6}); stream.ErrorCode(err) != "bad_request" {
			t.Errorf("replica %d, too many points: %v", i, err)
		}
	}
	if _, err := replicas[0].Do(t.Context(), "q", "status", stream.Request{}); !errors.Is(err, stream.ErrNoPipeline) {
		t.Error(err)
	}
	if _, err := replicas[0].Do(t.Context(), "p", "delete", stream.Request{}); stream.ErrorCode(err) != "bad_request" {
		t.Error(err)
	}
}
