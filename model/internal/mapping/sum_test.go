package mapping

import (
	"math"
	"strings"
	"testing"
)

// A sum comes back from its arrays, any part may be missing, and what does not fit is refused.
func TestSumArrays(t *testing.T) {
	offset := Array{"offset", []int{1}, []float64{1}}
	linear := Array{"components", []int{2, 1}, []float64{2, 3}}
	ranks := []Array{{"first", []int{3}, []float64{0, 2, 3}}, {"value", []int{3}, []float64{0, 1, 5}},
		{"score", []int{3}, []float64{-1, 1, 0}}, {"ranked", []int{2, 1}, []float64{10, 20}}}
	kernel := []Array{{"rows", []int{1, 2}, []float64{0, 0}}, {"coefficients", []int{1, 1}, []float64{100}},
		{"gauss", []int{1}, []float64{1}}}
	join := func(parts ...[]Array) (all []Array) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	z := []float64{0.25, 0}
	for _, c := range []struct {
		arrays []Array
		want   float64
	}{
		{join([]Array{offset, linear}), 1.5},
		{join([]Array{offset}, ranks), 1 + 10*-0.5},
		{join([]Array{offset}, kernel), 1 + 100*math.Exp(-0.0625)},
		{join([]Array{offset, linear}, ranks, kernel), 1.5 - 5 + 100*math.Exp(-0.0625)},
	} {
		s, err := rebuildSum(c.arrays)
		if err == nil {
			err = s.Check(2, 0)
		}
		if err != nil {
			t.Fatalf("%v: %v", c.arrays, err)
		}
		if again := s.Arrays(); len(again) != len(c.arrays) {
			t.Errorf("%d arrays of %d", len(again), len(c.arrays))
		}
		e, err := s.(*Sum).Extension(2)
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float64, 1)
		if err := e.Place(y, z, e.Workspace()); err != nil || math.Abs(y[0]-c.want) > 1e-12 {
			t.Errorf("%v is %g, %v, want %g", c.arrays, y[0], err, c.want)
		}
	}
	knots := func(first, value, score []float64) []Array {
		return join([]Array{offset, {"first", []int{len(first)}, first}, {"value", []int{len(value)}, value},
			{"score", []int{len(score)}, score}, ranks[3]})
	}
	for _, c := range []struct {
		arrays []Array
		want   string
	}{
		{nil, "starts with the array offset"},
		{[]Array{offset}, "a sum of nothing"},
		{join([]Array{offset, linear}, kernel[:2]), "perhaps components"},
		{join([]Array{offset}, kernel, kernel), "one kernel map at most"},
		{join([]Array{offset, {"components", []int{3, 1}, []float64{1, 2, 3}}}), "2 x 1 are needed"},
		{join([]Array{offset, {"components", []int{2, 2}, []float64{1, 2, 3, 4}}}), "perhaps components"},
		{knots([]float64{0, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "do not hold the knots"},
		{knots([]float64{0, 0, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "feature 0 has no knot"},
		{knots([]float64{0, 1.5, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "must be an integer"},
		{knots([]float64{0, 2, 3}, []float64{1, 1, 5}, []float64{0, 1, 2}), "do not ascend"},
		{knots([]float64{0, 2, 3}, []float64{0, 1, 5}, []float64{1, 0, 2}), "do not ascend"},
		{knots([]float64{0, 2, 3}, nil, nil), "do not hold the knots"},
	} {
		s, err := rebuildSum(c.arrays)
		if err == nil {
			err = s.Check(2, 0)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.arrays, err, c.want)
		}
	}
}
