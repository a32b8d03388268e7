package eval

import (
	"math"
	"testing"
)

func TestMeanSD(t *testing.T) {
	for _, c := range []struct {
		x        []float64
		mean, sd float64
	}{{[]float64{3}, 3, 0}, {[]float64{1, 3}, 2, math.Sqrt2}, {[]float64{1, 2, 3, 4, 5}, 3, math.Sqrt(2.5)},
		{[]float64{-2, -2}, -2, 0}} {
		if mean, sd := meanSD(c.x); !(math.Abs(mean-c.mean) <= 1e-15) || !(math.Abs(sd-c.sd) <= 1e-15) {
			t.Errorf("%v: %v and %v, want %v and %v", c.x, mean, sd, c.mean, c.sd)
		}
	}
}
