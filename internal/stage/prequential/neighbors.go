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
	gaps      []float64
}

const (
	// pauseDistances is the number of distances after which learning may pause.
	pauseDistances = 1 << 13
	// ballSlack is the largest relative rounding error of a distance between rows of up to a million outputs.
	ballSlack = 1e-9
)

// outside returns, for each row of y, the indices of its n nearest outputs outside a span, nearest first; ties go to
// the lower index. If there are fewer than n, it returns all of them. The next call overwrites the result. It searches
// the class with the nearest mean first, and skips classes whose outputs are all farther than those found.
func (f *neighbors) outside(ctx context.Context, k *outputs, near span, y []float64, n int) ([]int, error) {
	d, all := k.dim, len(k.class)
	n = min(n, all-(near.to-near.from))
	size := len(y) / max(d, 1) * n
	f.nearest = slices.Grow(f.nearest[:0], size)[:size]
	f.distances = slices.Grow(f.distances[:0], n)[:n]
	f.gaps = slices.Grow(f.gaps[:0], len(k.labels))[:len(k.labels)]
	clear(f.nearest)
	for nearest, done := f.nearest, pauseDistances; len(nearest) > 0; y, nearest = y[d:], nearest[n:] {
		if done >= pauseDistances {
			done = 0
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		done += all
		for i := range f.distances {
			f.distances[i] = math.Inf(1)
		}
		first := f.setGaps(k, y[:d])
		f.compare(k, first, near, y[:d], nearest[:n])
		for c, gap := range f.gaps {
			if c != first && !(gap > f.distances[n-1]) {
				f.compare(k, c, near, y[:d], nearest[:n])
			}
		}
	}
	return f.nearest, nil
}

// setGaps sets a lower bound of the squared distances of y from the outputs of each class, and returns the class with
// the nearest mean.
func (f *neighbors) setGaps(k *outputs, y []float64) (nearest int) {
	least := math.Inf(1)
	for c, radius := range k.radius {
		distance := math.Sqrt(squaredDistance(k.mean[c*k.dim:(c+1)*k.dim], y))
		if distance < least {
			least, nearest = distance, c
		}
		gap := max(distance-radius-ballSlack*(distance+radius), 0)
		f.gaps[c] = gap * gap
	}
	return nearest
}

// compare adds those outputs of a class that are nearer to y than the farthest of the nearest ones.
func (f *neighbors) compare(k *outputs, class int, near span, y []float64, nearest []int) {
	d, distances, last := len(y), f.distances, len(nearest)-1
	farthest := distances[last]
	for _, j := range k.rowsOf(class) {
		distance := squaredDistance(y, k.y[j*d:])
		if !(distance < farthest || distance == farthest && j < nearest[last]) || near.from <= j && j < near.to {
			continue
		}
		at := last
		for ; at > 0 && (distance < distances[at-1] || distance == distances[at-1] && j < nearest[at-1]); at-- {
			distances[at], nearest[at] = distances[at-1], nearest[at-1]
		}
		distances[at], nearest[at] = distance, j
		farthest = distances[last]
	}
}
