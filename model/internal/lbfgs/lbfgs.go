package lbfgs

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
)

// Minimize minimises f, which fills g with the gradient at x, from x by L-BFGS
// with memory 10 and an Armijo line search (Nocedal and Wright, Numerical
// Optimization, 2006, algorithms 7.4 and 3.1). It ends after the iterations
// given, at a relative decrease below 1e-6, at |g|_inf below 1e-5, or where no
// step is downhill, and returns the best point seen.
func Minimize(ctx context.Context, x []float64, iterations int, s *model.Search,
	f func(x, g []float64) (float64, error)) ([]float64, error) {
	const memory, armijo, shrunk, flat = 10, 1e-4, 1e-6, 1e-5
	x = slices.Clone(x)
	g := make([]float64, len(x))
	value, err := f(x, g)
	if err != nil {
		return nil, err
	}
	s.Start, s.End = value, value
	var steps, turns [][]float64 // s and y of the last iterations
	next, gNext := make([]float64, len(x)), make([]float64, len(x))
	for ; s.Steps < iterations && floats.Norm(g, math.Inf(1)) >= flat; s.Steps++ {
		direction := towards(g, steps, turns)
		slope := floats.Dot(direction, g)
		if !(slope < 0) {
			break
		}
		step := 1.0
		if len(steps) == 0 {
			step = 1 / floats.Norm(g, 2)
		}
		reached := math.Inf(1)
		for try := 0; try < 20; try++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			floats.AddScaledTo(next, x, step, direction)
			if reached, err = f(next, gNext); err != nil {
				return nil, err
			}
			if reached <= value+armijo*step*slope {
				break
			}
			// The least of the parabola through both values and the slope.
			step *= min(max(-slope*step/(2*(reached-value-slope*step)), 0.1), 0.5)
		}
		if !(reached < value) {
			break
		}
		moved, turned := make([]float64, len(x)), make([]float64, len(x))
		floats.SubTo(moved, next, x)
		floats.SubTo(turned, gNext, g)
		if floats.Dot(moved, turned) > 1e-12*floats.Dot(turned, turned) {
			steps, turns = append(steps, moved), append(turns, turned)
			if len(steps) > memory {
				steps, turns = steps[1:], turns[1:]
			}
		}
		small := value-reached <= shrunk*max(math.Abs(value), math.Abs(reached))
		x, next = next, x
		g, gNext = gNext, g
		value = reached
		if small {
			s.Steps++
			break
		}
	}
	s.End, s.Gradient = value, floats.Norm(g, 2)
	return x, nil
}

// towards is -H g, H the inverse Hessian that the last steps tell of.
func towards(g []float64, steps, turns [][]float64) []float64 {
	q := slices.Clone(g)
	a := make([]float64, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		a[i] = floats.Dot(steps[i], q) / floats.Dot(steps[i], turns[i])
		floats.AddScaled(q, -a[i], turns[i])
	}
	if k := len(steps) - 1; k >= 0 {
		floats.Scale(floats.Dot(steps[k], turns[k])/floats.Dot(turns[k], turns[k]), q)
	}
	for i := range steps {
		b := floats.Dot(turns[i], q) / floats.Dot(steps[i], turns[i])
		floats.AddScaled(q, a[i]-b, steps[i])
	}
	floats.Scale(-1, q)
	return q
}
