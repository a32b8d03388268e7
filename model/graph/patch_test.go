package graph

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The sum of each part matrix over its patches is the matrix of the literature.
func TestPatchesSumToTheMethods(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 5))
	n, m := 40, 6
	x := normals(r, n, m)
	nb := mustNearest(t, x, 5)
	weights := mustWeights(t, nb, Union, Heat(nb.MeanNearest()))
	lle, err := Barycentric(ctx, x, x, nb, 1e-3)
	if err != nil {
		t.Fatal(err)
	}
	tangents, err := Tangents(ctx, x, nb.Patches(), FixedDim(2))
	if err != nil {
		t.Fatal(err)
	}
	star := func(yield func(Patch) bool) { // weighted squared differences of each row to those of its list
		for i := range n {
			index, value := weights.Row(i)
			l := mat.NewSymDense(len(value)+1, nil)
			for j, v := range value {
				l.SetSym(0, 0, l.At(0, 0)+v)
				l.SetSym(0, j+1, -v)
				l.SetSym(j+1, j+1, v)
			}
			if !yield(Patch{append([]int{i}, index...), l}) {
				return
			}
		}
	}
	var twoL mat.Dense
	twoL.Scale(2, weights.Laplacian())
	residual, m2 := mat.NewDense(n, n, nil), new(mat.Dense)
	for i := range n {
		residual.Set(i, i, 1)
	}
	residual.Sub(residual, lle)
	m2.Mul(residual.T(), residual)
	// Principal components: row i and all others, twice nothing, sums to n H / n.
	all := func(yield func(Patch) bool) {
		for i := range n {
			rows, l := []int{i}, mat.NewSymDense(n, nil)
			for j := range n {
				if j != i {
					rows = append(rows, j)
				}
			}
			for a := range n {
				for b := a; b < n; b++ {
					l.SetSym(a, b, 1/float64(n*n))
				}
				l.SetSym(0, a, -float64(n-1)/float64(n*n))
			}
			l.SetSym(0, 0, float64((n-1)*(n-1))/float64(n*n))
			if !yield(Patch{rows, l}) {
				return
			}
		}
	}
	h := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			h.Set(i, j, -1/float64(n))
		}
		h.Set(i, i, 1-1/float64(n))
	}
	alignment := mat.NewDense(n, n, nil)
	ltsa := func(yield func(Patch) bool) {
		for _, a := range tangents {
			if !yield(Patch{a.Rows, TangentPart(a)}) {
				return
			}
		}
	}
	for _, a := range tangents { // H (I - V V') H, put together densely
		k := len(a.Rows)
		s, hk := mat.NewDense(k, n, nil), mat.NewDense(k, k, nil)
		for p, i := range a.Rows {
			s.Set(p, i, 1)
			for q := range k {
				hk.Set(p, q, -1/float64(k))
			}
			hk.Set(p, p, 1-1/float64(k))
		}
		var b, vv, sum mat.Dense
		vv.Mul(a.Coordinates, a.Coordinates.T())
		b.Product(hk, &vv, hk)
		b.Sub(hk, &b)
		sum.Product(s.T(), &b, s)
		alignment.Add(alignment, &sum)
	}
	for name, c := range map[string]struct {
		patches iter.Seq[Patch]
		want    mat.Matrix
	}{
		"locality preserving": {star, &twoL},
		"principal":           {all, h},
		"tangent":             {ltsa, alignment},
	} {
		a, err := Align(n, c.patches)
		if err != nil || !near(a, c.want, 1e-12) {
			t.Errorf("%s: the patches do not sum to the method's matrix, %v", name, err)
		}
	}
	form, err := ReconstructionForm(ctx, x, lle)
	if err != nil {
		t.Fatal(err)
	}
	literal, err := WeightForm(ctx, x, m2)
	if err != nil || !near(form, literal, 1e-10) {
		t.Errorf("ReconstructionForm is not X'(I-W)'(I-W)X, %v", err)
	}
}

// A row may occur twice in a patch, and bad patches are errors.
func TestPatchRows(t *testing.T) {
	l := mat.NewSymDense(2, []float64{1, 2, 2, 5})
	twice := slices.Values([]Patch{{[]int{1, 1}, l}})
	a, err := Align(3, twice)
	if err != nil || a.At(1, 1) != 10 {
		t.Errorf("a row twice: %g, want 10", a.At(1, 1))
	}
	for _, p := range []Patch{{[]int{0, 3}, l}, {[]int{0}, l}} {
		if _, err := Align(3, slices.Values([]Patch{p})); err == nil {
			t.Errorf("patch %v gave no error", p.Rows)
		}
	}
}
