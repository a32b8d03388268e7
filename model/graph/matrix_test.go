package graph

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func near(a, b mat.Matrix, tolerance float64) bool { return mat.EqualApprox(a, b, tolerance) }

func mustNearest(t testing.TB, x *mat.Dense, k int) *Neighbors {
	t.Helper()
	nb, err := Nearest(ctx, x, k)
	if err != nil {
		t.Fatal(err)
	}
	return nb
}

func mustWeights(t testing.TB, nb *Neighbors, rule Symmetry, w Weight) *Matrix {
	t.Helper()
	a, err := nb.Weights(rule, w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The three rules agree with their dense definitions.
func TestSymmetryRules(t *testing.T) {
	n := 40
	x := normals(rand.New(rand.NewPCG(1, 3)), n, 2)
	nb := mustNearest(t, x, 4)
	heat := Heat(nb.MeanNearest())
	w := mat.NewDense(n, n, nil)
	for i := range n {
		index, dist2 := nb.Row(i)
		for p, j := range index {
			w.Set(i, j, heat(i, j, dist2[p]))
		}
	}
	for rule, f := range map[Symmetry]func(a, b float64) float64{
		Union: math.Max, Sum: func(a, b float64) float64 { return a + b },
	} {
		a := mustWeights(t, nb, rule, heat)
		want := mat.NewDense(n, n, nil)
		want.Apply(func(i, j int, v float64) float64 { return f(v, w.At(j, i)) }, w)
		if !mat.Equal(a, want) || !mat.Equal(a, a.T()) {
			t.Errorf("%s differs from its definition", rule)
		}
	}
	if _, err := nb.Weights("max", heat); err == nil || !strings.Contains(err.Error(), "union and sum") {
		t.Errorf("an unknown rule gave %v", err)
	}
	if _, err := nb.Weights(Union, func(int, int, float64) float64 { return math.NaN() }); err == nil {
		t.Error("weights of NaN gave no error")
	}
}

// Infinite widths are binary, zero widths keep duplicates, and nothing is NaN.
func TestWeightLimits(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{Heat(math.Inf(1))(0, 1, 7), 1},
		{Heat(math.Inf(1))(0, 1, 0), 1},
		{Heat(0)(0, 1, 0), 1},
		{Heat(0)(0, 1, 2), 0},
		{Heat(2)(0, 1, 2), math.Exp(-1)},
	} {
		if c.got != c.want {
			t.Errorf("weight %g, want %g", c.got, c.want)
		}
	}
}

// Products and forms equal those of the dense matrices; the form of the Laplacian is half the weighted sum of squared
// differences over ordered pairs, and the patches of a weight matrix sum to it.
func TestFormsEqualDense(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, n := range []int{30, 3000} { // below and above the size for one core
		m := 5
		x := normals(r, n, m)
		nb := mustNearest(t, x, 6)
		a := mustWeights(t, nb, Union, Heat(nb.MeanNearest()))
		sum := mat.NewDense(m, m, nil)
		for i := range n {
			index, value := a.Row(i)
			for p, j := range index {
				var d mat.VecDense
				d.SubVec(x.RowView(i), x.RowView(j))
				sum.RankOne(sum, value[p]/2, &d, &d)
			}
		}
		l, err := LaplacianForm(ctx, x, a)
		if err != nil {
			t.Fatal(err)
		}
		if !near(l, sum, 1e-9) {
			t.Errorf("n %d: the form of the Laplacian is not the sum over edges", n)
		}
		w, err := WeightForm(ctx, x, a)
		if err != nil {
			t.Fatal(err)
		}
		d, err := DegreeForm(ctx, x, a.Degrees())
		if err != nil {
			t.Fatal(err)
		}
		var difference mat.Dense
		difference.Sub(d, w)
		if !near(l, &difference, 1e-9) {
			t.Errorf("n %d: X'LX is not X'DX - X'WX", n)
		}
		y, z := mat.NewDense(n, m, nil), mat.NewDense(n, m, nil)
		a.Laplacian().Apply(ctx, y, x)
		if n < 100 {
			z.Mul(mat.DenseCopyOf(a.Laplacian()), x)
			if !near(y, z, 1e-12) {
				t.Error("Apply is not the product")
			}
			dense, err := LaplacianForm(ctx, x, mat.DenseCopyOf(a))
			if err != nil || !near(dense, l, 1e-10) {
				t.Errorf("dense weights give another form: %v", err)
			}
		}
		ones := mat.NewDense(n, 1, nil)
		for i := range n {
			ones.Set(i, 0, 1)
		}
		zero := mat.NewDense(n, 1, nil)
		a.Laplacian().Apply(ctx, zero, ones)
		if v := mat.Norm(zero, 2); !(v <= 1e-12*float64(n)) {
			t.Errorf("the Laplacian takes constants to %g", v)
		}
	}
}

// Self loops cancel in the Laplacian and in the metric framework, sparse or
// dense; a wide form goes through several bands.
func TestSelfLoopsAndBands(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	n, m := 50, 150
	x := normals(r, n, m)
	d, s := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	for i := range n {
		for j := range i + 1 {
			u, v := r.Float64(), r.Float64()
			d.Set(i, j, u)
			d.Set(j, i, u)
			s.Set(i, j, v)
			s.Set(j, i, v)
		}
	}
	sparseD, err := FromDense(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	n1, p1, err := FromDS(ctx, x, d, s)
	if err != nil {
		t.Fatal(err)
	}
	n2, p2, err := FromDS(ctx, x, sparseD, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d.Set(i, i, 0)
	}
	var l, want mat.Dense
	l.Scale(-1, d)
	for i := range n {
		l.Set(i, i, mat.Sum(d.RowView(i)))
	}
	want.Product(x.T(), &l, x)
	if !near(n1, &want, 1e-9) || !near(n2, &want, 1e-9) || !mat.Equal(p1, p2) {
		t.Error("the pencil of (D, S) is not that of the Laplacians")
	}
	scale := make([]float64, n)
	for i := range scale {
		scale[i] = float64(i)
	}
	var both mat.Dense
	both.Product(mat.NewDiagDense(n, scale), sparseD, mat.NewDiagDense(n, scale))
	if !near(sparseD.Scale(scale), &both, 1e-12) {
		t.Error("Scale is not the product with diagonals")
	}
	if _, err := LaplacianForm(ctx, x, mat.NewDense(3, 3, nil)); err == nil || !strings.Contains(err.Error(), "50 x 50") {
		t.Errorf("weights of another order gave %v", err)
	}
}

// TestWeightsOfLists: the weight of an edge is that of the row whose list has it, and of the row in the list.
func TestWeightsOfLists(t *testing.T) {
	nb := mustNearest(t, mat.NewDense(3, 1, []float64{0, 1, 3}), 1) // the last row is in no list
	w := mustWeights(t, nb, Union, func(i, j int, d2 float64) float64 { return float64(100*i + 10*j + int(d2)) })
	if w.At(0, 1) != w.At(1, 0) || w.At(2, 1) != 214 || w.At(1, 2) != 214 || w.At(0, 2) != 0 {
		t.Errorf("weights %v", mat.Formatted(w))
	}
}

// TestEntriesAboveACut: entries whose absolute value is at most the cut are left out; the others are stored on both
// sides of the diagonal.
func TestEntriesAboveACut(t *testing.T) {
	a, err := FromDense(mat.NewDense(3, 3, []float64{9, 2, -2, 2, 0, 3, -2, 3, -9}), 2)
	if err != nil || a.Stored() != 4 || a.At(0, 0) != 9 || a.At(0, 1) != 0 || a.At(2, 0) != 0 || a.At(2, 1) != 3 ||
		a.At(2, 2) != -9 {
		t.Errorf("%d entries: %v, %v", a.Stored(), mat.Formatted(a), err)
	}
	if a, err = FromDense(mat.NewDense(2, 2, []float64{0, -3, -3, 0}), 2); err != nil || a.At(0, 1) != -3 {
		t.Errorf("%v, %v", mat.Formatted(a), err)
	}
}
