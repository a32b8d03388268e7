//go:build unix

package fit

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// growth is a series of fits along one axis, with everything else fixed: n rows of m features in a number of classes to
// d outputs.
type growth struct {
	methods string
	axis    string
	n, m    int
	classes int
	d       int
	values  []int
	// power is the maximum exponent of the growth along the axis: more is a cliff.
	power float64
}

// BenchmarkGrowth measures fits as the rows, the features, the outputs or the classes grow: a line each, with the time,
// the exponent of the growth since the line before, and the memory of the process in addition to the rows, in units of
// these (Linux). The last line has the exponent over the whole axis, the goal, whether it holds, and the exponent of
// the steepest step.
func BenchmarkGrowth(b *testing.B) {
	for _, g := range []growth{
		{"pca lda srda sle pairacc", "rows", 0, 256, 10, 9, []int{5000, 10000, 20000, 40000, 80000}, 1.1},
		{"lpp mfa lfda lltsa le lle", "rows", 0, 256, 10, 9, []int{2500, 5000, 10000, 20000}, 2.1},
		{"isomap", "rows", 0, 256, 10, 9, []int{2500, 5000, 10000, 20000}, 2.3},
		{"tnca", "rows", 0, 64, 10, 2, []int{750, 1500, 3000, 6000}, 2.1},
		{"pca lda srda sle pairacc", "features", 2000, 0, 10, 9, []int{64, 128, 256, 512, 1024, 2048}, 3},
		{"pca lda srda lpp le", "wide", 200, 0, 10, 9, []int{1250, 2500, 5000, 10000, 20000}, 1.2},
		{"pca lda srda pairacc lpp", "outputs", 5000, 256, 40, 0, []int{2, 4, 8, 16, 32}, 1},
		{"lda srda sle pairacc lfda", "classes", 10000, 256, 0, 9, []int{10, 100, 1000}, 1},
	} {
		for method := range strings.FieldsSeq(g.methods) {
			b.Run(fmt.Sprintf("%s/%s", g.axis, method), func(b *testing.B) {
				for b.Loop() {
					g.run(b, method)
				}
			})
		}
	}
}

func (g growth) run(b *testing.B, method string) {
	var first, before time.Duration
	steepest := 0.0
	for i, v := range g.values {
		at := g
		switch g.axis {
		case "rows":
			at.n = v
		case "features", "wide":
			at.m = v
		case "outputs":
			at.d = v
		case "classes":
			at.classes = v
		}
		d := synthetic(1, at.n, at.m, at.classes)
		c := Config{Method: method, Dim: at.d}
		work := func() error {
			_, err := Fit(b.Context(), d, c)
			return err
		}
		took := time.Duration(0)
		used := peak(b, func() { took = timed(b, work) })
		if took < time.Second {
			took = min(took, least(b, work))
		}
		line := fmt.Sprintf("%d: %v, memory x %.1f", v, took.Round(100*time.Microsecond),
			float64(used)/float64(8*at.n*at.m))
		if i == 0 {
			first = took
		} else {
			step := power(took, before, v, g.values[i-1])
			steepest = max(steepest, step)
			line += fmt.Sprintf(", power %.1f", step)
		}
		b.Log(line)
		before = took
	}
	p, verdict := power(before, first, g.values[len(g.values)-1], g.values[0]), "holds"
	if p > g.power {
		verdict = "MISSED"
	}
	b.Logf("power %.2f, goal %g: %s; the steepest step %.1f", p, g.power, verdict, steepest)
	b.ReportMetric(p, "power")
	b.ReportMetric(0, "ns/op")
}

// power is p of a cost that grows as x^p from one value to another.
func power(took, before time.Duration, x, was int) float64 {
	return math.Log(float64(took)/float64(before)) / math.Log(float64(x)/float64(was))
}

// peak returns the maximum memory of the process while work runs, in addition to that before: 0 if unknown.
func peak(b *testing.B, work func()) int {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		work()
		return 0
	}
	before := status(b, "VmRSS")
	work()
	return max(status(b, "VmHWM")-before, 0)
}

// status reads a size of this process from Linux.
func status(b *testing.B, name string) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if kb, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
				return kb << 10
			}
		}
	}
	b.Fatalf("no %s in /proc/self/status", name)
	return 0
}
