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
// (Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4 and 3.1). It converges where |g|_inf times
// max(1, |x|_inf) is below 10 gain, or a step decreases the value by at most gain times itself. It ends without that at
// the limit of iterations, or if no step is downhill. It returns the best point found.
func Minimize(ctx context.Context, x []float64, iterations int, gain float64, s *model.Search,
	f func(x, g []float64) float64) []float64 {
	// A step decreases the value by a tenth or more of what the slope promises. One that overshoots, and gains almost
	// nothing far from the minimum, would look like convergence.
	const (
		memory = 10  // pairs of steps and changes of the gradient, as is usual
		armijo = 0.1 // share of the decrease that the slope promises
	)
	x = slices.Clone(x)
	g := make([]float64, len(x))
	value := f(x, g)
	s.Start, s.Limit, s.Converged = value, iterations, false
	var steps, changes [][]float64 // s and y of the last iterations
	next, gNext := make([]float64, len(x)), make([]float64, len(x))
	for {
		slopes := floats.Norm(g, math.Inf(1)) * max(1, floats.Norm(x, math.Inf(1)))
		if s.Converged = s.Converged || slopes < 10*gain; s.Converged || s.Steps >= iterations {
			break
		}
		direction := descentDirection(g, steps, changes)
		slope := floats.Dot(direction, g)
		step := 1.0
		if len(steps) == 0 {
			step = 1 / floats.Norm(g, 2)
		}
		reached := math.Inf(1)
		for try := 0; try < 20 && slope < 0; try++ {
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
			// Near the minimum rounding errors hide what a step gains. A direction that they turn uphill says nothing.
			if s.Converged = slope < 0 && -slope <= gain*math.Abs(value); s.Converged || len(steps) == 0 {
				break
			}
			steps, changes = nil, nil // the next direction is that of the gradient
			continue
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
		s.Steps++
		s.Converged = value-reached <= gain*max(math.Abs(value), math.Abs(reached))
		x, next = next, x
		g, gNext = gNext, g
		value = reached
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
