package stream_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// TestShuffle draws the order of the first messages, restarts, kills and requests, for two replicas. Each input has one
// answer, and messages of one shape have the same in every draw (Invariant 13): what an input becomes is a function of
// the input, the configuration and what is stored, never of what a process saw before.
func TestShuffle(t *testing.T) {
	t.Parallel()
	draws := testsize.Of(8, 20)
	if testsize.Soak() {
		draws = 500
	}
	s := natstest.New(t)
	var mu sync.Mutex
	became := map[string]map[string]int{} // shape -> outcome -> messages
	t.Run("draws", func(t *testing.T) {
		for seed := range draws {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				for shape, outcome := range shuffle(s.For(t), uint64(seed)) {
					mu.Lock()
					if became[shape] == nil {
						became[shape] = map[string]int{}
					}
					for what, n := range outcome {
						became[shape][what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, one := range shapes {
		got := slices.Sorted(maps.Keys(became[one.name]))
		if len(got) != 1 || slices.Contains(answered, one.name) != (got[0] == "out") {
			t.Errorf("messages with %s became %v", one.name, became[one.name])
		}
	}
}

// shuffle runs one draw and returns what the messages of each shape became.
func shuffle(s *natstest.Server, seed uint64) map[string]map[string]int {
	s.Helper()
	random := rand.New(rand.NewPCG(seed, 13))
	p := contractPipeline(fmt.Sprintf("s%d", seed))
	p.AckWait = time.Second
	p.Stage.Until = []plugin.Until{plugin.UntilHold, plugin.UntilPCA}[random.IntN(2)]
	makeStreams(s, p)

	names := good(6)
	for _, one := range shapes[1:] {
		names = append(names, slices.Repeat([]string{one.name}, 1+random.IntN(2))...)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = append(names, good(60)...) // labels come in runs, so that the first model waits for three times the rows

	running := make([]*replica, 2)
	restart := func(i int) {
		if r := running[i]; r != nil && random.IntN(2) == 0 {
			r.Kill()
		} else if r != nil {
			if err := r.Stop(); err != nil {
				s.Fatal(err)
			}
		}
		running[i] = startReplica(s, s.Connect(), p)
	}
	request := func() {
		body := shapes[random.IntN(len(shapes))].write(s, drawRows(seed, 2, 4))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, _ = s.JS.Conn().RequestWithContext(ctx, stream.ServiceSubject(p.Name, "transform"), body)
	}
	for len(names) > 0 || running[0] == nil || running[1] == nil {
		switch random.IntN(8) {
		case 0:
			restart(random.IntN(2))
		case 1:
			request()
		default:
			n := min(len(names), 1+random.IntN(8))
			publishShapes(s, p, names[:n]...)
			names = names[n:]
		}
	}
	return collect(s, p)
}

// collect waits for all answers and returns the outcomes by the shape that the input's header names.
func collect(s *natstest.Server, p stream.Pipeline) map[string]map[string]int {
	s.Helper()
	in := s.Messages(p.Stream)
	answers := awaitOutcomes(s, p, len(in))
	out := map[string]map[string]int{}
	for i, m := range in {
		name := m.Header.Get(shapeHeader)
		if out[name] == nil {
			out[name] = map[string]int{}
		}
		what := strings.Join(answers[i+1], " and ")
		if what == "" {
			what = "nothing"
		}
		out[name][what]++
	}
	return out
}
