package graph

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// blockBytes is the memory of the points on each side of a block of pairs: both sides fit into the second-level cache.
const blockBytes = 256 << 10

// blocks compares the pairs of a search by float32 products of rows that are centred at one point (a large mean would
// swamp the differences) and scaled to at most 1 (nothing overflows). A product bounds the squared distance from both
// sides. For each row it keeps the pairs whose distance may be among the k smallest.
type blocks struct {
	s          *search
	ref, query *points
	bound      linalg.DistanceBound // of scaled rows
	unit       float64              // squared distances of the scaled rows over those of the rows
	side       int                  // points on each side of a block
	same       *shortlist
	other      *shortlist
	limitless  []tile.Bounds // of references: bounds that exclude nothing
}

// points are the rows of one side. With classes they are ordered by class, so that most blocks have pairs of one list
// only.
type points struct {
	tile.Points
	row   []int32   // of each point
	class []int32   // of each, nil without classes
	norm  []float64 // squared
}

// newBlocks returns nil if squares of the rows exceed float64: distances are then compared directly.
func newBlocks(ctx context.Context, s *search) (*blocks, error) {
	n := len(s.ref) / s.dim
	some := min(n, 256) // any point among the rows works
	mean := linalg.Mean(some, s.dim, func(i int) []float64 { return s.ref[i*n/some*s.dim:][:s.dim] })
	largest := 0.0
	for _, x := range [][]float64{s.ref, s.query} {
		far, err := farthest(ctx, x, mean, s.workers(ctx))
		if err != nil {
			return nil, err
		}
		largest = max(largest, far)
		if s.self {
			break
		}
	}
	_, exp := math.Frexp(largest)
	if math.IsNaN(largest) || math.IsInf(largest, 0) || exp < -400 || exp > 400 {
		return nil, nil
	}
	scale := math.Ldexp(1, -exp)
	b := &blocks{s: s, bound: linalg.NewDistanceBound(s.dim), unit: scale * scale}
	b.side = min(max(blockBytes/(4*s.dim*tile.PointPanel), 1), 8) * tile.PointPanel
	var err error
	if b.ref, err = newPoints(ctx, &s.memory.ref, s.ref, s.dim, s.y, mean, scale, s.workers(ctx)); err != nil {
		return nil, err
	}
	if b.query = b.ref; !s.self {
		if b.query, err = newPoints(ctx, &s.memory.query, s.query, s.dim, nil, mean, scale, s.workers(ctx)); err != nil {
			return nil, err
		}
		b.limitless = b.bounds(b.ref)
	}
	if s.same != nil {
		b.same = b.newShortlist(&s.memory.same, s.same)
	}
	if s.other != nil {
		b.other = b.newShortlist(&s.memory.other, s.other)
	}
	return b, nil
}

// farthest is the largest difference of a coordinate from the mean.
func farthest(ctx context.Context, x, mean []float64, workers int) (float64, error) {
	far := make([]float64, len(x)/len(mean))
	err := parallel.EachOn(ctx, workers, len(far), func(i int) {
		largest := uint64(0) // bits of an absolute value: they order as the numbers do, with NaN above all
		for j, v := range x[i*len(mean):][:len(mean)] {
			largest = max(largest, math.Float64bits(v-mean[j])&^(1<<63))
		}
		far[i] = math.Float64frombits(largest)
	})
	return slices.Max(far), err
}

func newPoints(ctx context.Context, memory *[]float32, x []float64, dim int, y []int, mean []float64, scale float64,
	workers int) (*points, error) {
	n := len(x) / dim
	p := &points{Points: *tile.PointsIn(memory, n, dim), row: make([]int32, n), norm: make([]float64, n)}
	for i := range p.row {
		p.row[i] = int32(i)
	}
	if y != nil {
		slices.SortStableFunc(p.row, func(a, b int32) int { return y[a] - y[b] })
		p.class = make([]int32, n)
		for i, r := range p.row {
			p.class[i] = int32(y[r])
		}
	}
	return p, parallel.EachOn(ctx, workers, p.Panels(), func(panel int) {
		z := make([]float32, dim)
		for i := panel * tile.PointPanel; i < min(n, (panel+1)*tile.PointPanel); i++ {
			norm := 0.0
			for j, v := range x[int(p.row[i])*dim:][:dim] {
				d := (v - mean[j]) * scale
				z[j] = float32(d)
				norm += d * d
			}
			p.norm[i] = norm
			p.Set(i, z)
		}
	})
}

// bounds returns bounds that exclude all pairs, for the points of each panel. Shortlists lower them.
func (b *blocks) bounds(p *points) []tile.Bounds {
	all := make([]tile.Bounds, p.Panels())
	never := float32(math.Inf(1))
	for i := range all {
		for j := range all[i] {
			all[i][j] = never
		}
	}
	for i, norm := range p.norm {
		all[i/tile.PointPanel][i%tile.PointPanel] = float32(b.bound.Half(norm))
	}
	return all
}

// interval bounds a distance that is d with an error of at most off. The lower bound is not negative, except for
// rounding; nor is the upper bound minus zero, whose bits would be those of the smallest number.
func interval(d, off float64) (low, high float32) {
	low, high = float32(d-off), float32(d+off)
	if !(high > 0) {
		high = 0
	}
	return low, high
}

// candidate is a point that may be near, and the bounds of its scaled squared distance.
type candidate struct {
	low, high float32
	at        int32
}

// shortlist is the candidates for each point of the query side.
type shortlist struct {
	b      *blocks
	l      *lists
	room   int
	count  []int32
	found  []candidate // n x room
	high   []float32   // n x k: heaps of the least upper bounds of each point's candidates, the largest first
	limit  []float32   // candidates above it do not count
	bounds []tile.Bounds
}

func (b *blocks) newShortlist(memory *[]candidate, l *lists) *shortlist {
	n, room := b.query.N, l.k+max(l.k, 24)
	if cap(*memory) < n*room {
		*memory = make([]candidate, n*room)
	}
	c := &shortlist{b: b, l: l, room: room, count: make([]int32, n), found: (*memory)[:n*room],
		limit: make([]float32, n), bounds: b.bounds(b.query), high: make([]float32, n*l.k)}
	for i := range c.high {
		c.high[i] = float32(math.Inf(1))
	}
	for q := range n {
		c.lower(q, math.Inf(1))
	}
	return c
}

// lower sets the limit of point q: a pair whose product is below the resulting bound is not a candidate.
func (c *shortlist) lower(q int, limit float64) {
	c.limit[q] = float32(limit)
	c.bounds[q/tile.PointPanel][tile.PointPanel+q%tile.PointPanel] = float32(c.b.bound.Lowest(c.b.query.norm[q],
		limit))
}

// add adds a candidate to the list of point q. If that is full, it drops candidates above the limit.
func (c *shortlist) add(q int, x candidate) {
	c.found[q*c.room+int(c.count[q])] = x
	if high := c.high[q*c.l.k:][:c.l.k]; x.high < high[0] {
		replaceLargest(high, x.high)
		if high[0] < c.limit[q] {
			c.lower(q, float64(high[0]))
		}
	}
	if c.count[q]++; int(c.count[q]) < c.room {
		return
	}
	c.prune(q)
	if int(c.count[q]) > c.l.k+(c.room-c.l.k)/2 {
		c.flush(q) // too many that the bounds do not separate
	}
}

// replaceLargest replaces the largest number of a heap, which is its first.
func replaceLargest(heap []float32, v float32) {
	at := 0
	for next := 1; next < len(heap); next = 2*at + 1 {
		if next+1 < len(heap) && heap[next+1] > heap[next] {
			next++
		}
		if heap[next] <= v {
			break
		}
		heap[at] = heap[next]
		at = next
	}
	heap[at] = v
}

// prune drops candidates of point q above its limit.
func (c *shortlist) prune(q int) {
	kept, limit, list := 0, c.limit[q], c.found[q*c.room:][:c.count[q]]
	for _, x := range list {
		list[kept] = x
		if x.low <= limit {
			kept++
		}
	}
	c.count[q] = int32(kept)
}

// flush computes the distances of the candidates of point q, offers them to the list, and empties the shortlist.
func (c *shortlist) flush(q int) {
	s, dim := c.b.s, c.b.s.dim
	row := int(c.b.query.row[q])
	x := s.query[row*dim:][:dim]
	list := c.found[q*c.room:][:c.count[q]]
	for len(list) > 0 {
		var other [4][]float64
		for i := range other {
			at := int(c.b.ref.row[list[min(i, len(list)-1)].at])
			other[i] = s.ref[at*dim:][:dim]
		}
		d := squaredFour(x, other)
		for i := range min(len(list), len(d)) {
			c.l.offer(row, int(c.b.ref.row[list[i].at]), d[i])
		}
		list = list[min(len(list), len(d)):]
	}
	c.count[q] = 0
	// Twice the rounding error of float32, and its denormals.
	if limit := c.l.limit[row]*c.b.unit*(1+0x1p-22) + 0x1p-126; limit < float64(c.limit[q]) {
		c.lower(q, limit)
	}
}

// run compares all pairs and completes the lists. It stops early when ctx ends.
func (b *blocks) run(ctx context.Context) error {
	refN, queryN := b.ref.N, b.query.N
	count := (queryN + b.side - 1) / b.side
	tasks, task := count, func(t int) {
		var w comparison
		for r := 0; r < refN && ctx.Err() == nil; r += b.side {
			b.block(&w, t*b.side, min((t+1)*b.side, queryN), r, min(r+b.side, refN))
		}
	}
	if b.s.self {
		// Blocks are compared by circular diagonals, so that rows near each other in the input set the limits first,
		// and pairs without a common block come first, so that workers rarely wait for each other's rows.
		locks, order := make([]sync.Mutex, count), diagonals(count)
		tasks, task = len(order), func(t int) {
			i, j := order[t][0], order[t][1]
			i, j = min(i, j), max(i, j)
			locks[i].Lock()
			defer locks[i].Unlock()
			if i != j {
				locks[j].Lock()
				defer locks[j].Unlock()
			}
			var w comparison
			b.block(&w, i*b.side, min((i+1)*b.side, queryN), j*b.side, min((j+1)*b.side, queryN))
		}
	}
	if err := parallel.EachOn(ctx, min(b.s.workers(ctx), count), tasks, task); err != nil {
		return err
	}
	return parallel.EachOn(ctx, b.s.workers(ctx), queryN, func(q int) {
		for _, c := range []*shortlist{b.same, b.other} {
			if c != nil {
				c.prune(q)
				c.flush(q)
			}
		}
	})
}

// diagonals are all pairs of count blocks, including each block with itself, ordered by the distance of the two around
// a circle. Of one distance d, pairs that begin in the first, third, fifth d blocks come before the others: these have
// no block in common.
func diagonals(count int) [][2]int {
	var order [][2]int
	for d := range count/2 + 1 {
		for odd := range 2 {
			for i := range count {
				if i/max(d, 1)%2 == odd && (2*d != count || i < d) { // half way round, every pair would come twice
					order = append(order, [2]int{i, (i + d) % count})
				}
			}
		}
	}
	return order
}

// comparison is the scratch of one worker.
type comparison struct {
	tile.Products
	rows, columns tile.Bounds // distances up to which a pair enters the neighbours of its row, or of its column
}

// block compares the points [q0, q1) with [r0, r1): for both if the search is within one set of rows, else for the
// first.
func (b *blocks) block(w *comparison, q0, q1, r0, r1 int) {
	for p := r0 / tile.PointPanel; p*tile.PointPanel < r1; p++ {
		for group := q0; group < q1; group += tile.PointRows {
			if b.s.self && (p+1)*tile.PointPanel <= group {
				continue // each pair once: the second point is the later one
			}
			list := b.same
			if b.s.y != nil {
				first, last := b.classes(b.query, group, tile.PointRows)
				left, right := b.classes(b.ref, p*tile.PointPanel, tile.PointPanel)
				switch {
				case last < left || right < first:
					list = b.other
				case first == last && left == right:
				case b.same == nil:
					list = b.other
				case b.other != nil:
					b.mixed(w, group, p)
					continue
				}
			}
			if list == nil {
				continue
			}
			columns := b.limitless
			if b.s.self {
				columns = list.bounds
			}
			if w.Compare(&b.query.Points, group, &list.bounds[group/tile.PointPanel], &b.ref.Points, p, &columns[p]) {
				b.take(w, group, p)
			}
		}
	}
}

// classes are the first and the last class of count points starting at at.
func (b *blocks) classes(p *points, at, count int) (first, last int32) {
	return p.class[at], p.class[min(at+count, p.N)-1]
}

// mixed compares a group with a panel whose pairs belong to either list.
func (b *blocks) mixed(w *comparison, group, p int) {
	q := group / tile.PointPanel
	for i := range w.rows {
		w.rows[i] = min(b.same.bounds[q][i], b.other.bounds[q][i])
		w.columns[i] = min(b.same.bounds[p][i], b.other.bounds[p][i])
	}
	if w.Compare(&b.query.Points, group, &w.rows, &b.ref.Points, p, &w.columns) {
		b.take(w, group, p)
	}
}

// take adds the pairs that the bounds do not exclude.
func (b *blocks) take(w *comparison, group, p int) {
	for i, mask := range w.Mask {
		q := group + i
		if b.s.self {
			if after := q + 1 - p*tile.PointPanel; after > 0 {
				mask &^= 1<<after - 1
			}
		}
		for ; mask != 0; mask &= mask - 1 {
			in := bits.TrailingZeros64(mask)
			r := p*tile.PointPanel + in
			list := b.same
			if b.s.y != nil && b.query.class[q] != b.ref.class[r] {
				list = b.other
			}
			if list == nil {
				continue
			}
			norms := b.query.norm[q] + b.ref.norm[r]
			d, off := norms-2*float64(w.Dot[i*tile.PointPanel+in]), b.bound.Relative*norms+b.bound.Absolute
			low, high := interval(d, off)
			if low <= list.limit[q] {
				list.add(q, candidate{low, high, int32(r)})
			}
			if b.s.self && low <= list.limit[r] {
				list.add(r, candidate{low, high, int32(q)})
			}
		}
	}
}
