package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The weights of a row sum to 1 and minimise the regularised error: no other weights of sum 1 are better.
func TestBarycentricIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 5))
	x := normals(r, 60, 4)
	copy(x.RawRowView(1), x.RawRowView(0)) // duplicates are allowed
	nb := mustNearest(t, x, 7)
	const reg = 1e-3
	w, err := Barycentric(ctx, x, x, nb, reg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		index, value := w.Row(i)
		k := len(index)
		z := mat.NewDense(k, 4, nil)
		for p, j := range index {
			for c := range 4 {
				z.Set(p, c, x.At(i, c)-x.At(j, c))
			}
		}
		g := outer(z)
		trace := mat.Trace(g)
		cost := func(v []float64) float64 {
			u := mat.NewVecDense(k, v)
			return mat.Inner(u, g, u) + reg*trace*mat.Dot(u, u)
		}
		sum := 0.0
		for _, v := range value {
			sum += v
		}
		if !(math.Abs(sum-1) <= 1e-12) {
			t.Errorf("row %d: weights sum to %g", i, sum)
		}
		for range 20 {
			v, mean := make([]float64, k), 0.0
			for p := range v {
				v[p] = 0.1 * r.NormFloat64()
				mean += v[p] / float64(k)
			}
			for p := range v {
				v[p] += value[p] - mean
			}
			if !(cost(v) >= cost(value)*(1-1e-12)) {
				t.Fatalf("row %d: weights cost %g, a competitor %g", i, cost(value), cost(v))
			}
		}
	}
}

// Rows among equal neighbours have equal weights; a new row between its references is reconstructed; what cannot be
// solved is an error with its fix.
func TestBarycentricEdges(t *testing.T) {
	same := mat.NewDense(4, 2, nil)
	w, err := Barycentric(ctx, same, same, mustNearest(t, same, 3), 1e-3)
	if err != nil || w.At(0, 1) != 1./3 {
		t.Errorf("weight %g among equal rows, %v", w.At(0, 1), err)
	}
	ref := mat.NewDense(3, 2, []float64{0, 0, 1, 0, 0, 1})
	query := mat.NewDense(1, 2, []float64{0.2, 0.3})
	nb, err := NearestTo(ctx, ref, query, 3)
	if err != nil {
		t.Fatal(err)
	}
	w, err = Barycentric(ctx, ref, query, nb, 1e-12)
	if err != nil {
		t.Fatal(err)
	}
	if !near(w, mat.NewDense(1, 3, []float64{0.5, 0.2, 0.3}), 1e-9) {
		t.Errorf("weights %v", mat.Formatted(w))
	}
	line := mat.NewDense(4, 1, []float64{0, 1, 2, 3})
	if _, err := Barycentric(ctx, line, line, mustNearest(t, line, 3), 0); err == nil ||
		!strings.Contains(err.Error(), "regulariser") {
		t.Errorf("dependent differences gave %v", err)
	}
	one := mat.NewDense(1, 1, nil)
	if _, err := Barycentric(ctx, one, one, mustNearest(t, one, 1), 0); err == nil {
		t.Error("a row without neighbours gave no error")
	}
}

// A tangent space is the thin singular value decomposition of the centred patch, from either Gram matrix, and stops at
// the numeric rank.
func TestTangentsAreTheDecomposition(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 5))
	for _, c := range []struct{ k, m, rank int }{{8, 20, 7}, {30, 5, 5}, {12, 30, 3}, {40, 6, 2}, {2, 9, 1}} {
		var x mat.Dense
		x.Mul(normals(r, c.k, c.rank), normals(r, c.rank, c.m))
		for i := range c.k {
			for j := range c.m {
				x.Set(i, j, 1e3+1e-3*x.At(i, j))
			}
		}
		rows := make([]int, c.k)
		for i := range rows {
			rows[i] = i
		}
		tangents, err := Tangents(ctx, &x, [][]int{rows}, FixedDim(100))
		if err != nil {
			t.Fatal(err)
		}
		a := tangents[0]
		if a.Dim() != c.rank {
			t.Fatalf("k %d, m %d: dimension %d, rank %d", c.k, c.m, a.Dim(), c.rank)
		}
		back := mat.NewDense(c.k, c.m, nil)
		back.Product(a.Coordinates, mat.NewDiagDense(c.rank, a.Singular), a.Basis.T())
		for i := range c.k {
			for j := range c.m {
				back.Set(i, j, back.At(i, j)+a.Mean[j])
			}
		}
		if !near(back, &x, 1e-9) {
			t.Errorf("k %d, m %d: the decomposition is not the patch", c.k, c.m)
		}
		for _, v := range []*mat.Dense{a.Basis, a.Coordinates} {
			var vv mat.Dense
			vv.Mul(v.T(), v)
			ones := make([]float64, c.rank)
			for i := range ones {
				ones[i] = 1
			}
			if !near(&vv, mat.NewDiagDense(c.rank, ones), 1e-12) {
				t.Errorf("k %d, m %d: columns are not orthonormal", c.k, c.m)
			}
		}
		for e := range c.rank {
			if s := mat.Sum(a.Coordinates.ColView(e)); !(math.Abs(s) <= 1e-12) {
				t.Errorf("k %d, m %d: coordinates sum to %g", c.k, c.m, s)
			}
		}
	}
}

func TestTangentDimensions(t *testing.T) {
	variance := []float64{6, 3, 0.9, 0.1}
	for share, want := range map[float64]int{0.5: 1, 0.6: 1, 0.61: 2, 0.95: 3, 1: 4} {
		if got := EnergyDim(share)(variance); got != want {
			t.Errorf("%g of the variance in %d directions, want %d", share, got, want)
		}
	}
	if FixedDim(2)(variance) != 2 || FixedDim(9)(variance) != 4 {
		t.Error("fixed dimensions are not cut to the rank")
	}
	x := mat.NewDense(5, 3, []float64{0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 7, 7, 7})
	tangents, err := Tangents(ctx, x, [][]int{{0, 1, 2, 3}, {4}, {0, 4}}, EnergyDim(0.95))
	if err != nil {
		t.Fatal(err)
	}
	if tangents[0].Dim() != 0 || tangents[1].Dim() != 0 || !tangents[0].Basis.IsEmpty() || tangents[2].Dim() != 1 {
		t.Errorf("dimensions %d, %d, %d of equal rows, one row, two rows", tangents[0].Dim(), tangents[1].Dim(),
			tangents[2].Dim())
	}
	if _, err := Tangents(ctx, x, [][]int{{5}}, FixedDim(1)); err == nil {
		t.Error("a row outside gave no error")
	}
}

// TestTangentOfEqualRows: the mean of three equal rows may differ from them by a rounding error, which is no direction.
func TestTangentOfEqualRows(t *testing.T) {
	const v = 0x1.555606600cd3ap+0
	x := mat.NewDense(3, 2, []float64{v, 1, v, 1, v, 1})
	if sum := x.At(0, 0) + x.At(1, 0) + x.At(2, 0); sum/3 == v {
		t.Fatalf("the mean of three rows is %x", sum/3)
	}
	parts, err := Tangents(ctx, x, [][]int{{0, 1, 2}}, FixedDim(1))
	if err != nil || parts[0].Dim() != 0 {
		t.Errorf("equal rows have %d directions, %v", parts[0].Dim(), err)
	}
}

// Coordinates alone are those of the tangent spaces, for patches of fewer rows than columns and of more.
func TestTangentCoordinates(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 5))
	for _, m := range []int{4, 30} {
		x := normals(r, 90, m)
		patches := mustNearest(t, x, 8).Patches()
		want, err := Tangents(ctx, x, patches, FixedDim(3))
		if err != nil {
			t.Fatal(err)
		}
		got, err := TangentCoordinates(ctx, x, patches, FixedDim(3))
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			if !mat.Equal(g.Coordinates, want[i].Coordinates) || !slices.Equal(g.Singular, want[i].Singular) ||
				!g.Basis.IsEmpty() {
				t.Fatalf("%d columns: patch %d has other coordinates, or a basis", m, i)
			}
		}
	}
}

// TestTangentsOfRowsOutOfRange: rows that are not finite, or whose differences are not, have no tangent space.
func TestTangentsOfRowsOutOfRange(t *testing.T) {
	for _, v := range [][]float64{{math.NaN(), 1, 2}, {math.Inf(1), 1, 2}, {1.7e308, -1.7e308, -1.7e308}} {
		_, err := Tangents(ctx, mat.NewDense(3, 1, v), [][]int{{0, 1, 2}}, FixedDim(1))
		if err == nil || !strings.Contains(err.Error(), "patch 0") {
			t.Errorf("rows %v: %v", v, err)
		}
	}
}
