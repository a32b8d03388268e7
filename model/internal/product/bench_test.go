package product

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/model/internal/linalg"
)

// ringSize is the number of values from which a benchmark takes its rows in rotation: more than fit into the caches.
const ringSize = 128 << 20

// ring is memory that all benchmarks read.
var ring []float32

// BenchmarkMemory projects batches of 1,024 rows from memory, on one thread, in turns with only reading the same
// memory. Times are 5th percentiles. docs/evidence/performance.md explains it.
func BenchmarkMemory(b *testing.B) {
	const n = 1024
	if ring == nil {
		ring = make([]float32, ringSize)
		for i := range ring {
			ring[i] = float32(i%97) / 97
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, m := range []int{64, 256, 784, 1536} {
		for _, d := range []int{2, 8, 32} {
			b.Run(fmt.Sprintf("%dx%d->%d", n, m, d), func(b *testing.B) { memory(b, n, m, d) })
		}
	}
}

func memory(b *testing.B, n, m, d int) {
	w, mean, offset := make([]float32, d*m), make([]float32, m), make([]float32, d)
	for i := range w {
		w[i] = float32(i%13) - 6
	}
	p, two := New(w, mean, offset), New(w[:2*m], mean, offset[:2])
	y, columns, sums := make([]float32, n*d), make([]*float32, m), NewSums()
	batch := n * m
	var sink float32
	contestants := []struct {
		name string
		run  func(x []float32)
	}{
		{"sdot", func(x []float32) { sink += linalg.BLAS.Sdot(len(x), x, 1, x, 1) }},
		{"read", func(x []float32) { two.List32(y, x, n, m) }}, // hardly more than reading, and faster than sdot
		{"list", func(x []float32) { p.List32(y, x, n, m) }},
		{"columns", func(x []float32) {
			for j := range columns {
				columns[j] = &x[j*n]
			}
			p.Columns32(y, columns, 0, n, sums)
		}},
		{"gonum", func(x []float32) { // row by row, output by output, not centred
			for i := range n {
				for c := range d {
					y[i*d+c] = linalg.BLAS.Sdot(m, x[i*m:], 1, w[c*m:], 1)
				}
			}
		}},
		{"cached", nil}, // list, of rows in a cache
	}
	times, at := make([][]float64, len(contestants)), 0
	for b.Loop() {
		for i, c := range contestants {
			if c.name == "cached" {
				small := max(24, (256<<10)/(4*m)) / 24 * 24
				x := ring[:small*m]
				p.List32(y[:small*d], x, small, m)
				began := time.Now()
				p.List32(y[:small*d], x, small, m)
				times[i] = append(times[i], time.Since(began).Seconds()*float64(n)/float64(small))
				continue
			}
			x := ring[at : at+batch]
			if at += batch; at+batch > len(ring) {
				at = 0
			}
			began := time.Now()
			c.run(x)
			times[i] = append(times[i], time.Since(began).Seconds())
		}
	}
	quick := func(i int) float64 { slices.Sort(times[i]); return times[i][len(times[i])/20] }
	read := min(quick(0), quick(1))
	numpy, err := numpyRates(n, m, d)
	if err == nil {
		b.ReportMetric(numpy[0], "numpy-GF/s")
		b.ReportMetric(numpy[1], "numpy-cached-GF/s")
		read = min(read, 4*float64(batch)/numpy[2]/1e9)
	}
	flop := 2 * float64(n) * float64(m) * float64(d)
	b.ReportMetric(4*float64(batch)/read/1e9, "read-GB/s")
	b.ReportMetric(read/quick(0), "sdot/read")
	b.ReportMetric(read/quick(2), "list/read")
	b.ReportMetric(read/quick(3), "columns/read")
	b.ReportMetric(read/quick(4), "gonum/read")
	b.ReportMetric(flop/quick(2)/1e9, "list-GF/s")
	b.ReportMetric(flop/quick(3)/1e9, "columns-GF/s")
	b.ReportMetric(flop/quick(5)/1e9, "cached-GF/s")
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{2: "list", 3: "columns"} {
		switch d {
		case 2:
			verdict(b, name, read/quick(i), "of reading", 0.8)
		case 8:
			verdict(b, name, read/quick(i), "of reading", 0.6)
		case 32:
			verdict(b, name, flop/quick(i)/1e9, "GF/s", 83)
		}
	}
	_ = sink
}

func verdict(b *testing.B, name string, got float64, unit string, goal float64) {
	word := "holds"
	switch {
	case name == "":
		return
	case got < goal:
		word = "falls short"
	}
	b.Logf("%s: %.3g %s, goal %g: %s", name, got, unit, goal, word)
}

// numpyRates returns the GF/s of numpy for the same, from memory and in a cache, and the GB/s at which its dot product
// reads memory, if EMBEDD_PYTHON names a Python with numpy.
func numpyRates(n, m, d int) (rates [3]float64, err error) {
	python := os.Getenv("EMBEDD_PYTHON")
	if python == "" {
		return rates, os.ErrNotExist
	}
	cmd := exec.Command(python, filepath.Join("testdata", "numpy_rate.py"), fmt.Sprint(n), fmt.Sprint(m), fmt.Sprint(d))
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &rates[0], &rates[1], &rates[2])
	}
	return rates, err
}
