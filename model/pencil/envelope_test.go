package pencil

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

func TestEnvelopeSolves(t *testing.T) {
	x, near := roll(500, 6)
	for _, m := range []Entries{ring(130, true), lle(x, near), clusters(3, 1000),
		Dense(withSpectrum(spectrumOf(200, func(i int) float64 { return float64(i + 1) }), 4))} {
		n := m.Order()
		env := newEnvelope(t.Context(), m)
		order := slices.Clone(env.order)
		slices.Sort(order)
		for i, v := range order {
			if i != v {
				t.Fatalf("order %d: not a permutation", n)
			}
		}
		env.factor(context.Background(), m, 0.1)
		want, b := mat.NewDense(n, 7, nil), mat.NewDense(n, 7, nil)
		for i := range n {
			for j := range 7 {
				want.Set(i, j, math.Sin(float64(i*(j+1))))
			}
		}
		m.Apply(t.Context(), b, want)
		for i := range n {
			for j := range 7 {
				b.Set(i, j, b.At(i, j)+0.1*want.At(i, j))
			}
		}
		got := mat.NewDense(7, n, nil)
		env.solve(t.Context(), got, mat.DenseCopyOf(b.T()))
		if !mat.EqualApprox(got.T(), want, 1e-9) {
			t.Errorf("order %d: the solution is off", n)
		}
	}
	if env := newEnvelope(t.Context(), ring(1000, true)); !(env.bytes() <= 1000*4*square*8) {
		t.Errorf("the envelope of a ring takes %g bytes: the order is not by levels", env.bytes())
	}
	env := newEnvelope(t.Context(), ring(100, true))
	if err := failure(func() { env.factor(t.Context(), ring(100, true), -1) }); !errors.Is(err, ErrNotDefinite) {
		t.Errorf("an indefinite matrix: error %v", err)
	}
}

// failure is the error that f fails with.
func failure(f func()) (err error) {
	defer fail.Catch(&err)
	f()
	return nil
}

// TestFactorTakesWhatIsSaid: a factor is rejected by its estimated bytes, so that is what it allocates, and little
// more.
func TestFactorTakesWhatIsSaid(t *testing.T) {
	m := ring(5000, true)
	env := newEnvelope(t.Context(), m)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	env.factor(t.Context(), m, 0.1)
	runtime.ReadMemStats(&after)
	took, said := float64(after.TotalAlloc-before.TotalAlloc), env.bytes()
	if !(took <= 1.1*said) {
		t.Errorf("it took %.1f MB, %.1f are said", took/1e6, said/1e6)
	}
}

// Clusters that few edges join are factored one after the other: their work adds up.
func TestEnvelopeOfClusters(t *testing.T) {
	const count, size = 10, 500
	m := clusters(count, size)
	levels, env := envelopeOf(m, cuthillMcKee(m)), newEnvelope(t.Context(), m)
	order := slices.Clone(env.order)
	slices.Sort(order)
	for i, v := range order {
		if i != v {
			t.Fatal("not a permutation")
		}
	}
	t.Logf("%.2g flops, %.2g by levels; %.0f MB, %.0f", env.flops(), levels.flops(), env.bytes()/1e6, levels.bytes()/1e6)
	if !(env.flops() <= 0.7*levels.flops()) {
		t.Errorf("a factor takes %.2g flops, by levels %.2g", env.flops(), levels.flops())
	}
	dense := float64(count) * math.Pow(size, 3) / 3
	if !(env.flops() <= 3*dense) {
		t.Errorf("a factor takes %.2g flops, of each cluster by itself, in full, %.2g", env.flops(), dense)
	}
}

// Rows that few rows join are ordered last: in between they would cause fill-in.
func TestEnvelopeHasABorder(t *testing.T) {
	const count, size = 6, 1500
	m, rng := clusters(count, size), rand.New(rand.NewPCG(6, 25))
	for range 40 {
		i := rng.IntN(count * size)
		if j := rng.IntN(count * size); j != i {
			m.join(i, j, 1e-3)
		}
	}
	ends := cuthillMcKee(m)
	slices.Reverse(ends)
	fronts, env := envelopeOf(m, frontOrder(m, ends)), newEnvelope(t.Context(), m)
	t.Logf("%.2g flops, %.2g without a border", env.flops(), fronts.flops())
	if !(env.flops() <= 0.8*fronts.flops()) {
		t.Errorf("a factor takes %.2g flops, without a border %.2g", env.flops(), fronts.flops())
	}
}

// TestNarrowBorder: the border is no wider than it has to be: one square is enough for the rows that join clusters.
func TestNarrowBorder(t *testing.T) {
	m, rng := clusters(8, 500), rand.New(rand.NewPCG(6, 25))
	for range 30 {
		i := rng.IntN(8 * 500)
		if j := rng.IntN(8 * 500); j != i {
			m.join(i, j, 1e-3)
		}
	}
	order := cuthillMcKee(m)
	ends := slices.Clone(order)
	slices.Reverse(ends)
	front := frontOrder(m, ends)
	back := slices.Clone(front)
	slices.Reverse(back)
	for _, o := range [][]int{front, back} {
		if envelopeOf(m, o).flops() < envelopeOf(m, order).flops() {
			order = o
		}
	}
	env, one := newEnvelope(t.Context(), m), envelopeOf(m, bordered(m, order, square))
	for _, squares := range []int{0, 2, 4, 8} {
		if wide := envelopeOf(m, bordered(m, order, squares*square)); !(one.flops() < wide.flops()) {
			t.Errorf("%d squares take %.3g flops, one %.3g", squares, wide.flops(), one.flops())
		}
	}
	if env.flops() != one.flops() {
		t.Errorf("a factor takes %.4g flops, with a border of one square %.4g", env.flops(), one.flops())
	}
}

// TestBordered: the row that reaches back farthest comes last, whatever its place was.
func TestBordered(t *testing.T) {
	m := ring(10, false)
	m.join(2, 7, 1)
	if got := bordered(m, linalg.Range(10), 1); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 8, 9, 7}) {
		t.Errorf("the order is %v", got)
	}
}
