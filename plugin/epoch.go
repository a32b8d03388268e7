package plugin

import (
	"context"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
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
	among, err := others(ctx, now, now, n, d)
	if err != nil {
		return 0, 0, err
	}
	across, err := others(ctx, old, now, n, d)
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

// others are, for each row of y, the nearest of the other rows of ref. They are found some rows at a time, so that learning
// can rest in between.
func others(ctx context.Context, ref, y []float64, n, d int) ([]int, error) {
	at := make([]int, 0, n)
	for len(at) < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from := len(at)
		rows := min(otherRows, n-from)
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

// otherRows is how many rows are compared with all others at a time.
const otherRows = 64

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
