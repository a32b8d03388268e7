package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// watch samples the daemon: memory, goroutines, files, the store, and the latency of answers.
type watch struct {
	world   *world
	sender  *sender
	out     io.Writer
	began   time.Time
	at      uint64 // the last output that was read
	samples []sample
}

// sample is the state of the daemon at one time.
type sample struct {
	after          time.Duration
	sent, answered uint64
	lag            uint64
	resident, most float64 // MiB
	files          int
	goroutines     float64
	heap           float64 // MiB
	p50, p99       time.Duration
	store          float64 // KiB of the models
}

func newWatch(w *world, s *sender, out io.Writer) *watch {
	return &watch{world: w, sender: s, out: out, began: time.Now()}
}

const lookEvery = 10 * time.Second

func (v *watch) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			v.takeSample(context.WithoutCancel(ctx))
		}
	}
}

// takeSample takes a sample and prints it. Values that cannot be read because of a fault are 0.
func (v *watch) takeSample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l := sample{after: time.Since(v.began), sent: uint64(v.sender.sent())}
	l.resident, l.most, l.files = v.world.daemon.usage()
	m := metricsOf(ctx, v.world.http)
	l.goroutines, l.heap = m["go_goroutines"], m["go_memstats_heap_inuse_bytes"]/(1<<20)
	if s, err := v.world.js.Stream(ctx, outputs); err == nil {
		l.answered = s.CachedInfo().State.LastSeq
		l.p50, l.p99 = v.latency(ctx, s, l.answered)
	}
	if c, err := v.world.js.Consumer(ctx, inputs, durable); err == nil {
		l.lag = c.CachedInfo().NumPending + uint64(c.CachedInfo().NumAckPending)
	}
	if s, err := v.world.js.Stream(ctx, "OBJ_EMBEDD_MODELS"); err == nil {
		l.store = float64(s.CachedInfo().State.Bytes) / (1 << 10)
	}
	v.samples = append(v.samples, l)
	fmt.Fprintln(v.out, l)
}

// latency returns the time between input and output of the newest outputs.
func (v *watch) latency(ctx context.Context, s jetstream.Stream, last uint64) (p50, p99 time.Duration) {
	const most = 200
	from := max(v.at+1, last-min(last, most)+1)
	v.at = last
	var took []time.Duration
	for seq := from; seq <= last && ctx.Err() == nil; seq++ {
		msg, err := s.GetMsg(ctx, seq)
		if err != nil {
			break
		}
		var sent int64
		if _, err := fmt.Sscan(msg.Header.Get(headerSent), &sent); err == nil {
			took = append(took, msg.Time.Sub(time.Unix(0, sent)))
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

func (l sample) String() string {
	return fmt.Sprintf("%6s: %7d sent %7d outputs %5d behind; %4.0f MiB (heap %3.0f), %3.0f goroutines, %2d files, "+
		"store %.0f KiB; p50 %s p99 %s",
		l.after.Round(time.Second), l.sent, l.answered, l.lag, l.resident, l.heap, l.goroutines, l.files, l.store,
		l.p50.Round(100*time.Microsecond), l.p99.Round(time.Millisecond))
}

// table prints the run in ten parts: the median sample of each.
func (v *watch) table() {
	fmt.Fprint(v.out, "\nOver time, the median of the samples of each tenth:\n\n| after | resident MiB | heap MiB | "+
		"goroutines | files | store KiB | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|\n")
	parts := min(10, len(v.samples))
	for p := range parts {
		part := v.samples[p*len(v.samples)/parts : (p+1)*len(v.samples)/parts]
		middle := func(of func(sample) float64) float64 {
			var values []float64
			for _, l := range part {
				if x := of(l); x > 0 {
					values = append(values, x)
				}
			}
			if len(values) == 0 {
				return 0
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
		fmt.Fprintf(v.out, "| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.1f | %.1f |\n",
			part[len(part)-1].after.Round(time.Second),
			middle(func(l sample) float64 { return l.resident }), middle(func(l sample) float64 { return l.heap }),
			middle(func(l sample) float64 { return l.goroutines }),
			middle(func(l sample) float64 { return float64(l.files) }),
			middle(func(l sample) float64 { return l.store }),
			middle(func(l sample) float64 { return ms(l.p50) }), middle(func(l sample) float64 { return ms(l.p99) }))
	}
}
