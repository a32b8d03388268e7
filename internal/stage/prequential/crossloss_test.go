package prequential

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// countingContext counts how often its error is checked.
type countingContext struct {
	context.Context
	n int
}

func (l *countingContext) Err() error {
	l.n++
	return l.Context.Err()
}

// The nearest of the other rows are those of comparing every pair, with equal rows among them; and training can pause
// meanwhile.
func TestNearestOthers(t *testing.T) {
	const n, d = 500, 3
	r := rand.New(rand.NewPCG(81, 82))
	ref, y := make([]float64, n*d), make([]float64, n*d)
	for i := range ref {
		ref[i], y[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
	}
	for i := range 40 {
		copy(ref[(100+i)*d:(101+i)*d], ref[:d])
		copy(y[(200+i)*d:(201+i)*d], ref[:d])
	}
	for _, ref := range [][]float64{ref, y} {
		var want []int
		for i := range n {
			best, at := 0.0, -1
			for j := range n {
				sum := 0.0
				for c := range d {
					sum += (ref[j*d+c] - y[i*d+c]) * (ref[j*d+c] - y[i*d+c])
				}
				if j != i && (at < 0 || sum < best) {
					best, at = sum, j
				}
			}
			want = append(want, at)
		}
		ctx := &countingContext{Context: t.Context()}
		got, err := nearestOthers(ctx, ref, y, n, d)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the others are %v, %v, want %v", got, err, want)
		}
		if ctx.n < n/comparedRows {
			t.Errorf("of %d rows compared with all others there were %d rests", n, ctx.n)
		}
	}
}
