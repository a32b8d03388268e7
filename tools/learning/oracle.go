package main

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// method is the method of the oracle, and of the stage by default.
const method = "lda"

// oracle refits on the best window, which it chooses with the true classes of future rows. Its windows are the newest
// 250, 500, 1,000 ... rows, and all rows of the current concept. It does not learn rows with shuffled labels.
type oracle struct {
	classes []string
	chunks  []*moments.Set // of batchRows rows each, oldest first
}

func (o *oracle) add(ctx context.Context, d *model.Data) error {
	o.classes = d.Classes
	s := moments.New(d.M, false)
	if err := s.Add(ctx, d.X, d.Y); err != nil {
		return err
	}
	o.chunks = append(o.chunks, s)
	return nil
}

// best returns the model of dim outputs (0: as many as its classes allow) whose window has the best accuracy on the
// query rows. concept is the number of chunks since the last change.
func (o *oracle) best(ctx context.Context, concept, dim int, ref, query *model.Data) (*model.Model, error) {
	var best *model.Model
	most := -1
	sum := moments.New(ref.M, false)
	for n, length := 1, 1; n <= len(o.chunks); n++ {
		if err := sum.Merge(o.chunks[len(o.chunks)-n]); err != nil {
			return nil, err
		}
		if n != length && n != concept && n != len(o.chunks) {
			continue
		}
		if n == length {
			length *= 2
		}
		m, err := fit.FitMoments(ctx, sum, nil, o.classes, fit.Config{Method: method, Dim: dim})
		if err != nil {
			return nil, fmt.Errorf("refitting on %d rows: %w", n*batchRows, err)
		}
		right, err := score.Correct(ctx, m, ref, query, 1)
		if err != nil {
			return nil, err
		}
		if right > most {
			best, most = m, right
		}
	}
	return best, nil
}

// displacement is how far rows move from their outputs under one model to those under another, in units of the
// distance from the old output to the nearest old output of a reference row: the mean of one over the mean of the
// other.
func displacement(ctx context.Context, from, to *model.Model, ref, probe *model.Data) (float64, error) {
	if from.Dim() != to.Dim() {
		return math.Inf(1), nil
	}
	old, err := score.Outputs(ctx, from, probe)
	if err != nil {
		return 0, err
	}
	now, err := score.Outputs(ctx, to, probe)
	if err != nil {
		return 0, err
	}
	others, err := score.Outputs(ctx, from, ref)
	if err != nil {
		return 0, err
	}
	nearest, err := score.Nearest(ctx, others, ref.N, old, probe.N, from.Dim())
	if err != nil {
		return 0, err
	}
	moved, apart := 0.0, 0.0
	for i, j := range nearest {
		moved += distance(old, i, now, i, from.Dim())
		apart += distance(old, i, others, j, from.Dim())
	}
	return moved / apart, nil
}

// distance is that of row i of x from row j of y, rows of d numbers.
func distance(x []float64, i int, y []float64, j, d int) float64 {
	sum := 0.0
	for c := range d {
		sum += (x[i*d+c] - y[j*d+c]) * (x[i*d+c] - y[j*d+c])
	}
	return math.Sqrt(sum)
}
