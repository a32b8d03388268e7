package pencil

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
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

// TestReducedIsTheSpectrum: some vectors by inverse iteration are those of the decomposition in full, where values are
// apart, near each other, equal, and where the matrix falls apart.
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
		r := reduce(t.Context(), s)
		if r == nil {
			t.Fatal(name)
		}
		values, _, err := spectrum(s)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if math.Abs(v-r.values[n-1-i]) > 1e-13*max(r.size, 1e-300)*n {
				t.Errorf("%s: value %d is %g, in full %g", name, i, r.values[n-1-i], v)
			}
		}
		for _, first := range []int{0, 13, n - 20} {
			v := r.vectors(first, 20)
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
					if e := sv.At(i, j) - r.values[first+j]*v.At(i, j); math.Abs(e) > 1e-12*max(r.size, 1) {
						t.Fatalf("%s: vector %d is off by %g", name, first+j, e)
					}
				}
				for k := range j + 1 {
					if e := mat.Dot(v.ColView(j), v.ColView(k)); math.Abs(e-float64(b2i(j == k))) > 1e-12 {
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

// TestSmallEndIsNotDecomposedInFull: where a reduction would lose its digits, products find it, also at orders at which
// the reduction comes first.
func TestSmallEndIsNotDecomposedInFull(t *testing.T) {
	const n, d = 352, 5
	values := make([]float64, n)
	for i := range values {
		values[i] = math.Pow(10, -7*float64(n-1-i)/(n-1))
	}
	s, q := withValues(rand.New(rand.NewPCG(3, 7)), values), Identity(n)
	part := few(t.Context(), s, Min, d)
	if part == nil {
		t.Fatal("products do not find it")
	}
	apply := func(a *mat.Dense) *mat.Dense { return times(t.Context(), s, a) }
	if sol, err := solveReduced(t.Context(), s, q, Min, d, apply); sol != nil || err != nil {
		t.Fatalf("the reduction gives %v, error %v", sol, err)
	}
	got, err := solveWhite(t.Context(), s, q, Min, d, apply)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Values {
		if v != part.all[i] {
			t.Errorf("value %d is %g, by products %g", i, v, part.all[i])
		}
		if math.Abs(v-values[i]) > 1e-6*values[i] {
			t.Errorf("value %d is %g, not %g", i, v, values[i])
		}
	}
}

// BenchmarkTop is the leading vectors of a full matrix, by all ways.
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
					reduce(b.Context(), s).vectors(n-10, 10)
				}
			})
		}
	}
}

// BenchmarkSmallEnd is ten vectors of the least values, where these are small beside the largest and where not.
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
