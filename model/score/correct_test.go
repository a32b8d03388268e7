package score

import (
	"context"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/mapping"
)

// TestCorrectOfAModel: votes of the nearest training rows among outputs, or the class of a map of views, whose classes
// may be in another order. A row without a label is wrong.
func TestCorrectOfAModel(t *testing.T) {
	content := model.Content{Method: "own", Features: []string{"x"}, Classes: []string{"b", "a"}, Mean: []float64{0},
		Scale: []float64{1}, Map: &mapping.Linear{D: 1, Components: []float64{2}}}
	content.Report.Convergence = model.Direct
	line, err := model.New(content)
	if err != nil {
		t.Fatal(err)
	}
	content.Map = &mapping.Views{D: 1, Components: []float64{1, 1}, Offset: []float64{0, 0},
		Window: []float64{0, 10, 0, 10}, Label: []float64{0, 1}}
	views, err := model.New(content)
	if err != nil {
		t.Fatal(err)
	}
	train := &model.Data{N: 3, M: 1, X: []float64{0, 10, 11}, Y: []int{1, 0, 0}, Classes: []string{"a", "b", "c"}}
	test := &model.Data{N: 5, M: 1, X: []float64{1, 9, 12, 2, 8}, Y: []int{1, 0, 1, -1, 2}, Classes: train.Classes}
	want := []bool{true, true, false, false, false}
	for what, m := range map[string]*model.Model{"linear": line, "views": views} {
		right, err := CorrectRows(t.Context(), m, train, test, 1)
		if err != nil || !slices.Equal(right, want) {
			t.Errorf("%s: %v, %v", what, right, err)
		}
		if n, err := Correct(t.Context(), m, train, test, 1); err != nil || n != 2 {
			t.Errorf("%s: %d are correct, %v", what, n, err)
		}
	}
	if y, err := Outputs(t.Context(), line, test); err != nil || !slices.Equal(y, []float64{2, 18, 24, 4, 16}) {
		t.Errorf("outputs %v, %v", y, err)
	}
	few := &model.Data{N: 2, M: 1, X: []float64{1, 2}, Y: []int{0}}
	for want, d := range map[string][2]*model.Data{
		"correct: 1 labels and 2 values for 2 rows x 1 features": {few, test},
		"correct: 2 labels and 1 values for 2 rows x 1 features": {train, {N: 2, M: 1, X: few.X[:1],
			Y: []int{0, 0}}},
		"rows: 2 features, the model has 1; give the features it was fitted on": {train, {N: 1, M: 2, X: few.X, Y: few.Y}},
	} {
		for _, m := range []*model.Model{line, views} {
			_, err := Correct(t.Context(), m, d[0], d[1], 1)
			if err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	wide := &model.Data{N: 1, M: 2, X: few.X, Y: few.Y}
	if _, err := Correct(t.Context(), line, wide, test, 1); err == nil {
		t.Error("training rows of another width have outputs")
	}
}

// TestSharesOfSplits: halves are rounded up, a class has a row on each side, and the row of a class of one is a
// training row.
func TestSharesOfSplits(t *testing.T) {
	rows := func(n int) []int { return make([]int, n) }
	for _, c := range []struct {
		n          int
		fraction   float64
		per, train int
		trainPer   int
	}{{5, 0.5, 2, 3, 2}, {4, 0.5, 4, 2, 3}, {2, 0.01, 0, 1, 1}, {2, 0.99, 1, 1, 1}, {1, 0.5, 1, 1, 1}, {10, 0.24, 9, 2, 9},
		{10, 0.25, 10, 3, 9}} {
		train, test := Stratified(rows(c.n), c.fraction, 1)
		if len(train) != c.train || len(train)+len(test) != c.n {
			t.Errorf("%g of %d rows: %d train, want %d", c.fraction, c.n, len(train), c.train)
		}
		if train, test = StratifiedPerClass(rows(c.n), c.per, 1); len(train) != c.trainPer || len(train)+len(test) != c.n {
			t.Errorf("%d of %d rows: %d train, want %d", c.per, c.n, len(train), c.trainPer)
		}
	}
	if train, test := Stratified([]int{-1, 3, -1, 3}, 0.5, 1); len(train) != 1 || len(test) != 1 || train[0]+test[0] != 4 {
		t.Errorf("of two rows with a label: %v, %v", train, test)
	}
	if train, test := Stratified(nil, 0.5, 1); train != nil || test != nil {
		t.Errorf("of no rows: %v, %v", train, test)
	}
}

// TestEndOfTheContext: votes and outputs end with the error of the context wherever that ends.
func TestEndOfTheContext(t *testing.T) {
	content := model.Content{Method: "own", Features: []string{"x"}, Mean: []float64{0}, Scale: []float64{1},
		Map: &mapping.Linear{D: 1, Components: []float64{2}}}
	content.Report.Convergence = model.Direct
	m, err := model.New(content)
	if err != nil {
		t.Fatal(err)
	}
	d := &model.Data{N: 6, M: 1, X: []float64{0, 10, 11, 1, 2, 12}, Y: []int{1, 0, 0, 1, 1, 0}, Classes: []string{"a",
		"b"}}
	fixture.EndsWithItsContext(t, "correct rows", func(ctx context.Context) error {
		_, err := CorrectRows(ctx, m, d, d, 1)
		return err
	})
	fixture.EndsWithItsContext(t, "votes", func(ctx context.Context) error {
		n, err := CorrectNN(ctx, d.X, d.Y, d.X, d.Y, 1, 3)
		if err != nil && n != 0 {
			t.Errorf("%d are correct, %v", n, err)
		}
		return err
	})
}
