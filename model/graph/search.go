package graph

import (
	"context"
	"math"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

const (
	tileBytes = 128 << 10 // of filter rows on each side of a tile: both sides stay in the second cache
	filterDim = 12        // from here on a float32 product is cheaper than the distance
	serial    = 1 << 20   // multiply-adds of a call that one core does alone
)

// lists are the k nearest found so far of each of n rows, ordered by distance
// and then by index. What they hold in the end does not depend on the order of
// the offers, so neither on the number of cores.
type lists struct {
	k     int
	dist  []float64 // n x k squared distances, ascending
	row   []int     // n x k
	limit []float64 // the last of each row: the distance that counts no more
}

const noNeighbour = math.MaxInt // stands where no neighbour is found yet

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

// neighbors drops the places that stayed empty.
func (l *lists) neighbors() *Neighbors {
	n := len(l.limit)
	nb := &Neighbors{start: make([]int, n+1), index: make([]int, 0, n*l.k), dist2: make([]float64, 0, n*l.k)}
	for i := range n {
		for p := i * l.k; p < (i+1)*l.k && l.row[p] != noNeighbour; p++ {
			nb.index, nb.dist2 = append(nb.index, l.row[p]), append(nb.dist2, l.dist[p])
		}
		nb.start[i+1] = len(nb.index)
	}
	return nb
}

// search finds nearest rows. Every distance that decides is the sum of squared
// differences in float64; a product in float32 with a bound on its error says
// which pairs cannot matter.
type search struct {
	ref, query []float64
	dim        int
	self       bool    // ref and query are the same rows: a pair is looked at once, for both
	filter     *filter // nil: every distance is computed
	// With classes, same and other take the pairs that share one and those that
	// do not; nil skips them. Without, same takes all.
	y           []int
	same, other *lists
}

func newSearch(ref, query []float64, dim int, self bool) *search {
	s := &search{ref: ref, query: query, dim: dim, self: self}
	if dim >= filterDim {
		s.filter = newFilter(ref, query, dim, self)
	}
	return s
}

// rowsPerTile is the side of a tile.
func (s *search) rowsPerTile() int { return min(max(tileBytes/(4*s.dim), 32), 256) }

func (s *search) workers(ctx context.Context) int {
	refN, queryN := len(s.ref)/s.dim, len(s.query)/s.dim
	if float64(refN)*float64(queryN)*float64(s.dim) <= serial {
		return 1
	}
	return parallel.Workers(ctx)
}

// run goes over all pairs. It stops early when ctx ends.
func (s *search) run(ctx context.Context) error {
	side := s.rowsPerTile()
	refN, queryN := len(s.ref)/s.dim, len(s.query)/s.dim
	blocks := (queryN + side - 1) / side
	if blocks == 0 || refN == 0 {
		return ctx.Err()
	}
	tasks, task := blocks, func(b int) {
		from, to := b*side, min((b+1)*side, queryN)
		for r := 0; r < refN && ctx.Err() == nil; r += side {
			s.scan(from, to, r, min(r+side, refN))
		}
	}
	if s.self {
		// Tiles go by circular diagonals: those of one diagonal meet at most two
		// others, so that workers seldom wait for each other's rows, and the rows
		// near each other in the input set the limits first.
		locks := make([]sync.Mutex, blocks)
		tasks, task = blocks*(blocks/2+1), func(t int) {
			d, a := t/blocks, t%blocks
			if 2*d == blocks && a >= d {
				return // the middle diagonal of an even number holds every tile twice
			}
			b := (a + d) % blocks
			a, b = min(a, b), max(a, b)
			locks[a].Lock()
			defer locks[a].Unlock()
			if a != b {
				locks[b].Lock()
				defer locks[b].Unlock()
			}
			s.tile(a*side, min((a+1)*side, queryN), b*side, min((b+1)*side, queryN))
		}
	}
	return parallel.EachOn(ctx, min(s.workers(ctx), blocks), tasks, task)
}

// scan looks at the pairs of queries [q0, q1) and references [r0, r1) for the
// queries alone: the inner loop of nearest-neighbour classification.
func (s *search) scan(q0, q1, r0, r1 int) {
	l := s.same
	for q := q0; q < q1; q++ {
		b, limit := s.query[q*s.dim:(q+1)*s.dim], l.limit[q]
		for j := r0; j < r1; j++ {
			if s.filter != nil && s.filter.below(q, j) > limit {
				continue
			}
			sum := 0.0
			for i, v := range s.ref[j*s.dim:][:len(b)] {
				d := v - b[i]
				sum += d * d
			}
			if sum > limit {
				continue
			}
			l.offer(q, j, s.distance(q, j))
			limit = l.limit[q]
		}
	}
}

// tile looks at the pairs of rows [q0, q1) and rows [r0, r1), for both.
func (s *search) tile(q0, q1, r0, r1 int) {
	for q := q0; q < q1; q++ {
		j := r0
		if r0 == q0 {
			j = q + 1
		}
		for ; j < r1; j++ {
			l := s.same
			if s.y != nil && s.y[q] != s.y[j] {
				l = s.other
			}
			if l == nil {
				continue
			}
			limit := max(l.limit[q], l.limit[j])
			if s.filter != nil && s.filter.below(q, j) > limit {
				continue
			}
			d := s.distance(q, j)
			if d > limit {
				continue
			}
			l.offer(q, j, d)
			l.offer(j, q, d)
		}
	}
}

func (s *search) distance(q, j int) float64 {
	return squared(s.query[q*s.dim:(q+1)*s.dim], s.ref[j*s.dim:(j+1)*s.dim])
}

// squared is the squared Euclidean distance, summed in order: |a-b|^2 and
// |b-a|^2 are the same bits. Infinite coordinates are infinitely far.
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

// filter bounds distances from below by products in float32 of rows that are
// centred at the mean reference and scaled to at most 1.
type filter struct {
	ref, query         []float32 // stride numbers a row
	refNorm, queryNorm []float64 // Euclidean, of the scaled rows
	stride             int
	unscale            float64 // squared distances of the rows over those of the scaled ones
	bound              linalg.DistanceBound
}

func newFilter(ref, query []float64, dim int, self bool) *filter {
	mean := make([]float64, dim)
	n := float64(len(ref) / dim)
	for i, v := range ref {
		mean[i%dim] += v / n
	}
	largest := 0.0
	for _, x := range [][]float64{ref, query} {
		for i, v := range x {
			largest = max(largest, math.Abs(v-mean[i%dim]))
		}
	}
	_, exp := math.Frexp(largest)
	if math.IsNaN(largest) || math.IsInf(largest, 0) || exp < -400 || exp > 400 {
		return nil // their squares leave float64; the distances decide as they are
	}
	scale := math.Ldexp(1, -exp)
	stride := linalg.Pad(dim)
	f := &filter{stride: stride, bound: linalg.NewDistanceBound(stride), unscale: 1 / (scale * scale)}
	f.ref, f.refNorm = f.load(ref, mean, dim, scale)
	if f.query, f.queryNorm = f.ref, f.refNorm; !self {
		f.query, f.queryNorm = f.load(query, mean, dim, scale)
	}
	return f
}

func (f *filter) load(x, mean []float64, dim int, scale float64) ([]float32, []float64) {
	n := len(x) / dim
	rows, norm := make([]float32, n*f.stride), make([]float64, n)
	for i := range n {
		z := rows[i*f.stride:]
		for j, v := range x[i*dim : (i+1)*dim] {
			d := (v - mean[j]) * scale
			z[j] = float32(d)
			norm[i] += d * d
		}
		norm[i] = math.Sqrt(norm[i])
	}
	return rows, norm
}

// below is at most the squared distance of query q and reference j.
func (f *filter) below(q, j int) float64 {
	dot := linalg.BLAS.Sdot(f.stride, f.ref[j*f.stride:(j+1)*f.stride], 1, f.query[q*f.stride:(q+1)*f.stride], 1)
	return f.bound.Below(f.queryNorm[q], f.refNorm[j], dot) * f.unscale
}
