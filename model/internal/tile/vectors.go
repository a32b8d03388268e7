package tile

import (
	"math"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Together is how many vectors are multiplied at once: the vectors of one panel.
const Together = panel

// Table is vectors of k numbers, packed once to be multiplied with others repeatedly. It is immutable.
type Table struct {
	n, k int
	data []float64
}

// NewTable packs n vectors of k numbers: number l of vector i is data[i*stride+l*step].
func NewTable(data []float64, n, k, stride, step int) *Table {
	var buffer []float64
	t := &Table{n: n, k: k, data: linalg.AlignedIn(&buffer, panels(n)*panel*k)}
	for i := range n {
		for l := range k {
			t.data[i/panel*panel*k+l*panel+i%panel] = data[i*stride+l*step]
		}
	}
	return t
}

// Len is the number of vectors.
func (t *Table) Len() int { return t.n }

// Rows is how many rows of Together numbers Times writes: the number of vectors rounded up to a multiple of eight.
func (t *Table) Rows() int { return (t.n + blockRows - 1) / blockRows * blockRows }

// Times writes the products of the table's vectors with up to Together others, given side by side: number l of vector
// j is x[l*Together+j], and its product with vector i of the table is dst[i*Together+j]. An element is the sum of one
// fused multiply-add per number, in order, from zero, so it depends only on its two vectors. The sign of a sum of 0 may
// differ between processors, and from that of Row.
func (t *Table) Times(dst, x []float64) {
	dst, x = dst[:t.Rows()*panel], x[:t.k*panel]
	clear(dst)
	step := depth(t.k)
	for from := 0; from < t.k; from += step {
		for i := 0; i < t.n; i += blockRows {
			a := t.data[i/panel*panel*t.k+from*panel+i%panel:]
			multiply(min(step, t.k-from), a, x[from*panel:], dst[i*panel:])
		}
	}
}

// Width is how many numbers Row writes: the number of vectors rounded up to whole panels.
func (t *Table) Width() int { return panels(t.n) * panel }

// Row writes the products of the table's vectors with vector x to dst, summed as by Times. It reads the table once for
// one vector, where Times reads it once for Together.
func (t *Table) Row(dst, x []float64) {
	dst, x = dst[:t.Width()], x[:t.k]
	for at := 0; at < t.n; at += panel {
		row(t.k, x, t.data[at*t.k:], dst[at:])
	}
}

// Distances replaces products v of vectors by their squared distances times rate: the squared norms of one side are a,
// that of the other is b. Distances are not negative.
func Distances(v, a []float64, b, rate float64) {
	a = a[:len(v)]
	for j := distances(v, a, b, rate); j < len(v); j++ {
		v[j] = max(a[j]+b-2*v[j], 0) * rate
	}
}

// Standardise replaces x by (x - mean)/scale, at most the largest float64, and by 0 where x is not finite.
func Standardise(x, mean, scale []float64) {
	mean, scale = mean[:len(x)], scale[:len(x)]
	for j := standardise(x, mean, scale); j < len(x); j++ {
		if x[j]-x[j] != 0 {
			x[j] = 0
			continue
		}
		x[j] = min(max((x[j]-mean[j])/scale[j], -math.MaxFloat64), math.MaxFloat64)
	}
}
