package eval

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestFewestInAnEvaluation: the fewest dimensions are asked for where they are chosen, and given ones stay.
func TestFewestInAnEvaluation(t *testing.T) {
	err := Evaluate(context.Background(), fixture.Dataset(t, "iris"), Config{Methods: []string{"lda"},
		Dims: []int{fit.AutoDim, 2}, Splits: 2, Fewest: true}, func(r Result) error {
		if r.Error != "" || r.Dim == 2 && r.DimUsed != 2 {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAutoInAnEvaluation(t *testing.T) {
	err := Evaluate(context.Background(), fixture.Dataset(t, "iris"),
		Config{Methods: []string{fit.Auto}, Dims: []int{fit.AutoDim}, Splits: 2}, func(r Result) error {
			sum := 0
			for _, n := range r.Chosen {
				sum += n
			}
			if sum != 2 || r.Error != "" || !(r.AccuracyMean >= 0.9) {
				t.Errorf("%+v", r)
			}
			text, err := json.Marshal(r)
			if err != nil || !strings.Contains(string(text), `"dim":"auto"`) ||
				!strings.Contains(string(text), `"chosen":{`) {
				t.Errorf("%s, %v", text, err)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}
