package mapping

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestKernelsByHand: each kernel of two rows, and of a row of zeros.
func TestKernelsByHand(t *testing.T) {
	a, b, zero := []float64{3, 4}, []float64{1, 0}, []float64{0, 0}
	for _, c := range []struct {
		k    Kernel
		x, y []float64
		want float64
	}{
		{Kernel{Name: "gauss", Param: []float64{10}}, a, b, math.Exp(-2)},
		{Kernel{Name: "linear"}, a, b, 3},
		{Kernel{Name: "polynomial", Param: []float64{2}}, a, b, 6.25},
		{Kernel{Name: "cosine"}, a, b, 0.6},
		{Kernel{Name: "cosine"}, a, zero, 0},
		{Kernel{Name: "cosine"}, zero, a, 0},
		{Kernel{Name: "chi2", Param: []float64{5}, Origin: zero}, a, b, math.Exp(-1)},      // 4/4 + 16/4
		{Kernel{Name: "chi2", Param: []float64{5}, Origin: zero}, a, zero, math.Exp(-1.4)}, // 9/3 + 16/4
		{Kernel{Name: "chi2", Param: []float64{1}, Origin: []float64{1, -9}}, a, zero, math.Exp(-9. / 5)},
		{Kernel{Name: "linear", Origin: []float64{-1, 1}}, a, b, 0*2 + 1*5},
	} {
		r := c.k.Ready(c.y, 2)
		x := make([]float64, 2)
		norm := r.Take(x, c.x)
		if got := r.At(x, norm, 0); !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%+v of %v and %v: %g, want %g", c.k, c.x, c.y, got, c.want)
		}
		g, err := c.k.Gram(t.Context(), slices.Concat(c.x, c.y), 2)
		if err != nil || !(math.Abs(g.At(0, 1)-c.want) <= 1e-15) {
			t.Errorf("%+v of %v and %v: %g in the matrix, %v", c.k, c.x, c.y, g.At(0, 1), err)
		}
	}
}

// TestParameterOfAKernel: gauss takes the median squared distance, or the smallest above 0 if that is 0; polynomial the
// number of features; chi2 the mean distance.
func TestParameterOfAKernel(t *testing.T) {
	three := []float64{0, 0, 1, 0, 3, 0} // squared distances 1, 9 and 4
	origin := []float64{0, 0}
	for _, c := range []struct {
		name   string
		rows   []float64
		origin []float64
		want   float64
		err    string
	}{
		{"gauss", three, nil, 4, ""},
		{"gauss", []float64{0, 0, 0, 0, 0, 0, 2, 0}, nil, 4, ""},
		// the median of 0 and 4 is below the least
		{"gauss", []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0}, nil, 1, ""}, // the median is 0
		{"gauss", []float64{5, 5, 5, 5}, nil, 1, ""},
		{"gauss", []float64{5, 5}, nil, 1, ""},
		{"polynomial", three, nil, 2, ""},
		{"chi2", three, origin, (1 + 3 + 1) / 3., ""}, // 1/1, 9/3 and 4/4
		{"chi2", []float64{1, 1, 1, 1}, origin, 1, ""},
		{"chi2", []float64{1, 1}, origin, 1, ""},
		{"chi2", []float64{-1.9e-9, 0, 1, 0}, []float64{0, 0}, 1, "row 0 is negative in feature 0"},
		{"chi2", []float64{-0.9e-9, 0, 1, 0}, []float64{0, 0}, 1, ""},
		{"chi2", []float64{0, 0, 1, -9.0000000101}, []float64{0, 9}, 1, "row 1 is negative in feature 1; the kernel chi2"},
		{"chi2", []float64{0, -9, 1, -9.0000000099}, []float64{0, 9}, 1, ""},
		{"chi2", three, nil, 1, "0 numbers in origin"},
		{"cubic", three, nil, 0, `kernel "cubic" is not known`},
	} {
		k, err := NewKernel(t.Context(), c.name, c.rows, 2, c.origin)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s of %v: %v, want %q", c.name, c.rows, err, c.err)
		}
		if err == nil && !(math.Abs(k.Param[0]-c.want) <= 1e-15) {
			t.Errorf("%s of %v: %g, want %g", c.name, c.rows, k.Param[0], c.want)
		}
	}
	pairs, err := EachPair(t.Context(), []float64{1, 2, 3, 4}, 1, func(a, b []float64) float64 { return 10*a[0] + b[0] })
	if want := []float64{12, 13, 14, 23, 24, 34}; err != nil || !slices.Equal(pairs, want) {
		t.Errorf("pairs %v, %v", pairs, err)
	}
}
