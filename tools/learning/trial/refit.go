package trial

import (
	"context"
	"math"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// Newest are the windows of the alternatives: the newest labelled rows.
var Newest = [...]int{500, 1000, 2000, 4000}

// refit fits a method on the labelled rows so far, from their moments.
type refit struct {
	config  fit.Config
	classes []string
	m       int
	x       []float64 // the newest rows
	y       []int
	all     *moments.Set
}

// alternative is the method of the alternatives. A stage with another method is compared with it too.
const alternative = "lda"

func newRefit(dim int) *refit { return &refit{config: fit.Config{Method: alternative, Dim: dim}} }

// add learns rows with a label and all features.
func (r *refit) add(ctx context.Context, d *model.Data) error {
	if r.all == nil {
		r.m, r.classes, r.all = d.M, d.Classes, moments.New(d.M, false)
	}
	from := len(r.y)
	for i, y := range d.Y {
		if row := d.X[i*d.M : (i+1)*d.M]; y >= 0 && complete(row) {
			r.x, r.y = append(r.x, row...), append(r.y, y)
		}
	}
	if err := r.all.Add(ctx, r.x[from*r.m:], r.y[from:]); err != nil {
		return err
	}
	if most := Newest[len(Newest)-1]; len(r.y) > 4*most {
		drop := len(r.y) - most
		r.x, r.y = slices.Clone(r.x[drop*r.m:]), slices.Clone(r.y[drop:])
	}
	return nil
}

// accuracies returns the accuracy of a fit on all rows, and of those on the newest.
func (r *refit) accuracies(ctx context.Context, ref, query *model.Data) (all float64, newest [len(Newest)]float64,
	err error) {
	all = r.accuracy(ctx, r.all, ref, query)
	for i, n := range Newest {
		from := max(0, len(r.y)-n)
		s := moments.New(r.m, false)
		if err := s.Add(ctx, r.x[from*r.m:], r.y[from:]); err != nil {
			return 0, newest, err
		}
		newest[i] = r.accuracy(ctx, s, ref, query)
	}
	return all, newest, nil
}

// accuracy is that of a fit on the rows of moments, NaN if they do not allow one.
func (r *refit) accuracy(ctx context.Context, s *moments.Set, ref, query *model.Data) float64 {
	m, err := fit.FitMoments(ctx, s, nil, r.classes, r.config)
	if err != nil {
		return math.NaN()
	}
	a, err := Accuracy(ctx, m, ref, query)
	if err != nil {
		return math.NaN()
	}
	return a
}

// Accuracy returns the share of queries whose nearest reference row, in the outputs of the model, has their class.
func Accuracy(ctx context.Context, m *model.Model, ref, query *model.Data) (float64, error) {
	right, err := score.Correct(ctx, m, ref, query, 1)
	return float64(right) / float64(query.N), err
}

// StoredAccuracy returns the accuracy of one model's outputs of the queries if the outputs of the references were
// stored under another model. It is NaN if the numbers of outputs differ.
func StoredAccuracy(ctx context.Context, then, now *model.Model, ref, query *model.Data) (float64, error) {
	if then.Dim() != now.Dim() {
		return math.NaN(), nil
	}
	old, err := score.Outputs(ctx, then, ref)
	if err != nil {
		return 0, err
	}
	y, err := score.Outputs(ctx, now, query)
	if err != nil {
		return 0, err
	}
	right, err := score.CorrectNN(ctx, old, ref.Y, y, query.Y, now.Dim(), 1)
	return float64(right) / float64(query.N), err
}
