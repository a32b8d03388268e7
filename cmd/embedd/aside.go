package main

import (
	"os"
	"runtime"

	"github.com/embedd/embedd/stream"
)

// learnAside has pipelines learn on threads of low priority, with all cores but one as before. Go's scheduler does not
// know that such a thread may wait long for a core: meanwhile it holds one of the threads that Go runs at a time, so
// there is one more for each.
func learnAside(pipelines []stream.Pipeline) {
	cores, learn := runtime.GOMAXPROCS(0), 0
	for i := range pipelines {
		s := &pipelines[i].Stage
		if s.Fixed != nil || pipelines[i].Role == stream.RoleTransform && s.Training.Block == 0 {
			continue // it has models that others learn, and sums up nothing for them
		}
		learn++
		s.LowPriority = true
		if s.Fit.Workers == 0 {
			s.Fit.Workers = max(cores-1, 1)
		}
	}
	if learn > 0 && os.Getenv("GOMAXPROCS") == "" && runtime.GOOS == "linux" {
		runtime.GOMAXPROCS(cores + min(learn, cores))
	}
}
