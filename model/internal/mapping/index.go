package mapping

import (
	"errors"
	"math"
	"math/bits"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// errTooFar reports a row whose distances overflow float64.
var errTooFar = errors.New("its distance to every row of the fit exceeds float64; " +
	"look for a feature far outside the range of the fit")

// Workspace is the memory for the projection of one row. Each map allocates the parts that it uses.
type Workspace struct {
	*neighbours            // of the row that is placed
	Row         []float64  // scratch of a map
	many        []float64  // scratch for several rows
	part        []float64  // outputs of the kernel map of a sum
	kernel      *Workspace // of the kernel map of a sum
	fetched     float64    // keeps the compiler from dropping reads that only fill a cache
	search      *search    // of index
	Gram        []float64
	paths       *linalg.Paths
}

// index finds the nearest rows of training. The result is that of comparing float64 sums of squared differences one by
// one, ties to the lower row; float32 products of many rows at once, with a bound on their error, avoid most of them.
type index struct {
	Training *Training
	m, K     int
	reach    []float64 // squared distance below which each row is near; nil: none is

	points *tile.Points // rows, less their mean, times scale; nil: distances only
	norms  []float64    // squared
	bounds []tile.Bounds
	bound  linalg.DistanceBound
	centre []float64
	scale  float64 // so that no number of points is above 1
}

func newIndex(t *Training, m, k int, reach []float64) *index {
	x := &index{Training: t, m: m, K: min(k, t.Len()), reach: reach, centre: make([]float64, m)}
	for i, v := range t.Rows {
		x.centre[i%m] += v / float64(t.Len())
	}
	largest := 0.0
	for i, v := range t.Rows {
		largest = max(largest, math.Abs(v-x.centre[i%m]))
	}
	_, exp := math.Frexp(largest)
	if !linalg.IsFinite(largest) || exp < -400 || exp > 400 {
		return x // squares exceed float64
	}
	x.scale = math.Ldexp(1, -exp)
	x.bound = linalg.NewDistanceBound(m)
	x.points, x.norms = tile.NewPoints(t.Len(), m), make([]float64, t.Len())
	x.bounds = make([]tile.Bounds, x.points.Panels())
	for p := range x.bounds {
		for j := range x.bounds[p] {
			x.bounds[p][j] = unreachable
		}
	}
	row := make([]float32, m)
	for i := range t.Len() {
		x.norms[i] = x.take(row, t.Rows[i*m:(i+1)*m])
		x.points.Set(i, row)
		b, at := &x.bounds[i/tile.PointPanel], i%tile.PointPanel
		b[at] = float32(x.bound.Half(x.norms[i]))
		if reach != nil {
			b[tile.PointPanel+at] = x.lowest(x.norms[i], reach[i])
		}
	}
	return x
}

// unreachable is a bound that no product reaches.
var unreachable = float32(math.Inf(1))

// lowest is the part of a row in the smallest product of rows at this squared distance or less.
func (x *index) lowest(norm, distance float64) float32 {
	return float32(x.bound.Lowest(norm, distance*x.scale*x.scale))
}

// take writes a row in the form of points and returns its squared norm.
func (x *index) take(dst []float32, z []float64) float64 {
	sum := 0.0
	for j, v := range z {
		d := (v - x.centre[j]) * x.scale
		dst[j] = float32(d)
		sum += d * d
	}
	return sum
}

func (x *index) Cost() int { return x.Training.Len() }

// AtOnce is the number of rows that are compared with a panel while it is in the cache.
func (x *index) AtOnce() int { return tile.PointPanel }

func (x *index) Workspace() *Workspace {
	w := &Workspace{search: &search{queries: tile.NewPoints(x.AtOnce(), x.m), query: make([]float32, x.m)}}
	for i := range w.search.found {
		w.search.found[i] = neighbours{Nearest: make([]int, x.K), dist: make([]float64, x.K)}
	}
	return w
}

// search is the memory to find the neighbours of a panel of rows.
type search struct {
	queries  *tile.Points
	query    []float32
	bounds   tile.Bounds
	products tile.Products
	found    [tile.PointPanel]neighbours
}

// neighbours are those of one row.
type neighbours struct {
	norm    float64   // squared, of the row in the form of points
	count   int       // of the nearest rows that are found
	Nearest []int     // nearest first
	dist    []float64 // their squared distances
	near    []int     // rows whose reach the row is in, ascending; a rule may append others
	near2   []float64 // their squared distances
}

// limit is the squared distance from which a row is not among the nearest.
func (f *neighbours) limit() float64 {
	if f.count < len(f.dist) {
		return math.Inf(1)
	}
	return f.dist[f.count-1]
}

// find finds the neighbours of n rows z, AtOnce at most.
func (x *index) find(z []float64, n int, s *search) {
	for i := range s.bounds {
		s.bounds[i] = unreachable
	}
	for i := range n {
		f, row := &s.found[i], z[i*x.m:(i+1)*x.m]
		f.count, f.near, f.near2 = 0, f.near[:0], f.near2[:0]
		if x.points != nil {
			f.norm = x.take(s.query, row)
		}
		if x.points == nil || !(f.norm < 1<<40) { // products might overflow float32
			for r := range x.Training.Len() {
				x.measure(f, row, r)
			}
			continue
		}
		s.queries.Set(i, s.query)
		s.bounds[i] = float32(x.bound.Half(f.norm))
		s.bounds[tile.PointPanel+i] = x.lowest(f.norm, f.limit())
	}
	for p := range x.bounds {
		if n == 1 {
			if s.products.CompareFirst(s.queries, &s.bounds, x.points, p, &x.bounds[p]) {
				x.measureMarked(z, 0, p, s)
			}
			continue
		}
		for group := 0; group < n; group += tile.PointRows {
			if s.products.Compare(s.queries, group, &s.bounds, x.points, p, &x.bounds[p]) {
				x.measureMarked(z, group, p, s)
			}
		}
	}
}

// measureMarked measures the distances of the rows of a group from those of a panel that their products do not exclude.
func (x *index) measureMarked(z []float64, group, p int, s *search) {
	for i, mask := range s.products.Mask {
		q := group + i
		f, before := &s.found[q], s.found[q].count
		limit := f.limit()
		for ; mask != 0; mask &= mask - 1 {
			j := bits.TrailingZeros64(mask)
			r := p*tile.PointPanel + j
			most := f.limit()
			if x.reach != nil {
				most = max(most, x.reach[r])
			}
			if x.bound.Below(f.norm, x.norms[r], s.products.Dot[i*tile.PointPanel+j]) <= most*x.scale*x.scale {
				x.measure(f, z[q*x.m:(q+1)*x.m], r)
			}
		}
		if f.count != before || f.limit() < limit {
			s.bounds[tile.PointPanel+q] = x.lowest(f.norm, f.limit())
		}
	}
}

// measure adds row r to the neighbours of z if it is one.
func (x *index) measure(f *neighbours, z []float64, r int) {
	d := linalg.SquaredDistance(z, x.Training.Rows[r*x.m:(r+1)*x.m])
	if x.reach != nil && d < x.reach[r] {
		f.near, f.near2 = append(f.near, r), append(f.near2, d)
	}
	if !(d < f.limit()) {
		return // a later row must be nearer, and NaN is not
	}
	if f.count < x.K {
		f.count++
	}
	p := f.count - 1
	for ; p > 0 && d < f.dist[p-1]; p-- {
		f.dist[p], f.Nearest[p] = f.dist[p-1], f.Nearest[p-1]
	}
	f.dist[p], f.Nearest[p] = d, r
}

// choose makes the neighbours of one of the rows those of w. zero: the first of them equals the row.
func (x *index) choose(i int, w *Workspace) (zero bool, err error) {
	if w.neighbours = &w.search.found[i]; w.count < x.K {
		return false, errTooFar
	}
	return w.dist[0] == 0, nil
}

// each finds the neighbours of n rows, and places the rows that equal none of the fit by the rule. It ends at the first
// row that cannot be placed.
func (x *index) each(dst, z []float64, n int, w *Workspace, rule func(dst, z []float64, w *Workspace) error) (int,
	error) {
	d := x.Training.D
	x.find(z, n, w.search)
	for i := range n {
		zero, err := x.choose(i, w)
		switch to := dst[i*d : (i+1)*d]; {
		case zero:
			x.Training.put(to, w.Nearest[0])
		case err == nil:
			err = rule(to, z[i*x.m:(i+1)*x.m], w)
		}
		if err != nil {
			return i, err
		}
	}
	return n, nil
}
