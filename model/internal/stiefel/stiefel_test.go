package stiefel

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// TestStepsGainTheirShare: a step is taken if the value rises by 1e-4 of what the slope promises. Otherwise it is
// halved until it is 1e-14, and the search ends where it is.
func TestStepsGainTheirShare(t *testing.T) {
	for _, c := range []struct {
		share float64
		tried int // steps
		steps int
	}{{5e-4, 1, 1}, {5e-5, 48, 0}} {
		tried, step := 0, 2.0 // the first step is doubled
		ascent := Ascent{Steps: 1, Gradient: func(*mat.Dense) *mat.Dense { return mat.NewDense(2, 1, []float64{0, 1}) },
			Value: func(*mat.Dense) float64 {
				tried++
				defer func() { step /= 2 }()
				return c.share * step
			}}
		var s model.Search
		ascent.From(t.Context(), mat.NewDense(2, 1, []float64{1, 0}), &s)
		if tried != c.tried || s.Steps != c.steps {
			t.Errorf("with a gain of %g of the slope: %d steps tried, %d taken", c.share, tried, s.Steps)
		}
	}
}
