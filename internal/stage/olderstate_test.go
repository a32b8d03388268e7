package stage

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/plugin/spec"
)

// TestCheckpointOfAnOlderVersion: after an upgrade model, epoch and window of a checkpoint of format 1 stay.
// Evidence and drift detection, which were of another form, start over, and the log says so.
func TestCheckpointOfAnOlderVersion(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(31, 32)), 2000, 3)
	a := newRecordedStage(t, func(*spec.Config) {})
	learnRows(t, a.Stage, 1, rows[:1400])
	was := a.stored().live
	var state map[string]json.RawMessage
	var last struct{ Seq uint64 }
	if err := json.Unmarshal(was.State, &state); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(state["last"], &last); err != nil || last.Seq == 0 {
		t.Fatalf("the newest row of the checkpoint is %s: %v", state["last"], err)
	}
	for _, later := range []string{"changes", "live_beats", "live_fitted", "live_from", "live_to", "sampling", "suspicion",
		"judged", "rules", "scouts"} {
		delete(state, later)
	}
	state["format"] = json.RawMessage("1")
	state["drift"] = json.RawMessage(`{"buckets": [[1, 1], [2, 1.5]]}`)
	state["candidates"] = json.RawMessage(`[{"size": 0, "growing": true}, {"size": 250}]`)
	older := *was
	var err error
	if older.State, err = json.Marshal(state); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	b := newRecordedStage(t, func(c *spec.Config) {
		c.Resume, c.Logger = &older, slog.New(slog.NewTextHandler(&log, nil))
	})
	_, first := ReadFrom(older.State)
	first = max(first, 1)
	learnRows(t, b.Stage, first, rows[(first-1)*20:(last.Seq+1)*20]) // up to the message after the checkpoint
	s := b.Status()
	if l := b.Live(); l.Model.Digest() != was.Model.Digest() || l.Epoch != was.Epoch || len(b.decisions) > 0 {
		t.Errorf("live is %+v, it was %+v, and %v went live", l, was, b.decisions)
	}
	if s.Rows < 500 || s.Alarms != a.Status().Alarms {
		t.Errorf("%d rows in the window, %d alarms", s.Rows, s.Alarms)
	}
	if !strings.Contains(log.String(), "the checkpoint is of an older version") {
		t.Errorf("the log does not say that evidence starts over: %s", log.String())
	}
	learnRows(t, b.Stage, last.Seq+2, rows[(last.Seq+1)*20:])
	if s := b.Status(); !(s.Accuracy >= 0.9) {
		t.Errorf("after the upgrade it is right about %.3f of the rows", s.Accuracy)
	}
}
