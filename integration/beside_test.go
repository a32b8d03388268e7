package integration

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// How much learning costs those who wait for answers: a pipeline that learns beside one with a fixed model, in turns,
// as the daemon runs them.

var besideShapes = []shape{{n: 16, m: 256, d: 8}, {n: 256, m: 256, d: 8}}

// beside are the stages: with a fixed model, and learning.
func (s shape) beside(b *testing.B, msg []byte) [2]plugin.Config {
	cores := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(cores + 1)
	b.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	fixed := s.model(b, msg)
	live := &plugin.Live{Model: fixed, Version: "v", Epoch: 1}
	return [2]plugin.Config{{Spec: s.spec(), Fixed: fixed}, {Spec: s.spec(), Resume: live,
		Fit: fit.Config{Method: "lda", Dim: s.d, Workers: max(cores-1, 1)}, LowPriority: true}}
}

// BenchmarkDrainWhileLearning: how fast a backlog is answered with learning on, over how fast with a fixed model.
func BenchmarkDrainWhileLearning(b *testing.B) {
	for _, s := range besideShapes {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			stages := s.beside(b, msgs[0])
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs)
			c.run(c.pipeline(stages[0]))
			var ratio, rate, cpu []float64
			for b.Loop() {
				fixed, learning := c.run(c.pipeline(stages[0])), c.run(c.pipeline(stages[1]))
				cpu = append(cpu, learning.cpu/fixed.cpu)
				ratio, rate = append(ratio, fixed.seconds/learning.seconds), append(rate, 1/fixed.seconds)
			}
			b.ReportMetric(median(ratio), "learning/fixed")
			b.ReportMetric(median(rate), "fixed-msg/s")
			b.ReportMetric(median(cpu), "cpu-learning/fixed")
			b.ReportMetric(0, "ns/op")
			b.Logf("messages a second, learning / fixed %s", verdict(median(ratio), 0.9, false))
		})
	}
}

// BenchmarkAnswerWhileLearning: how long an answer takes, from its publisher to who reads it, at a third of the drain
// rate.
func BenchmarkAnswerWhileLearning(b *testing.B) {
	for _, s := range besideShapes {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			stages := s.beside(b, msgs[0])
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs)
			c.run(c.pipeline(stages[0]))
			rate := 1 / c.run(c.pipeline(stages[0])).seconds / 3
			var p50, p99 [2][]float64
			var fits []float64
			for b.Loop() {
				for k, stage := range stages {
					took, fitted := c.answers(stage, msgs, rate)
					p50[k], p99[k] = append(p50[k], took[len(took)/2]), append(p99[k], took[len(took)*99/100])
					if k == 1 {
						fits = append(fits, fitted)
					}
				}
			}
			b.ReportMetric(rate, "msg/s")
			b.ReportMetric(median(p50[0])*1e3, "fixed-p50-ms")
			b.ReportMetric(median(p99[0])*1e3, "fixed-p99-ms")
			b.ReportMetric(median(fits), "fits/s")
			b.ReportMetric(0, "ns/op")
			for _, q := range []struct {
				name string
				took [2][]float64
			}{{"p50", p50}, {"p99", p99}} {
				ratio := median(q.took[1]) / median(q.took[0])
				b.ReportMetric(ratio, "x-"+q.name)
				b.Logf("%s of an answer, learning / fixed: of the median turns %s; of the quietest turn of each %s", q.name,
					verdict(ratio, 1.1, true), verdict(slices.Min(q.took[1])/slices.Min(q.took[0]), 1.1, true))
			}
		})
	}
}

// answers publishes at a rate for some seconds and returns how long the answers took, the shortest first, and how many
// fits there were in a second. Those to the first messages, while a model comes to be, do not count.
func (c *course) answers(stage plugin.Config, msgs [][]byte, rate float64) (took []float64, fits float64) {
	const lead, whole = 2 * time.Second, 6 * time.Second
	b := c.b
	input := must(c.observer.Stream(b.Context(), "features"))(b)
	if err := input.Purge(b.Context()); err != nil {
		b.Fatal(err)
	}
	last := must(input.Info(b.Context()))(b).State.LastSeq
	nc := must(nats.Connect(c.nc.ConnectedUrl()))(b)
	defer nc.Close()
	arrived := make(chan *nats.Msg, 1<<16)
	must(nc.ChanSubscribe("reduced.bench", arrived))(b)
	c.turns++
	registry := prometheus.NewRegistry()
	c.metrics = registry
	defer func() { c.metrics = nil }()
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.pipeline(stage)(ctx, "beside_"+strconv.Itoa(c.turns)) }()
	sent := map[string]time.Time{}
	take := func(m *nats.Msg) {
		_, number, _ := strings.Cut(m.Header.Get(wire.HeaderSource), ":")
		if at, ours := sent[number]; ours {
			took = append(took, time.Since(at).Seconds())
			delete(sent, number)
		}
	}
	begin := time.Now()
	for n := 0; time.Since(begin) < whole; {
		for ; n < int(min(time.Since(begin), whole).Seconds()*rate); n++ {
			last++
			if time.Since(begin) > lead {
				sent[strconv.FormatUint(last, 10)] = time.Now()
			}
			if err := nc.Publish("features.bench", msgs[n%len(msgs)]); err != nil {
				b.Fatal(err)
			}
		}
		select {
		case m := <-arrived:
			take(m)
		case <-time.After(200 * time.Microsecond):
		}
	}
	fits = fitted(c.b, registry) / time.Since(begin).Seconds()
	for end := time.After(20 * time.Second); len(sent) > 0; {
		select {
		case m := <-arrived:
			take(m)
		case <-end:
			for _, at := range sent { // they took longer than that
				took = append(took, time.Since(at).Seconds())
			}
			clear(sent)
		}
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	return took, fits
}

// fitted is how many models were fitted.
func fitted(b *testing.B, registry *prometheus.Registry) (fits float64) {
	for _, family := range must(registry.Gather())(b) {
		if family.GetName() == "embedd_fits_total" {
			for _, m := range family.GetMetric() {
				fits += m.GetCounter().GetValue()
			}
		}
	}
	return fits
}
