package plugin

import (
	"context"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/window"
)

// maxCrossLoss is how much less often rows under a new model find their class among coordinates that the epoch's first
// model gave, than among its own, while the two count as one epoch: the loss and one and a half times its standard
// error.
const maxCrossLoss = 0.01

// epochRows is on how many of the newest rows that is judged, and models are aligned.
const epochRows = 3000

// crossLoss is the accuracy that is lost when the outputs of first serve as references for outputs of next: by the
// nearest neighbour of each row among the others, over rows that both project. It is what a reader of stored outputs
// loses. spread is its standard error. Models of different dimensions have nothing in common: 1.
func crossLoss(ctx context.Context, first, next *model.Model, x []float64, labels []string) (loss, spread float64, err error) {
	if first.Dim() != next.Dim() {
		return 1, 0, nil
	}
	n, d := len(labels), next.Dim()
	if n < 2 {
		return 0, 0, nil
	}
	old, err := outputsOf(ctx, first, x, n)
	if err != nil {
		return 0, 0, err
	}
	now, err := outputsOf(ctx, next, x, n)
	if err != nil {
		return 0, 0, err
	}
	lost, gained := 0, 0
	for i := range n {
		own := labels[others(now, now, i, n, d)] == labels[i]
		cross := labels[others(old, now, i, n, d)] == labels[i]
		if own && !cross {
			lost++
		}
		if cross && !own {
			gained++
		}
	}
	return float64(lost-gained) / float64(n), math.Sqrt(float64(lost+gained)) / float64(n), nil
}

// others is the row of ref, other than i, that is nearest to row i of y.
func others(ref, y []float64, i, n, d int) int {
	best, at := math.Inf(1), 0
	for j := range n {
		if j == i {
			continue
		}
		sum := 0.0
		for c := range d {
			diff := ref[j*d+c] - y[i*d+c]
			sum += diff * diff
		}
		if sum < best {
			best, at = sum, j
		}
	}
	return at
}

// newestRows copies the newest rows of a window that enter fits, oldest first, with their labels.
func newestRows(w *window.Window, n int) (x []float64, labels []string) {
	if w.Len() == 0 {
		return nil, nil
	}
	first, n := w.Back(n), min(n, w.Len())
	x, labels = make([]float64, 0, n*w.Features()), make([]string, 0, n)
	w.All(func(r *window.Row) bool {
		if r.Compare(first) >= 0 && r.Enters() {
			x, labels = append(x, r.X...), append(labels, r.Label)
		}
		return true
	})
	return x, labels
}
