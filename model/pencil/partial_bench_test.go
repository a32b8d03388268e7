package pencil

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// BenchmarkPartial also runs the full decomposition of the same matrix.
func BenchmarkPartial(b *testing.B) {
	for _, n := range []int{256, 784, 1500} {
		for _, name := range []string{"decaying", "even"} {
			var values func(i, n int) float64
			for _, c := range spectra {
				if c.name == name {
					values = c.values
				}
			}
			s := withSpectrum(spectrumOf(n, func(i int) float64 { return values(i, n) }), 5)
			for _, d := range []int{2, 16, 50} {
				b.Run(fmt.Sprintf("n=%d/d=%d/%s", n, d, name), func(b *testing.B) {
					for b.Loop() {
						p, err := Partial(context.Background(), Dense(s), Max, d, nil)
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(p.Products), "products")
						b.ReportMetric(float64(len(p.Notes)), "notes")
					}
				})
			}
			if n < 1500 && name == "even" {
				b.Run(fmt.Sprintf("n=%d/full", n), func(b *testing.B) {
					for b.Loop() {
						if _, _, err := eigen(s); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkPartialSmallEnd is the small end of locally linear embedding: on a
// surface, whose factor is thin, and in 16 dimensions, where it is nearly full.
func BenchmarkPartialSmallEnd(b *testing.B) {
	const n = 5000
	rng := rand.New(rand.NewPCG(n, 11))
	g := mat.NewDense(n, 16, nil)
	for i := range n {
		for j := range 16 {
			g.Set(i, j, rng.NormFloat64()/math.Sqrt(float64(j+1)))
		}
	}
	x, near := roll(n, 10)
	for _, c := range []struct {
		name string
		m    *sparse
	}{{"roll", lle(x, near)}, {"gauss", lle(g, neighbours(g, 10))}} {
		for _, d := range []int{2, 16} {
			b.Run(fmt.Sprintf("n=%d/d=%d/%s", n, d, c.name), func(b *testing.B) {
				for b.Loop() {
					p, err := Partial(context.Background(), c.m, Min, d, ones(n))
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(p.Products), "products")
					b.ReportMetric(newEnvelope(context.Background(), c.m).bytes()/1e6, "MB")
				}
			})
		}
	}
}
