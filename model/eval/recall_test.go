package eval_test

import (
	"math"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
)

// TestRecall: the recalls of the classes, weighted by their test rows, are the accuracy; a class that no row can be
// told from has its own.
func TestRecall(t *testing.T) {
	t.Parallel()
	d := &model.Data{N: 60, M: 2, Classes: []string{"far", "mixed", "unused", "other"}}
	for i := range d.N {
		y := []int{0, 1, 3}[i%3]
		d.X = append(d.X, []float64{0, 9, 9}[i%3]+float64(i*7%5), float64(i*31%17))
		d.Y = append(d.Y, y)
	}
	err := eval.Evaluate(t.Context(), d, eval.Config{Methods: []string{eval.Raw, "lda"}, Dims: []int{1}, Splits: 4,
		Seed: 1}, func(r eval.Result) error {
		mean := (r.Recall["far"] + r.Recall["mixed"] + r.Recall["other"]) / 3 // as many rows each
		if !(math.Abs(mean-r.AccuracyMean) <= 1e-12) || r.Recall["far"] != 1 || r.Recall["mixed"] == 1 || len(r.Recall) != 3 {
			t.Errorf("%s: recall %v, accuracy %g", r.Method, r.Recall, r.AccuracyMean)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
