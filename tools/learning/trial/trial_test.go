package trial_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
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
	for _, restarts := range [][]int{nil, {750, 2500}} {
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

// Hardly a row of real digits is set aside as an outlier, and the limits cost no accuracy.
func TestSetAside(t *testing.T) {
	s, err := streams.Named("usps")
	if err != nil {
		t.Fatal(err)
	}
	s.Events, s.Rows = nil, 2000
	a, err := trial.SetAside(t.Context(), s, 1)
	if err != nil || a.Rows != 2000 || 100*a.SetAside > a.Rows || !(math.Abs(a.With-a.Without) <= 0.005 && a.With > 0.8) {
		t.Errorf("%+v, %v", a, err)
	}
}

// All labels of late streams arrive.
func TestLateLabels(t *testing.T) {
	for _, name := range []string{"late", "reversed"} {
		if r := run(t, name, 2500, nil); r.Status.Received != 2500 || r.Status.Unlabelled != 0 {
			t.Errorf("%s: %d rows, %d of them unlabelled", name, r.Status.Received, r.Status.Unlabelled)
		}
	}
}

// TestDependentStreams: where labels come in runs, or rows are copies, a stage ends near a fit on all rows, raises no
// alarm, and restarts change nothing.
func TestDependentStreams(t *testing.T) {
	streams := map[string]float64{"runs1000": 0.05, "copies": 0.08, "wrong20runs": 0.1}
	if testsize.Soak() {
		maps.Copy(streams, map[string]float64{"runs300": 0.05, "runs2000": 0.05, "markov30": 0.05, "markov100": 0.05})
	}
	const rows = 8000
	for name, below := range streams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := run(t, name, rows, nil)
			last := plain.Checkpoints[len(plain.Checkpoints)-1]
			if !(float64(last.All-last.Live) <= below) || last.Alarms > 1 || last.Classes != 8 {
				t.Errorf("%+v", last)
			}
			for _, p := range plain.Promotions {
				if p.Door != "first" && !(float64(p.Before-p.After) <= 0.03) {
					t.Errorf("a promotion lost: %+v", p)
				}
			}
			if !testsize.Long() {
				return
			}
			again := run(t, name, rows, func(c *trial.Config) { c.RestartAt = []int{2250, 7000} })
			if end := again.Checkpoints[len(again.Checkpoints)-1]; len(again.Promotions) != len(plain.Promotions) ||
				end.Live != last.Live {
				t.Errorf("with restarts\n%+v\n%+v\nwithout\n%+v\n%+v", end, again.Promotions, last, plain.Promotions)
			}
		})
	}
}

// TestSeasonsInRuns: two concepts have 4,000 rows each in turn, and labels come in runs of 100 rows. Each change is
// found, and 1,500 rows after it a model of the new concept is live. The first change once made rows count as
// dependent, so that the second one was found late or not at all, and its model was live after 2,750 rows.
func TestSeasonsInRuns(t *testing.T) {
	if !testsize.Long() {
		t.Skip("the second change needs 9,500 rows, which take seconds")
	}
	for _, seed := range []uint64{201, 204} {
		r := run(t, "seasonsruns", 9500, func(c *trial.Config) { c.Seed = seed })
		for _, c := range r.Checkpoints {
			if row := c.Row % 4000; row >= 1500 && !(c.Live > 0.8) || c.Alarms != (c.Row-1)/4000 {
				t.Errorf("seed %d, row %d: accuracy %.2f after %d alarms", seed, c.Row, c.Live, c.Alarms)
			}
		}
	}
}

// TestEarlyPoison: after labels without information from the first model on, and when labels are right again, no
// promotion loses three points. Models of the newest rows and of the whole window once replaced each other in turns.
func TestEarlyPoison(t *testing.T) {
	s, err := streams.Named("poison-early")
	if err != nil {
		t.Fatal(err)
	}
	r, err := trial.Run(t.Context(), trial.Config{Stream: s, Seed: 4, Rows: 8000, Every: 8000,
		Fit: fit.Config{Method: "lda"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Promotions); n < 2 || n > 8 {
		t.Errorf("%d promotions", n)
	}
	for i, p := range r.Promotions {
		if lost := float64(p.Before - p.After); i > 0 && !(lost <= 0.03) {
			t.Errorf("row %d: a promotion by %s lost %.1f points", p.Row, p.Door, 100*lost)
		}
	}
}

// Of two equal models neither is better, and one of both halves of the features is.
func TestEqualModels(t *testing.T) {
	twins := streams.Twins()
	s := twins[slices.IndexFunc(twins, func(s streams.Stream) bool { return s.Name == "markov30" })]
	for better, want := range map[bool]int{false: 1, true: 2} {
		r, err := trial.RunEqual(t.Context(), s, 1, 3000, better)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Promotions) != want {
			t.Errorf("better is %t: %d promotions", better, len(r.Promotions))
		}
	}
}
