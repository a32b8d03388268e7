package preprocess

import (
	"cmp"
	"math"
	"slices"

	"github.com/embedd/embedd/model/internal/frame"
)

// draw chooses count rows stratified by class, at least one of each class where count allows it, in row order. The
// choice is drawn from the seed and from the values of a row, so it depends neither on the order of the rows nor on the
// names of the classes. Duplicates of a row come after all distinct rows: as a landmark they add nothing.
func draw(p *frame.Rows, count int, seed uint64) []int {
	ranked := make([]rankedRow, p.N)
	for i := range ranked {
		ranked[i] = rankedRow{row: i, hash: hashRow(p.X[i*p.M:(i+1)*p.M], seed)}
	}
	of := make([][]rankedRow, max(1, len(p.Classes)))
	for i, l := range ranked {
		c := 0
		if p.Y != nil {
			c = p.Y[i]
		}
		of[c] = append(of[c], l)
	}
	of = slices.DeleteFunc(of, func(c []rankedRow) bool { return len(c) == 0 })
	for _, c := range of {
		slices.SortFunc(c, rankedRow.compare)
		for i := range c[1:] {
			if c[i+1].hash == c[i].hash {
				c[i+1].duplicates = c[i].duplicates + 1
			}
		}
		slices.SortFunc(c, rankedRow.compare)
	}
	slices.SortFunc(of, func(a, b []rankedRow) int { return a[0].compare(b[0]) })
	var pick []int
	for i, n := range quotas(of, p.N, count) {
		for _, l := range of[i][:n] {
			pick = append(pick, l.row)
		}
	}
	slices.Sort(pick)
	return pick
}

// quotas divides count among classes of n rows in all, in proportion to their sizes and at least one each; the largest
// quotas pay for that. With more classes than count, the first ones get one each.
func quotas(of [][]rankedRow, n, count int) []int {
	taken, all, share := make([]int, len(of)), 0, frame.Shares(n, count)
	for i, c := range of {
		taken[i] = max(1, share(len(c)))
		all += taken[i]
	}
	if len(of) > count {
		clear(taken[count:])
		for i := range count {
			taken[i] = 1
		}
		return taken
	}
	for ; all > count; all-- {
		taken[slices.Index(taken, slices.Max(taken))]--
	}
	return taken
}

// rankedRow is a row with its place in the draw: the lowest ones are chosen.
type rankedRow struct {
	duplicates int // equal rows before it
	hash       uint64
	row        int
}

func (a rankedRow) compare(b rankedRow) int {
	return cmp.Or(cmp.Compare(a.duplicates, b.duplicates), cmp.Compare(a.hash, b.hash), cmp.Compare(a.row, b.row))
}

// hashRow is a pseudo-random number determined by the values and the seed: each value in turn goes through the mixing
// function of SplitMix64 (Steele, Lea and Flood 2014).
func hashRow(values []float64, seed uint64) uint64 {
	h := seed
	for _, v := range values {
		h += math.Float64bits(v+0) + 0x9e3779b97f4a7c15 // v+0: -0 and 0 are the same value
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
