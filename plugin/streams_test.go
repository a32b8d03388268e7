package plugin_test

import (
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// onStream runs a stage on a stream of package streams.
func onStream(t *testing.T, name string, c trial.Config) *trial.Result {
	t.Helper()
	var err error
	if c.Stream, err = streams.Named(name); err != nil {
		t.Fatal(err)
	}
	if c.Every == 0 {
		c.Every = c.Rows
	}
	c.Fit = fit.Config{Method: "lda"}
	r, err := trial.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Labels that arrive in the reverse order of their rows, across a change of the concept, leave the rows after the
// change in the window, as labels in order do.
func TestReversedLabels(t *testing.T) {
	for seed := range uint64(2) {
		r := onStream(t, "reversed", trial.Config{Seed: 1 + seed, Rows: 4000})
		if n := r.Status.Rows; n < 1900 || n > 2100 {
			t.Errorf("seed %d: the window has %d rows; 2,000 came after the change", 1+seed, n)
		}
		if last := r.Checkpoints[len(r.Checkpoints)-1]; last.Live < last.Newest[2]-0.03 {
			t.Errorf("seed %d: accuracy %.3f, of a fit on the rows after the change %.3f", 1+seed, last.Live, last.Newest[2])
		}
	}
}
