package pencil

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// TestFixSignsAtTies: of entries within 1e-12 of the largest, the first one becomes positive.
func TestFixSignsAtTies(t *testing.T) {
	for _, c := range []struct {
		column []float64
		flips  bool
	}{
		{[]float64{1, -2}, true}, {[]float64{-1, 2}, false}, {[]float64{0, -1}, true}, {[]float64{0, 0}, false},
		{[]float64{-1, 1}, true}, {[]float64{1, -1}, false},
		{[]float64{-(1 - 5e-13), 1}, true}, {[]float64{-(1 - 5e-12), 1}, false},
		{[]float64{1 - 5e-13, -1}, false}, {[]float64{1 - 5e-12, -1}, true},
	} {
		a := mat.NewDense(2, 1, append([]float64(nil), c.column...))
		FixSigns(a)
		sign := 1.0
		if c.flips {
			sign = -1
		}
		for i, v := range c.column {
			if a.At(i, 0) != sign*v {
				t.Errorf("%v becomes %v", c.column, mat.Formatted(a.T()))
			}
		}
	}
}

// TestTie: two values share an eigenspace up to a relative difference of 1e-6, or of 1e-14 of the largest value for
// each row.
func TestTie(t *testing.T) {
	for _, c := range []struct {
		a, b    float64
		k       int
		largest float64
		want    bool
	}{
		{1, 1 + 0.9e-6, 10, 0, true}, {1, 1 + 1.1e-6, 10, 0, false}, {-1, -1 - 0.9e-6, 10, 0, true},
		{-1, -1 - 1.1e-6, 10, 0, false}, {-1, 1, 10, 0, false}, {1e-20, 1e-19, 10, 1, true},
		{0, 0.9e-13, 10, 1, true}, {0, 1.1e-13, 10, 1, false}, {0, 0.9e-12, 10, 10, true}, {0, 0, 1, 0, true},
	} {
		if got := linalg.Tied(c.a, c.b, c.k, c.largest); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		values []float64
		d      int
		want   float64
	}{
		{[]float64{4, 2, 1}, 2, 0.5}, {[]float64{4, 3, 1}, 2, 0.25}, {[]float64{4, 3}, 2, 0.25},
		{[]float64{4}, 1, math.Inf(1)},
		{[]float64{4, 3, 3, 1}, 1, 0.25}, {[]float64{4, 3, 3, 1}, 2, 0}, {[]float64{1, 2, 4}, 2, 0.5},
	} {
		if got := leastGap(c.values, c.d, 3, 4); !(math.Abs(got-c.want) <= 1e-15 || got == c.want) {
			t.Errorf("%v, %d: the least gap is %v, want %v", c.values, c.d, got, c.want)
		}
	}
}

func TestGrownKeepsItsEntries(t *testing.T) {
	a := mat.NewDense(2, 2, []float64{1, 2, 3, 4})
	want := mat.NewDense(3, 4, []float64{1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0})
	if got := grown(a, 3, 4); !mat.Equal(got, want) {
		t.Errorf("%v", mat.Formatted(got))
	}
	if got := maxAbs(mat.NewDense(2, 2, []float64{1, -7, 3, 4})); got != 7 {
		t.Errorf("the largest entry is %v", got)
	}
	if got := maxAbs(mat.NewDense(1, 2, []float64{math.NaN(), 1})); !math.IsNaN(got) {
		t.Errorf("of NaN and 1 the largest is %v", got)
	}
}

// TestFarScales: matrices far from 1 are solved at another scale, and the equation is checked there.
func TestFarScales(t *testing.T) {
	n := mat.NewSymDense(3, []float64{4, 1, 0, 1, 3, 0, 0, 0, 1})
	want, err := Solve(t.Context(), n, Identity(3), Max, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, exp := range []int{-900, -500, -300, 300, 500, 900} {
		got, err := Solve(t.Context(), symLdexp(n, exp), Identity(3), Max, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got.Values {
			if !(math.Abs(math.Ldexp(v, -exp)-want.Values[i]) <= 1e-13) {
				t.Errorf("at 2^%d value %d is %v", exp, i, v)
			}
		}
		if !(got.Residual <= 1e-13) {
			t.Errorf("at 2^%d the residual is %v", exp, got.Residual)
		}
	}
	for exp, want := range map[int]int{399: 0, 400: 401, -400: 0, -402: -401, 0: 0} {
		if got := farScale(mat.NewSymDense(1, []float64{math.Ldexp(-1, exp)})); got != want {
			t.Errorf("2^%d is scaled by %d, want %d", exp, got, want)
		}
	}
}

// TestTiesAtTheCut: values that are tied with the last wanted one are found together, or the whole spectrum is; a
// numerator of lower rank has no more directions.
func TestTiesAtTheCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 7))
	const n = 80
	for _, c := range []struct {
		copies, d int // of the value 5, below 9
		by        bool
	}{{3, 2, true}, {9, 2, true}, {18, 4, true}, {30, 3, false}} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i) / n
			if i >= n-1-c.copies {
				values[i] = 5
			}
		}
		values[n-1] = 9
		s := withValues(rng, values)
		apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), s, a) }
		sol := solveReduced(t.Context(), s, Identity(n), Max, c.d, apply)
		if (sol != nil) != c.by {
			t.Errorf("%d copies, %d wanted: a reduction gives %v", c.copies, c.d, sol != nil)
		}
		sol, err := Solve(t.Context(), s, Identity(n), Max, c.d)
		if err != nil {
			t.Fatal(err)
		}
		if want := [][2]int{{1, 1 + c.copies}}; !slices.Equal(sol.Ties, want) || sol.Gap != 0 ||
			!(math.Abs(sol.Values[0]-9) <= 1e-12) || !(math.Abs(sol.Values[c.d-1]-5) <= 1e-12) || !(sol.Residual <= 1e-12) {
			t.Errorf("%d copies, %d wanted: ties %v, gap %g, values %v", c.copies, c.d, sol.Ties, sol.Gap, sol.Values)
		}
	}
	low := make([]float64, n)
	low[3], low[40] = 2, 1
	var rank *RankError
	if _, err := Solve(t.Context(), withValues(rng, low), Identity(n), Max, 5); !errors.As(err, &rank) ||
		rank.Asked != 5 ||
		rank.Max != 2 {
		t.Errorf("5 directions of rank 2: %v", err)
	}
}
