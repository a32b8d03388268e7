package daemon

import (
	"runtime"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/stream"
)

// TestTrainInBackground: a trainer has low priority and as many cores as before; a fixed model changes nothing.
func TestTrainInBackground(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "")
	fixed := make([]stream.Pipeline, 1)
	fixed[0].Stage.Fixed = &model.Model{}
	if trainInBackground(fixed); fixed[0].Stage.LowPriority || runtime.GOMAXPROCS(0) != before {
		t.Errorf("a fixed model: low priority %t, %d threads of %d", fixed[0].Stage.LowPriority, runtime.GOMAXPROCS(0),
			before)
	}
	pipelines := make([]stream.Pipeline, 1)
	pipelines[0].Role = stream.RoleTransform
	if trainInBackground(pipelines); pipelines[0].Stage.LowPriority || runtime.GOMAXPROCS(0) != before {
		t.Errorf("models from another trainer: low priority %t, %d threads of %d", pipelines[0].Stage.LowPriority,
			runtime.GOMAXPROCS(0), before)
	}
	two := make([]stream.Pipeline, 2)
	two[1].Stage.Fit.Workers = 7
	trainInBackground(two)
	want := before
	if runtime.GOOS == "linux" {
		want += min(2, before)
	}
	if got := runtime.GOMAXPROCS(0); got != want {
		t.Errorf("%d threads, want %d", got, want)
	}
	if s := two[0].Stage; !s.LowPriority || s.Fit.Workers != max(before-1, 1) || two[1].Stage.Fit.Workers != 7 {
		t.Errorf("%d and %d workers", s.Fit.Workers, two[1].Stage.Fit.Workers)
	}
	runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "2")
	if trainInBackground(two); runtime.GOMAXPROCS(0) != before {
		t.Error("GOMAXPROCS was overridden")
	}
}
