package mapping

import (
	"errors"
	"math"

	"github.com/embedd/embedd/model/internal/linalg"
)

// errTooFar reports a row whose distances overflow float64.
var errTooFar = errors.New("its distance to every row of the fit exceeds float64; " +
	"look for a feature far outside the range of the fit")

// Workspace is the memory for the projection of one row. Each map allocates the parts that it uses.
type Workspace struct {
	Row       []float64    // scratch of a map
	many      []float64    // scratch for several rows
	part      []float64    // outputs of one of several maps
	fetched   float64      // keeps the compiler from dropping reads that only fill a cache
	parts     []*Workspace // of the several maps
	query     []float32    // the row in the form of the filter of index
	norm      float64      // of query; negative: the filter cannot be used for the row
	Nearest   []int        // the nearest rows, nearest first
	dist      []float64    // their squared distances
	near      []int        // rows whose neighbour the row would be
	near2     []float64    // their squared distances
	Gram      []float64
	heap      []int
	HeapIndex []int // of each row in heap
}

// index finds the nearest rows of training. The result is that of comparing float64 sums of squared differences one by
// one, ties to the lower row; float32 products with a bound on their error avoid most of them.
type index struct {
	Training *Training
	m, K     int

	stride int
	filter []float32 // n x stride: rows, less their mean, times scale; nil: no filter
	norms  []float64
	bound  linalg.DistanceBound
	centre []float64
	scale  float64 // so that no number of filter is above 1
}

// minFilter is the number of features from which a float32 product is cheaper than the distance.
const minFilter = 12

func NewIndex(t *Training, m, k int) *index {
	x := &index{Training: t, m: m, K: min(k, t.Len())}
	if m < minFilter {
		return x
	}
	x.centre = make([]float64, m)
	for i, v := range t.Rows {
		x.centre[i%m] += v / float64(t.Len())
	}
	largest := 0.0
	for i, v := range t.Rows {
		largest = max(largest, math.Abs(v-x.centre[i%m]))
	}
	_, exp := math.Frexp(largest)
	if !linalg.IsFinite(largest) || exp < -400 || exp > 400 {
		return x // squares exceed float64: use distances only
	}
	x.scale = math.Ldexp(1, -exp)
	x.stride = linalg.Pad(m)
	x.bound = linalg.NewDistanceBound(x.stride)
	x.filter, x.norms = make([]float32, t.Len()*x.stride), make([]float64, t.Len())
	for i := range t.Len() {
		x.norms[i] = x.Take(x.filter[i*x.stride:], t.Rows[i*m:(i+1)*m])
	}
	return x
}

// Take writes a row in the form of the filter and returns its norm.
func (x *index) Take(dst []float32, z []float64) float64 {
	sum := 0.0
	for j, v := range z {
		d := (v - x.centre[j]) * x.scale
		dst[j] = float32(d)
		sum += d * d
	}
	return math.Sqrt(sum)
}

func (x *index) Cost() int { return x.Training.Len() }

func (x *index) Workspace() *Workspace {
	return &Workspace{query: make([]float32, x.stride), Nearest: make([]int, x.K), dist: make([]float64, x.K)}
}

// Nearest finds the K nearest rows of z. zero: the first of them equals z.
func (x *index) Nearest(z []float64, w *Workspace) (zero bool, err error) {
	x.Ready(z, w)
	found := 0
	limit := math.Inf(1)
	for i := range x.Training.Len() {
		if x.below(w, i) > limit {
			continue
		}
		d := linalg.SquaredDistance(z, x.Training.Rows[i*x.m:(i+1)*x.m])
		if !(d < limit) {
			continue // a later row must be nearer, and NaN is not
		}
		if found < x.K {
			found++
		}
		p := found - 1
		for ; p > 0 && d < w.dist[p-1]; p-- {
			w.dist[p], w.Nearest[p] = w.dist[p-1], w.Nearest[p-1]
		}
		w.dist[p], w.Nearest[p] = d, i
		if found == x.K {
			limit = w.dist[x.K-1]
		}
	}
	if found < x.K {
		return false, errTooFar
	}
	return w.dist[0] == 0, nil
}

// known finds the K nearest rows of z. If the first of them equals z, it writes the outputs of that one to dst. done:
// the row is placed, or there is an error.
func (x *index) known(dst, z []float64, w *Workspace) (done bool, err error) {
	zero, err := x.Nearest(z, w)
	if zero {
		x.Training.put(dst, w.Nearest[0])
	}
	return zero || err != nil, err
}

// Ready prepares the filter for z.
func (x *index) Ready(z []float64, w *Workspace) {
	if x.filter == nil {
		return
	}
	if w.norm = x.Take(w.query, z); !(w.norm < 1<<20) {
		w.norm = -1 // products might overflow float32
	}
}

// below is a lower bound of the squared distance between the prepared row and row i.
func (x *index) below(w *Workspace, i int) float64 {
	if x.filter == nil || w.norm < 0 {
		return 0
	}
	product := linalg.BLAS.Sdot(x.stride, x.filter[i*x.stride:(i+1)*x.stride], 1, w.query, 1)
	return x.bound.Below(w.norm, x.norms[i], product) / (x.scale * x.scale)
}
