package integration

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// These benchmarks measure the effect of training on answers: a pipeline that trains compared with one with a fixed
// model, in turns, as the daemon runs them.

var overheadShapes = []shape{{n: 16, m: 256, d: 8}, {n: 256, m: 256, d: 8}}

// stages has the two stages: with a fixed model, and with training.
func (s shape) stages(b *testing.B, msg []byte) [2]plugin.Config {
	cores := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(cores + 1)
	b.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	fixed := s.model(b, msg)
	live := &plugin.Live{Model: fixed, Version: "v", Epoch: 1}
	return [2]plugin.Config{{Spec: s.spec(), Fixed: fixed}, {Spec: s.spec(), Resume: live,
		Fit: fit.Config{Method: "lda", Dim: s.d, Workers: max(cores-1, 1)}, LowPriority: true}}
}

// BenchmarkDrainWhileLearning: the rate at which a backlog is answered with training, divided by that with a fixed
// model.
func BenchmarkDrainWhileLearning(b *testing.B) {
	for _, s := range overheadShapes {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			stages := s.stages(b, msgs[0])
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs, jetstream.FileStorage, turnMessages)
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

// BenchmarkAnswerWhileLearning: the time from publishing an input to receiving its output, at a third of the drain rate
// of streams with file storage. Here the streams are in memory: with files, some turns coincide with a flush of the
// server. One iteration is a turn of each, and a second turn with the fixed model, which shows the noise.
func BenchmarkAnswerWhileLearning(b *testing.B) {
	for _, s := range overheadShapes {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			stages := s.stages(b, msgs[0])
			b.Setenv("GOGC", "100") // of the server: with streams in memory the heap must not grow fivefold before a collection
			url := startServerProcess(b, "max_payload: 8MB").url
			c := newCourse(b, url, msgs, jetstream.FileStorage, turnMessages)
			c.run(c.pipeline(stages[0]))
			rate := 1 / c.run(c.pipeline(stages[0])).seconds / 3
			c = newCourse(b, url, msgs[:1], jetstream.MemoryStorage, turnMessages)
			contestants := []plugin.Config{stages[0], stages[1], stages[0]}
			took := make([][][]float64, len(contestants)) // seconds for each answer, by turn
			var fits []float64
			var stopping [3]float64          // total time until all goroutines had stopped
			c.answers(stages[0], msgs, rate) // the server has then finished earlier work
			for turn := 0; b.Loop(); turn++ {
				for i := range contestants {
					k := (i + turn) % len(contestants)
					before := stops()
					answers, fitted := c.answers(contestants[k], msgs, rate)
					stopping[k] += stops() - before
					took[k] = append(took[k], answers)
					if k == 1 {
						fits = append(fits, fitted)
					}
				}
			}
			b.ReportMetric(rate, "msg/s")
			b.ReportMetric(median(fits), "fits/s")
			b.ReportMetric(stopping[0]*1e3, "fixed-stopping-ms")
			b.ReportMetric(stopping[1]*1e3, "stopping-ms")
			b.ReportMetric(0, "ns/op")
			for _, q := range []struct {
				name  string
				share float64
			}{{"p50", 0.5}, {"p99", 0.99}} {
				var all, turns [3]float64
				for k := range took {
					all[k] = below(slices.Concat(took[k]...), q.share)
					var each []float64
					for _, one := range took[k] {
						each = append(each, below(one, q.share))
					}
					turns[k] = median(each)
				}
				b.ReportMetric(all[0]*1e3, "fixed-"+q.name+"-ms")
				b.ReportMetric(all[1]/all[0], "x-"+q.name)
				b.ReportMetric(all[2]/all[0], "fixed-x-"+q.name)
				b.Logf("%s of an answer, of %d answers each: learning / fixed %s; fixed / fixed %.2f; of the median turns %.2f "+
					"and %.2f",
					q.name, len(slices.Concat(took[1]...)), verdict(2*all[1]/(all[0]+all[2]), 1.1, true), all[2]/all[0],
					2*turns[1]/(turns[0]+turns[2]), turns[2]/turns[0])
			}
		})
	}
}

// BenchmarkLearnAtARate: inputs that arrive evenly spaced, at a rate far below what a drain reaches. How old is the
// newest row that was learned at the end, how busy were the cores, and what does training cost the answers? The age is
// the largest of the turns with training, the share of busy cores the smallest, and other figures are medians of the
// turns. Two more turns with the fixed model show what the machine adds: one for the noise, one next to a program that
// uses a core at the lowest priority, as a virtual machine delays threads more while it is busy.
func BenchmarkLearnAtARate(b *testing.B) {
	for _, rate := range []float64{100, 300, 1000} {
		b.Run(strconv.Itoa(int(rate)), func(b *testing.B) {
			s := overheadShapes[0]
			msgs := s.messages(b, 16)
			stages := s.stages(b, msgs[0])
			b.Setenv("GOGC", "100")
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs[:1], jetstream.MemoryStorage, turnMessages)
			const fixed, learning, again, spinning = 0, 1, 2, 3
			var p50, p99 [4][]float64
			var ages, busy []float64
			for b.Loop() {
				for k := range p50 {
					stage, stop := stages[0], func() {}
					switch k {
					case learning:
						stage = stages[1]
					case spinning:
						stop = spin(b)
					}
					took, _ := c.answers(stage, msgs, rate)
					stop()
					if k == learning {
						ages, busy = append(ages, c.age), append(busy, c.busy)
					}
					p50[k], p99[k] = append(p50[k], below(took, 0.5)), append(p99[k], below(took, 0.99))
				}
			}
			b.ReportMetric(slices.Max(ages), "newest-row-age-s")
			if least := slices.Min(busy); least > 0 {
				b.ReportMetric(100*least, "busy-cores-%")
			}
			for _, q := range []struct {
				name string
				of   [4][]float64
			}{{"p50", p50}, {"p99", p99}} {
				b.ReportMetric(median(q.of[fixed])*1e3, "fixed-"+q.name+"-ms")
				b.ReportMetric(medianRatio(q.of[learning], q.of[fixed]), "x-"+q.name)
				b.ReportMetric(medianRatio(q.of[again], q.of[fixed]), "fixed-x-"+q.name)
				b.ReportMetric(medianRatio(q.of[spinning], q.of[fixed]), "spinning-x-"+q.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// medianRatio returns the median of a[i] / b[i].
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// spin starts a program that uses a core at the lowest priority, and returns what ends it.
func spin(b *testing.B) (stop func()) {
	cmd := exec.Command("nice", "-n", "19", "sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// newestRowAge returns the age of the newest row that was learned, in seconds; 0 without training.
func newestRowAge(b *testing.B, registry *prometheus.Registry) float64 {
	for _, family := range must(registry.Gather())(b) {
		if family.GetName() == "embedd_training_newest_row_timestamp_seconds" {
			return float64(time.Now().UnixNano())/1e9 - family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

// processorTimes returns for how many seconds the cores of the machine were busy and idle since its start; 0 where that
// is not known.
func processorTimes() (busy, idle float64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, 0
	}
	all := stat.CPUTotal
	return all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal, all.Idle + all.Iowait
}

// stops returns the total time, in seconds, until all goroutines of this process had stopped for a garbage collection.
// It includes the wait for a thread that waits for a core.
func stops() (seconds float64) {
	all := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(all)
	h := all[0].Value.Float64Histogram()
	for i, n := range h.Counts {
		if n > 0 { // none is in the first bucket, which has no lower end
			seconds += float64(n) * h.Buckets[i]
		}
	}
	return seconds
}

// below returns a percentile of the figures.
func below(v []float64, share float64) float64 {
	slices.Sort(v)
	return v[int(share*float64(len(v)-1))]
}

// answers publishes at a rate and returns the latencies of some thousand answers, and the number of fits in a second.
// Answers before the first model do not count.
func (c *course) answers(stage plugin.Config, msgs [][]byte, rate float64) (took []float64, fits float64) {
	const least, most = 4 * time.Second, 10 * time.Second
	const enough = 3000
	return c.answersOf(c.pipeline(stage), msgs, rate, 2*time.Second,
		min(max(time.Duration(enough/rate*float64(time.Second)), least), most))
}

// answersOf is answers of a contestant to what is published in a time after a lead.
func (c *course) answersOf(contestant func(context.Context, string) error, msgs [][]byte, rate float64, lead,
	measured time.Duration) (took []float64, fits float64) {
	whole := lead + measured
	b := c.b
	for _, name := range []string{"features", "reduced"} {
		stream := must(c.observer.Stream(b.Context(), name))(b)
		if err := stream.Purge(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	last := must(must(c.observer.Stream(b.Context(), "features"))(b).Info(b.Context()))(b).State.LastSeq
	nc := must(nats.Connect(c.nc.ConnectedUrl()))(b)
	defer nc.Close()
	arrived := make(chan *nats.Msg, 1<<16)
	must(nc.ChanSubscribe("reduced.bench", arrived))(b)
	c.turns++
	registry := prometheus.NewRegistry()
	c.metrics = registry
	defer func() { c.metrics = nil }()
	runtime.GC() // so that no turn collects the garbage of the one before
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- contestant(ctx, "beside_"+strconv.Itoa(c.turns)) }()
	sent := map[string]time.Time{}
	take := func(m *nats.Msg) {
		_, number, _ := strings.Cut(m.Header.Get(wire.HeaderSource), ":")
		if at, ours := sent[number]; ours {
			took = append(took, time.Since(at).Seconds())
			delete(sent, number)
		}
	}
	begin, leading := time.Now(), true
	var busy, idle float64
	for n := 0; time.Since(begin) < whole; {
		if leading && time.Since(begin) > lead {
			leading = false
			busy, idle = processorTimes()
		}
		for ; n < int(min(time.Since(begin), whole).Seconds()*rate); n++ {
			last++
			if !leading {
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
	fits, c.age = fitted(c.b, registry)/time.Since(begin).Seconds(), newestRowAge(b, registry)
	busyAtEnd, idleAtEnd := processorTimes()
	c.busy = (busyAtEnd - busy) / max(busyAtEnd-busy+idleAtEnd-idle, 0.01)
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
	return took, fits
}

// fitted returns how many models were fitted.
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
