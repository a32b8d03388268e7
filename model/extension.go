package model

import (
	"errors"
	"fmt"
	"math"
)

// training is what every extension of an embedding starts from: rows of the
// fit, in scaled coordinates, and where the fit put them. A row at distance 0
// from one of them is put where that one is, the first where there are several:
// no rule is asked. (The rules themselves do not all give it back.)
type training struct {
	d         int
	rows      []float64 // n x m
	embedding []float64 // n x d
}

func (t *training) dim() int { return t.d }

// n is the number of rows.
func (t *training) n() int { return len(t.embedding) / t.d }

// values are the outputs of the rows, n x d.
func (t *training) values() []float64 { return t.embedding }

func (t *training) check(m, _ int) error {
	n := len(t.rows) / m
	switch {
	case n < 1 || len(t.rows) != n*m:
		return fmt.Errorf("%d numbers in rows; at least one row of %d is needed", len(t.rows), m)
	case t.d > len(t.embedding) || len(t.embedding) != n*t.d: // the first keeps n*d from overflowing
		return fmt.Errorf("%d numbers in embedding, %d x %d are needed", len(t.embedding), n, t.d)
	}
	return nil
}

// arrays of every extension, with those of its rule behind them.
func (t *training) with(rule ...array) []array {
	n := t.n()
	return append([]array{
		{"rows", []int{n, len(t.rows) / n}, t.rows},
		{"embedding", []int{n, t.d}, t.embedding},
	}, rule...)
}

// rebuildTraining takes the arrays of every extension, and checks that the
// rule's have these names and numbers of axes.
func rebuildTraining(kind string, arrays []array, names []string, axes []int) (training, []array, error) {
	names = append([]string{"rows", "embedding"}, names...)
	axes = append([]int{2, 2}, axes...)
	if len(arrays) != len(names) || !named(arrays, names, axes) {
		return training{}, nil, fmt.Errorf("a map of kind %s has the arrays %v, of %v axes, in this order", kind, names, axes)
	}
	return training{arrays[1].shape[1], arrays[0].data, arrays[1].data}, arrays[2:], nil
}

// training is rows of the task with their embedding, of d numbers each; nil
// for all rows.
func (t *task) training(rows []int, embedding []float64, d int) training {
	return training{d, t.features(rows), embedding}
}

// features are rows of the task, n x m, nil for all: scaled as the projection
// scales them, so that one that comes back has distance 0, exactly. They have
// all features, where t.x may be in a basis of its own.
func (t *task) features(rows []int) []float64 {
	if rows == nil {
		rows = columns(t.rows.n)
	}
	d := t.rows.data
	raw := DenseRows(d.X, d.N, d.M)
	out := make([]float64, len(rows)*d.M)
	for i, r := range rows {
		raw.scaled(out[i*d.M:(i+1)*d.M], t.rows.at[r], t.stat.mean, t.stat.scale, t.scaling == Unit)
	}
	return out
}

// put writes the embedding of row i to dst.
func (t *training) put(dst []float64, i int) { copy(dst, t.embedding[i*t.d:(i+1)*t.d]) }

// errFar is the error of a row whose distances leave float64.
var errFar = errors.New("its distance to every row of the fit leaves float64; look for a feature far outside the range of the fit")

// workspace is the memory in which one row is placed. Each mapping makes the
// parts that it uses.
type workspace struct {
	row   []float64 // of a mapping's own use
	query []float32 // the row as the filter of index sees it
	norm  float64   // of query; negative: the filter does not hold for the row
	at    []int     // the nearest rows, nearest first
	dist  []float64 // their squared distances
	near  []int     // rows that have the row within their reach
	near2 []float64 // their squared distances
	gram  []float64
	heap  []int
	place []int // of each row in heap
}

// index finds the nearest rows of training. The answer is that of comparing the
// sums of squared differences in float64 one after the other, ties to the lower
// row; products in float32, with a bound on their error, spare most of them.
type index struct {
	of   *training
	m, k int

	stride int
	filter []float32 // n x stride: rows, less their mean, times scale; nil: no filter
	norms  []float64
	centre []float64
	scale  float64 // so that no number of filter is above 1
}

// minFilter is the number of features from which on a product in float32 is
// cheaper than the distance.
const minFilter = 12

func newIndex(t *training, m, k int) *index {
	x := &index{of: t, m: m, k: min(k, t.n())}
	if m < minFilter {
		return x
	}
	x.centre = make([]float64, m)
	for i, v := range t.rows {
		x.centre[i%m] += v / float64(t.n())
	}
	largest := 0.0
	for i, v := range t.rows {
		largest = max(largest, math.Abs(v-x.centre[i%m]))
	}
	_, exp := math.Frexp(largest)
	if !isFinite(largest) || exp < -400 || exp > 400 {
		return x // squares leave float64; the distances decide as they are
	}
	x.scale = math.Ldexp(1, -exp)
	x.stride = (m + lane - 1) / lane * lane
	x.filter, x.norms = make([]float32, t.n()*x.stride), make([]float64, t.n())
	for i := range t.n() {
		x.norms[i] = x.take(x.filter[i*x.stride:], t.rows[i*m:(i+1)*m])
	}
	return x
}

// take writes a row as the filter sees it and returns its norm.
func (x *index) take(dst []float32, z []float64) float64 {
	sum := 0.0
	for j, v := range z {
		d := (v - x.centre[j]) * x.scale
		dst[j] = float32(d)
		sum += d * d
	}
	return math.Sqrt(sum)
}

func (x *index) cost() int { return x.of.n() }

func (x *index) workspace() *workspace {
	return &workspace{query: make([]float32, x.stride), at: make([]int, x.k), dist: make([]float64, x.k)}
}

// nearest finds the k nearest rows of z. zero says that the first of them is z.
func (x *index) nearest(z []float64, w *workspace) (zero bool, err error) {
	x.ready(z, w)
	found := 0
	limit := math.Inf(1)
	for i := range x.of.n() {
		if x.below(w, i) > limit {
			continue
		}
		d := squaredDistance(z, x.of.rows[i*x.m:(i+1)*x.m])
		if !(d < limit) {
			continue // a later row must be nearer, and NaN is far
		}
		if found < x.k {
			found++
		}
		p := found - 1
		for ; p > 0 && d < w.dist[p-1]; p-- {
			w.dist[p], w.at[p] = w.dist[p-1], w.at[p-1]
		}
		w.dist[p], w.at[p] = d, i
		if found == x.k {
			limit = w.dist[x.k-1]
		}
	}
	if found < x.k {
		return false, errFar
	}
	return w.dist[0] == 0, nil
}

// ready prepares the filter for z.
func (x *index) ready(z []float64, w *workspace) {
	if x.filter == nil {
		return
	}
	if w.norm = x.take(w.query, z); !(w.norm < 1<<20) {
		w.norm = -1 // products might leave float32
	}
}

// below is at most the squared distance of the row that is ready and row i.
func (x *index) below(w *workspace, i int) float64 {
	if x.filter == nil || w.norm < 0 {
		return 0
	}
	// A dot product of s float32 terms, rounded to float32 before, is off by at
	// most (s + 2) u |a||b| to first order (Higham 2002, eq. 3.5), u = 2^-24, and
	// by the smallest float32 for each term that underflows; the norms, the
	// difference from the mean and this line itself by less than 1e-12.
	product := float64(blas.Sdot(x.stride, x.filter[i*x.stride:(i+1)*x.stride], 1, w.query, 1))
	a, b := w.norm, x.norms[i]
	off := 2*float64(x.stride+8)*(0x1p-24*a*b+0x1p-126) + 1e-12*(a+b)*(a+b)
	return ((a-b)*(a-b) + 2*(a*b-product) - off) / (x.scale * x.scale)
}
