package model

import (
	"context"
	"fmt"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/moments"
)

// BenchmarkFit is every fit from rows, with the default ridge, and beside it a
// dgemm of the same shape, X'X, to read the figures against.
func BenchmarkFit(b *testing.B) {
	const n, m = 5000, 256
	d := synthetic(1, n, m, 20)
	b.Run(fmt.Sprintf("dgemm/n=%d/m=%d", n, m), func(b *testing.B) {
		x, y := mat.NewDense(n, m, d.X), mat.NewDense(n, m, append([]float64(nil), d.X...))
		c := mat.NewDense(m, m, nil)
		for b.Loop() {
			c.Mul(x.T(), y) // two matrices: gonum takes Syrk for x'x
		}
	})
	for _, method := range methods {
		for _, dim := range []int{2, 9, 16} {
			b.Run(fmt.Sprintf("%s/n=%d/m=%d/d=%d", method.Name, n, m, dim), func(b *testing.B) {
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
		if err := s.Add(d.X, d.Y, nil); err != nil {
			b.Fatal(err)
		}
		for _, method := range methods {
			if method.Streaming != "moments" {
				continue
			}
			b.Run(fmt.Sprintf("%s/m=%d/d=16", method.Name, m), func(b *testing.B) {
				for b.Loop() {
					if _, err := FitMoments(context.Background(), s, nil, d.Classes, Config{Method: method.Name, Dim: 16}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
