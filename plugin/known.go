package plugin

import (
	"context"
	"math"

	"github.com/embedd/embedd/plugin/window"
)

// known are the references that a model can project, and the means of their classes. They are made anew in the same
// memory whenever the references change, which is every few rows.
type known struct {
	of   *references
	at   int // changes of the references then
	rows []*window.Row
	y    []float64 // their outputs, d each

	labels []string // of the classes, as they come
	class  map[string]int
	count  []float64
	mean   []float64 // d each
}

// refer is what the model makes of the references; only those that are new are projected.
func (v *view) refer(ctx context.Context, refs *references) *known {
	k := &v.known
	if k.of == refs && k.at == refs.changes {
		return k
	}
	v.project(ctx, refs)
	d := v.model.Dim()
	k.rows, k.y = k.rows[:0], k.y[:0]
	for _, r := range refs.rows {
		if y := v.seen[r]; len(y) == d {
			k.rows, k.y = append(k.rows, r), append(k.y, y...)
		}
	}
	clear(k.rows[len(k.rows):cap(k.rows)]) // rows that have left are garbage
	k.means(d)
	if len(v.seen) > 2*maxReferences {
		kept := make(map[*window.Row][]float64, len(refs.rows))
		for _, r := range refs.rows {
			kept[r] = v.seen[r]
		}
		v.seen = kept
	}
	k.of, k.at = refs, refs.changes
	return k
}

// project adds the outputs of new references to those that were seen, a few rows at a time.
func (v *view) project(ctx context.Context, refs *references) {
	var part [chunkRows]*window.Row
	d, n := v.model.Dim(), 0
	flush := func() {
		fresh := part[:n]
		n = 0
		y, err := outputsOf(ctx, v.model, refs.sideBySide(fresh), len(fresh))
		for i, r := range fresh {
			if err == nil {
				v.seen[r] = y[i*d : (i+1)*d : (i+1)*d]
			} else if v.seen[r], _ = outputsOf(ctx, v.model, r.X, 1); v.seen[r] == nil {
				v.seen[r] = []float64{} // too far away
			}
		}
	}
	for _, r := range refs.rows {
		if v.seen[r] == nil {
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

// means takes the means of the classes.
func (k *known) means(d int) {
	if k.class == nil {
		k.class = map[string]int{}
	}
	clear(k.class)
	k.labels, k.count, k.mean = k.labels[:0], k.count[:0], k.mean[:0]
	for i, r := range k.rows {
		c, there := k.class[r.Label]
		if !there {
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

// nearestMeans tells which rows, with outputs y, lie nearest to the mean of their class.
func (k *known) nearestMeans(rows []window.Row, y []float64) []float64 {
	right, d := make([]float64, len(rows)), len(y)/len(rows)
	for i := range rows {
		best, class := math.Inf(1), ""
		for c, label := range k.labels {
			sum := 0.0
			for j, v := range k.mean[c*d : (c+1)*d] {
				sum += (y[i*d+j] - v) * (y[i*d+j] - v)
			}
			if sum < best {
				best, class = sum, label
			}
		}
		if class == rows[i].Label {
			right[i] = 1
		}
	}
	return right
}
