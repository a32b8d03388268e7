//go:build unix

package fit

import (
	"flag"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/moments"
)

var (
	numpy     = flag.String("numpy", "", "a python with numpy: the unit of BenchmarkUnits is its product in float64")
	processor = flag.Bool("processor", false, "measure the time of all cores together, not the clock: on a busy machine")
)

// product is a program that prints the shortest time, in ms, of five products (m x n)(n x m).
const product = `
import sys, time, numpy as np
n, m, clock = int(sys.argv[1]), int(sys.argv[2]), time.process_time if sys.argv[3] == "true" else time.perf_counter
x, y = np.random.default_rng(1).normal(size=(n, m)), np.random.default_rng(2).normal(size=(n, m))
x.T @ y
def took():
    begin = clock()
    x.T @ y
    return 1e3 * (clock() - begin)
print(min(took() for _ in range(5)))
`

// BenchmarkUnits measures fits from rows in units of one product (m x n)(n x m) in float64, by numpy if it is given, in
// turns: the minimum of both, the goal, and whether it holds.
func BenchmarkUnits(b *testing.B) {
	for _, w := range []struct {
		method, ridge string
		n, m, classes int
		goal          float64
	}{
		{"tile", "", 10000, 784, 10, 1}, {"tile", "", 5000, 256, 10, 1},
		{"pca", "", 10000, 784, 10, 1.5}, {"lda", "0", 10000, 784, 10, 1.5}, {"lda", "auto", 10000, 784, 10, 3},
		{"pca", "", 5000, 256, 10, 1.5}, {"lda", "0", 5000, 256, 10, 1.5}, {"lda", "auto", 5000, 256, 10, 3},
		{"neighbours", "", 10000, 256, 10, 20},
		{"lfda", "", 5000, 256, 10, 20}, {"mfa", "", 5000, 256, 10, 30}, {"lltsa", "", 5000, 256, 10, 60},
		{"le", "", 5000, 256, 10, 60}, {"lpp", "", 5000, 256, 10, 25}, {"lle", "", 5000, 256, 10, 150},
		{"isomap", "", 5000, 256, 10, 400}, {"tnca", "", 1500, 256, 10, 60},
		{Auto, "", 5000, 256, 10, 150},
	} {
		b.Run(fmt.Sprintf("%s%s/%dx%d", w.method, w.ridge, w.n, w.m), func(b *testing.B) {
			d := synthetic(1, w.n, w.m, w.classes)
			c := Config{Method: w.method, Dim: min(16, w.classes-1), Params: map[string]string{}}
			if w.method == "tnca" {
				c.Dim = 2
			}
			if w.ridge != "" {
				c.Params["ridge"] = w.ridge
			}
			work := func() error {
				_, err := Fit(b.Context(), d, c)
				return err
			}
			switch w.method {
			case "tile":
				work = func() error { return multiplied(b, d) }
			case "neighbours":
				work = func() error {
					_, err := graph.Nearest(b.Context(), mat.NewDense(d.N, d.M, d.X), 10)
					return err
				}
			}
			b.ReportAllocs()
			unit, took := unitOf(b, d), least(b, work)
			for b.Loop() {
				took = min(took, timed(b, work))
				b.StopTimer() // allocations are those of one fit
				took, unit = min(took, timed(b, work)), min(unit, unitOf(b, d))
				b.StartTimer()
			}
			report(b, took, unit, w.goal)
		})
	}
}

// BenchmarkRefit measures a refit after 1,000 new rows divided by the fit from all rows, in turns: the minimum of both,
// and the goal.
func BenchmarkRefit(b *testing.B) {
	for _, method := range []string{"pca", "lda", "srda", "sle", "pairacc"} {
		for _, shape := range [][2]int{{10000, 784}, {5000, 256}} {
			b.Run(fmt.Sprintf("%s/%dx%d", method, shape[0], shape[1]), func(b *testing.B) {
				d := synthetic(1, shape[0], shape[1], 10)
				s := moments.New(d.M, false)
				if err := s.Add(b.Context(), d.X, d.Y); err != nil {
					b.Fatal(err)
				}
				c := Config{Method: method, Dim: 9}
				again := func() error {
					err := s.Add(b.Context(), d.X[:1000*d.M], d.Y[:1000])
					if err == nil {
						_, err = FitMoments(b.Context(), s, nil, d.Classes, c)
					}
					return err
				}
				whole := func() error {
					_, err := Fit(b.Context(), d, c)
					return err
				}
				took, all := least(b, again), least(b, whole)
				for b.Loop() {
					took, all = min(took, least(b, again)), min(all, least(b, whole))
				}
				report(b, took, all, 0.3)
			})
		}
	}
}

// BenchmarkManyClasses measures lda with its ridge by cross-validation, at 1,000 classes divided by 100 classes.
func BenchmarkManyClasses(b *testing.B) {
	few, many := synthetic(1, 10000, 256, 100), synthetic(1, 10000, 256, 1000)
	fitted := func(d *model.Data) func() error {
		return func() error {
			_, err := Fit(b.Context(), d, Config{Method: "lda", Dim: 16})
			return err
		}
	}
	took, all := least(b, fitted(many)), least(b, fitted(few))
	for b.Loop() {
		took, all = min(took, least(b, fitted(many))), min(all, least(b, fitted(few)))
	}
	report(b, took, all, 2)
}

func report(b *testing.B, took, unit time.Duration, goal float64) {
	ratio, verdict := float64(took)/float64(unit), "holds"
	if ratio > goal {
		verdict = "MISSED"
	}
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op") // of all repeats, and of the units between them
	b.Logf("%v over %v: %.2f, goal %g: %s", took.Round(time.Microsecond), unit.Round(time.Microsecond), ratio, goal,
		verdict)
}

// least is the shorter of two times.
func least(b *testing.B, work func() error) time.Duration {
	return min(timed(b, work), timed(b, work))
}

// timed returns the time of work, by the clock or of all cores.
func timed(b *testing.B, work func() error) time.Duration {
	begin, before := time.Now(), spent(b)
	if err := work(); err != nil {
		b.Fatal(err)
	}
	if *processor {
		return spent(b) - before
	}
	return time.Since(begin)
}

// unitOf returns the time of a product of the shape of the rows.
func unitOf(b *testing.B, d *model.Data) time.Duration {
	if *numpy == "" {
		return least(b, func() error { return multiplied(b, d) })
	}
	out, err := exec.Command(*numpy, "-c", product, fmt.Sprint(d.N), fmt.Sprint(d.M),
		fmt.Sprint(*processor)).Output()
	if err != nil {
		b.Fatalf("%s: %v", *numpy, err)
	}
	ms, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// multiplied is X'X in full, as if of two matrices.
func multiplied(b *testing.B, d *model.Data) error {
	return tile.Add(b.Context(), tile.Sum{C: make([]float64, d.M*d.M), Stride: d.M, Alpha: 1,
		A: tile.Dense(d.X, d.N, d.M, d.M), B: tile.Dense(d.X, d.N, d.M, d.M)})
}
