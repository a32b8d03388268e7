package product

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// order is how a list is read from memory.
type order struct {
	name   string
	set    int     // of sets
	ahead  int     // rows that the loop of one tile prefetches ahead; 0: nothing is prefetched
	blocks float64 // rows that several tiles process one after the other, in units of what listOf takes; 0: one row
}

// orders are that of listOf, and others whose loops exist.
var orders = []order{{"now", 0, 8, 1}, {"no prefetch", 0, 0, 1}, {"4 ahead", 0, 4, 1}, {"16 ahead", 0, 16, 1},
	{"32 ahead", 0, 32, 1}, {"row by row", 0, 8, 0}, {"AVX2", 1, 8, 1}, {"half blocks", 0, 8, 0.5},
	{"double blocks", 0, 8, 2}}

// project is listOf in another order.
func (o order) project(p *Weights, dst, x []float32, rows int) {
	n, apart := len(p.tiles), 4*p.features
	step, ahead, aheadRow, aheadLine, aheadStep := rows, o.ahead*apart, apart, apart, 64
	if n > 1 {
		step = max(int(o.blocks*cached)/(p.features*4*cachedRows), 1) * cachedRows
		aheadRow, aheadLine = apart/n, line
		aheadStep = 6 * aheadRow / max(p.features/16, 1)
	}
	if o.ahead == 0 {
		aheadRow, aheadLine, aheadStep = 0, 0, 0 // the first line of the rows, which is in a cache
	}
	if o.blocks == 0 {
		step = 1 // fewer rows than any loop computes at once: no row is read before the last one ends
	}
	for from := 0; from < rows; from += step {
		for i := range p.tiles {
			t := &p.tiles[i]
			if n > 1 && o.ahead > 0 {
				ahead = (step + step*i/n) * apart
			}
			p.f32.lists[i](&dst[from*p.outputs+t.first], &x[from*p.features], &t.w[0], &p.f32.mean[0], &t.offset[0],
				min(step, rows-from), p.features, apart, 4*p.outputs, t.used, ahead, aheadRow, aheadLine, aheadStep)
		}
	}
}

// BenchmarkOrders compares orders of reading a list from memory, in turns: the processor time of each divided by that
// of listOf, the median over the turns. docs/evidence/performance.md has the result.
func BenchmarkOrders(b *testing.B) {
	const part = 4 << 20 // numbers of a turn
	if ring == nil {
		ring = make([]float32, ringSize)
		for i := range ring {
			ring[i] = float32(i%97) / 97
		}
	}
	for _, d := range []int{2, 8, 32} {
		for _, n := range []int{16, 256, 4096} {
			for _, m := range []int{64, 256, 1024} {
				b.Run(fmt.Sprintf("%dx%d->%d", n, m, d), func(b *testing.B) {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					w, y := make([]float32, d*m), make([]float32, n*d)
					for i := range w {
						w[i] = float32(i%13) - 6
					}
					var of []*Weights
					for _, s := range sets() {
						of = append(of, newWeights(s, w, make([]float32, m), make([]float32, d)))
					}
					took, at := make([][]float64, len(orders)), 0
					for turn := 0; b.Loop(); turn++ {
						for i := range orders {
							k := (turn + i) % len(orders)
							o := orders[k]
							if at += part; at+part > len(ring) {
								at = 0
							}
							p := of[min(o.set, len(of)-1)]
							began := threadTime(b)
							for x := ring[at : at+part]; len(x) >= n*m; x = x[n*m:] {
								o.project(p, y, x, n)
							}
							took[k] = append(took[k], threadTime(b)-began)
						}
					}
					for k, o := range orders {
						ratios := make([]float64, len(took[0]))
						for i := range ratios {
							ratios[i] = took[k][i] / took[0][i]
						}
						slices.Sort(ratios)
						b.ReportMetric(ratios[len(ratios)/2], strings.ReplaceAll(o.name, " ", "-"))
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// threadTime is the processor time of this thread in seconds.
func threadTime(b *testing.B) float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
}
