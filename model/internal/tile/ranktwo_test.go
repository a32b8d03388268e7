package tile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRankTwo: every kernel has the bits of the portable one, which is the formula, and writes nothing outside.
func TestRankTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	for _, n := range []int{8, 16, 24, 88} {
		for _, from := range []int{0, 1, 7, 8, n - 1} {
			a := draw(rng, n*n)
			for i := range n {
				for j := range i {
					a[i*n+j] = a[j*n+i]
				}
			}
			v, w, x := draw(rng, n), draw(rng, n), draw(rng, n)
			clear(v[:from])
			clear(w[:from])
			clear(x[:from])
			var want, product []float64
			for _, l := range levels() {
				force(t, l)
				b, y := slices.Clone(a), make([]float64, n)
				y[0], y[n-1] = 7, 7
				RankTwo(b, n, from, v, w, x, y)
				if l == portable {
					want, product = b, y
				}
				if !emulated && !(slices.Equal(b, want) && slices.Equal(y, product)) {
					t.Errorf("level %d, order %d from %d: not the bits of the portable one", l, n, from)
				}
				for i := from; i < n; i++ {
					sum := 0.0
					for j := from; j < n; j++ {
						sum += (a[i*n+j] - v[i]*w[j] - w[i]*v[j]) * x[j]
					}
					if !(math.Abs(sum-y[i]) <= 1e-12) {
						t.Errorf("level %d, order %d from %d: product %d is %g, want %g", l, n, from, i, y[i], sum)
					}
					for j := i; j < n; j++ {
						if e := a[i*n+j] - v[i]*w[j] - w[i]*v[j]; !(math.Abs(b[i*n+j]-e) <= 1e-14) {
							t.Errorf("level %d, order %d from %d: (%d, %d) is %g, want %g", l, n, from, i, j, b[i*n+j], e)
						}
					}
				}
				if first := from / Lanes * Lanes; first > 0 && (y[0] != 7 || !slices.Equal(b[:first*n], a[:first*n])) {
					t.Errorf("level %d, order %d from %d: rows before were touched", l, n, from)
				}
			}
		}
	}
}

// TestLengthsAreChecked: kernels that take a multiple of Lanes numbers refuse other lengths, and vectors that are too
// short, instead of accessing memory behind them.
func TestLengthsAreChecked(t *testing.T) {
	refused := func(run func()) (refused bool) {
		defer func() { refused = recover() != nil }()
		run()
		return
	}
	for n := range 3 * Lanes {
		if got := refused(func() { Exp(make([]float64, n)) }); got != (n%Lanes != 0) {
			t.Errorf("Exp of %d numbers: refused %t", n, got)
		}
		v := make([]float64, n)
		if got := refused(func() { RankTwo(make([]float64, n*n), n, 0, v, v, v, v) }); got != (n%Lanes != 0) {
			t.Errorf("RankTwo of order %d: refused %t", n, got)
		}
	}
	a, v, short := make([]float64, 64), make([]float64, 8), make([]float64, 7)
	for name, run := range map[string]func(){
		"a": func() { RankTwo(a[:63], 8, 0, v, v, v, v) }, "v": func() { RankTwo(a, 8, 0, short, v, v, v) },
		"w": func() { RankTwo(a, 8, 0, v, short, v, v) }, "x": func() { RankTwo(a, 8, 0, v, v, short, v) },
		"y": func() { RankTwo(a, 8, 0, v, v, v, short) }, "from": func() { RankTwo(a, 8, 9, v, v, v, v) },
	} {
		if !refused(run) {
			t.Errorf("RankTwo accepts %s of a wrong length", name)
		}
	}
}
