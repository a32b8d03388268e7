package fit

import (
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestOutputsThatFloat32CannotHold: the standard deviation of outputs is between 1e-34 and 1e34.
func TestOutputsThatFloat32CannotHold(t *testing.T) {
	for deviation, want := range map[float64]bool{1: true, 1.1e-34: true, 0.9e-34: false, 0.9e34: true, 1.1e34: false} {
		d := &model.Data{N: 4, M: 2, X: []float64{deviation, 0, -deviation, 0, deviation, 0, -deviation, 0}}
		_, err := Fit(t.Context(), d, Config{Method: "pca", Dim: 1, Scale: model.ScaleNone})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "float32 cannot represent") {
			t.Errorf("deviation %g: %v", deviation, err)
		}
	}
}

// TestFloat64FromCancellation: outputs are computed in float64 if their terms are more than 16 times as large.
func TestFloat64FromCancellation(t *testing.T) {
	for _, c := range []struct {
		cancellation float64
		want         bool
	}{{2, false}, {15.5, false}, {16.5, true}, {100, true}} {
		// Two features of correlation r: the second output is their difference, and r is 1 - 1/cancellation^2.
		r := 1 - 1/(c.cancellation*c.cancellation)
		e := math.Sqrt(1/(r*r) - 1)
		d := &model.Data{N: 4, M: 2, X: []float64{1, 1 + e, 1, 1 - e, -1, -1 + e, -1, -1 - e}}
		m := fit(t, d, Config{Method: "pca", Dim: 2})
		if got := m.Content().Float64; got != c.want {
			t.Errorf("terms %g times as large as the output: float64 %v", c.cancellation, got)
		}
		if fit(t, d, Config{Method: "pca", Dim: 1}).Content().Float64 {
			t.Error("the sum of the features is computed in float64")
		}
	}
}

// TestConstantWithinRounding: a feature is constant if its standard deviation is at most that of rounding errors of a
// mean of n rows: n times its mean times 2^-52.
func TestConstantWithinRounding(t *testing.T) {
	const n, mean = 1 << 10, 1 << 20
	for _, c := range []struct {
		deviation float64
		constant  bool
	}{{0, true}, {0x1p-23, true}, {0x1p-22, true}, {0x1p-21, false}, {1, false}} {
		d := &model.Data{N: n, M: 2}
		for i := range n {
			sign := float64(1 - i%2*2)
			d.X = append(d.X, mean+sign*c.deviation, float64(1-i/2%2*2))
		}
		want := c.deviation
		if c.constant {
			want = 1
		}
		if got := fit(t, d, Config{Method: "pca", Dim: 1}).Scale()[0]; !(math.Abs(got-want) <= 1e-6*want) {
			t.Errorf("deviation %g: scale %g, want %g", c.deviation, got, want)
		}
	}
}
