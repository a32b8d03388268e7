package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Neighbors are the nearest rows of each of n rows, nearest first. Lists may differ in length: a class may have fewer
// rows than requested.
type Neighbors struct {
	start []int // of row i's list; n+1 of them
	index []int
	dist2 []float64
}

// Len is the number of rows that have a list.
func (nb *Neighbors) Len() int { return len(nb.start) - 1 }

// Row is the list of row i and the squared distances. The slices are shared; do not change them.
func (nb *Neighbors) Row(i int) (index []int, dist2 []float64) {
	from, to := nb.start[i], nb.start[i+1]
	return nb.index[from:to:to], nb.dist2[from:to:to]
}

// Nearest finds the k nearest other rows of each row of x, by Euclidean distance. k is limited to n-1. Duplicates are
// neighbours at distance 0. The work is n^2 m / 2 multiply-adds on all cores, the memory n m float32 and n k.
func Nearest(ctx context.Context, x *mat.Dense, k int) (*Neighbors, error) {
	all, _, err := nearest(ctx, x, nil, k, 0)
	return all, err
}

// NearestByClass finds for each row its same nearest rows of the same class and its other nearest rows of other
// classes; y holds the class of each row. A list is as long as the rows allow. A zero leaves its lists empty and saves
// their work.
func NearestByClass(ctx context.Context, x *mat.Dense, y []int, same, other int) (own, others *Neighbors, err error) {
	if n, _ := x.Dims(); len(y) != n {
		return nil, nil, fmt.Errorf("nearest rows: %d classes for %d rows; give one per row", len(y), n)
	}
	return nearest(ctx, x, y, same, other)
}

func nearest(ctx context.Context, x *mat.Dense, y []int, same, other int) (own, others *Neighbors, err error) {
	rows, n, dim, err := rowsOf(x)
	if err != nil {
		return nil, nil, err
	}
	if same < 0 || other < 0 || same+other < 1 {
		return nil, nil, fmt.Errorf("nearest rows: %d neighbours; give at least 1", same+other)
	}
	s := &search{ref: rows, query: rows, dim: dim, self: true, y: y}
	if same = min(same, n-1); same > 0 {
		s.same = newLists(n, same)
	}
	if other = min(other, n-1); other > 0 {
		s.other = newLists(n, other)
	}
	if err := s.run(ctx); err != nil {
		return nil, nil, err
	}
	own, others = &Neighbors{start: make([]int, n+1)}, &Neighbors{start: make([]int, n+1)}
	if s.same != nil {
		own = s.same.neighbors()
	}
	if s.other != nil {
		others = s.other.neighbors()
	}
	for _, lists := range []*Neighbors{own, others} {
		if k := slices.IndexFunc(lists.dist2, func(d float64) bool { return math.IsInf(d, 0) }); k >= 0 {
			i, _ := slices.BinarySearch(lists.start, k+1)
			return nil, nil, fmt.Errorf("nearest rows: the squared distance between the rows %d and %d exceeds float64 (%.2g); "+
				"divide the rows by a constant", i-1, lists.index[k], math.MaxFloat64)
		}
	}
	return own, others, nil
}

// NearestTo finds the k nearest rows of ref for each row of query: for new samples, so a row equal to a reference has
// it at distance 0. k is limited to the number of references. Rows must be finite; a distance whose square exceeds
// float64 is +Inf.
func NearestTo(ctx context.Context, ref, query *mat.Dense, k int) (*Neighbors, error) {
	refN, dim := ref.Dims()
	queryN, queryDim := query.Dims()
	if k = min(k, refN); k < 1 || dim != queryDim {
		return nil, fmt.Errorf("nearest rows: %d of %d references with %d columns for %d queries with %d", k, refN, dim,
			queryN, queryDim)
	}
	s := &search{ref: contiguous(ref), query: contiguous(query), dim: dim}
	s.same = newLists(queryN, k)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.same.neighbors(), nil
}

// rowsOf checks x and returns its rows without gaps.
func rowsOf(x *mat.Dense) (rows []float64, n, dim int, err error) {
	if n, dim = x.Dims(); n == 0 {
		return nil, 0, 0, errors.New("there are no rows; give at least one")
	}
	rows = contiguous(x)
	for i, v := range rows {
		if v-v != 0 {
			return nil, 0, 0, fmt.Errorf("row %d, column %d is %g; leave such rows out", i/dim, i%dim, v)
		}
	}
	return rows, n, dim, nil
}

// contiguous is the numbers of x row by row, without a copy if x has no gaps.
func contiguous(x *mat.Dense) []float64 {
	r := x.RawMatrix()
	if r.Stride == r.Cols {
		return r.Data[:r.Rows*r.Cols]
	}
	out := make([]float64, 0, r.Rows*r.Cols)
	for i := range r.Rows {
		out = append(out, x.RawRowView(i)...)
	}
	return out
}

// MeanNearest is the mean squared distance to the nearest neighbour, a width for heat weights without a parameter. If
// all rows have duplicates, it is the mean of the positive squared distances in the lists; if there are none, it is
// +Inf, which makes heat weights binary.
func (nb *Neighbors) MeanNearest() float64 {
	nearest, rows, positive, count := 0.0, 0.0, 0.0, 0.0
	for i := range nb.Len() {
		_, list := nb.Row(i)
		for p, d := range list {
			if p == 0 {
				nearest, rows = nearest+d, rows+1
			}
			if d > 0 {
				positive, count = positive+d, count+1
			}
		}
	}
	if nearest > 0 {
		return nearest / rows
	} else if count > 0 {
		return positive / count
	}
	return math.Inf(1)
}

// LocalScale is the distance of each row to the last of its list, the sigma_i of local scaling (Zelnik-Manor and
// Perona 2005). It is at least 1e-3 of the median over the rows of the same class (y; nil: all rows), so that
// duplicates keep their weights.
func (nb *Neighbors) LocalScale(y []int) []float64 {
	sigma := make([]float64, nb.Len())
	of := map[int][]float64{}
	class := func(i int) int {
		if y == nil {
			return 0
		}
		return y[i]
	}
	for i := range sigma {
		if _, d := nb.Row(i); len(d) > 0 {
			sigma[i] = math.Sqrt(d[len(d)-1])
		}
		of[class(i)] = append(of[class(i)], sigma[i])
	}
	floor := map[int]float64{}
	for c, s := range of {
		floor[c] = 1e-3 * median(s)
	}
	for i := range sigma {
		sigma[i] = max(sigma[i], floor[class(i)])
	}
	return sigma
}

// median returns the upper of the two middle values of v, which it reorders; 0 if it is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return linalg.Select(v, len(v)/2)
}

// First limits every list to its k nearest.
func (nb *Neighbors) First(k int) *Neighbors {
	longest := 0
	for i := range nb.Len() {
		longest = max(longest, nb.start[i+1]-nb.start[i])
	}
	if longest <= k {
		return nb
	}
	out := &Neighbors{start: make([]int, nb.Len()+1), index: make([]int, 0, min(len(nb.index), k*nb.Len())),
		dist2: make([]float64, 0, min(len(nb.index), k*nb.Len()))}
	for i := range nb.Len() {
		index, dist2 := nb.Row(i)
		out.index = append(out.index, index[:min(k, len(index))]...)
		out.dist2 = append(out.dist2, dist2[:min(k, len(index))]...)
		out.start[i+1] = len(out.index)
	}
	return out
}

// ShortestPairs keeps the k shortest pairs (i, j), j in the list of i: of all pairs, counted once if both rows list
// each other (y nil), or for each class of i separately. Ties go to the pair with the lower row, then the lower other
// row. With lists at least k long these are the k shortest pairs of all.
func (nb *Neighbors) ShortestPairs(k int, y []int) *Neighbors {
	type pair struct {
		Edge
		i int // whose list it is kept in
	}
	pairs := map[int][]pair{}
	for i := range nb.Len() {
		index, dist2 := nb.Row(i)
		for p, j := range index {
			if y != nil {
				pairs[y[i]] = append(pairs[y[i]], pair{Edge{i, j, dist2[p]}, i})
			} else {
				pairs[0] = append(pairs[0], pair{Edge{min(i, j), max(i, j), dist2[p]}, i})
			}
		}
	}
	kept := make([]bool, len(nb.index))
	for _, all := range pairs {
		slices.SortFunc(all, func(a, b pair) int {
			return cmp.Or(a.compare(b.Edge), a.i-b.i)
		})
		for left, p := k, 0; p < len(all) && left > 0; p++ {
			if p > 0 && all[p].Edge == all[p-1].Edge {
				continue
			}
			e := all[p]
			index, _ := nb.Row(e.i)
			kept[nb.start[e.i]+slices.Index(index, e.I+e.J-e.i)] = true
			left--
		}
	}
	out := &Neighbors{start: make([]int, nb.Len()+1)}
	for i := range nb.Len() {
		for p := nb.start[i]; p < nb.start[i+1]; p++ {
			if kept[p] {
				out.index, out.dist2 = append(out.index, nb.index[p]), append(out.dist2, nb.dist2[p])
			}
		}
		out.start[i+1] = len(out.index)
	}
	return out
}
