package pencil

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// TestPivoted compares rank, order and factor with LAPACK's, for matrices that end within a block and at its end.
func TestPivoted(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	for _, c := range []struct{ n, r int }{{1, 1}, {7, 3}, {48, 48}, {96, 96}, {97, 96}, {131, 48}, {160, 150},
		{200, 101}} {
		s := gram(rng, c.n, c.r, func(i int) float64 { return 1 + float64(i%5) })
		a, b := mat.NewSymDense(c.n, nil), mat.NewSymDense(c.n, nil)
		a.CopySym(s)
		b.CopySym(s)
		largest := 0.0
		for i := range c.n {
			largest = max(largest, s.At(i, i))
		}
		order, rank := pivoted(t.Context(), a, 1e-9*largest)
		want := make([]int, c.n)
		_, wanted, _ := lapack64.Pstrf(b.RawSymmetric(), want, 1e-9*largest, make([]float64, 2*c.n))
		if rank != wanted || rank != c.r {
			t.Errorf("order %d: rank %d, by LAPACK %d, want %d", c.n, rank, wanted, c.r)
			continue
		}
		for i := range rank {
			if order[i] != want[i] {
				t.Fatalf("order %d: pivot %d is column %d, by LAPACK %d", c.n, i, order[i], want[i])
			}
			for j := i; j < rank; j++ {
				if d := math.Abs(a.At(i, j) - b.At(i, j)); !(d <= 1e-10*math.Sqrt(largest)) {
					t.Fatalf("order %d: entry (%d, %d) is off by %g", c.n, i, j, d)
				}
			}
		}
		for i := range c.n { // U'U = P'AP, also for the columns behind the rank
			for j := i; j < c.n; j++ {
				sum := 0.0
				for k := range min(i+1, rank) {
					sum += a.At(k, i) * a.At(k, j)
				}
				if d := math.Abs(sum - s.At(order[i], order[j])); !(d <= 1e-9*largest) {
					t.Fatalf("order %d: product (%d, %d) is off by %g", c.n, i, j, d)
				}
			}
		}
	}
	nan := mat.NewSymDense(2, []float64{math.NaN(), 0, 0, math.NaN()})
	if _, rank := pivoted(t.Context(), nan, 0); rank != 0 {
		t.Errorf("rank %d of NaN", rank)
	}
	if _, rank := pivoted(t.Context(), mat.NewSymDense(60, nil), 0); rank != 0 {
		t.Errorf("rank %d of zeros", rank)
	}
}

// TestCutByPivots compares the pseudo-inverse ZZ' of a matrix without full rank, with equal and with constant columns,
// with that of its eigenvectors. A matrix whose eigenvalues have no gap at the cut is left to these.
func TestCutByPivots(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	const m = 148
	s := gram(rng, m, 90, func(j int) float64 { return math.Pow(10, float64(j%7)-3) })
	for _, j := range []int{5, 77} {
		for i := range m {
			s.SetSym(i, j, 0)
		}
	}
	q, err := Cut(s)
	if err != nil {
		t.Fatal(err)
	}
	e, even, err := equilibrate(s, new([]float64))
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]float64, 0, m)
	for _, v := range e {
		if v != 0 {
			kept = append(kept, 1)
		}
	}
	a, b := cutByPivots(even, kept), fail.Must(cutByValues(even, kept, m*0x1p-52))
	if a == nil || q.Rank() != 90 {
		t.Fatalf("rank %d, want 90 from pivots", q.Rank())
	}
	var x, y mat.Dense
	x.Mul(a, a.T())
	y.Mul(b, b.T())
	x.Sub(&x, &y)
	if d := maxAbs(&x) / maxAbs(&y); !(d <= 1e-9) {
		t.Errorf("pseudo-inverses differ by %g", d)
	}
	if d := offIdentity(quadratic(s, q.Unwhiten(linalg.Identity(90)))); !(d <= 1e-8) {
		t.Errorf("Z'DZ differs from I by %g", d)
	}
	near := mat.NewSymDense(m, nil)
	for i := range m {
		near.SetSym(i, i, math.Pow(10, -float64(i)/8))
	}
	if cutByPivots(near, kept) != nil {
		t.Error("a matrix without a gap was cut by pivots")
	}
}
