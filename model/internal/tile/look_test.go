package tile_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/embedd/embedd/model/internal/tile"
)

// looks counts how often a context, which has ended already, is checked.
type looks struct {
	context.Context
	count atomic.Int64
}

func (l *looks) Err() error {
	l.count.Add(1)
	return context.Canceled
}

// TestAddLooks: a product checks its context between pieces of a few million multiply-adds, so that training can pause
// there, and still completes.
func TestAddLooks(t *testing.T) {
	const n = 384
	x := make([]float64, n*n)
	for i := range x {
		x[i] = float64(i%13) - 6
	}
	o := tile.Dense(x, n, n, n)
	sum := func(ctx context.Context) []float64 {
		c := make([]float64, n*n)
		if err := tile.Add(ctx, tile.Sum{C: c, Stride: n, Alpha: 1, A: o, B: o}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	l := &looks{Context: t.Context()}
	ended := sum(l)
	if !slices.Equal(ended, sum(t.Context())) {
		t.Error("the end of the context shows in the product")
	}
	if least := int64(n * n * n / 4_000_000); l.count.Load() < least {
		t.Errorf("%d looks at the context, want %d or more", l.count.Load(), least)
	}
}
