//go:build unix

package stage

import (
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// BenchmarkWindows measures the cost of learning by the size of the window. The rows have 256 features and eight
// classes, twice as many rows as the window holds; figures are for the second half. Memory is relative to that before
// the first row, in units of the rows as float32: what is kept, and the maximum that a garbage collection found alive.
//
//	go test ./internal/stage -run '^$' -bench Windows -benchtime 1x -timeout 2h
func BenchmarkWindows(b *testing.B) {
	for _, method := range []string{"lda", "lfda", "le"} {
		for _, size := range []int{5_000, 10_000, 20_000, 40_000, 80_000} {
			b.Run(fmt.Sprintf("%s/%d", method, size), func(b *testing.B) {
				for b.Loop() {
					growWindow(b, method, size)
				}
			})
		}
	}
}

func growWindow(b *testing.B, method string, size int) {
	const m, part = 256, 500
	var most atomic.Int64
	sample := func() bool {
		alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(alive)
		most.Store(max(most.Load(), int64(alive[0].Value.Uint64())))
		return false
	}
	r := rand.New(rand.NewPCG(61, 62))
	before := heap()
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: method, Dim: 7},
		Training: spec.Training{Window: spec.Window{Rows: size, Bytes: 4 << 30}}, Busy: sample})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var begin time.Duration
	fits := 0
	for sent := 0; sent < 2*size; sent += part {
		if sent == size {
			begin, fits = processor(b), s.Status().Fits
		}
		rec := rareRecord(r, part, m)
		msg, err := s.FromRecord(rec)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Learn(msg, spec.Position{Seq: uint64(sent/part + 1), Time: time.Unix(int64(sent), 0)}); err != nil {
			b.Fatal(err)
		}
		rec.Release()
		if err := s.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	took := processor(b) - begin
	kept := heap() - before
	raw := float64(size * m * 4)
	st := s.Status()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took.Microseconds())/float64(size), "us/row")
	b.ReportMetric(float64(st.Fits-fits), "fits")
	b.ReportMetric(float64(st.Rows), "rows")
	b.ReportMetric(float64(kept)/raw, "x-kept")
	b.ReportMetric(float64(most.Load()-before)/raw, "x-most")
}
