package picture

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An axis has a few round ticks with distinct labels, for any values.
func TestAxis(t *testing.T) {
	for _, c := range []struct {
		values []float64
		labels string
	}{
		{[]float64{-5.5, 3.7}, "-4 -2 0 2"},
		{[]float64{0, 1}, "0 0.2 0.4 0.6 0.8 1.0"},
		{[]float64{-0.03, 0.021}, "-0.03 -0.02 -0.01 0 0.01 0.02"},
		{[]float64{0, 2e9}, "0 5e+08 1.0e+09 1.5e+09 2.0e+09"},
		{[]float64{1.2e-12, 3e-12}, "1.5e-12 2.0e-12 2.5e-12 3.0e-12"},
		{[]float64{7}, "6.994 6.996 6.998 7.000 7.002 7.004 7.006"},
		{[]float64{0, 0}, "-1.0 -0.5 0 0.5 1.0"},
		{[]float64{12345678, 12345680}, "1.23456780e+07 1.23456785e+07 1.23456790e+07 1.23456795e+07 1.23456800e+07"},
	} {
		a, err := newAxis("outputs", c.values)
		if err != nil {
			t.Error(err)
			continue
		}
		var labels []string
		for _, tick := range a.ticks() {
			labels = append(labels, a.label(tick))
		}
		if got := strings.Join(labels, " "); got != c.labels {
			t.Errorf("%v: the labels are %s, want %s", c.values, got, c.labels)
		}
	}
	for _, bad := range [][]float64{{0, math.NaN()}, {math.Inf(1)}, {-math.MaxFloat64, math.MaxFloat64}} {
		if _, err := newAxis("outputs", bad); err == nil {
			t.Errorf("%v has an axis", bad)
		}
	}
	for _, values := range [][]float64{{-math.MaxFloat32, math.MaxFloat32}, {math.SmallestNonzeroFloat32},
		{0, math.SmallestNonzeroFloat32}, {1, 1 + 1e-15}, {math.MaxFloat32}, {1e-310, 2e-310},
		{0, math.SmallestNonzeroFloat64}} {
		a, err := newAxis("outputs", values)
		if err != nil {
			t.Error(err)
			continue
		}
		ticks := a.ticks()
		var labels []string
		for _, tick := range ticks {
			labels = append(labels, a.label(tick))
		}
		if n := len(ticks); n < 3 || n > 9 || len(slices.Compact(labels)) != n {
			t.Errorf("%v: the labels are %q", values, labels)
		}
		for _, v := range values {
			if at := a.place(v); at < 0 || at > 1 {
				t.Errorf("%v is at %g of the axis of %v", v, at, values)
			}
		}
	}
}

// Labels do not overlap, however many digits they need.
func TestAxisLabelsAreApart(t *testing.T) {
	style := words(10, draw.XCenter, draw.YTop)
	const room = 7 * vg.Inch
	for _, values := range [][]float64{{1.7e9, 1.7e9 + 7}, {-1.7e9 - 7, -1.7e9}, {12345678, 12345680}, {0, 1}} {
		a, err := newAxis("outputs", values)
		if err != nil {
			t.Fatal(err)
		}
		a.widen(room, style)
		ticks := a.ticks()
		if len(ticks) < 2 {
			t.Errorf("%v: the ticks are %v", values, ticks)
		}
		for i := 1; i < len(ticks); i++ {
			apart := room * vg.Length(a.place(ticks[i])-a.place(ticks[i-1]))
			if wide := (style.Width(a.label(ticks[i])) + style.Width(a.label(ticks[i-1]))) / 2; wide+4 > apart {
				t.Errorf("%v: labels %v wide are %v apart", values, wide, apart)
			}
		}
	}
}
