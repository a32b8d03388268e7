package eval

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestFewestInAnEvaluation: where dimensions are chosen, Fewest makes them fewer; given ones stay.
func TestFewestInAnEvaluation(t *testing.T) {
	used := map[bool]int{}
	for _, fewest := range []bool{false, true} {
		err := Evaluate(context.Background(), fixture.Dataset(t, "wdbc"), Config{Methods: []string{fit.Auto},
			Dims: []int{fit.AutoDim, 2}, Splits: 1, TrainPerClass: 6, Fewest: fewest}, func(r Result) error {
			if r.Error != "" || r.Dim == 2 && r.DimUsed != 2 {
				t.Errorf("%+v", r)
			}
			if r.Dim == fit.AutoDim {
				used[fewest] = r.DimUsed
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if used[true] >= used[false] {
		t.Errorf("%d dimensions with Fewest, %d without", used[true], used[false])
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
