package score

import (
	"context"
	"errors"
	"fmt"

	"github.com/embedd/embedd/model"
)

// Correct is the number of test rows whose class the model predicts: by the vote of the k nearest training rows among
// its outputs, ties as in CorrectNN, or by the map itself if it classifies. Classes of train and test are indices into
// one list; the model's list may be in another order. Test rows without a label count as wrong; training rows must
// have one.
func Correct(ctx context.Context, m *model.Model, train, test *model.Data, k int) (int, error) {
	right, err := CorrectRows(ctx, m, train, test, k)
	return count(right), err
}

// CorrectRows is Correct for each test row.
func CorrectRows(ctx context.Context, m *model.Model, train, test *model.Data, k int) ([]bool, error) {
	for _, d := range []*model.Data{train, test} {
		if d == nil || m == nil || m.M() == 0 {
			return nil, errors.New("correct: no rows, or no model, are given")
		}
		if len(d.Y) != d.N || len(d.X) != d.N*d.M {
			return nil, fmt.Errorf("correct: %d labels and %d values for %d rows x %d features", len(d.Y), len(d.X),
				d.N, d.M)
		}
	}
	if m.Map() == "views" {
		names := m.Classes()
		class := make([]int, test.N)
		if err := m.ProjectClasses(ctx, make([]float32, test.N*m.Dim()), class,
			model.DenseRows(test.X, test.N, test.M)); err != nil {
			return nil, err
		}
		right := make([]bool, test.N)
		for i, c := range class {
			y := test.Y[i]
			right[i] = y >= 0 && y < len(test.Classes) && test.Classes[y] == names[c]
		}
		return right, nil
	}
	ref, err := Outputs(ctx, m, train)
	if err != nil {
		return nil, err
	}
	query, err := Outputs(ctx, m, test)
	if err != nil {
		return nil, err
	}
	return CorrectRowsNN(ctx, ref, train.Y, query, test.Y, m.Dim(), k)
}

// Outputs are the outputs of all rows, n x Dim row-major, as float64. The error is that of Model.Project.
func Outputs(ctx context.Context, m *model.Model, d *model.Data) ([]float64, error) {
	if m == nil || m.M() == 0 {
		return nil, errors.New("outputs: no model is given")
	}
	y := make([]float32, d.N*m.Dim())
	if err := m.ProjectContext(ctx, y, model.DenseRows(d.X, d.N, d.M)); err != nil {
		return nil, err
	}
	out := make([]float64, len(y))
	for i, v := range y {
		out[i] = float64(v)
	}
	return out, nil
}
