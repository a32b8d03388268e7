package graph

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fixture"
)

// TestEndOfTheContext: a search, and what is made of it, ends with the error of the context wherever that ends.
func TestEndOfTheContext(t *testing.T) {
	x := clusters(rand.New(rand.NewPCG(6, 7)), 2, 9, 2)
	y := make([]int, 18)
	for i := range y {
		y[i] = i % 3
	}
	nb := mustNearest(t, x, 3)
	apart := mustWeights(t, nb, Union, Binary)
	whole := mustWeights(t, mustNearest(t, x, 17), Union, Length)
	for name, f := range map[string]func(ctx context.Context) error{
		"nearest rows": func(ctx context.Context) error { _, err := Nearest(ctx, x, 3); return err },
		"nearest rows by class": func(ctx context.Context) error {
			_, _, err := NearestByClass(ctx, x, y, 3, 2)
			return err
		},
		"nearest of few rows": func(ctx context.Context) error {
			_, err := NearestTo(ctx, x, mat.NewDense(2, 2, nil), 3)
			return err
		},
		"nearest references": func(ctx context.Context) error { _, err := NearestTo(ctx, x, x, 3); return err },
		"partition":          func(ctx context.Context) error { _, err := Partition(ctx, x, 2, 4); return err },
		"geodesics":          func(ctx context.Context) error { _, err := Geodesics(ctx, whole); return err },
		"barycentric":        func(ctx context.Context) error { _, err := Barycentric(ctx, x, x, nb, 0.1); return err },
		"tangents": func(ctx context.Context) error {
			_, err := Tangents(ctx, x, nb.Patches(), FixedDim(1))
			return err
		},
		"connected lists":   func(ctx context.Context) error { _, _, err := nb.Connect(ctx, x, Connect); return err },
		"connected weights": func(ctx context.Context) error { _, _, err := apart.Connect(ctx, x, Connect, nil); return err },
	} {
		fixture.EndsWithItsContext(t, name, f)
	}
}
