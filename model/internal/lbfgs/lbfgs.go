// Package lbfgs minimises a smooth function by L-BFGS.
package lbfgs

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
)

// Minimize minimises f, which fills g with the gradient at x, from x by L-BFGS with memory 10 and an Armijo line search
// (Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4 and 3.1). It stops after the given iterations, at a
// relative decrease below 1e-6, at |g|_inf below 1e-5, or if no step is downhill, and returns the best point found.
func Minimize(ctx context.Context, x []float64, iterations int, s *model.Search,
	f func(x, g []float64) float64) []float64 {
	const memory, armijo, shrunk, flat = 10, 1e-4, 1e-6, 1e-5
	x = slices.Clone(x)
	g := make([]float64, len(x))
	value := f(x, g)
	s.Start, s.End, s.Limit, s.Converged = value, value, iterations, true
	var steps, changes [][]float64 // s and y of the last iterations
	next, gNext := make([]float64, len(x)), make([]float64, len(x))
	for ; floats.Norm(g, math.Inf(1)) >= flat; s.Steps++ {
		if s.Steps >= iterations {
			s.Converged = false
			break
		}
		direction := descentDirection(g, steps, changes)
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
			fail.Check(ctx.Err())
			floats.AddScaledTo(next, x, step, direction)
			reached = f(next, gNext)
			if reached <= value+armijo*step*slope {
				break
			}
			// The minimum of the parabola through both values and the slope.
			step *= min(max(-slope*step/(2*(reached-value-slope*step)), 0.1), 0.5)
		}
		if !(reached < value) {
			break
		}
		moved, turned := make([]float64, len(x)), make([]float64, len(x))
		floats.SubTo(moved, next, x)
		floats.SubTo(turned, gNext, g)
		if floats.Dot(moved, turned) > 1e-12*floats.Dot(turned, turned) {
			steps, changes = append(steps, moved), append(changes, turned)
			if len(steps) > memory {
				steps, changes = steps[1:], changes[1:]
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
	return x
}

// descentDirection is -H g, where H is the inverse Hessian estimated from the last steps.
func descentDirection(g []float64, steps, changes [][]float64) []float64 {
	q := slices.Clone(g)
	a := make([]float64, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		a[i] = floats.Dot(steps[i], q) / floats.Dot(steps[i], changes[i])
		floats.AddScaled(q, -a[i], changes[i])
	}
	if k := len(steps) - 1; k >= 0 {
		floats.Scale(floats.Dot(steps[k], changes[k])/floats.Dot(changes[k], changes[k]), q)
	}
	for i := range steps {
		b := floats.Dot(changes[i], q) / floats.Dot(steps[i], changes[i])
		floats.AddScaled(q, a[i]-b, steps[i])
	}
	floats.Scale(-1, q)
	return q
}
