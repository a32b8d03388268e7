//go:build unix

package fit

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/moments"
)

// fitShape is the rows and features that a fit is measured at, and its dimensions:
// 5000 x 256, or less where the cost grows with a higher power of the rows.
func fitShape(method string) (n, m int, dims []int) {
	switch method {
	case "lenews", "lenewks", "lppnews":
		return 500, 64, []int{2}
	case "lsmpa", "ksmpa", "lsdr", "pmpda", "tsimr", "mp-tsimr", "ltsimr", "mp-ltsimr", "lpfe":
		return 1000, 64, []int{2, 9}
	}
	return 5000, 256, []int{2, 9, 16}
}

// BenchmarkFit is every fit from rows, with the default ridge, and for comparison a
// dgemm of the same shape, X'X, to read the figures against.
func BenchmarkFit(b *testing.B) {
	shapes := map[[2]int]*model.Data{}
	data := func(n, m int) *model.Data {
		if shapes[[2]int{n, m}] == nil {
			shapes[[2]int{n, m}] = synthetic(1, n, m, 20)
		}
		return shapes[[2]int{n, m}]
	}
	for _, s := range [][2]int{{5000, 256}, {1000, 64}, {500, 64}} {
		n, m := s[0], s[1]
		d := data(n, m)
		b.Run(fmt.Sprintf("dgemm/n=%d/m=%d", n, m), func(b *testing.B) {
			x, y := mat.NewDense(n, m, d.X), mat.NewDense(n, m, append([]float64(nil), d.X...))
			c := mat.NewDense(m, m, nil)
			defer processorTime(b)()
			for b.Loop() {
				c.Mul(x.T(), y) // two matrices: gonum takes Syrk for x'x
			}
		})
	}
	for _, method := range method.Table {
		n, m, dims := fitShape(method.Name)
		for _, dim := range dims {
			b.Run(fmt.Sprintf("%s/n=%d/m=%d/d=%d", method.Name, n, m, dim), func(b *testing.B) {
				d := data(n, m)
				b.ReportAllocs()
				defer processorTime(b)()
				for b.Loop() {
					if _, err := Fit(context.Background(), d, Config{Method: method.Name, Dim: dim}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFitMoments is a refit from statistics that are already held.
func BenchmarkFitMoments(b *testing.B) {
	for _, m := range []int{64, 256} {
		n := 5000
		d := synthetic(1, n, m, 20)
		s := moments.New(m, false)
		if err := s.Add(b.Context(), d.X, d.Y); err != nil {
			b.Fatal(err)
		}
		for _, method := range method.Table {
			if method.Streaming != "moments" {
				continue
			}
			b.Run(fmt.Sprintf("%s/m=%d/d=16", method.Name, m), func(b *testing.B) {
				b.ReportAllocs()
				defer processorTime(b)()
				for b.Loop() {
					if _, err := FitMoments(context.Background(), s, nil, d.Classes,
						Config{Method: method.Name, Dim: 16}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// spent is the time of all cores together, which other work on the machine hardly touches.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processorTime reports it at the end of the benchmark.
func processorTime(b *testing.B) func() {
	from := spent(b)
	return func() { b.ReportMetric(float64(spent(b)-from)/float64(b.N)/1e6, "cpu-ms/op") }
}
