package mapping

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type hard struct {
	kernel           Kernel
	alpha, tolerance float64
}

// problem is the similarities of a row with 80 rows of three features, whose products are nearly dependent.
func (c hard) problem(t *testing.T, seed uint64) (*SimilarityExtension, *SimilarityProblem) {
	t.Helper()
	const n, m = 80, 3
	rng := rand.New(rand.NewPCG(1, 2)) // the same rows for every seed
	rows := make([]float64, n*m)
	for i := range rows {
		rows[i] = rng.NormFloat64() * math.Pow(3, -float64(i%m))
	}
	e := &SimilarityMap{Training: Training{D: 1, Rows: rows, Embedding: make([]float64, n)}, Lambda: []float64{0.5},
		Alpha: c.alpha, K: c.kernel}
	made, err := e.Extension(m)
	if err != nil {
		t.Fatal(err)
	}
	p, q := made.(*SimilarityExtension), &SimilarityProblem{Gram: made.Workspace().Gram}
	width := len(p.factor) / n
	q.Over(make([]float64, 5*n+2*width), n, width)
	rng = rand.New(rand.NewPCG(seed, 3))
	for i := range q.Target {
		q.Target[i] = rng.NormFloat64()
	}
	return p, q
}

// TestDescendEndsAtTheMinimum: no weight would move by more than a billionth of the largest, or less where each round
// solves for all weights that are not 0.
func TestDescendEndsAtTheMinimum(t *testing.T) {
	for name, c := range map[string]hard{"linear": {Kernel{Name: "linear"}, 1e-6, 1e-10},
		"gauss": {Kernel{"gauss", []float64{20}, nil}, 1, 1e-9}} {
		for seed := range uint64(60) {
			p, q := c.problem(t, seed)
			if err := p.Descend(q); err != nil {
				t.Fatal(err)
			}
			move := p.Slope(q) * max(slices.Max(q.Target), 1) / (slices.Max(p.diagonal) + c.alpha)
			if largest := slices.Max(q.Weight); !(move <= c.tolerance*largest) {
				t.Errorf("%s, seed %d: a weight would move by %g of %g", name, seed, move, largest)
			}
		}
	}
}

// TestDescendOfSmallAlpha: a small alpha makes weights large. Without an error they are at the minimum to a millionth
// of the largest target; too small an alpha is an error after a hundred rounds.
func TestDescendOfSmallAlpha(t *testing.T) {
	for seed := range uint64(40) {
		for _, alpha := range []float64{1e-9, 1e-11} {
			p, q := hard{kernel: Kernel{Name: "linear"}, alpha: alpha}.problem(t, seed)
			if err := p.Descend(q); err != nil {
				if alpha == 1e-9 {
					t.Errorf("alpha %g, seed %d: %v", alpha, seed, err)
				}
			} else if off := p.Slope(q); !(off <= 1e-6) {
				t.Errorf("alpha %g, seed %d: the slope is %g of the largest target", alpha, seed, off)
			}
		}
	}
	p, q := hard{kernel: Kernel{Name: "linear"}, alpha: 1e-16}.problem(t, 0)
	err := p.Descend(q)
	if err == nil || !strings.Contains(err.Error(), "did not converge in 100 rounds") {
		t.Errorf("alpha 1e-16: %v", err)
	}
}

// TestConjugateSolves: where all weights stay above 0, one step leads to the minimum, by conjugate gradients and by a
// factor. Its value is that of the definition, w'(G + alpha I)w/2 - target'w.
func TestConjugateSolves(t *testing.T) {
	for name, c := range map[string]hard{"factor": {Kernel{Name: "linear"}, 1e-3, 5e-10},
		"gradients": {Kernel{Name: "linear"}, 1e-9, 5e-10}, "many": {Kernel{"gauss", []float64{20}, nil}, 1e-6, 5e-10}} {
		p, q := c.problem(t, 1)
		n, want := p.Len(), make([]float64, p.Len())
		for i := range want {
			want[i], q.Weight[i] = 1+float64(i%5), 1
		}
		p.Multiply(q.Product, want)
		value := 0.0
		for i, v := range want {
			q.Target[i] = p.times(q.Product, i) + c.alpha*v // so that want is the minimum
			value -= v * q.Target[i] / 2
		}
		if got := p.value(q, want, q.Product); !(math.Abs(got-value) <= 1e-12*math.Abs(value)) {
			t.Errorf("%s: the value is %g, want %g", name, got, value)
		}
		p.Multiply(q.Product, q.Weight)
		if direct := p.direct(3); direct != (name == "factor") {
			t.Fatalf("%s: direct is %v", name, direct)
		}
		if !p.conjugate(q) {
			t.Errorf("%s: a weight became 0", name)
		}
		if off := p.Slope(q); !(off <= c.tolerance) {
			t.Errorf("%s: the slope is %g of the largest of %d targets", name, off, n)
		}
	}
}

// TestDirect: the linear kernel is solved by a factor of the features' order if there are at most 300 features and
// alpha is above 1e-8 of the largest product.
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
