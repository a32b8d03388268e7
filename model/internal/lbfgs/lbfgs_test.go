package lbfgs

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
)

// quadratic is half of a sum of squares with the given weights, plus a constant.
func quadratic(weights []float64, constant float64) func(x, g []float64) float64 {
	return func(x, g []float64) float64 {
		value := constant
		for i, w := range weights {
			g[i] = w * x[i]
			value += w * x[i] * x[i] / 2
		}
		return value
	}
}

// rosenbrock is the function of that name, whose minimum is 0 at (1, 1).
func rosenbrock(x, g []float64) float64 {
	a, b := 1-x[0], x[1]-x[0]*x[0]
	g[0], g[1] = -2*a-400*x[0]*b, 200*b
	return a*a + 100*b*b
}

func TestMinimum(t *testing.T) {
	weights := []float64{1, 10, 100, 1000}
	for name, c := range map[string]struct {
		start, want []float64
		f           func(x, g []float64) float64
		steps       int // that are enough
	}{
		"quadratic":  {[]float64{1, 1, 1, 1}, []float64{0, 0, 0, 0}, quadratic(weights, 0), 30},
		"rosenbrock": {[]float64{-1.2, 1}, []float64{1, 1}, rosenbrock, 60},
	} {
		start := append([]float64(nil), c.start...)
		var s model.Search
		x := Minimize(context.Background(), start, 200, 1e-9, &s, c.f)
		if !(floats.Distance(x, c.want, math.Inf(1)) <= 1e-4) || !s.Converged {
			t.Errorf("%s: the minimum is at %v, converged %v", name, x, s.Converged)
		}
		if !floats.Equal(start, c.start) {
			t.Errorf("%s: the start was changed", name)
		}
		g := make([]float64, len(x))
		value := c.f(x, g)
		if s.End != value || !(math.Abs(s.Gradient-floats.Norm(g, 2)) <= 1e-12) || s.Steps > c.steps {
			t.Errorf("%s: %+v, value %v, gradient %v", name, s, value, g)
		}
		if first := c.f(c.start, g); s.Start != first || s.Limit != 200 {
			t.Errorf("%s: %+v, the first value is %v", name, s, first)
		}
	}
}

// TestStops: at the limit of steps, where the gradient is below 1e-5, at large x below as much less, and where the
// value decreases by less than 1e-6 of itself.
func TestStops(t *testing.T) {
	run := func(x []float64, limit int, f func(x, g []float64) float64) model.Search {
		var s model.Search
		Minimize(context.Background(), x, limit, 1e-6, &s, f)
		return s
	}
	if s := run([]float64{-1.2, 1}, 3, rosenbrock); s.Converged || s.Steps != 3 {
		t.Errorf("with three steps: %+v", s)
	}
	for x, want := range map[float64]int{0.9e-5: 0, 1.1e-5: 1} {
		if s := run([]float64{x}, 10, quadratic([]float64{1}, 0)); s.Steps != want || !s.Converged {
			t.Errorf("a gradient of %v: %+v", x, s)
		}
	}
	for slope, flat := range map[float64]bool{0.9e-7: true, 1.1e-7: false} {
		s := run([]float64{100}, 10, func(x, g []float64) float64 { g[0] = slope; return slope * x[0] })
		if (s.Steps == 0) != flat {
			t.Errorf("a gradient of %v at 100: %+v", slope, s)
		}
	}
	// The first step of length 1 from 10 decreases the value of 50 by 9.5: nothing next to 1e8, much next to 1e6.
	for constant, want := range map[float64]bool{1e8: true, 1e6: false} {
		if s := run([]float64{10}, 10, quadratic([]float64{1}, constant)); (s.Steps == 1) != want || !s.Converged {
			t.Errorf("a constant of %v: %+v", constant, s)
		}
	}
	// A value near zero decreases by much of itself at any size.
	if s := run([]float64{1e-3}, 10, quadratic([]float64{1}, -1e-9)); !(s.Gradient <= 1e-5) {
		t.Errorf("near zero: %+v", s)
	}
}

// TestStepsAreShortened: a step that does not decrease the value is shortened to between a tenth and half of it.
func TestStepsAreShortened(t *testing.T) {
	for beyond, want := range map[float64]float64{1e6: 0.1, 1: 0.25, -1e-5: 0.5} {
		var tries []float64
		var s model.Search
		Minimize(context.Background(), []float64{0}, 5, 1e-6, &s, func(x, g []float64) float64 {
			if g[0] = -1; x[0] == 0 {
				return 0
			}
			tries = append(tries, x[0])
			return beyond
		})
		if len(tries) < 2 || tries[0] != 1 || !(math.Abs(tries[1]-want) <= 1e-4) {
			t.Errorf("a value of %v: steps %v, the second one should be %v", beyond, tries, want)
		}
	}
}

// TestOvershootIsNotConvergence: the first step, of length 1, ends on the other side of the minimum and gains 0.02.
// That is nothing next to the value, but 0.13 less can be had.
func TestOvershootIsNotConvergence(t *testing.T) {
	var s model.Search
	x := Minimize(context.Background(), []float64{0.52}, 20, 1e-6, &s, quadratic([]float64{1}, 1e5))
	if !(math.Abs(x[0]) <= 1e-3) || !s.Converged {
		t.Errorf("the minimum is at %v: %+v", x, s)
	}
}

// TestNothingIsDownhill: a search whose gradient is wrong does not converge.
func TestNothingIsDownhill(t *testing.T) {
	var s model.Search
	x := Minimize(context.Background(), []float64{1}, 20, 1e-6, &s, func(x, g []float64) float64 {
		g[0] = -2 * x[0]
		return x[0] * x[0]
	})
	if s.Converged || s.Steps != 0 || x[0] != 1 {
		t.Errorf("it ended at %v: %+v", x, s)
	}
}

// TestRoundingEndsTheSearch: a step from 1e-8 would lower the value of 1 by less than its last digit.
func TestRoundingEndsTheSearch(t *testing.T) {
	var s model.Search
	x := Minimize(context.Background(), []float64{1e-8}, 20, 1e-12, &s, quadratic([]float64{1}, 1))
	if !s.Converged || s.Steps != 0 || x[0] != 1e-8 {
		t.Errorf("it ended at %v: %+v", x, s)
	}
}
