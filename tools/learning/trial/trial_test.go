package trial_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

func run(t *testing.T, name string, rows int, change func(*trial.Config)) *trial.Result {
	t.Helper()
	s, err := streams.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	c := trial.Config{Stream: s, Seed: 1, Rows: rows, Every: 1000, Fit: fit.Config{Method: "lda"}}
	if change != nil {
		change(&c)
	}
	r, err := trial.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A run is a function of its seed, and restarts from checkpoints change nothing.
func TestRunsRepeat(t *testing.T) {
	texts := map[string]bool{}
	for _, restarts := range [][]int{nil, nil, {750, 2500}} {
		r := run(t, "independent", 4000, func(c *trial.Config) { c.RestartAt = restarts })
		for i := range r.Checkpoints {
			r.Checkpoints[i].Note = "" // counts what this process did
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[string(text)] = true
		last := r.Checkpoints[len(r.Checkpoints)-1]
		if last.Live < 0.8 || last.All < 0.8 || math.Abs(float64(last.Live-last.All)) > 0.05 || last.Width != 20 ||
			last.Window != 4000 || !last.HasAll || len(r.Promotions) == 0 || r.Promotions[0].Door != "first" {
			t.Errorf("%+v, %+v", last, r.Promotions)
		}
	}
	if len(texts) != 1 {
		for text := range texts {
			t.Log(text)
		}
		t.Errorf("%d results of one seed", len(texts))
	}
}

// All labels of late streams arrive.
func TestLateLabels(t *testing.T) {
	for _, name := range []string{"late", "reversed"} {
		if r := run(t, name, 4000, nil); r.Status.Received != 4000 || r.Status.Unlabelled != 0 {
			t.Errorf("%s: %d rows, %d of them unlabelled", name, r.Status.Received, r.Status.Unlabelled)
		}
	}
}
