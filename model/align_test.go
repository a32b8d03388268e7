package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// live is a linear model of 4 outputs, the inner two of one eigenspace, and anchors for it.
func live(t *testing.T) (*Model, Rows) {
	m := randomLinear(t, 10, 4, 5, 2)
	m.fitted.Eigenvalues = []float64{3, 2, 2, 1}
	m.fitted.InformativeRank = 4
	m.fitted.Classes = []string{"a"}
	_, x := rowsOf(m, 200)
	return seal(t, m), DenseRows(x, 200, 10)
}

// turnedBy is the model with its outputs multiplied by r (d x d).
func turnedBy(t *testing.T, m *Model, r *mat.Dense, eigenvalues []float64) *Model {
	var a mat.Dense
	a.Mul(mat.NewDense(m.M(), m.Dim(), m.Components()), r)
	c := *m
	c.mapping = &mapping.Linear{D: m.Dim(), Components: a.RawMatrix().Data}
	c.fitted.Eigenvalues = eigenvalues
	return seal(t, &c)
}

func align(t *testing.T, candidate, live *Model, anchors Rows, mode string) (*Model, Alignment) {
	t.Helper()
	m, a, err := Align(t.Context(), candidate, live, anchors, mode)
	if err != nil {
		t.Fatal(err)
	}
	return m, a
}

// rotation is an orthogonal d x d matrix.
func rotation(seed uint64, d int) *mat.Dense {
	var qr mat.QR
	qr.Factorize(mat.NewDense(d, d, normals(rand.New(rand.NewPCG(seed, 1)), d*d)))
	var q mat.Dense
	qr.QTo(&q)
	return &q
}

func off(a, b *Model) float64 {
	worst := 0.0
	y := b.Components()
	for i, v := range a.Components() {
		worst = max(worst, math.Abs(v-y[i]))
	}
	return worst
}

// Columns that were flipped and permuted are restored exactly, with their eigenvalues.
func TestAlignSign(t *testing.T) {
	m, anchors := live(t)
	p := mat.NewDense(4, 4, []float64{0, 0, 0, -1, 0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0})
	c := turnedBy(t, m, p, []float64{2.5, 2, 1, 3})
	got, a := align(t, c, m, anchors, AlignSign)
	if off(got, m) != 0 || !slices.Equal(got.Eigenvalues(), []float64{3, 2, 2.5, 1}) {
		t.Errorf("off by %g, eigenvalues %v", off(got, m), got.Eigenvalues())
	}
	if !a.Comparable || !(a.Residual <= 1e-6) || len(a.Correlation) != 4 || !(slices.Min(a.Correlation) >= 1-1e-9) {
		t.Errorf("alignment %+v", a)
	}
	if got.Digest() == c.Digest() || c.Components()[0] != turnedBy(t, m, p, nil).Components()[0] {
		t.Error("the candidate changed, or the aligned model has its digest")
	}
	_, before := align(t, c, m, anchors, AlignNone)
	if before.Comparable || !(before.Residual >= 0.5) {
		t.Errorf("without alignment: %+v", before)
	}
	c.fitted.InformativeRank = 2 // columns may not leave the informative part
	got, _ = align(t, seal(t, c), m, anchors, AlignSign)
	if e := got.Eigenvalues(); min(e[0], e[1]) != 2 || max(e[0], e[1]) != 2.5 {
		t.Errorf("a column left the informative part: %v", e)
	}
}

// A rotation inside an eigenspace is undone by block and not by sign; to columns of other eigenvalues block applies
// flips.
func TestAlignBlock(t *testing.T) {
	m, anchors := live(t)
	r := linalg.Identity(4)
	r.Slice(1, 3, 1, 3).(*mat.Dense).Copy(rotation(5, 2))
	r.Set(0, 0, -1)
	c := turnedBy(t, m, r, m.Eigenvalues())
	got, a := align(t, c, m, anchors, AlignBlock)
	if !(off(got, m) <= 1e-6) || !a.Comparable || !(a.Residual <= 1e-6) {
		t.Errorf("off by %g, %+v", off(got, m), a)
	}
	_, sign := align(t, c, m, anchors, AlignSign)
	if !(sign.Residual >= 0.01) {
		t.Errorf("sign undoes a rotation: %+v", sign)
	}
	mixed := turnedBy(t, m, rotation(6, 4), []float64{4, 3, 2, 1}) // no ties: block is sign
	b, _ := align(t, mixed, m, anchors, AlignBlock)
	s, _ := align(t, mixed, m, anchors, AlignSign)
	if b.Digest() != s.Digest() {
		t.Error("block turns columns of different eigenvalues")
	}
}

// Rigid undoes any rotation of all columns, and keeps distances.
func TestAlignRigid(t *testing.T) {
	m, anchors := live(t)
	c := turnedBy(t, m, rotation(7, 4), m.Eigenvalues())
	got, a := align(t, c, m, anchors, AlignRigid)
	if !(off(got, m) <= 1e-6) || !a.Comparable || got.Eigenvalues() != nil {
		t.Errorf("off by %g, %+v", off(got, m), a)
	}
	other := turnedBy(t, randomLinear(t, 10, 4, 5, 1), linalg.Identity(4), nil)
	got, _ = align(t, other, m, anchors, AlignRigid)
	var d0, d1 mat.Dense
	for _, x := range []struct {
		m *Model
		d *mat.Dense
	}{{other, &d0}, {got, &d1}} {
		y := mat.NewDense(10, 4, x.m.Components())
		x.d.Mul(y, y.T()) // A A' decides all distances
	}
	d1.Sub(&d1, &d0)
	if !(mat.Norm(&d1, 2) <= 1e-12*mat.Norm(&d0, 2)) {
		t.Error("distances changed")
	}
}

// Rigid shifts as well: rows whose features have moved keep the mean position that the live model gave them.
func TestAlignRigidShifts(t *testing.T) {
	m, anchors := live(t)
	moved := m.Content()
	moved.Mean, moved.Report.Convergence = slices.Clone(moved.Mean), Direct
	for j := range moved.Mean {
		moved.Mean[j] += float64(j%3) - 0.7
	}
	c, err := New(moved)
	if err != nil {
		t.Fatal(err)
	}
	got, a := align(t, c, m, anchors, AlignRigid)
	if !(off(got, m) <= 1e-6) || !(a.Residual <= 1e-6) || !a.Comparable {
		t.Errorf("components off by %g, %+v", off(got, m), a)
	}
	if _, a := align(t, c, m, anchors, AlignBlock); !(a.Residual >= 0.1) {
		t.Errorf("block moves the mean: residual %g", a.Residual)
	}
}

// Sums of kernels are turned and shifted like linear maps, to a linear one too.
func TestAlignKernels(t *testing.T) {
	linear, _ := live(t)
	r := rand.New(rand.NewPCG(8, 8))
	anchors := DenseRows(normals(r, 200*10), 200, 10)
	m := withMapping(t, 10, &mapping.KernelMap{D: 4, Rows: normals(r, 20*10), Coefficients: normals(r, 20*4),
		K: mapping.Kernel{Name: "gauss", Param: []float64{20}}})
	c := *m
	c.fitted.Features = linear.fitted.Features
	m = seal(t, &c)
	turned, err := m.rotated(rotation(7, 4), linalg.Range(4), AlignRigid)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := outputs(t.Context(), turned, anchors, 4)
	if turned, err = turned.shifted([]float64{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	after, err := outputs(t.Context(), turned, anchors, 4)
	if err != nil {
		t.Fatal(err)
	}
	for c := range 4 {
		if v := after.At(5, c) - before.At(5, c); !(math.Abs(v-float64(c+1)) <= 1e-5) {
			t.Errorf("output %d is shifted by %g, not by %d", c, v, c+1)
		}
	}
	if _, a := align(t, turned, m, anchors, AlignNone); a.Comparable || !(a.Residual >= 1) {
		t.Errorf("the test shows nothing: %+v", a)
	}
	got, a := align(t, turned, m, anchors, AlignRigid)
	if !a.Comparable || !(a.Residual <= 1e-6) || got.Digest() == turned.Digest() {
		t.Errorf("turned and shifted: %+v", a)
	}
	want := m.mapping.(*mapping.KernelMap).Coefficients
	for i, v := range got.mapping.(*mapping.KernelMap).Coefficients {
		if !(math.Abs(v-want[i]) <= 1e-6) {
			t.Fatalf("coefficient %d is %g, was %g", i, v, want[i])
		}
	}
	if _, a := align(t, turned, linear, anchors, AlignRigid); len(a.Correlation) != 4 {
		t.Errorf("to a linear model: %+v", a)
	}
}

func TestAlignEdges(t *testing.T) {
	m, anchors := live(t)
	if got, a := align(t, m.WithNote(Note{Version: "2"}), m, Rows{}, AlignBlock); got.Digest() != m.Digest() ||
		!a.Comparable {
		t.Error("a model is not comparable to itself")
	}
	r := linalg.Identity(4) // a candidate with 3 of the 4 columns, flipped
	r.Scale(-1, r)
	c := turnedBy(t, m, r, m.Eigenvalues())
	var three []float64
	for i, v := range c.Components() {
		if i%4 != 3 {
			three = append(three, v)
		}
	}
	small := *c
	small.mapping = &mapping.Linear{D: 3, Components: three}
	small.fitted.Eigenvalues, small.fitted.InformativeRank = nil, 3
	got, a := align(t, seal(t, &small), m, anchors, AlignSign)
	if a.Comparable || len(a.Correlation) != 3 || !(slices.Min(a.Correlation) >= 1-1e-9) ||
		got.Components()[0] != m.Components()[0] {
		t.Errorf("3 columns against 4: %+v", a)
	}
	v := randomViews(t, 10, 4, 2, anchors, make2(200))
	if got, a := align(t, v, m, anchors, AlignBlock); got != v || a.Comparable {
		t.Error("views were aligned")
	}
	for name, f := range map[string]func() error{
		"mode": func() error { _, _, err := Align(t.Context(), c, m, anchors, "best"); return err },
		"anchors": func() error {
			_, _, err := Align(t.Context(), c, m, DenseRows(make([]float64, 10), 1, 10),
				AlignSign)
			return err
		},
		"width": func() error {
			_, _, err := Align(t.Context(), c, m, DenseRows(make([]float64, 10), 2, 5),
				AlignSign)
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	flat := DenseRows(make([]float64, 50*10), 50, 10) // anchors that do not vary
	if _, a := align(t, c, m, flat, AlignBlock); a.Comparable || math.IsNaN(a.Residual) {
		t.Errorf("anchors that do not vary: %+v", a)
	}
}

func make2(n int) []int {
	y := make([]int, n)
	for i := range y {
		y[i] = i % 2
	}
	return y
}

// The assignment is the best of all permutations.
func TestAssign(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n := 1 + r.IntN(6)
		cost := make([][]float64, n)
		for i := range cost {
			cost[i] = normals(r, n)
			if r.IntN(2) == 0 {
				for j := range cost[i] {
					cost[i][j] = math.Round(cost[i][j]) // ties
				}
			}
		}
		total := func(p []int) (sum float64) {
			for i, j := range p {
				sum += cost[i][j]
			}
			return sum
		}
		best := math.Inf(1)
		var try func(p []int, k int)
		try = func(p []int, k int) {
			if k == n {
				best = min(best, total(p))
				return
			}
			for i := k; i < n; i++ {
				p[k], p[i] = p[i], p[k]
				try(p, k+1)
				p[k], p[i] = p[i], p[k]
			}
		}
		try(linalg.Range(n), 0)
		got := assign(cost)
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		if !slices.Equal(sorted, linalg.Range(n)) || !(math.Abs(total(got)-best) <= 1e-12) {
			t.Fatalf("assignment %v costs %g, the best %g", got, total(got), best)
		}
	}
}

// TestAlignNamesItsRows: the error of an alignment or a conversion names the model or the rows that cannot be used.
func TestAlignNamesItsRows(t *testing.T) {
	huge := func(of float64) *Model {
		m := randomLinear(t, 1, 1, 0, 1)
		m.mapping = &mapping.Linear{D: 1, Components: []float64{of}}
		m.fitted.Mean, m.fitted.Scale = []float64{0}, []float64{1}
		return seal(t, m)
	}
	rows := DenseRows([]float64{1, 2, 1e20}, 3, 1)
	small, large := huge(1), huge(1e20)
	for want, call := range map[string]func() error{
		`align: unknown mode "best"; give none, sign, block or rigid`: func() error {
			_, _, err := Align(t.Context(), small, large, rows, "best")
			return err
		},
		"align: 1 anchor rows; give at least 2, better a few hundred": func() error {
			_, _, err := Align(t.Context(), small, large, DenseRows([]float64{1}, 1, 1), AlignSign)
			return err
		},
		"align: candidate: rows: 2 features, the model has 1": func() error {
			_, _, err := Align(t.Context(), small, large, DenseRows(make([]float64, 4), 2, 2), AlignSign)
			return err
		},
		"align: candidate: row 2: output 0 is 1e+40": func() error {
			_, _, err := Align(t.Context(), large, small, rows, AlignSign)
			return err
		},
		"align: live: row 2: output 0 is 1e+40": func() error {
			_, _, err := Align(t.Context(), small, large, rows, AlignNone)
			return err
		},
		"conversion: row 2: output 0 is 1e+40": func() error {
			_, err := FitConversion(t.Context(), large, small, rows)
			return err
		},
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := FitConversion(t.Context(), small, large, rows); err == nil ||
		!strings.HasPrefix(err.Error(), "conversion: row 2") {
		t.Error(err)
	}
	if c, err := FitConversion(t.Context(), small, huge(2), DenseRows([]float64{1}, 1, 1)); c != nil || err != nil {
		t.Errorf("one row gives the map %v, %v", c, err)
	}
	c := &Conversion{Matrix: [][]float64{{1, 2, 3}, {4, 5, 6}}, Shift: []float64{10, 20, 30}}
	if got := c.Apply([]float64{1, 0, 0, 2, 9}); !slices.Equal(got, []float64{11, 22, 33, 18, 30, 42}) {
		t.Errorf("outputs %v", got)
	}
	if got := (&Conversion{}).Apply([]float64{1}); len(got) != 0 {
		t.Errorf("an empty map gives %v", got)
	}
}
