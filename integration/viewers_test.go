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

// BenchmarkDrainWithViewers compares the engine without the console with one that the console observes, with 0, 1 and
// 32 viewers of its event stream in another process: the processor time of this process and the time for a message, as
// the median of the ratios of 41 turns with its interval of 95 %, by -benchtime 41x.
func BenchmarkDrainWithViewers(b *testing.B) {
	for _, s := range overheadShapes {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			stage := plugin.Config{Spec: s.spec(), Fixed: s.model(b, msgs[0])}
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs, jetstream.FileStorage)
			c.run(c.watched(stage, -1)) // fills caches and grows the heap
			turns := make([][]turn, len(viewed))
			for i := 0; b.Loop(); i++ {
				for k := range viewed {
					k = (k + i) % len(viewed) // so that each is first in turn
					turns[k] = append(turns[k], c.run(c.watched(stage, viewed[k])))
				}
			}
			for k, n := range viewed[1:] {
				var cpu, seconds []float64
				for i, t := range turns[k+1] {
					cpu = append(cpu, t.cpu/turns[0][i].cpu)
					seconds = append(seconds, t.seconds/turns[0][i].seconds)
				}
				b.ReportMetric(median(cpu), fmt.Sprintf("cpu-%d-viewers", n))
				b.ReportMetric(median(seconds), fmt.Sprintf("time-%d-viewers", n))
				b.Logf("%2d viewers: processor time %s, time %s", n, spread(cpu), spread(seconds))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
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
