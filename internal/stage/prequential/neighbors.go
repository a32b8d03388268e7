package prequential

import (
	"context"
	"math"
	"slices"
)

// neighbors finds the nearest of some outputs, in memory that it keeps.
type neighbors struct {
	nearest   []int
	distances []float64
}

// pauseDistances is the number of distances after which learning may pause.
const pauseDistances = 1 << 13

// outside returns, for each row of y, the indices of its k nearest outputs outside a span, nearest first; ties go to
// the lower index. If there are fewer than k, it returns all of them. The next call overwrites the result.
func (f *neighbors) outside(ctx context.Context, outputs []float64, d int, near span, y []float64, k int) ([]int,
	error) {
	n := len(outputs) / d
	k = min(k, n-(near.to-near.from))
	size := len(y) / max(d, 1) * k
	f.nearest = slices.Grow(f.nearest[:0], size)[:size]
	f.distances = slices.Grow(f.distances[:0], k)[:k]
	clear(f.nearest)
	for nearest, done := f.nearest, pauseDistances; len(nearest) > 0; y, nearest = y[d:], nearest[k:] {
		if done >= pauseDistances {
			done = 0
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		done += n
		for i := range f.distances {
			f.distances[i] = math.Inf(1)
		}
		f.compare(outputs, 0, near.from, y[:d], nearest[:k])
		f.compare(outputs, near.to, n, y[:d], nearest[:k])
	}
	return f.nearest, nil
}

// compare adds those of some outputs that are nearer to y than the farthest of the nearest ones. The sum of a squared
// distance only rises with each output. So most end after the first two, in which the rows differ most.
func (f *neighbors) compare(outputs []float64, from, to int, y []float64, nearest []int) {
	d, distances := len(y), f.distances
	first, second, head := 0.0, 0.0, 0
	if d > 2 {
		first, second, head = y[0], y[1], 2
	}
	farthest := distances[len(distances)-1]
	for j := from; j < to; j++ {
		row, distance := outputs[j*d:(j+1)*d:(j+1)*d], 0.0
		if head > 0 {
			p, q := first-row[0], second-row[1]
			if distance = float64(p*p) + q*q; !(distance < farthest) {
				continue
			}
		}
		for c := head; c < len(row); c++ {
			distance += (y[c] - row[c]) * (y[c] - row[c])
		}
		if !(distance < farthest) {
			continue
		}
		at := len(distances) - 1
		for ; at > 0 && distance < distances[at-1]; at-- {
			distances[at], nearest[at] = distances[at-1], nearest[at-1]
		}
		distances[at], nearest[at] = distance, j
		farthest = distances[len(distances)-1]
	}
}
