package graph

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Partition divides the rows of a manifold, usually one class, into patches that are nearly linear, by hierarchical
// division (Wang and Chen 2009, Manifold Discriminant Analysis): the largest patch is split at the two rows that are
// farthest apart along the manifold, until all have fewer than limit rows; the result is the level whose patches have
// a mean ratio of geodesic to Euclidean distance closest to 1. k is the number of neighbours of the graph; while it is
// not connected, k grows by 2, as in the authors' code. A patch of fewer than 4 rows is not split, so none has a
// single row unless there is only one.
//
// Patches are in the order of their first rows, rows ascending. The memory is 16 n^2 bytes, the work n^2 log n.
func Partition(ctx context.Context, x *mat.Dense, k, limit int) ([][]int, error) {
	n, _ := x.Dims()
	limit = max(limit, 4)
	all := linalg.Range(n)
	if n < limit {
		if _, _, _, err := rowsOf(x); err != nil {
			return nil, err
		}
		return [][]int{all}, nil
	}
	nb, err := connected(ctx, x, k)
	if err != nil {
		return nil, err
	}
	lengths, err := nb.Weights(Union, Length)
	if err != nil {
		return nil, err
	}
	geodesic, err := Geodesics(ctx, lengths)
	if err != nil {
		return nil, err
	}
	d := &splitter{nb: nb, geodesic: geodesic, ratio: ratios(x, geodesic), free: make([]bool, n)}
	// The authors' order, for ties between sizes: the two new patches first, then the others.
	level, score := [][]int{all}, []float64{d.mean(all)}
	best, distance := level, math.Abs(score[0]-1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		largest := 0
		for p := range level {
			if len(level[p]) >= len(level[largest]) {
				largest = p
			}
		}
		if len(level[largest]) < limit {
			break
		}
		l, r := d.split(level[largest])
		level = append([][]int{l.rows, r.rows}, slices.Delete(slices.Clone(level), largest, largest+1)...)
		score = append([]float64{l.score(), r.score()}, slices.Delete(score, largest, largest+1)...)
		mean := 0.0
		for _, s := range score {
			mean += s / float64(len(score))
		}
		if off := math.Abs(mean - 1); off < distance {
			best, distance = level, off
		}
	}
	best = slices.Clone(best)
	for _, rows := range best {
		slices.Sort(rows)
	}
	slices.SortFunc(best, func(a, b []int) int { return a[0] - b[0] })
	return best, nil
}

// connected is the lists of the smallest k, k+2, ... whose graph is connected.
func connected(ctx context.Context, x *mat.Dense, k int) (*Neighbors, error) {
	n, _ := x.Dims()
	k = min(max(k, 1), n-1)
	for held := k; ; held = min(2*held+2, n-1) {
		nb, err := Nearest(ctx, x, held)
		if err != nil {
			return nil, err
		}
		for ; k <= held; k = min(k+2, n-1) {
			if part := nb.First(k); parts(part.Components()) == 1 {
				return part, nil
			}
		}
	}
}

// ratios are geodesic over Euclidean distances, at least 1; 1 for equal rows.
func ratios(x *mat.Dense, geodesic *mat.SymDense) *mat.SymDense {
	n := geodesic.SymmetricDim()
	out := mat.NewSymDense(n, nil)
	for i := range n {
		out.SetSym(i, i, 1)
		for j := i + 1; j < n; j++ {
			v := 1.0
			if e := math.Sqrt(squared(x.RawRowView(i), x.RawRowView(j))); e > 0 {
				v = geodesic.At(i, j) / e
			}
			out.SetSym(i, j, v)
		}
	}
	return out
}

// splitter splits patches.
type splitter struct {
	nb              *Neighbors
	geodesic, ratio *mat.SymDense
	free            []bool // rows of the patch that are in no part yet
}

func (d *splitter) mean(rows []int) float64 {
	s := growingPatch{d: d}
	for _, i := range rows {
		s.add(i)
	}
	return s.score()
}

// growingPatch is one of the two growing patches.
type growingPatch struct {
	d     *splitter
	rows  []int
	sum   float64 // of the ratios over all ordered pairs
	reach []bool  // rows in the list of one of its rows
}

func (s *growingPatch) score() float64 { return s.sum / float64(len(s.rows)*len(s.rows)) }

func (s *growingPatch) add(i int) {
	s.sum++
	for _, j := range s.rows {
		s.sum += 2 * s.d.ratio.At(i, j)
	}
	s.rows = append(s.rows, i)
	if s.reach != nil {
		s.d.free[i] = false
		index, _ := s.d.nb.Row(i)
		for _, j := range index {
			s.reach[j] = true
		}
	}
}

// split grows two patches from the two rows farthest apart, each by the neighbours of its rows.
func (d *splitter) split(rows []int) (l, r *growingPatch) {
	slices.Sort(rows)
	first, second, far := rows[0], rows[1], math.Inf(-1)
	for a, i := range rows {
		d.free[i] = true
		for _, j := range rows[a+1:] {
			if g := d.geodesic.At(i, j); g > far {
				first, second, far = i, j, g
			}
		}
	}
	l = &growingPatch{d: d, reach: make([]bool, len(d.free))}
	r = &growingPatch{d: d, reach: make([]bool, len(d.free))}
	r.add(first)
	l.add(second)
	for {
		rows = slices.DeleteFunc(slices.Clone(rows), func(i int) bool { return !d.free[i] })
		if len(rows) == 0 {
			return l, r
		}
		d.grow(l, r, rows)
	}
}

// grow is one round: every free row within reach of a patch is assigned to one.
func (d *splitter) grow(l, r *growingPatch, rows []int) {
	candidates := func(s *growingPatch) (out []int) {
		for _, i := range rows {
			if s.reach[i] {
				out = append(out, i)
			}
		}
		return out
	}
	toL, toR := candidates(l), candidates(r)
	if len(toL) == 0 {
		d.accompany(l, rows)
	}
	if len(toR) == 0 {
		d.accompany(r, rows)
	}
	if len(toL) == 0 && len(toR) == 0 {
		for _, i := range rows {
			switch {
			case !d.free[i]:
			case len(l.rows) < len(r.rows):
				l.add(i)
			default:
				r.add(i)
			}
		}
		return
	}
	var both []int
	for _, i := range toL {
		if _, common := slices.BinarySearch(toR, i); common {
			both = append(both, i)
		} else if d.free[i] {
			l.add(i)
		}
	}
	for _, i := range toR {
		if _, common := slices.BinarySearch(toL, i); !common && d.free[i] {
			r.add(i)
		}
	}
	for _, i := range both {
		switch {
		case len(l.rows) == 1:
			l.add(i)
		case len(r.rows) == 1:
			r.add(i)
		case l.score() < r.score():
			l.add(i)
		default:
			r.add(i)
		}
	}
}

// accompany adds the nearest free row along the manifold to a patch of one row that no free row is a neighbour of, so
// that an outlier is not a patch by itself.
func (d *splitter) accompany(s *growingPatch, rows []int) {
	if len(s.rows) > 1 {
		return
	}
	nearest, least := -1, math.Inf(1)
	for _, i := range rows {
		if g := d.geodesic.At(s.rows[0], i); d.free[i] && g < least {
			nearest, least = i, g
		}
	}
	if nearest >= 0 {
		s.add(nearest)
	}
}
