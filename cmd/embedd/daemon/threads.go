package daemon

import (
	"cmp"
	"os"
	"runtime"

	"github.com/embedd/embedd/stream"
)

// trainInBackground makes pipelines train on threads of low priority, on all cores but one. Such a thread may wait long
// for a core while it occupies one of the GOMAXPROCS slots of Go's scheduler, so there is one more slot for each.
func trainInBackground(pipelines []stream.Pipeline) {
	cores, training := runtime.GOMAXPROCS(0), 0
	for i := range pipelines {
		s := &pipelines[i].Stage
		if s.Fixed != nil || pipelines[i].Role == stream.RoleTransform && s.Training.Block == 0 {
			continue // it does not train, and summarises nothing for a trainer
		}
		training++
		s.LowPriority = true
		s.Fit.Workers = cmp.Or(s.Fit.Workers, max(cores-1, 1))
	}
	if training > 0 && os.Getenv("GOMAXPROCS") == "" && runtime.GOOS == "linux" {
		runtime.GOMAXPROCS(cores + min(training, cores))
	}
}
