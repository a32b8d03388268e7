package plugin_test

import (
	"math"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// TestFollowing: a stage follows a concept that never stops turning, in the same steps after restarts, and not if the
// door is closed.
func TestFollowing(t *testing.T) {
	t.Parallel()
	s, err := streams.Named("hyperplane10")
	if err != nil {
		t.Fatal(err)
	}
	run := func(following float64, restarts ...int) (accuracy float64, followed int, digests []string) {
		r, err := trial.Run(t.Context(), trial.Config{Stream: s, Seed: 2, Rows: 8000, Every: 500,
			Fit: fit.Config{Method: "lda"}, RestartAt: restarts,
			Configure: func(c *plugin.Config) { c.Training.Gate.Following = following }})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range r.Checkpoints {
			if c.Row >= 5000 {
				accuracy, n = accuracy+float64(c.Live), n+1
			}
		}
		for _, p := range r.Promotions {
			digests = append(digests, p.Digest)
			if p.Door == "following" {
				followed++
			}
		}
		return accuracy / float64(n), followed, digests
	}
	accuracy, followed, digests := run(0)
	fixed, none, _ := run(math.Inf(1))
	if none != 0 || followed < 5 || !(accuracy >= fixed+0.02) {
		t.Errorf("%d models by following have accuracy %.3f, without %.3f and %d", followed, accuracy, fixed, none)
	}
	if !testsize.Long() {
		return
	}
	_, _, again := run(0, 4250, 5750, 6500)
	if len(again) != len(digests) {
		t.Fatalf("%d promotions with restarts, %d without", len(again), len(digests))
	}
	for i := range digests {
		if again[i] != digests[i] {
			t.Fatalf("promotion %d of %d differs after restarts", i, len(digests))
		}
	}
}
