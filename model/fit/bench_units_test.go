package fit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/tile"
)

// BenchmarkFitUnits is fits in units of one product (m x n)(n x m) in the same run, in turns: the least of both.
func BenchmarkFitUnits(b *testing.B) {
	for _, c := range []struct {
		n, m, classes int
		method, ridge string
	}{
		{5000, 256, 10, "pca", ""}, {5000, 256, 10, "lda", "0"}, {5000, 256, 10, "lda", "auto"},
		{5000, 256, 10, "pairacc", ""},
		{10000, 784, 10, "pca", ""}, {10000, 784, 10, "lda", "0"}, {10000, 784, 10, "lda", "auto"},
		{10000, 784, 10, "pairacc", ""},
		{10000, 256, 100, "lda", "auto"}, {10000, 256, 1000, "lda", "auto"},
		{5000, 256, 10, "lfda", ""}, {5000, 256, 10, "mfa", ""}, {5000, 256, 10, "lltsa", ""}, {5000, 256, 10, "le", ""},
		{5000, 256, 10, "lpp", ""}, {5000, 256, 10, "lle", ""}, {5000, 256, 10, "isomap", ""},
	} {
		b.Run(fmt.Sprintf("%dx%d/classes=%d/%s%s", c.n, c.m, c.classes, c.method, c.ridge), func(b *testing.B) {
			d := synthetic(1, c.n, c.m, c.classes)
			config := Config{Method: c.method, Dim: min(16, c.classes-1)}
			if c.ridge != "" {
				config.Params = map[string]string{"ridge": c.ridge}
			}
			unit := unitOf(d)
			least, phases := time.Hour, ""
			for b.Loop() {
				begin := time.Now()
				m, err := Fit(context.Background(), d, config)
				if err != nil {
					b.Fatal(err)
				}
				if took := time.Since(begin); took < least {
					least, phases = took, fmt.Sprint(m.Report().Phases)
				}
				unit = min(unit, unitOf(d))
			}
			b.Logf("%v", phases)
			b.ReportMetric(float64(least)/1e6, "ms")
			b.ReportMetric(float64(unit)/1e6, "unit-ms")
			b.ReportMetric(float64(least)/float64(unit), "units")
		})
	}
}

// unitOf is the time of a product of the shape of the rows.
func unitOf(d *model.Data) time.Duration {
	c := mat.NewDense(d.M, d.M, nil)
	a, o := tile.Dense(d.X, d.N, d.M, d.M), tile.Dense(d.X, d.N, d.M, d.M)
	least := time.Hour
	for range 3 {
		begin := time.Now()
		if err := tile.Add(context.Background(), tile.Sum{C: c.RawMatrix().Data, Stride: d.M, Alpha: 1, A: a, B: o}); err != nil {
			panic(err)
		}
		least = min(least, time.Since(begin))
	}
	return least
}
