package prequential

import (
	"context"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
)

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
