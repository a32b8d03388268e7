package pencil

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	lapack "gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/tile"
)

// withValues is a matrix with these eigenvalues and axes drawn at random.
func withValues(rng *rand.Rand, values []float64) *mat.SymDense {
	n := len(values)
	g := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			g.Set(i, j, rng.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(g)
	var q, ql mat.Dense
	qr.QTo(&q)
	ql.Mul(&q, mat.NewDiagDense(n, values))
	s := mat.NewDense(n, n, nil)
	s.Mul(&ql, q.T())
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (s.At(i, j)+s.At(j, i))/2)
		}
	}
	return out
}

// TestReducedIsTheSpectrum: some vectors by inverse iteration equal those of the full decomposition, if values are
// distant, close, equal, and if the matrix is decomposable.
func TestReducedIsTheSpectrum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	const n = 90
	draw := func(f func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	diagonal := mat.NewSymDense(n, nil)
	for i := range n {
		diagonal.SetSym(i, i, float64(i%7))
	}
	for name, s := range map[string]*mat.SymDense{
		"even":      withValues(rng, draw(func(i int) float64 { return float64(i) })),
		"decaying":  withValues(rng, draw(func(i int) float64 { return math.Pow(0.7, float64(i)) })),
		"near":      withValues(rng, draw(func(i int) float64 { return 1 + 1e-9*float64(i) })),
		"clusters":  withValues(rng, draw(func(i int) float64 { return float64(i / 9) })),
		"both ends": withValues(rng, draw(func(i int) float64 { return float64(i) - 40 })),
		"diagonal":  diagonal,
		"zero":      mat.NewSymDense(n, nil),
	} {
		r := reduce(t.Context(), s, new([]float64))
		if r == nil {
			t.Fatal(name)
		}
		values, _ := spectrum(s)
		_, up := r.best(Min, n)
		for i, v := range values {
			if !(math.Abs(v-up[n-1-i]) <= 1e-13*max(r.size, 1e-300)*n) {
				t.Errorf("%s: value %d is %g, in full %g", name, i, up[n-1-i], v)
			}
		}
		largest := max(math.Abs(values[0]), math.Abs(values[n-1]))
		if _, down := r.best(Max, 3); !slices.Equal(down, []float64{up[n-1], up[n-2], up[n-3]}) ||
			!(math.Abs(r.size-largest) <= 1e-13*n*largest) {
			t.Errorf("%s: the largest values are %v, the size %g", name, down, r.size)
		}
		for _, first := range []int{0, 13, n - 20} {
			v := r.vectors(up[first : first+20])
			if v == nil {
				if name != "zero" {
					t.Errorf("%s: no vectors from %d on", name, first)
				}
				continue
			}
			var sv mat.Dense
			sv.Mul(s, v)
			for j := range 20 {
				for i := range n {
					if e := sv.At(i, j) - up[first+j]*v.At(i, j); !(math.Abs(e) <= 1e-12*max(r.size, 1)) {
						t.Fatalf("%s: vector %d is off by %g", name, first+j, e)
					}
				}
				for k := range j + 1 {
					if e := mat.Dot(v.ColView(j), v.ColView(k)); !(math.Abs(e-float64(b2i(j == k))) <= 1e-12) {
						t.Fatalf("%s: vectors %d and %d have product %g", name, first+j, first+k, e)
					}
				}
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestNoReductionThatIsNotFinite: a matrix that is not finite, or overflows during the reduction, has none.
func TestNoReductionThatIsNotFinite(t *testing.T) {
	const n = 90
	for name, entry := range map[string]float64{"large": 1e308, "infinite": math.Inf(-1), "no number": math.NaN()} {
		s := mat.NewSymDense(n, nil)
		for i := range n {
			for j := i; j < n; j++ {
				s.SetSym(i, j, entry)
			}
		}
		if r := reduce(t.Context(), s, new([]float64)); r != nil {
			t.Errorf("%s: diagonal %g ..., subdiagonal %g ...", name, r.diag[:3], r.next[:3])
		}
	}
}

// TestSmallEndIsNotDecomposedInFull: if a reduction would lose digits, iterations of products find the values, also at
// orders at which the reduction is tried first.
func TestSmallEndIsNotDecomposedInFull(t *testing.T) {
	const d = 5
	for _, n := range []int{160, 352} {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Pow(10, -7*float64(n-1-i)/float64(n-1))
		}
		s, q := withValues(rand.New(rand.NewPCG(3, 7)), values), Identity(n)
		part := few(t.Context(), s, Min, d)
		if part == nil {
			t.Fatalf("order %d: products do not find it", n)
		}
		apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), symDense(s), a) }
		if sol := solveReduced(t.Context(), s, q, Min, d, apply); sol != nil {
			t.Fatalf("order %d: the reduction gives %v", n, sol)
		}
		got := solveWhite(t.Context(), s, q, Min, d, apply)
		for i, v := range got.Values {
			if v != part.all[i] {
				t.Errorf("order %d: value %d is %g, by products %g", n, i, v, part.all[i])
			}
			if !(math.Abs(v-values[i]) <= 1e-6*values[i]) {
				t.Errorf("order %d: value %d is %g, not %g", n, i, v, values[i])
			}
		}
	}
}

// TestProductsAboveReducedOrder: well separated values of a matrix of order 644 are those of products, not of a
// reduction.
func TestProductsAboveReducedOrder(t *testing.T) {
	const n, d = 644, 2
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, math.Exp2(max(-4, float64(i-n+5))))
	}
	s.SetSym(0, n-1, 1)
	apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), symDense(s), a) }
	part, got := few(t.Context(), s, Max, d), solveWhite(t.Context(), s, Identity(n), Max, d, apply)
	if part == nil || !slices.Equal(got.Values, part.all[:d]) {
		t.Errorf("values %v, by products %+v", got.Values, part)
	}
}

// TestSmallEndByProducts: products find the small end down to 1e-9 of the largest value.
func TestSmallEndByProducts(t *testing.T) {
	for least, found := range map[float64]bool{3e-9: true, 3e-10: false} {
		values := make([]float64, 160)
		for i := range values {
			values[i] = math.Pow(least, 1-float64(i)/159)
		}
		s := withValues(rand.New(rand.NewPCG(3, 7)), values)
		if part := few(t.Context(), s, Min, 2); (part != nil) != found {
			t.Errorf("least value %g: %+v", least, part)
		}
	}
}

// TestBisectionFindsAllValues: those of the whole spectrum by QR, also scaled by a large or small constant, with equal
// values and decomposable matrices; and it counts them.
func TestBisectionFindsAllValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	for _, n := range []int{1, 2, 3, 65, 130} {
		for name, f := range map[string]func(i int) (diag, next float64){
			"random":       func(int) (float64, float64) { return rng.NormFloat64(), rng.NormFloat64() },
			"graded":       func(i int) (float64, float64) { return math.Pow(0.8, float64(i)), math.Pow(0.79, float64(i)) / 3 },
			"equal":        func(i int) (float64, float64) { return 2, 0 },
			"falls apart":  func(i int) (float64, float64) { return float64(i % 3), float64(i % 2) },
			"second order": func(int) (float64, float64) { return 2, -1 },
			"zeros":        func(int) (float64, float64) { return 0, 0 },
			"no diagonal":  func(int) (float64, float64) { return 0, rng.NormFloat64() },
		} {
			diag, next, places := make([]float64, n), make([]float64, n-1), make([]int, n)
			for i := range n {
				d, e := f(i)
				if diag[i], places[i] = d, i; i < n-1 {
					next[i] = e
				}
			}
			values := slices.Clone(diag)
			if !(lapack.Implementation{}).Dsterf(n, values, slices.Clone(next)) {
				t.Fatal(name)
			}
			for _, scale := range []float64{1, 0x1p700, 0x1p-700} {
				times := func(v []float64) []float64 {
					out := slices.Clone(v)
					for i := range out {
						out[i] *= scale
					}
					return out
				}
				want := times(values)
				s, size := newSturm(times(diag), times(next)), max(math.Abs(want[0]), math.Abs(want[n-1]))
				got := s.values(places)
				for i, v := range got {
					if !(math.Abs(v-want[i]) <= 4*float64(n)*eps*size) || i > 0 && !(v >= got[i-1]) {
						t.Errorf("%s of order %d times %g: value %d is %g, by QR %g", name, n, scale, i, v, want[i])
					}
				}
				if low, high := s.above(-3*size), s.above(3*size); !(size <= 0) && low != n || high != 0 {
					t.Errorf("%s of order %d: %d values are above the least, %d above the largest", name, n, low, high)
				}
				if i := n / 2; i > 0 && got[i]-got[i-1] > 1e-6*size {
					if count := s.above((got[i] + got[i-1]) / 2); count != n-i {
						t.Errorf("%s of order %d: %d values are above the middle, want %d", name, n, count, n-i)
					}
				}
			}
		}
	}
}

// BenchmarkTop compares all ways to compute the leading vectors of a full matrix.
func BenchmarkTop(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 7))
	for _, n := range []int{128, 256, 512, 784, 1024} {
		for name, f := range map[string]func(i int) float64{
			"decaying": func(i int) float64 { return math.Pow(0.97, float64(i)) },
			"even":     func(i int) float64 { return float64(n + i) },
		} {
			values := make([]float64, n)
			for i := range values {
				values[i] = f(i)
			}
			s := withValues(rng, values)
			b.Run(fmt.Sprintf("n=%d/%s/products", n, name), func(b *testing.B) {
				for b.Loop() {
					few(b.Context(), s, Max, 9)
				}
			})
			b.Run(fmt.Sprintf("n=%d/%s/reduced", n, name), func(b *testing.B) {
				for b.Loop() {
					r := reduce(b.Context(), s, new([]float64))
					_, best := r.best(Max, 10)
					slices.Reverse(best)
					r.vectors(best)
				}
			})
		}
	}
}

// BenchmarkSmallEnd computes ten vectors of the smallest values, both if these are small compared with the largest and
// if not.
func BenchmarkSmallEnd(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 8))
	for _, n := range []int{320, 512, 640} {
		for _, least := range []float64{1e-3, 1e-7} {
			values := make([]float64, n)
			for i := range values {
				values[i] = math.Pow(least, float64(i)/float64(n-1))
			}
			s := withValues(rng, values)
			b.Run(fmt.Sprintf("n=%d/%g", n, least), func(b *testing.B) {
				for b.Loop() {
					if _, err := Solve(b.Context(), s, Identity(n), Min, 10); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestVectorsThatAreNotAccurate: vectors whose residual or product exceeds 64 rounding errors for each row are
// rejected.
func TestVectorsThatAreNotAccurate(t *testing.T) {
	const n = 10
	r := &reduced{n: n, diag: make([]float64, n), next: make([]float64, n-1), size: 10}
	for i := range r.diag {
		r.diag[i] = float64(i + 1)
	}
	const tol = 64 * n * eps
	axes := func(change func(v *mat.Dense)) *mat.Dense {
		v := mat.NewDense(2, n, nil)
		v.Set(0, 3, 1)
		v.Set(1, 6, 1)
		change(v)
		return v
	}
	same := func(*mat.Dense) {}
	for what, c := range map[string]struct {
		v      *mat.Dense
		values []float64
		want   bool
	}{
		"exact":               {axes(same), []float64{4, 7}, true},
		"a value a bit off":   {axes(same), []float64{4, 7 + 0.9*tol*10}, true},
		"a value off":         {axes(same), []float64{4, 7 + 1.1*tol*10}, false},
		"a product a bit off": {axes(func(v *mat.Dense) { v.Set(1, 3, 0.9*tol) }), []float64{4, 7}, true},
		"a product off":       {axes(func(v *mat.Dense) { v.Set(1, 3, 1.1*tol) }), []float64{4, 7}, false},
		"no number":           {axes(func(v *mat.Dense) { v.Set(1, 3, math.NaN()) }), []float64{4, 7}, false},
	} {
		if r.good(c.v, c.values) != c.want {
			t.Errorf("%s: %v", what, !c.want)
		}
	}
	r.next[5] = 1 // the vectors of the diagonal are not those of this matrix
	if r.good(axes(same), []float64{4, 7}) {
		t.Error("a matrix with an entry next to the diagonal has unit vectors")
	}
	r.next[5], r.next[6] = 0, 1
	if r.good(axes(same), []float64{4, 7}) {
		t.Error("an entry behind the value is not seen")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if reduce(ctx, mat.NewSymDense(3, nil), new([]float64)) != nil {
		t.Error("a reduction does not end with its context")
	}
}
