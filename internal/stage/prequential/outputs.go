package prequential

import (
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/window"
)

// outputs are a model's outputs for the references that it can project, with the means of the classes. The references
// change every few rows; the memory is reused.
type outputs struct {
	of      *References
	changes int // of the references when this was computed
	rows    []*window.Row
	y       []float64 // d numbers per row

	dim    int
	labels []string // of the classes, in the order of their first rows
	class  map[string]int
	count  []float64
	sum    []float64 // d numbers per class

	farCount, farSum []float64 // scratch memory: those without a span of references
}

// span is a range of the references, from inclusive, to exclusive.
type span struct{ from, to int }

// outputs returns the model's outputs for the references. Only new references are projected.
func (v *Model) outputs(ctx context.Context, refs *References) *outputs {
	k := &v.known
	if k.of == refs && k.changes == refs.changes {
		return k
	}
	v.projectNew(ctx, refs)
	d := v.Dim()
	k.rows, k.y = k.rows[:0], k.y[:0]
	for _, r := range refs.All() {
		if y := v.cached[r]; len(y) == d {
			k.rows, k.y = append(k.rows, r), append(k.y, y...)
		}
	}
	clear(k.rows[len(k.rows):cap(k.rows)]) // so that removed rows are collected
	k.setSums(d)
	if len(v.cached) > 2*max(maxReferences, refs.Len()) {
		kept := make(map[*window.Row][]float64, refs.Len())
		for _, r := range refs.All() {
			kept[r] = v.cached[r]
		}
		v.cached = kept
	}
	k.of, k.changes = refs, refs.changes
	return k
}

// projectedRows is the number of rows that are projected per call.
const projectedRows = 32

// projectNew projects the references that are not cached.
func (v *Model) projectNew(ctx context.Context, refs *References) {
	var part [projectedRows]*window.Row
	d, n := v.Dim(), 0
	flush := func() {
		fresh := part[:n]
		n = 0
		y, err := project(ctx, v.Model, refs.features(fresh), len(fresh))
		for i, r := range fresh {
			if err == nil {
				v.cached[r] = y[i*d : (i+1)*d : (i+1)*d]
			} else if v.cached[r], _ = project(ctx, v.Model, r.X, 1); v.cached[r] == nil {
				v.cached[r] = []float64{} // it cannot be projected
			}
		}
	}
	for _, r := range refs.All() {
		if v.cached[r] == nil {
			part[n] = r
			if n++; n == len(part) {
				flush()
			}
		}
	}
	if n > 0 {
		flush()
	}
}

// setSums sums the outputs of each class.
func (k *outputs) setSums(d int) {
	if k.class == nil {
		k.class = map[string]int{}
	}
	clear(k.class)
	k.dim, k.labels, k.count, k.sum = d, k.labels[:0], k.count[:0], k.sum[:0]
	for i, r := range k.rows {
		c, found := k.class[r.Label]
		if !found {
			c = len(k.labels)
			k.class[r.Label], k.labels, k.count = c, append(k.labels, r.Label), append(k.count, 0)
			for range d {
				k.sum = append(k.sum, 0)
			}
		}
		k.count[c]++
		addTo(k.sum[c*d:(c+1)*d], k.y[i*d:(i+1)*d], 1)
	}
}

func addTo(sum, y []float64, sign float64) {
	for j, v := range y {
		sum[j] += sign * v
	}
}

// near is the span of the references that are in the neighbourhood of a row: they may be copies of it.
func (k *outputs) near(r *window.Row) span {
	from, to := r.Neighbourhood()
	return span{k.before(from), k.before(to)}
}

// before is the number of references before a position.
func (k *outputs) before(p window.Position) int {
	if n := len(k.rows); n == 0 || k.rows[n-1].Compare(p) < 0 {
		return n // the usual case: a new row
	}
	at, _ := slices.BinarySearchFunc(k.rows, p, func(r *window.Row, p window.Position) int { return r.Compare(p) })
	return at
}

// nearest sets the class of each row with outputs y to that of the nearest reference outside a span, and the share of
// the nearest that have its label: of comparedNeighbors, or of as many as a class has on average.
func (k *outputs) nearest(ctx context.Context, near span, rows []window.Row, y []float64, class []string,
	shares []float64) error {
	if near.from == 0 && near.to == len(k.rows) {
		return errNoReference
	}
	at, err := neighborsOutside(ctx, k.y, k.dim, near, y, min(comparedNeighbors, max(len(k.rows)/len(k.labels), 1)))
	if err != nil {
		return err
	}
	n := len(at) / len(rows)
	for i := range rows {
		class[i] = k.rows[at[i*n]].Label
		for _, j := range at[i*n : (i+1)*n] {
			if k.rows[j].Label == rows[i].Label {
				shares[i] += 1 / float64(n)
			}
		}
	}
	return nil
}

func squaredDistance(a, b []float64) (sum float64) {
	b = b[:len(a)]
	for j, v := range a {
		sum += (v - b[j]) * (v - b[j])
	}
	return sum
}

// minMean is the number of references from which the mean of a class attracts rows of other classes; it is less while
// no class has twice as many.
const minMean = 30

// nearestMeans sets right to 1 for each row with outputs y whose nearest class mean is that of its label, else to 0.
// References in a span do not count. Means of few references and of classes that the model does not know do not
// compete, and rows of such classes are NaN: that a class is new, or rare, is no change of the others. A model that
// knows no classes competes with all.
func (k *outputs) nearestMeans(near span, rows []window.Row, y, right []float64, known map[string]bool) {
	d := k.dim
	count, mean := append(k.farCount[:0], k.count...), append(k.farSum[:0], k.sum...)
	k.farCount, k.farSum = count, mean
	for at := near.from; at < near.to; at++ {
		c := k.class[k.rows[at].Label]
		count[c]--
		addTo(mean[c*d:(c+1)*d], k.y[at*d:(at+1)*d], -1)
	}
	most := 0.0
	for c, n := range count {
		most = max(most, n)
		for j := range d {
			mean[c*d+j] /= n
		}
	}
	competes := make([]bool, len(k.labels))
	for c, label := range k.labels {
		competes[c] = count[c] > 0 && count[c] >= min(minMean, most/2) && (len(known) == 0 || known[label])
	}
	for i := range rows {
		own, found := k.class[rows[i].Label]
		if !found || !competes[own] {
			right[i] = math.NaN()
			continue
		}
		best, nearest := math.Inf(1), -1
		for c := range k.labels {
			if !competes[c] {
				continue
			}
			if sum := squaredDistance(mean[c*d:(c+1)*d], y[i*d:(i+1)*d]); sum < best {
				best, nearest = sum, c
			}
		}
		if right[i] = 0; nearest == own {
			right[i] = 1
		}
	}
}
