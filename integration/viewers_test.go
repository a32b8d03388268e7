package integration

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/console"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// viewed are the contestants: without the console, and with it and a number of viewers.
var viewed = []int{-1, 0, 1, 32}

// The parts of one of 41 turns, which take ten minutes together on two quiet cores: the messages of a backlog, and then
// messages at a rate, after a lead, for the latency of their answers. The console takes the state once a second.
const (
	viewedMessages = 8192
	viewedRate     = 500
	viewedLead     = 700 * time.Millisecond
	viewedFor      = 1200 * time.Millisecond
)

// BenchmarkDrainWithViewers compares the engine without the console with one that the console observes, with 0, 1 and
// 32 viewers of its event stream in another process: the processor time of this process and the time for a message, and
// the 99th percentile of the time from publishing to the answer. Each is the median of the ratios of the turns with its
// interval of 95 %, which -benchtime 41x makes narrow.
func BenchmarkDrainWithViewers(b *testing.B) {
	s := overheadShapes[0]
	msgs := s.messages(b, 16)
	stage := plugin.Config{Spec: s.spec(), Fixed: s.model(b, msgs[0])}
	backlog := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs, jetstream.FileStorage, viewedMessages)
	b.Setenv("GOGC", "100") // of the server whose streams are in memory
	evenly := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs[:1], jetstream.MemoryStorage, 1)
	backlog.run(backlog.watched(stage, -1)) // fills caches and grows the heap
	names := []string{"cpu", "time", "p99"}
	ratios := map[string][][]float64{} // to the engine without the console, by contestant
	for _, name := range names {
		ratios[name] = make([][]float64, len(viewed))
	}
	for i := 0; b.Loop(); i++ {
		figures := make([]map[string]float64, len(viewed))
		for k := range viewed {
			k = (k + i) % len(viewed) // so that each is first in turn
			t := backlog.run(backlog.watched(stage, viewed[k]))
			took, _ := evenly.answersOf(evenly.watched(stage, viewed[k]), msgs, viewedRate, viewedLead, viewedFor)
			figures[k] = map[string]float64{"cpu": t.cpu, "time": t.seconds, "p99": below(took, 0.99)}
		}
		for _, name := range names {
			for k := range viewed {
				ratios[name][k] = append(ratios[name][k], figures[k][name]/figures[0][name])
			}
		}
	}
	for k, n := range viewed[1:] {
		text := ""
		for _, name := range names {
			b.ReportMetric(median(ratios[name][k+1]), fmt.Sprintf("%s-%d-viewers", name, n))
			text += fmt.Sprintf(", %s %s", name, spread(ratios[name][k+1]))
		}
		b.Logf("%2d viewers%s", n, text)
	}
	b.ReportMetric(0, "ns/op")
}

// spread is the median of ratios and its interval of 95 %, by the order of the ratios.
func spread(v []float64) string {
	sorted := slices.Sorted(slices.Values(v))
	n := float64(len(sorted))
	k := max(0, int(n/2-0.98*math.Sqrt(n)))
	return fmt.Sprintf("%.3f (%.3f to %.3f)", median(v), sorted[k], sorted[len(sorted)-1-k])
}

// watched is the engine with one pipeline, which a console observes unless viewers is negative.
func (c *course) watched(stage plugin.Config, viewers int) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		e, err := stream.New(stream.Options{Conn: c.nc, Registerer: c.metrics,
			Pipelines: []stream.Pipeline{{Name: name, Stream: "features", Subject: "features.bench",
				Output: "reduced.bench", Dead: "dead.bench", Models: stream.Models{None: true}, Stage: stage}}})
		if err != nil {
			return err
		}
		if viewers < 0 {
			return e.Run(ctx)
		}
		shown := console.New(console.Options{Engine: func() *stream.Engine { return e },
			Conn: func() *connection.Conn { return nil }, Trouble: func() string { return "" }})
		h := &atomic.Pointer[config.HTTP]{}
		h.Store(&config.HTTP{Listen: "127.0.0.1:0", Clients: 32})
		done := make(chan struct{})
		web := httptest.NewServer(console.Protect(shown.Handler(console.NewAccess(h), done)))
		defer web.Close()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(done)
		if viewers > 0 {
			see := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestViewers$")
			see.Env = append(os.Environ(), "EMBEDD_VIEWERS="+strconv.Itoa(viewers), "EMBEDD_VIEWED="+web.URL+
				"/api/v1/events?pipeline="+name)
			if err := see.Start(); err != nil {
				return err
			}
			wg.Go(func() { _ = see.Wait() }) // it is killed
			for connected := 0; connected < viewers && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				connected, _ = shown.Clients()
			}
		}
		wg.Go(func() { // as the daemon does
			for tick := time.NewTicker(time.Second); ; {
				select {
				case <-tick.C:
					shown.Observe(e.Status())
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		})
		return e.Run(ctx)
	}
}

// TestViewers is the process of the viewers of a benchmark.
func TestViewers(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("EMBEDD_VIEWERS"))
	if n == 0 {
		t.Skip("BenchmarkDrainWithViewers runs it")
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			answer, err := http.Get(os.Getenv("EMBEDD_VIEWED"))
			if err == nil {
				_, _ = io.Copy(io.Discard, answer.Body) // until the end
				answer.Body.Close()
			}
		})
	}
	wg.Wait()
}
