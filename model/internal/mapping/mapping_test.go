package mapping

import (
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"
)

// TestCostsAndRoom: each map has a cost per row, in comparisons, and a number of rows that are projected at once.
func TestCostsAndRoom(t *testing.T) {
	gauss, linear := Kernel{Name: "gauss", Param: []float64{1}}, Kernel{Name: "linear"}
	kernels := func(k Kernel) *KernelMap {
		return &KernelMap{D: 1, Rows: make([]float64, 14), Coefficients: make([]float64, 7), K: k}
	}
	ranks := func(m int) *Ranks {
		r := &Ranks{First: make([]float64, m+1), Value: make([]float64, m), Score: make([]float64, m)}
		for j := range r.First {
			r.First[j] = float64(j)
		}
		return r
	}
	for _, c := range []struct {
		what         string
		of           RowMap
		m            int
		cost, atOnce int
	}{
		{"gauss", kernels(gauss), 2, 7, Together},
		{"linear", kernels(linear), 2, 7, Together},
		{"nystrom", &Nystrom{Training: training(5), Lambda: []float64{0, 0}, Reach: make([]float64, 5), K: 1}, 2, 5, 48},
		{"similarity", &SimilarityMap{Training: training(5), K: linear}, 2, 50, 48},
		{"a sum", &Sum{D: 1, Linear: make([]float64, 2)}, 2, 1, Together},
		{"a sum with ranks", &Sum{D: 1, Ranks: ranks(2), Ranked: make([]float64, 2)}, 2, 2, 10 * Together},
		{"a sum of many features", &Sum{D: 1, Ranks: ranks(1000), Ranked: make([]float64, 1000)}, 1000, 2,
			(1 << 20) / (8 * Together * 1000) * Together},
		{"a sum of very many features", &Sum{D: 1, Ranks: ranks(9000), Ranked: make([]float64, 9000)}, 9000, 2, Together},
		{"a sum with kernels", &Sum{D: 1, Linear: make([]float64, 2), Kernel: kernels(gauss)}, 2, 8, Together},
	} {
		e, err := c.of.Extension(c.m)
		if err != nil || e.Cost() != c.cost || e.AtOnce() != c.atOnce {
			t.Errorf("%s: cost %d, want %d; %d rows at once, want %d; %v", c.what, e.Cost(), c.cost, e.AtOnce(), c.atOnce, err)
		}
	}
}

// TestNumbersOfAnArray: a count is an array of one integer from 0 to below 2^31 - 1.
func TestNumbersOfAnArray(t *testing.T) {
	of := func(v ...float64) (n int, err error) {
		defer fail.Catch(&err)
		return count(Array{"k", []int{len(v)}, v}), nil
	}
	for _, c := range []struct {
		v    []float64
		want string
	}{
		{[]float64{0}, ""}, {[]float64{math.MaxInt32 - 1}, ""}, {[]float64{1, 2}, "2 numbers in k, 1 is needed"},
		{nil, "0 numbers in k, 1 is needed"}, {[]float64{1.5},
			"k holds 1.5; it must be an integer from 0 and below 2.147483647e+09"},
		{[]float64{math.MaxInt32}, "k holds 2.147483647e+09;"}, {[]float64{-1}, "k holds -1;"}, {[]float64{math.NaN()},
			"holds NaN"},
	} {
		n, err := of(c.v...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			err == nil && float64(n) != c.v[0] {
			t.Errorf("%v: %d, %v", c.v, n, err)
		}
	}
}

// TestPlacesByHand projects new rows by each map of training rows, for three rows on a line.
func TestPlacesByHand(t *testing.T) {
	line := Training{1, []float64{0, 1, 10}, []float64{2, 4, 30}}
	far := math.Exp(-2 * 0.2) // of the second row, relative to the first: 0.36 - 0.16 = 0.2
	for what, c := range map[string]struct {
		of   RowMap
		z    float64
		want float64
	}{
		// The first row reaches 0.16 and no farther, so it is joined as the nearest; the third reaches the new row.
		"nystrom": {&Nystrom{line, []float64{0.5}, []float64{0.16, 0, 100}, 1, 0}, 0.4, (2. + 30) / 2 / 0.5},
		"nystrom, weighed": {&Nystrom{line, []float64{0.5}, []float64{0, 1, 0}, 1, 2}, 0.4,
			(2 + 4*far) / (1 + far) / 0.5},
		"nystrom, too far": {&Nystrom{line, []float64{0.5}, []float64{0, 0, 0}, 1, 1e6}, 0.4, 2},
		"nystrom, equal":   {&Nystrom{line, []float64{0.5}, []float64{0, 0, 0}, 1, 2}, 10, 30},
		"barycentre":       {&Barycentric{line, 2, 1e-12}, 0.4, 2.8},
		"barycentre of 1":  {&Barycentric{line, 1, 1e-12}, 0.6, 4},
		// The lengths of the paths are 0.4, 0.6 and 9.6. The last path is through the second row.
		// (1 - .16)*2 + (2 - .36)*4 + (90 - 92.16)*30
		"geodesic": {&Geodesic{Training: line, Lambda: []float64{4}, Square: []float64{1, 2, 90},
			Edge: []float64{0, 1, 1, 2}, Length: []float64{1, 9}, K: 2}, 0.4, (0.84*2 + 1.64*4 - 2.16*30) / 8},
		"tangent": {&Tangent{line, []float64{0, 1, 0}, []float64{5, 7}, 2}, 0.6, 4 - 0.4*7},
	} {
		e, err := c.of.Extension(1)
		if err != nil {
			t.Fatal(err)
		}
		dst := []float64{99}
		if n, err := e.Project(dst, []float64{c.z}, 1, e.Workspace()); n != 1 || err != nil ||
			!(math.Abs(dst[0]-c.want) <= 1e-9) {
			t.Errorf("%s: %g, %v, want %g", what, dst[0], err, c.want)
		}
	}
	e, err := (&Tangent{line, []float64{0, 0, 0}, []float64{1}, 1}).Extension(1)
	if err != nil {
		t.Fatal(err)
	}
	z := []float64{0.5, 1e300, 1}
	if n, err := e.Project(make([]float64, 3), z, 3, e.Workspace()); n != 1 || err == nil ||
		!strings.HasPrefix(err.Error(), "its distance to every row of the fit exceeds float64") {
		t.Errorf("%d rows are placed, %v", n, err)
	}
}
