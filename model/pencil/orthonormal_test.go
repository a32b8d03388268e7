package pencil

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestOrthonormalByProducts is what reflections find: as many columns, orthonormal, and the same span, whatever the
// columns depend on.
func TestOrthonormalByProducts(t *testing.T) {
	const m, r = 330, 270
	rng := rand.New(rand.NewPCG(3, 9))
	cut := math.Sqrt(m * 0x1p-52)
	for name, value := range map[string]func(i int) float64{
		"apart":    func(i int) float64 { return 1 + float64(i) },
		"decaying": func(i int) float64 { return math.Pow(0.9, float64(i)) },
		"steps":    func(i int) float64 { return math.Pow(10, -float64(i/30)) },
		"few":      func(i int) float64 { return float64(max(0, 40-i)) },
	} {
		g, v := mat.NewDense(m, r, nil), mat.NewDense(r, r, nil)
		for i := range m {
			for j := range r {
				g.Set(i, j, rng.NormFloat64()*value(j))
			}
		}
		for i := range r {
			for j := range r {
				v.Set(i, j, rng.NormFloat64())
			}
		}
		var b mat.Dense
		b.Mul(g, v)
		for i := range m { // about the mean of the columns: one depends on the others
			mean := mat.Sum(b.RowView(i)) / r
			size := 0.0
			for j := range r {
				b.Set(i, j, b.At(i, j)-mean)
				size += b.At(i, j) * b.At(i, j)
			}
			for j := range r {
				b.Set(i, j, b.At(i, j)/math.Sqrt(size))
			}
		}
		if !evenRows(&b) {
			t.Fatalf("%s: rows of unit norm are not even", name)
		}
		largest := 0.0
		for j := range r {
			largest = max(largest, mat.Norm(b.ColView(j), 2))
		}
		q, want := byGram(t.Context(), &b, largest, cut), reflected(&b, cut*largest)
		if q == nil {
			t.Errorf("%s: nothing", name)
			continue
		}
		_, rank := q.Dims()
		_, wanted := want.Dims()
		// Pivots next to the cut may fall to either side of it.
		if low, high := rank, wanted; low != high && name != "decaying" && name != "steps" || max(low-high, high-low) > 3 {
			t.Errorf("%s: rank %d, by reflections %d", name, rank, wanted)
		}
		if name == "few" && rank != 40 || name == "apart" && rank != r-1 {
			t.Errorf("%s: rank %d", name, rank)
		}
		var inner, along, rest mat.Dense
		inner.Mul(q.T(), q)
		for i := range rank {
			inner.Set(i, i, inner.At(i, i)-1)
		}
		if e := mat.Max(&inner) - mat.Min(&inner); !(e <= 1e-12) {
			t.Errorf("%s: off orthonormal by %g", name, e)
		}
		along.Mul(q.T(), &b)
		rest.Mul(q, &along)
		rest.Sub(&b, &rest)
		for j := range r {
			if e := mat.Norm(rest.ColView(j), 2); !(e <= 3*cut*largest) {
				t.Errorf("%s: column %d is off the span by %g", name, j, e/largest)
			}
		}
	}
}

// BenchmarkOrthonormal is the space of rows that are nearly as many as features.
func BenchmarkOrthonormal(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 9))
	x := mat.NewDense(2048, 2000, nil)
	for i := range 2048 {
		row, mean := x.RawRowView(i), 0.0
		for j := range row {
			row[j] = rng.NormFloat64()
			mean += row[j] / 2000
		}
		for j := range row {
			row[j] -= mean
		}
	}
	for b.Loop() {
		if _, rank := Orthonormal(b.Context(), x, math.Sqrt(2048*0x1p-52)).Dims(); rank != 1999 {
			b.Fatal(rank)
		}
	}
}

// TestAllColumnsByGram: without a cut all columns are wanted, so a basis of fewer is none.
func TestAllColumnsByGram(t *testing.T) {
	b := mat.NewDense(5, 3, []float64{1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 2, 2, 0, 2}) // the last is the sum of the others
	if q := byGram(t.Context(), b, 3, 0); q != nil {
		t.Errorf("without a cut: %v", mat.Formatted(q))
	}
	if q := byGram(t.Context(), b, 3, 1e-6); q == nil || q.RawMatrix().Cols != 2 {
		t.Errorf("with a cut: %v", q)
	}
	if q := byGram(t.Context(), mat.NewDense(5, 3, nil), 0, 0); q != nil {
		t.Errorf("of zeros: %v", mat.Formatted(q))
	}
}
