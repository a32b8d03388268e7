package graph

import (
	"context"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/embedd/embedd/model/internal/parallel"
)

// minPacked is the least number of queries for which the references are packed. To pack them costs as much as to
// compare them with about nine.
const minPacked = 4

// lists are the k nearest rows found up to now for each of n rows, ordered by distance and then by index. The final
// result does not depend on the order of the offers, so it does not depend on the number of cores.
type lists struct {
	k     int
	dist  []float64 // n x k squared distances, ascending
	row   []int     // n x k
	limit []float64 // the last of each row: distances from it on do not count
}

const noNeighbour = math.MaxInt // marks an empty place

func newLists(n, k int) *lists {
	l := &lists{k: k, dist: make([]float64, n*k), row: make([]int, n*k), limit: make([]float64, n)}
	for i := range l.dist {
		l.dist[i], l.row[i] = math.Inf(1), noNeighbour
	}
	for i := range l.limit {
		l.limit[i] = math.Inf(1)
	}
	return l
}

// offer puts row j at distance d into the list of row i if it belongs there.
func (l *lists) offer(i, j int, d float64) {
	dist, at := l.dist[i*l.k:(i+1)*l.k], l.row[i*l.k:(i+1)*l.k]
	p := l.k - 1
	if d > dist[p] || d == dist[p] && j > at[p] {
		return
	}
	for ; p > 0 && (d < dist[p-1] || d == dist[p-1] && j < at[p-1]); p-- {
		dist[p], at[p] = dist[p-1], at[p-1]
	}
	dist[p], at[p] = d, j
	l.limit[i] = dist[l.k-1]
}

// neighbors drops empty places. The lists are not used afterwards.
func (l *lists) neighbors() *Neighbors {
	n := len(l.limit)
	if !slices.Contains(l.row, noNeighbour) {
		nb := &Neighbors{start: make([]int, n+1), index: l.row, dist2: l.dist}
		for i := range n {
			nb.start[i+1] = (i + 1) * l.k
		}
		return nb
	}
	nb := &Neighbors{start: make([]int, n+1), index: make([]int, 0, n*l.k), dist2: make([]float64, 0, n*l.k)}
	for i := range n {
		for p := i * l.k; p < (i+1)*l.k && l.row[p] != noNeighbour; p++ {
			nb.index, nb.dist2 = append(nb.index, l.row[p]), append(nb.dist2, l.dist[p])
		}
		nb.start[i+1] = len(nb.index)
	}
	return nb
}

// search finds nearest rows. Every distance that decides is the float64 sum of squared differences; blocks excludes
// pairs that cannot matter.
type search struct {
	ref, query []float64
	dim        int
	self       bool // ref and query are the same rows: each pair is compared once, for both
	// With classes, same and other get the pairs of one class and of two; nil skips them. Without, same gets all.
	y           []int
	same, other *lists
	memory      searchMemory
}

func (s *search) workers(ctx context.Context) int {
	return parallel.WorkersFor(ctx, float64(len(s.ref))*float64(len(s.query)/s.dim))
}

// run compares all pairs. It stops early when ctx ends.
func (s *search) run(ctx context.Context) error {
	refN, queryN := len(s.ref)/s.dim, len(s.query)/s.dim
	if refN == 0 || queryN == 0 {
		return ctx.Err()
	}
	if queryN < minPacked {
		return s.plain(ctx)
	}
	if before, ok := memories.Get().(*searchMemory); ok {
		s.memory = *before
	}
	defer func() {
		if after := s.memory; after.bytes() <= maxPooled {
			memories.Put(&after)
		}
	}()
	b, err := newBlocks(ctx, s)
	switch {
	case err != nil:
		return err
	case b != nil:
		return b.run(ctx)
	}
	return s.plain(ctx)
}

// maxPooled is the maximum memory of a search, in bytes, that the next one reuses.
const maxPooled = 32 << 20

var memories sync.Pool // of *searchMemory

// searchMemory is the memory of a search.
type searchMemory struct {
	ref, query  []float32
	same, other []candidate
}

func (m *searchMemory) bytes() int {
	return 4*(cap(m.ref)+cap(m.query)) + int(unsafe.Sizeof(candidate{}))*(cap(m.same)+cap(m.other))
}

// plain computes the distances of all pairs.
func (s *search) plain(ctx context.Context) error {
	return parallel.EachOn(ctx, s.workers(ctx), len(s.query)/s.dim, func(q int) {
		for j := range len(s.ref) / s.dim {
			if l := s.list(q, j); l != nil && !(s.self && q == j) {
				l.offer(q, j, squared(s.query[q*s.dim:(q+1)*s.dim], s.ref[j*s.dim:(j+1)*s.dim]))
			}
		}
	})
}

// list is the list that the pair of query q and reference j belongs to, or nil.
func (s *search) list(q, j int) *lists {
	if s.y != nil && s.y[q] != s.y[j] {
		return s.other
	}
	return s.same
}

// squared is the squared Euclidean distance, summed in order: |a-b|^2 and |b-a|^2 have the same bits. Infinite
// coordinates are infinitely far.
func squared(a, b []float64) float64 {
	var sum float64
	for i, v := range b[:len(a)] {
		d := v - a[i]
		sum += d * d
	}
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return sum
}

// squaredFour are the distances from a to four rows, each summed in order, computed together.
func squaredFour(a []float64, b [4][]float64) [4]float64 {
	b0, b1, b2, b3 := b[0][:len(a)], b[1][:len(a)], b[2][:len(a)], b[3][:len(a)]
	var s0, s1, s2, s3 float64
	for i, v := range a {
		d0, d1, d2, d3 := b0[i]-v, b1[i]-v, b2[i]-v, b3[i]-v
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	d := [4]float64{s0, s1, s2, s3}
	for i, v := range d {
		if math.IsNaN(v) {
			d[i] = math.Inf(1)
		}
	}
	return d
}
