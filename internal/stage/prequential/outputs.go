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
	spare   []float64 // memory of y for the next change
	fresh   []int     // scratch memory

	dim        int
	*numbering // of the rows
	count      []float64
	sum, mean  []float64 // d numbers per class
	radius     []float64 // by class: the largest distance of its rows from its mean

	farCount, farSum []float64 // scratch memory: those without a span of references
	competes         []bool
	found            neighbors
}

// span is a range of the references, from inclusive, to exclusive.
type span struct{ from, to int }

// numbering numbers the classes of some rows, in the order of their first rows.
type numbering struct {
	labels []string
	index  map[string]int
	class  []int // by row

	byClass, ends []int // the rows in the order of their classes, and where each class ends there
}

// rowsOf returns the indices of the rows of a class, ascending.
func (n *numbering) rowsOf(class int) []int {
	if class == 0 {
		return n.byClass[:n.ends[0]]
	}
	return n.byClass[n.ends[class-1]:n.ends[class]]
}

func (n *numbering) set(rows []*window.Row) {
	if n.index == nil {
		n.index = map[string]int{}
	}
	clear(n.index)
	n.labels, n.class = n.labels[:0], n.class[:0]
	for _, r := range rows {
		c, found := n.index[r.Label]
		if !found {
			c = len(n.labels)
			n.index[r.Label], n.labels = c, append(n.labels, r.Label)
		}
		n.class = append(n.class, c)
	}
	n.byClass = slices.Grow(n.byClass[:0], len(rows))[:len(rows)]
	n.ends = slices.Grow(n.ends[:0], len(n.labels))[:len(n.labels)]
	clear(n.ends)
	for _, c := range n.class {
		n.ends[c]++
	}
	next := 0
	for c, size := range n.ends {
		n.ends[c], next = next, next+size
	}
	for i, c := range n.class {
		n.byClass[n.ends[c]] = i
		n.ends[c]++
	}
}

// outputs returns the model's outputs for the references. Only new references are projected.
func (v *Model) outputs(ctx context.Context, refs *References) *outputs {
	k, d := &v.known, v.Dim()
	if k.of == refs && k.changes == refs.changes {
		return k
	}
	all := refs.All()
	k.keep(all, d)
	failed := v.projectFresh(ctx, refs, all)
	k.rows = append(k.rows[:0], all...)
	if k.numbering = &refs.classes; len(failed) > 0 {
		k.remove(failed, d)
	}
	clear(k.rows[len(k.rows):cap(k.rows)]) // so that removed rows are collected
	k.setSums(d)
	k.of, k.changes = refs, refs.changes
	return k
}

// keep makes room for the outputs of rows, and copies those that are known. The others are fresh.
func (k *outputs) keep(rows []*window.Row, d int) {
	y := slices.Grow(k.spare[:0], len(rows)*d)[:len(rows)*d]
	k.fresh = k.fresh[:0]
	at := 0
	for i, r := range rows {
		for at < len(k.rows) && k.rows[at] != r && k.rows[at].Compare(r.Position) <= 0 {
			at++
		}
		if at < len(k.rows) && k.rows[at] == r {
			copy(y[i*d:(i+1)*d], k.y[at*d:(at+1)*d])
			at++
		} else {
			k.fresh = append(k.fresh, i)
		}
	}
	k.y, k.spare = y, k.y
}

// remove removes the outputs of rows that cannot be projected, by their index, ascending.
func (k *outputs) remove(failed []int, d int) {
	n := 0
	for i, r := range k.rows {
		if len(failed) > 0 && failed[0] == i {
			failed = failed[1:]
			continue
		}
		k.rows[n] = r
		copy(k.y[n*d:(n+1)*d], k.y[i*d:(i+1)*d])
		n++
	}
	k.rows, k.y = k.rows[:n], k.y[:n*d]
	k.numbering = &numbering{}
	k.numbering.set(k.rows)
}

// projectedRows is the number of rows that are projected per call.
const projectedRows = 32

// projectFresh projects the references without outputs, and returns those that cannot be projected.
func (v *Model) projectFresh(ctx context.Context, refs *References, all []*window.Row) (failed []int) {
	k, d := &v.known, v.Dim()
	for fresh := k.fresh; len(fresh) > 0; {
		part := fresh[:min(projectedRows, len(fresh))]
		fresh = fresh[len(part):]
		refs.x = refs.x[:0]
		for _, i := range part {
			refs.x = append(refs.x, all[i].X...)
		}
		y, err := refs.referenceOutputs.project(ctx, v.Model, refs.x, len(part))
		for n, i := range part {
			if err == nil {
				copy(k.y[i*d:(i+1)*d], y[n*d:])
			} else if one, err := refs.referenceOutputs.project(ctx, v.Model, all[i].X, 1); err == nil {
				copy(k.y[i*d:(i+1)*d], one)
			} else {
				failed = append(failed, i)
			}
		}
	}
	return failed
}

// ReuseMemory takes the memory of a model that is no longer used.
func (v *Model) ReuseMemory(old *Model) {
	k := &old.known
	v.known = outputs{rows: k.rows[:0], y: k.y[:0], spare: k.spare, fresh: k.fresh, count: k.count, sum: k.sum,
		mean: k.mean, radius: k.radius, farCount: k.farCount, farSum: k.farSum, competes: k.competes, found: k.found}
	old.known = outputs{}
}

// setSums computes the sum, the mean and the radius of the outputs of each class.
func (k *outputs) setSums(d int) {
	k.dim = d
	k.count = slices.Grow(k.count[:0], len(k.labels))[:len(k.labels)]
	k.sum = slices.Grow(k.sum[:0], len(k.labels)*d)[:len(k.labels)*d]
	clear(k.count)
	clear(k.sum)
	for i, c := range k.class {
		k.count[c]++
		addTo(k.sum[c*d:(c+1)*d], k.y[i*d:(i+1)*d], 1)
	}
	k.mean, k.radius = k.mean[:0], k.radius[:0]
	for c, n := range k.count {
		for _, v := range k.sum[c*d : (c+1)*d] {
			k.mean = append(k.mean, v/n)
		}
		radius := 0.0
		for _, i := range k.rowsOf(c) {
			radius = max(radius, squaredDistance(k.mean[c*d:(c+1)*d], k.y[i*d:(i+1)*d]))
		}
		k.radius = append(k.radius, math.Sqrt(radius))
	}
}

func addTo(sum, y []float64, sign float64) {
	for j, v := range y {
		sum[j] += sign * v
	}
}

// nearOf is the span of the rows, in the order of their positions, that are in the neighbourhood of a row: they may be
// copies of it.
func nearOf(rows []*window.Row, r *window.Row) span {
	from, to := r.Neighbourhood()
	return span{rowsBefore(rows, from), rowsBefore(rows, to)}
}

// rowsBefore is the number of rows before a position.
func rowsBefore(rows []*window.Row, p window.Position) int {
	if n := len(rows); n == 0 || rows[n-1].Compare(p) < 0 {
		return n // the usual case: a new row
	}
	at, _ := slices.BinarySearchFunc(rows, p, func(r *window.Row, p window.Position) int { return r.Compare(p) })
	return at
}

// nearest sets the class of each row with outputs y to that of the nearest reference outside a span, and the share of
// the nearest that have its label: of comparedNeighbors, or of as many as a class has on average.
func (k *outputs) nearest(ctx context.Context, near span, rows []window.Row, y []float64, class []string,
	shares []float64) error {
	if near.from == 0 && near.to == len(k.rows) {
		return errNoReference
	}
	at, err := k.found.outside(ctx, k, near, y, min(comparedNeighbors, max(len(k.rows)/len(k.labels), 1)))
	if err != nil {
		return err
	}
	n := len(at) / len(rows)
	for i := range rows {
		own, known := k.index[rows[i].Label]
		class[i] = k.labels[k.class[at[i*n]]]
		for _, j := range at[i*n : (i+1)*n] {
			if known && k.class[j] == own {
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
		c := k.class[at]
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
	competes := slices.Grow(k.competes[:0], len(k.labels))[:len(k.labels)]
	k.competes = competes
	for c, label := range k.labels {
		competes[c] = count[c] > 0 && count[c] >= min(minMean, most/2) && (len(known) == 0 || known[label])
	}
	for i := range rows {
		own, found := k.index[rows[i].Label]
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
