package pencil

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

func TestPartialAgreesWithFull(t *testing.T) {
	const n = 260
	for _, c := range spectra {
		values := spectrumOf(n, func(i int) float64 { return c.values(i, n) })
		s := withSpectrum(values, 3)
		up, vectors, err := eigen(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []End{Max, Min} {
			for _, d := range []int{1, 12, 40} {
				p, err := Partial(context.Background(), Dense(s), end, d, nil)
				if err != nil {
					t.Errorf("%s end %d d %d: %v", c.name, end, d, err)
					continue
				}
				want := mat.NewDense(n, d, nil)
				worst, gap := 0.0, 0.0
				at := func(j int) int {
					if end == Max {
						return n - 1 - j
					}
					return j
				}
				for j := range d {
					worst = max(worst, math.Abs(p.Values[j]-up[at(j)]))
					want.SetCol(j, mat.Col(nil, at(j), vectors))
				}
				gap = math.Abs(up[at(d-1)] - up[at(d)])
				if !(worst <= 1e-13*float64(n)*p.Largest) {
					t.Errorf("%s end %d d %d: values differ by %g", c.name, end, d, worst)
				}
				if angle := sine(want, p.Vectors); !(angle <= 1e-10+1e-14*float64(n)*p.Largest/gap) {
					t.Errorf("%s end %d d %d: sine %g, gap %g", c.name, end, d, angle, gap)
				}
				if !(p.Residual <= 1e-9*p.Largest) {
					t.Errorf("%s end %d d %d: residual %g of %g", c.name, end, d, p.Residual, p.Largest)
				}
				if e := offIdentity(quadratic(identity(n), p.Vectors)); !(e <= 1e-12) {
					t.Errorf("%s end %d d %d: vectors off orthonormal by %g", c.name, end, d, e)
				}
			}
		}
	}
}

// The wanted eigenvalues are 1e-10 of the largest here, at which iterations of products stall.
func TestPartialSmallEndOfSwissRoll(t *testing.T) {
	const n = 600
	x, near := roll(n, 10)
	m := lle(x, near)
	up, vectors, err := eigen(symmetric(m))
	if err != nil {
		t.Fatal(err)
	}
	largest := up[n-1]
	if !(up[1]/largest <= 1e-9) {
		t.Fatalf("the smallest wanted value is %g of the largest: the data do not test the small end", up[1]/largest)
	}
	for _, d := range []int{2, 10} {
		p, err := Partial(context.Background(), m, Min, d, ones(n))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Notes) > 0 {
			t.Errorf("d=%d: not by the first way: %v", d, p.Notes)
		}
		for j, v := range p.Values {
			if !(math.Abs(v-up[j+1]) <= 1e-14*largest) {
				t.Errorf("d=%d: value %d is %g, not %g", d, j, v, up[j+1])
			}
		}
		// The error of the first vector is the rounding error of the largest value.
		bound := 100 * eps * largest / (up[1] - up[0])
		if angle := sine(mat.DenseCopyOf(vectors.Slice(0, n, 1, d+1)), p.Vectors); !(angle <= bound) {
			t.Errorf("d=%d: sine %g, more than %g", d, angle, bound)
		}
		if !(p.Residual <= 1e-14*largest) {
			t.Errorf("d=%d: residual %g of %g", d, p.Residual, largest)
		}
		var along mat.Dense
		along.Mul(ones(n).T(), p.Vectors)
		if a := mat.Norm(&along, 2); !(a <= 1e-10) {
			t.Errorf("d=%d: the constant vector is in the result: %g", d, a)
		}
	}
	// Without rows the operator has only products: those fail and the note says so.
	p, err := Partial(context.Background(), products{m}, Min, 2, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "products: not converged") {
		t.Errorf("notes %q do not say that products failed", p.Notes)
	}
	if !(math.Abs(p.Values[0]-up[1]) <= 1e-13*largest) {
		t.Errorf("in full: %g, not %g", p.Values[0], up[1])
	}
}

func TestPartialGraphsWithKnownSpectra(t *testing.T) {
	const n = 1500
	check := func(name string, p *Part, err error, value func(j int) float64) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for j, v := range p.Values {
			if !(math.Abs(v-value(j)) <= 1e-14*4*10) {
				t.Errorf("%s: value %d is %.15g, not %.15g", name, j, v, value(j))
			}
		}
	}
	half := func(k int) float64 { s := math.Sin(float64(k) * math.Pi / (2 * n)); return 4 * s * s }
	p, err := Partial(context.Background(), ring(n, false), Min, 6, ones(n))
	check("path", p, err, func(j int) float64 { return half(j + 1) })
	if len(p.Ties) != 0 {
		t.Errorf("path: ties %v", p.Ties)
	}
	for j := range 6 {
		sign, worst := 0.0, 0.0
		for i := range n {
			want := math.Sqrt(2.0/n) * math.Cos(float64(j+1)*math.Pi*(float64(i)+0.5)/n)
			if sign == 0 {
				sign = math.Copysign(1, want*p.Vectors.At(i, j))
			}
			worst = max(worst, math.Abs(p.Vectors.At(i, j)-sign*want))
		}
		if !(worst <= 1e-8) {
			t.Errorf("path: vector %d is %g off a cosine", j, worst)
		}
	}
	// Every value of a ring but the ends is double: an odd cut falls into a pair.
	pairs := func(j int) float64 { return half(2 * (j/2 + 1)) }
	p, err = Partial(context.Background(), ring(n, true), Min, 4, ones(n))
	check("ring, 4", p, err, pairs)
	if fmt.Sprint(p.Ties) != "[[0 2] [2 4]]" {
		t.Errorf("ring, 4: ties %v", p.Ties)
	}
	if !(p.Next >= 2*p.Values[3]*0.99) {
		t.Errorf("ring, 4: next %g after %g", p.Next, p.Values[3])
	}
	p, err = Partial(context.Background(), ring(n, true), Min, 3, ones(n))
	check("ring, 3", p, err, pairs)
	if fmt.Sprint(p.Ties) != "[[0 2] [2 4]]" || !(p.Gap <= 1e-8) {
		t.Errorf("ring, 3: the cut inside a pair is not reported: ties %v, gap %g", p.Ties, p.Gap)
	}
	// Two components: the second null vector is found where it is not given, and
	// not where it is.
	two := newSparse(n)
	for i := range n - 1 {
		if i != n/2-1 {
			two.join(i, i+1, 1)
		}
	}
	p, err = Partial(context.Background(), two, Min, 2, ones(n))
	half2 := func(k int) float64 { s := math.Sin(float64(k) * math.Pi / n); return 4 * s * s }
	check("two paths", p, err, func(j int) float64 { return half2(j) })
	known := mat.NewDense(n, 2, nil)
	for i := range n {
		known.Set(i, i/(n/2), 1)
	}
	p, err = Partial(context.Background(), two, Min, 2, known)
	check("two paths, known", p, err, func(int) float64 { return half2(1) })
}

// Eigenvalues that are 0 except for rounding have no distance to each other, whichever way finds them; distinct ones
// have.
func TestPartialGapOfATieIsZero(t *testing.T) {
	for _, n := range []int{12, 300} { // in full; by an inverse
		paths := newSparse(n)
		for i := range n - 1 {
			if i%(n/4) != n/4-1 {
				paths.join(i, i+1, 1)
			}
		}
		// Of four paths, three eigenvalues are 0 besides that of the constant.
		for d := 1; d <= 3; d++ {
			p, err := Partial(context.Background(), paths, Min, d, ones(n))
			if err != nil {
				t.Fatal(err)
			}
			// With d = 3 too: the cut is next to the tie, not inside it.
			if len(p.Ties) != 1 || p.Ties[0][0] != 0 || p.Gap != 0 {
				t.Errorf("order %d, %d of three zeros: values %v, ties %v, gap %g, want 0", n, d, p.Values,
					p.Ties, p.Gap)
			}
		}
		// The values of one path are 4 sin^2(k pi / 2n).
		p, err := Partial(context.Background(), ring(n, false), Min, 1, ones(n))
		if err != nil {
			t.Fatal(err)
		}
		a, b := math.Sin(math.Pi/float64(2*n)), math.Sin(math.Pi/float64(n))
		if want := 1 - a*a/(b*b); !(math.Abs(p.Gap-want) <= 1e-6) {
			t.Errorf("order %d: gap %g of a path, want %g", n, p.Gap, want)
		}
	}
}

// An eigenvalue with more copies than a block has vectors is found completely.
func TestPartialManyCopies(t *testing.T) {
	const n, d = 400, 30
	values := spectrumOf(n, func(i int) float64 {
		if i < 25 {
			return 2
		}
		return 1 / float64(i)
	})
	s := withSpectrum(values, 9)
	p, err := Partial(context.Background(), Dense(s), Max, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range p.Values {
		if !(math.Abs(v-values[j]) <= 1e-13) {
			t.Errorf("value %d is %g, not %g", j, v, values[j])
		}
	}
	if fmt.Sprint(p.Ties) != "[[0 25]]" {
		t.Errorf("ties %v", p.Ties)
	}
	// The identity and zero: every vector is as good.
	for _, v := range []float64{1, 0} {
		p, err := Partial(context.Background(), Dense(withSpectrum(spectrumOf(n, func(int) float64 { return v }), 1)),
			Max, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Ties) != 1 || p.Ties[0][1] <= 3 || !(math.Abs(p.Values[2]-v) <= 1e-14) {
			t.Errorf("all values %g: values %v, ties %v", v, p.Values, p.Ties)
		}
	}
}

func TestPartialIsTheSameForAnyProcessors(t *testing.T) {
	const n = 700
	x, near := roll(n, 8)
	m := lle(x, near)
	s := withSpectrum(spectrumOf(n, func(i int) float64 { return 1 / float64(i+1) }), 2)
	run := func(procs int) []*Part {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		var out []*Part
		for _, c := range []struct {
			m     Operator
			end   End
			known *mat.Dense
		}{{m, Min, ones(n)}, {Dense(s), Max, nil}, {Dense(s), Min, nil}} {
			p, err := Partial(context.Background(), c.m, c.end, 5, c.known)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	one, two := run(1), run(2)
	for i := range one {
		if !slices.Equal(one[i].Values, two[i].Values) || !mat.Equal(one[i].Vectors, two[i].Vectors) {
			t.Errorf("problem %d differs between 1 and 2 processors", i)
		}
	}
}

// counted ends ctx after some products.
type counted struct {
	Operator
	left   int
	cancel func()
}

func (c *counted) Apply(ctx context.Context, dst, x *mat.Dense) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	c.Operator.Apply(ctx, dst, x)
}

func TestPartialStopsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &counted{Operator: ring(3000, true), left: 20, cancel: cancel}
	if _, err := Partial(ctx, c, Min, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if c.left < -2 {
		t.Errorf("%d products after the end", -c.left)
	}
	env := newEnvelope(t.Context(), ring(3000, true))
	if err := failure(func() { env.factor(ctx, ring(3000, true), 1) }); !errors.Is(err, context.Canceled) {
		t.Errorf("factor: error %v", err)
	}
}

func TestPartialRefuses(t *testing.T) {
	n := 200
	l := ring(n, true)
	slope := mat.NewDense(n, 1, nil)
	for i := range n {
		slope.Set(i, 0, float64(i))
	}
	twice := mat.NewDense(n, 2, nil)
	for i := range n {
		twice.SetRow(i, []float64{1, 2})
	}
	broken := ring(n, true)
	broken.values[3][0] = math.NaN()
	for _, c := range []struct {
		name  string
		m     Operator
		d     int
		known *mat.Dense
		says  string
	}{
		{"none", l, 0, nil, "0 directions requested"},
		{"too many", l, n, ones(n), "200 directions requested, the pencil has 199"},
		{"not an eigenvector", l, 2, slope, "not eigenvectors"},
		{"dependent", l, 2, twice, "rank 1"},
		{"wrong order", l, 2, ones(n - 1), "199 x 1"},
		{"zero", l, 2, mat.NewDense(n, 1, nil), "zero"},
		{"nan", broken, 2, nil, "not finite"},
		{"nan and known", broken, 2, ones(n), "not finite"},
	} {
		_, err := Partial(context.Background(), c.m, Min, c.d, c.known)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v does not say %q", c.name, err, c.says)
		}
	}
	if _, err := Partial(context.Background(), products{ring(2600, false)}, Min, 2, nil); err == nil ||
		!strings.Contains(err.Error(), "order 2600") {
		t.Errorf("products alone at the small end of a long path: error %v", err)
	}
}

// Small problems are decomposed in full, and known vectors stay out.
func TestPartialSmall(t *testing.T) {
	const n = 12
	p, err := Partial(context.Background(), ring(n, false), Min, n-1, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range p.Values {
		s := math.Sin(float64(j+1) * math.Pi / (2 * n))
		if !(math.Abs(v-4*s*s) <= 1e-14*n) {
			t.Errorf("value %d is %g, not %g", j, v, 4*s*s)
		}
	}
	if !math.IsNaN(p.Next) {
		t.Errorf("next %g where there is none", p.Next)
	}
	p, err = Partial(context.Background(), products{ring(n, false)}, Max, n-1, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	if s := math.Sin(math.Pi / (2 * n)); !(math.Abs(p.Values[n-2]-4*s*s) <= 1e-14*n) {
		t.Errorf("last value %g: the known vector is in the result", p.Values[n-2])
	}
}

// Solve uses the partial way for large m and small d; its result is that of the full decomposition.
func TestSolveOfLargePencilsAgreesWithFull(t *testing.T) {
	const m = 300
	rng := rand.New(rand.NewPCG(8, 8))
	n := gram(rng, m, 400, func(j int) float64 { return 1 / math.Sqrt(float64(j+1)) })
	low := gram(rng, m, 40, even)
	den := gram(rng, m, 500, even)
	ridge, err := Ridge(den, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		n    *mat.SymDense
		q    *Metric
		end  End
	}{
		{"identity max", n, Identity(m), Max},
		{"identity min", n, Identity(m), Min},
		{"ridge max", n, ridge, Max},
		{"ridge min", n, ridge, Min},
		{"low rank max", low, ridge, Max},
	} {
		white := c.q.whitenSym(t.Context(), c.n, new([]float64))
		values, vectors := spectrum(white)
		apply := func(a *mat.Dense) *mat.Dense {
			var out mat.Dense
			out.Mul(c.n, a)
			return &out
		}
		for _, d := range []int{2, 10} {
			if few(t.Context(), white, c.end, d) == nil {
				t.Errorf("%s, d=%d: the partial way is not taken", c.name, d)
			}
			want := finish(t.Context(), c.q, values, vectors, c.end, d, apply)
			got, err := Solve(t.Context(), c.n, c.q, c.end, d)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rank != want.Rank {
				t.Errorf("%s, d=%d: rank %d, not %d", c.name, d, got.Rank, want.Rank)
			}
			if !(math.Abs(got.Gap-want.Gap) <= 1e-6*want.Gap) {
				t.Errorf("%s, d=%d: gap %g, not %g", c.name, d, got.Gap, want.Gap)
			}
			if !(got.Residual <= 1e-10) {
				t.Errorf("%s, d=%d: residual %g", c.name, d, got.Residual)
			}
			var off mat.Dense
			if off.Sub(got.Vectors, want.Vectors); !(mat.Norm(&off, 2) <= 1e-9*mat.Norm(want.Vectors, 2)) {
				t.Errorf("%s, d=%d: vectors differ", c.name, d)
			}
		}
	}
}

// TestScaleIsNoMatter: if the matrix is scaled by a power of two, so are the eigenvalues, and the vectors are the same,
// within the range of float64; no iteration waits for rounding that does not occur. The last matrices have a space that
// a start exhausts, in which products need new directions.
func TestScaleIsNoMatter(t *testing.T) {
	const n, d = 200, 5
	values := make([]float64, n)
	for i := range 140 {
		values[i] = 1 + float64(i)/140
	}
	// At the small end all values are zero beyond the rank, and any basis is equally good.
	lowRank := withSpectrum(values, 3)
	full := withSpectrum(spectrumOf(n, func(i int) float64 { return 1 + float64(i) }), 3)
	for _, c := range []struct {
		name string
		s    *mat.SymDense
		end  End
		same bool
	}{{"largest", full, Max, true}, {"smallest", full, Min, true}, {"largest of less rank", lowRank, Max, true},
		{"smallest of less rank", lowRank, Min, false}} {
		want, err := Solve(t.Context(), c.s, Identity(n), c.end, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, exp := range []int{-1066, -1030, -980, -600, -300, 70, 300, 600, 1000} {
			s := symLdexp(c.s, exp)
			got, err := Solve(t.Context(), s, Identity(n), c.end, d)
			if err != nil {
				t.Errorf("%s at 2^%d: %v", c.name, exp, err)
				continue
			}
			for i, v := range got.Values {
				e := math.Ldexp(v, -exp) - want.Values[i]
				if rounding := math.Ldexp(n, -1074-exp); !(math.Abs(e) <= 1e-10*float64(n)+rounding) {
					t.Errorf("%s at 2^%d: value %d is off by %g", c.name, exp, i, e)
				}
			}
			if off := sine(got.Vectors, want.Vectors); c.same && exp > -1000 && !(off <= 1e-6) {
				t.Errorf("%s at 2^%d: the vectors are off by %g", c.name, exp, off)
			}
		}
	}
	// The operator itself, as it is: it is found, or refused.
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for _, scale := range []float64{5e-322, 1e-310, 1e-300, 1, 1e20, 1e300} {
		s := mat.NewSymDense(n, nil)
		for i := range n {
			s.SetSym(i, i, scale*float64(1+i%3))
		}
		p, err := Partial(ctx, Dense(s), Max, 2, nil)
		if ctx.Err() != nil {
			t.Fatalf("scale %g: no end in sight", scale)
		}
		if err == nil && !(math.Abs(p.Values[0]/scale-3) <= 1e-2) || err != nil && !(scale < 1e-300) && !(scale > 1e20) {
			t.Errorf("scale %g: %v, error %v", scale, p, err)
		}
	}
}

// TestOrderOfDenseMatrices: a matrix with more than a quarter of its entries keeps its order; a path is put in the
// order of the path.
func TestOrderOfDenseMatrices(t *testing.T) {
	const n = 12
	path := newSparse(n)
	place := func(i int) int { return i * 5 % n } // of the i-th row of the path
	for i := range n - 1 {
		path.join(place(i), place(i+1), 1)
	}
	order := cuthillMcKee(path)
	for i := range n {
		if order[i] != place(i) && order[i] != place(n-1-i) {
			t.Errorf("row %d of the path is %d: %v", i, order[i], order)
		}
	}
	count := 0
	for i := range n {
		columns, _ := path.Row(i)
		count += len(columns)
	}
	for i := 0; count <= n*n/4; i++ { // up to just above a quarter
		path.join(place(i), place(i+3), 1)
		count += 2
	}
	if order := cuthillMcKee(path); !slices.IsSorted(order) {
		t.Errorf("%d entries of %d: %v", count, n*n, order)
	}
}

// TestConvergenceOfIterations: pairs have converged if their residuals are at most 1e-11 of the distance to the
// unwanted values, or below the noise; for the first value beyond, 1e-3 of the gap is enough.
func TestConvergenceOfIterations(t *testing.T) {
	for _, c := range []struct {
		residual []float64
		noise    float64
		want     bool
		worst    float64
	}{
		{[]float64{4.9e-11, 1.9e-11, 1.9e-3}, 0, true, 4.9e-11}, {[]float64{5.1e-11, 0, 0}, 0, false, 5.1e-11},
		{[]float64{0, 2.1e-11, 0}, 0, false, 2.1e-11}, {[]float64{0, 0, 2.1e-3}, 0, false, 0},
		{[]float64{0.9, 0.5, 0.9}, 1, true, 0.9}, {[]float64{0.9, 0.5, 1.1}, 1, false, 0.9},
	} {
		k := &krylov{noise: func(_, outside, largest float64) float64 {
			if outside != 5 || largest != 10 {
				t.Errorf("noise next to %g, of %g", outside, largest)
			}
			return c.noise
		}}
		ok, worst := k.convergence([]float64{10, 7, 5}, c.residual, 3, 10)
		if ok != c.want || worst != c.worst {
			t.Errorf("residuals %v, noise %g: %v, worst %g", c.residual, c.noise, ok, worst)
		}
	}
	if got := residuals(mat.NewDense(1, 1, []float64{3}), mat.NewDense(2, 2, []float64{9, 9, 2, -4}),
		2); !slices.Equal(got,
		[]float64{6, 12}) {
		t.Errorf("residuals %v", got)
	}
}

// TestJudgement: a residual is accepted up to 1e-8 of the largest eigenvalue, if it is also at most 1e-3 of the gap to
// the next one, or at most the rounding error of every algorithm.
func TestJudgement(t *testing.T) {
	for _, c := range []struct {
		values     []float64 // of the matrix, with 0
		off, floor float64   // part of the first vector along the value of 0
		want       bool
	}{
		{[]float64{4, 1}, 0.9e-8, 0, true}, {[]float64{4, 1}, 1.1e-8, 0, false}, {[]float64{4, 1}, 1.1e-8, 1, false},
		{[]float64{1 + 4e-6, 1}, 3.5e-9, 0, true}, {[]float64{1 + 4e-6, 1}, 4.5e-9, 0, false},
		{[]float64{1 + 4e-6, 1}, 4.5e-9, 5e-9, true}, {[]float64{1, 1}, 0.9e-8, 0, true}, {[]float64{1, 1}, 1.1e-8, 0, false},
	} {
		s := mat.NewSymDense(3, []float64{c.values[0], 0, 0, 0, c.values[1], 0, 0, 0, 0})
		p := &partial{ctx: t.Context(), m: Dense(s), n: 3, end: Max, d: 1, free: 3, floor: c.floor, largest: c.values[0]}
		rows := mat.NewDense(2, 3, []float64{1, 0, c.off, 0, 1, 0})
		part, err := algorithm{"judge", func() *Part { return p.judge(c.values, rows) }}.try()
		if (err == nil) != c.want || err != nil && !errors.Is(err, errShort) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && (!(math.Abs(part.Residual-c.values[0]*c.off) <= 1e-15) || part.Next != c.values[1] ||
			part.Largest != c.values[0]) {
			t.Errorf("%+v: %+v", c, part)
		}
	}
}

// TestBudgetOfProducts: products may take a third of the time of a factor. A product has 2 flops for each entry and 8
// for each number of the basis, and each of them counts as eight.
func TestBudgetOfProducts(t *testing.T) {
	const n, d = 300, 2
	m := ring(n, true)
	p := &partial{ctx: t.Context(), m: m, n: n, end: Min, d: d, free: n}
	env := newEnvelope(p.ctx, m)
	product := 2*float64(3*n) + 8*float64(n*40)
	if got, want := p.budget(m, env), int(env.flops()/3/(8*product)); got != want || entriesOf(m) != 3*n {
		t.Errorf("%d products, want %d; %d entries", got, want, entriesOf(m))
	}
}
