package mapping

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
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

// TestParameterOfAKernel: the median squared distance, of copies the least one above 0; the features; the mean of chi2.
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

// TestCostsAndRoom: the cost of a row, in comparisons, and the number of rows that are projected at once.
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

// TestMaxRank by its formula, with 8 multiplications for a kernel and 96 vectors at most.
func TestMaxRank(t *testing.T) {
	for _, c := range [][3]int{{100, 7, 0}, {100, 8, 0}, {100, 28, 100 * 20 / 256}, {300, 64, 300 * 56 / 728},
		{100_000, 1000, 96}, {1, 300, 0}} {
		if got := MaxRank(c[0], c[1]); got != c[2] {
			t.Errorf("%d rows of %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestSpan: a part of 1e-12 of a row counts as rounding error, and rows whose squares are not float64 have no basis.
func TestSpan(t *testing.T) {
	row := func(v ...float64) []float64 { return v }
	for _, c := range []struct {
		rows []float64
		most int
		want int // vectors; -1: none
	}{
		{row(1, 0, 1, 2e-12), 2, 2}, {row(1, 0, 1, 0.5e-12), 2, 1}, {row(1, 0, 0, 1), 1, -1}, {row(0, 0, 3, 4), 2, 1},
		{row(0, 0, 0, 0), 2, -1}, {row(1e-151, 0, 1, 1), 2, -1}, {row(1e-149, 0, 1, 1), 2, 2},
		{row(1e-200, 0, 1, 1), 2, -1}, {row(1e160, 0, 1, 1), 2, -1}, {row(1e153, 0, 1, 1), 2, 2},
	} {
		basis := span(c.rows, 2, c.most)
		if c.want < 0 != (basis == nil) || c.want > 0 && len(basis) != 2*c.want {
			t.Errorf("%v: %v, want %d vectors", c.rows, basis, c.want)
		}
		for i := range len(basis) / 2 {
			for j := range i + 1 {
				want := float64(1 - min(i-j, 1))
				if got := linalg.Dot(basis[2*i:2*i+2], basis[2*j:2*j+2]); !(math.Abs(got-want) <= 1e-14) {
					t.Errorf("%v: the product of vectors %d and %d is %g", c.rows, i, j, got)
				}
			}
		}
	}
}

// TestPathsThatAreKept: those between all rows if they take at most 64 MiB.
func TestPathsThatAreKept(t *testing.T) {
	for n, want := range map[int]bool{2896: true, 2897: false} {
		e := &Geodesic{Training: Training{1, make([]float64, n), make([]float64, n)}, K: 1}
		made, err := e.Extension(1)
		if err != nil || (made.(*geodesicExtension).known != nil) != want {
			t.Errorf("%d rows: %v", n, err)
		}
	}
}

// TestIndexOfFarRows: rows whose squares are not float64 are not compared by products, and others are scaled to at
// most 1.
func TestIndexOfFarRows(t *testing.T) {
	for exp, want := range map[int]bool{-401: false, -400: true, 400: true, 401: false} {
		far := 2 * math.Ldexp(0.75, exp) // each is half of it from the mean
		x := newIndex(&Training{1, []float64{far, 0}, make([]float64, 2)}, 1, 5, nil)
		if (x.points != nil) != want || x.K != 2 {
			t.Errorf("2^%d: products %v, %d neighbours", exp, !want, x.K)
		}
		if want && (x.scale != math.Ldexp(1, -exp) || x.norms[0] != 0.75*0.75) {
			t.Errorf("2^%d: scale %g, squared norm %g", exp, x.scale, x.norms[0])
		}
	}
	x := newIndex(&Training{1, []float64{math.Inf(1), 0}, make([]float64, 2)}, 1, 1, nil)
	if x.points != nil {
		t.Error("an infinite row is compared by products")
	}
}

// TestDirect: rows of up to 300 features and an alpha above 1e-8 of the largest product, of the linear kernel alone.
func TestDirect(t *testing.T) {
	for _, c := range []struct {
		linear   bool
		features int
		alpha    float64
		want     bool
	}{{true, 300, 4.1e-8, true}, {true, 301, 1, false}, {true, 300, 4e-8, false}, {false, 3, 1, false}} {
		p := &SimilarityExtension{SimilarityMap: &SimilarityMap{Alpha: c.alpha}, linear: c.linear, diagonal: []float64{1, 4}}
		if p.direct(c.features) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestNear: two rows of 1e6 bandwidths together are measured directly.
func TestNear(t *testing.T) {
	g := &Gauss{param: 2, largest: 5e5}
	if g.near(1.5e6) || !g.near(1.4999e6) {
		t.Error("the border is not at a million bandwidths")
	}
}

// TestNumbersOfAnArray: one number, and an integer below a bound.
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

// TestPlacesByHand: rows on a line, and a new one at 0.4 of the way from the first to the second.
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
		// Distances 0.4, 0.6 and 9.6, the last through the second row: (1 - .16)*2 + (2 - .36)*4 + (90 - 92.16)*30.
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

// TestFarBarycentres: neighbours whose squared distances are near the limits of float64 have the same weights.
func TestFarBarycentres(t *testing.T) {
	for _, size := range []float64{1e-160, 1, 1e150} {
		e, err := (&Barycentric{Training{1, []float64{0, size, 9 * size}, []float64{2, 4, 30}}, 2, 1e-9}).Extension(1)
		if err != nil {
			t.Fatal(err)
		}
		dst := []float64{99}
		if _, err := e.Project(dst, []float64{0.25 * size}, 1, e.Workspace()); err != nil || !(math.Abs(dst[0]-2.5) <= 1e-6) {
			t.Errorf("at a distance of %g: %g, %v", size, dst[0], err)
		}
	}
}
