package stiefel

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// trace is the search for the leading eigenvectors of a matrix, by the trace of O'MO.
func trace(m *mat.SymDense, steps int) Ascent {
	up := func(o *mat.Dense) *mat.Dense {
		g := new(mat.Dense)
		g.Mul(m, o)
		g.Scale(2, g)
		return g
	}
	value := func(o *mat.Dense) float64 {
		var full mat.Dense
		full.Mul(o.T(), up(o))
		return mat.Trace(&full) / 2
	}
	return Ascent{Steps: steps, Gain: 1e-12, Value: value, Gradient: up}
}

// TestLeadingVectors: from columns far away the search ends at the space of the leading eigenvectors, with orthonormal
// columns, and reports the value and the gradient there, both in their own unit.
func TestLeadingVectors(t *testing.T) {
	const n = 8
	for _, unit := range []float64{1e-3, 1, 1e3} {
		m := mat.NewSymDense(n, nil)
		for i := range n {
			m.SetSym(i, i, unit*float64(i*i))
			for j := range i {
				m.SetSym(i, j, unit*math.Cos(float64(7*i+j)))
			}
		}
		var e mat.EigenSym
		if !e.Factorize(m, false) {
			t.Fatal("no eigenvalues")
		}
		values := e.Values(nil)
		want := values[n-1] + values[n-2]
		start := mat.NewDense(n, 2, nil)
		start.Set(0, 0, 1)
		start.Set(1, 1, 1)
		before := mat.DenseCopyOf(start)
		c := trace(m, 100)
		var s model.Search
		o := c.From(t.Context(), start, &s)
		if s.Start != c.Value(start) || !mat.Equal(start, before) {
			t.Errorf("unit %g: the start is %g, want %g", unit, s.Start, c.Value(start))
		}
		if !(math.Abs(s.End-want) <= 1e-9*want) || !(math.Abs(c.Value(o)-s.End) <= 1e-12*want) || !s.Converged {
			t.Errorf("unit %g: %.12g at the columns, want %.12g: %+v", unit, c.Value(o), want, s)
		}
		if !(s.Gradient <= 1e-4*want) {
			t.Errorf("unit %g: a gradient of %g", unit, s.Gradient)
		}
		var inner mat.Dense
		inner.Mul(o.T(), o)
		if e := math.Abs(inner.At(0, 0)-1) + math.Abs(inner.At(1, 1)-1) + math.Abs(inner.At(0, 1)); !(e <= 1e-14) {
			t.Errorf("unit %g: O'O differs from I by %g", unit, e)
		}
		c = trace(m, 2)
		s = model.Search{}
		if c.From(t.Context(), start, &s); s.Converged || s.Steps != 2 || !(s.End > s.Start) {
			t.Errorf("unit %g, two steps: %+v", unit, s)
		}
	}
}
