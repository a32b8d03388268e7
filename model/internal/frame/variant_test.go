package frame

import (
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestSimplest: of 100 rows with 80 correct the standard error is 4.
func TestSimplest(t *testing.T) {
	for _, c := range []struct{ first, best, want int }{
		{80, 80, 1}, {77, 80, 1}, {75, 80, 2}, {99, 100, 2}, {100, 100, 1}, {0, 0, 1},
	} {
		scores := []model.RidgeScore{{Scored: 100}, {Correct: c.first, Scored: 100}, {Correct: c.best, Scored: 100}}
		if got := simplest(scores, 2, 1); got != c.want {
			t.Errorf("%d and %d correct: %d is chosen, want %d", c.first, c.best, got, c.want)
		}
	}
}

// TestBestRidge: most correct rows, then the larger ridge, then the earlier score.
func TestBestRidge(t *testing.T) {
	score := func(correct int, ridge float64) model.RidgeScore {
		return model.RidgeScore{Ridge: ridge, Correct: correct, Scored: 10}
	}
	for name, c := range map[string]struct {
		scores []model.RidgeScore
		want   int
	}{
		"more":   {[]model.RidgeScore{score(7, 1), score(8, 0.1), score(7, 10)}, 1},
		"larger": {[]model.RidgeScore{score(8, 0.1), score(8, 1), score(8, 0.01)}, 1},
		"first":  {[]model.RidgeScore{score(7, 1), score(8, 1), score(8, 1)}, 1},
	} {
		if got := bestRidge(c.scores); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestVariants: a share of the variance is chosen from 101 columns on, unless it is given or the method has none.
func TestVariants(t *testing.T) {
	for _, c := range []struct {
		columns int
		params  map[string]string
		want    []variant
	}{
		{100, map[string]string{"pca": "auto"}, []variant{{share: 1}}},
		{101, map[string]string{"pca": "auto"}, []variant{{share: 1}, {share: 0.98}}},
		{101, map[string]string{"pca": "0.9"}, []variant{{share: 0.9}}},
		{101, nil, []variant{{share: 1}}},
	} {
		if got := variants(&Task{Columns: c.columns, Params: c.params}); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v", c, got)
		}
		task := &Task{}
		if c.want[0].set(task); !(task.VarianceShare == c.want[0].share) {
			t.Errorf("%+v: the task has a share of %v", c, task.VarianceShare)
		}
	}
}
