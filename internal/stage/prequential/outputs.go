package prequential

import (
	"context"
	"math"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
)

// outputs are a model's outputs for the references that it can project, with the means of the classes. The references
// change every few rows; the memory is reused.
type outputs struct {
	of      *References
	changes int // of the references when this was computed
	rows    []*window.Row
	y       []float64 // d numbers per row

	labels []string // of the classes, in the order of their first rows
	class  map[string]int
	count  []float64
	mean   []float64 // d numbers per class
}

// outputs returns the model's outputs for the references. Only new references are projected.
func (v *Model) outputs(ctx context.Context, refs *References) *outputs {
	k := &v.known
	if k.of == refs && k.changes == refs.changes {
		return k
	}
	v.projectNew(ctx, refs)
	d := v.Dim()
	k.rows, k.y = k.rows[:0], k.y[:0]
	for _, r := range refs.rows {
		if y := v.cached[r]; len(y) == d {
			k.rows, k.y = append(k.rows, r), append(k.y, y...)
		}
	}
	clear(k.rows[len(k.rows):cap(k.rows)]) // so that removed rows are collected
	k.setMeans(d)
	if len(v.cached) > 2*maxReferences {
		kept := make(map[*window.Row][]float64, len(refs.rows))
		for _, r := range refs.rows {
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
	for _, r := range refs.rows {
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

// setMeans computes the means of the classes.
func (k *outputs) setMeans(d int) {
	if k.class == nil {
		k.class = map[string]int{}
	}
	clear(k.class)
	k.labels, k.count, k.mean = k.labels[:0], k.count[:0], k.mean[:0]
	for i, r := range k.rows {
		c, found := k.class[r.Label]
		if !found {
			c = len(k.labels)
			k.class[r.Label], k.labels, k.count = c, append(k.labels, r.Label), append(k.count, 0)
			for range d {
				k.mean = append(k.mean, 0)
			}
		}
		k.count[c]++
		mean := k.mean[c*d : (c+1)*d]
		for j, v := range k.y[i*d : (i+1)*d] {
			mean[j] += v
		}
	}
	for c, n := range k.count {
		for j := range d {
			k.mean[c*d+j] /= n
		}
	}
}

// minMean is the number of references from which the mean of a class attracts rows of other classes; it is less while
// no class has twice as many.
const minMean = 30

// nearestMeans is 1 for each row with outputs y whose nearest class mean is that of its label, else 0. Means of few
// references and of classes that the model does not know do not compete, and rows of such classes are NaN: that a class
// is new, or rare, is no change of the others. A model that knows no classes competes with all.
func (k *outputs) nearestMeans(rows []window.Row, y []float64, d int, known map[string]bool) []float64 {
	most := 0.0
	for _, n := range k.count {
		most = max(most, n)
	}
	competes := make([]bool, len(k.labels))
	for c, label := range k.labels {
		competes[c] = k.count[c] >= min(minMean, most/2) && (len(known) == 0 || known[label])
	}
	right := make([]float64, len(rows))
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
			sum := 0.0
			for j, v := range k.mean[c*d : (c+1)*d] {
				sum += (y[i*d+j] - v) * (y[i*d+j] - v)
			}
			if sum < best {
				best, nearest = sum, c
			}
		}
		if nearest == own {
			right[i] = 1
		}
	}
	return right
}

// CrossLoss is the accuracy that is lost if the outputs of model first are the references for outputs of model next:
// what a reader of stored outputs loses. It classifies each row by its nearest neighbour among the others, over rows
// that both models project. spread is the standard error. Models of different dimensions are not comparable: the loss
// is 1.
func CrossLoss(ctx context.Context, first, next *model.Model, x []float64,
	labels []string) (loss, spread float64, err error) {
	if first.Dim() != next.Dim() {
		return 1, 0, nil
	}
	n, d := len(labels), next.Dim()
	if n < 2 {
		return 0, 0, nil
	}
	before, err := project(ctx, first, x, n)
	if err != nil {
		return 0, 0, err
	}
	after, err := project(ctx, next, x, n)
	if err != nil {
		return 0, 0, err
	}
	among, err := nearestOthers(ctx, after, after, n, d)
	if err != nil {
		return 0, 0, err
	}
	across, err := nearestOthers(ctx, before, after, n, d)
	if err != nil {
		return 0, 0, err
	}
	lost, gained := 0, 0
	for i := range n {
		own, cross := labels[among[i]] == labels[i], labels[across[i]] == labels[i]
		if own && !cross {
			lost++
		}
		if cross && !own {
			gained++
		}
	}
	return float64(lost-gained) / float64(n), math.Sqrt(float64(lost+gained)) / float64(n), nil
}

// nearestOthers returns, for each row of y, the nearest of the other rows of ref. It checks ctx every few rows, since
// learning pauses there.
func nearestOthers(ctx context.Context, ref, y []float64, n, d int) ([]int, error) {
	at := make([]int, 0, n)
	for len(at) < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from := len(at)
		rows := min(comparedRows, n-from)
		near, err := score.Neighbors(ctx, ref, n, y[from*d:(from+rows)*d], rows, d, 2)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			nearest := near[2*i]
			if nearest == from+i {
				nearest = near[2*i+1]
			}
			at = append(at, nearest)
		}
	}
	return at, nil
}

// comparedRows is the number of rows that are compared with all others per call.
const comparedRows = 64
