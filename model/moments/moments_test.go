package moments

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// rows draws n labelled rows of m features around mean.
func rows(rng *rand.Rand, n, m, classes int, mean float64) (x []float64, y []int) {
	for range n {
		c := rng.IntN(classes+1) - 1
		y = append(y, c)
		for j := range m {
			x = append(x, mean+float64(c*j)/10+rng.NormFloat64()*float64(1+j))
		}
	}
	return x, y
}

// direct computes a summary the plain way, in two passes.
func direct(x []float64, y []int, m int, labelled bool) *Summary {
	s := &Summary{Mean: make([]float64, m), Total: mat.NewSymDense(m, nil)}
	classes := 0
	for i, c := range y {
		if labelled && c < 0 {
			continue
		}
		classes = max(classes, c+1)
		s.Weight++
		for j := range m {
			s.Mean[j] += x[i*m+j]
		}
	}
	for j := range m {
		s.Mean[j] /= s.Weight
	}
	s.Counts = make([]float64, classes)
	s.Means = mat.NewDense(classes, m, nil)
	s.Second = make([]*mat.SymDense, classes)
	for c := range classes {
		s.Second[c] = mat.NewSymDense(m, nil)
	}
	for i, c := range y {
		if labelled && c < 0 {
			continue
		}
		d := mat.NewVecDense(m, nil)
		for j := range m {
			d.SetVec(j, x[i*m+j]-s.Mean[j])
		}
		s.Total.SymRankOne(s.Total, 1/s.Weight, d)
		if c >= 0 {
			s.Counts[c]++
			s.Second[c].SymRankOne(s.Second[c], 1, d)
			for j := range m {
				s.Means.Set(c, j, s.Means.At(c, j)+d.AtVec(j))
			}
		}
	}
	for c := range classes {
		for j := range m {
			s.Means.Set(c, j, s.Means.At(c, j)/s.Counts[c])
		}
	}
	return s
}

// isNear reports whether no element differs by more than limit, which mat.EqualApprox would also take as relative.
func isNear(got, want mat.Matrix, limit float64) bool {
	rows, columns := want.Dims()
	for i := range rows {
		for j := range columns {
			if !(math.Abs(got.At(i, j)-want.At(i, j)) <= limit) {
				return false
			}
		}
	}
	return true
}

func same(t *testing.T, what string, got, want *Summary, tol float64) {
	t.Helper()
	scale := mat.Norm(want.Total, math.Inf(1))
	near := func(a, b, size float64) bool { return math.Abs(a-b) <= tol*size }
	if !near(got.Weight, want.Weight, want.Weight) {
		t.Errorf("%s: weight %g, want %g", what, got.Weight, want.Weight)
	}
	for j := range want.Mean {
		if !near(got.Mean[j], want.Mean[j], math.Abs(want.Mean[j])+math.Sqrt(scale)) {
			t.Errorf("%s: mean %d is %g, want %g", what, j, got.Mean[j], want.Mean[j])
		}
	}
	if !isNear(got.Total, want.Total, tol*scale) {
		t.Errorf("%s: total scatter differs", what)
	}
	for c := range want.Counts {
		if !near(got.Counts[c], want.Counts[c], want.Weight) {
			t.Errorf("%s: class %d has weight %g, want %g", what, c, got.Counts[c], want.Counts[c])
		}
		if !(want.Counts[c] <= 0) && !isNear(got.Means.RowView(c), want.Means.RowView(c), tol*math.Sqrt(scale)) {
			t.Errorf("%s: mean of class %d differs", what, c)
		}
		if got.Second != nil && got.Second[c] != nil &&
			!isNear(got.Second[c], want.Second[c], tol*scale*want.Weight) {
			t.Errorf("%s: second moment of class %d differs", what, c)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func summary(t testing.TB, s *Set, labelled bool) *Summary {
	t.Helper()
	out, err := s.Summary(labelled)
	must(t, err)
	return out
}

func TestStatisticsEqualBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, m := range []int{1, 5, 70, 150} {
		for _, mean := range []float64{0, 1e5} {
			x, y := rows(rng, 700, m, 3, mean)
			for _, perClass := range []bool{false, true} {
				s := New(m, perClass)
				for from, to := 0, 0; from < 700; from = to { // batches that fit no block
					to = min(from+1+(from*7)%310, 700)
					must(t, s.Add(t.Context(), x[from*m:to*m], y[from:to]))
				}
				for _, labelled := range []bool{false, true} {
					same(t, "batches", summary(t, s, labelled), direct(x, y, m, labelled), 1e-9)
				}
			}
		}
	}
}

func TestMergeEqualsUnion(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := 6
	x, y := rows(rng, 200, m, 3, 5)
	far, farY := rows(rng, 150, m, 5, 500) // another shift, more classes
	all, allY := append(append([]float64{}, x...), far...), append(append([]int{}, y...), farY...)
	for _, perClass := range []bool{false, true} {
		a, b := New(m, perClass), New(m, perClass)
		must(t, a.Add(t.Context(), x, y))
		must(t, b.Add(t.Context(), far, farY))
		keep := New(m, perClass)
		must(t, keep.Add(t.Context(), far, farY))
		must(t, a.Merge(b))
		for _, labelled := range []bool{false, true} {
			same(t, "merged", summary(t, a, labelled), direct(all, allY, m, labelled), 1e-9)
			same(t, "merged from", summary(t, b, labelled), summary(t, keep, labelled), 0)
		}
		empty := New(m, perClass)
		must(t, empty.Merge(b))
		must(t, empty.Merge(New(m, perClass)))
		same(t, "into an empty set", summary(t, empty, true), summary(t, b, true), 1e-12)
	}
	if New(3, false).Merge(New(4, false)) == nil || New(3, false).Merge(New(3, true)) == nil {
		t.Error("sets of different shapes merged")
	}
}

func TestBitsDoNotDependOnCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	m := 200
	x, y := rows(rng, 600, m, 3, 0)
	fit := func(cores int) *Summary {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		s := New(m, false)
		must(t, s.Add(t.Context(), x, y))
		return summary(t, s, true)
	}
	one, two := fit(1), fit(4)
	if !mat.Equal(one.Total, two.Total) {
		t.Error("the scatter depends on the number of cores")
	}
}

func TestBadRowsAreRefusedWhole(t *testing.T) {
	s := New(2, false)
	must(t, s.Add(t.Context(), []float64{1, 2, 3, 4, 5, 7}, []int{0, 1, -1}))
	before := summary(t, s, false)
	for name, err := range map[string]error{
		"NaN":        s.Add(t.Context(), []float64{1, 2, math.NaN(), 4}, []int{0, 1}),
		"Inf":        s.Add(t.Context(), []float64{1, math.Inf(1)}, nil),
		"ragged":     s.Add(t.Context(), []float64{1, 2, 3}, nil),
		"labels":     s.Add(t.Context(), []float64{1, 2}, []int{0, 1}),
		"class -2":   s.Add(t.Context(), []float64{1, 2}, []int{-2}),
		"late shift": s.SetShift([]float64{0, 0}),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	same(t, "after errors", summary(t, s, false), before, 0)
	must(t, s.Add(t.Context(), nil, nil))
	if _, err := New(2, false).Summary(false); err == nil {
		t.Error("an empty set has a summary")
	}
}

func BenchmarkAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 1))
	n, m := 5000, 256
	x, y := rows(rng, n, m, 10, 0)
	for _, batch := range []int{1, 4, 8, 32, 256} {
		b.Run(fmt.Sprintf("batch/n=%d/m=%d", batch, m), func(b *testing.B) {
			s := New(m, false)
			for b.Loop() {
				if err := s.Add(b.Context(), x[:batch*m], nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, perClass := range []bool{false, true} {
		name := "total"
		if perClass {
			name = "byclass"
		}
		b.Run(name+"/n=5000/m=256", func(b *testing.B) {
			for b.Loop() {
				if err := New(m, perClass).Add(b.Context(), x, y); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEmptyClass: a class without rows between others has no mean and no second moments.
func TestEmptyClass(t *testing.T) {
	s := New(1, true)
	must(t, s.Add(t.Context(), []float64{3, 5, 8}, []int{0, 0, 2}))
	out := summary(t, s, true)
	if out.Counts[1] != 0 || out.Second[1] != nil || out.Means.At(1, 0) != 0 {
		t.Errorf("%g rows with the mean %g", out.Counts[1], out.Means.At(1, 0))
	}
	if mean := out.Mean[0] + out.Means.At(2, 0); out.Counts[2] != 1 || !(math.Abs(mean-8) <= 1e-12) {
		t.Errorf("%g rows with the mean %g", out.Counts[2], mean)
	}
}

// TestRelabel: the moments are those of rows with the new labels, where a class without rows goes.
func TestRelabel(t *testing.T) {
	x, y := []float64{1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, []int{0, 2, -1, 2, 0}
	for _, perClass := range []bool{false, true} {
		var forms [2][]byte
		for i, y := range [][]int{y, {1, 0, -1, 0, 1}} {
			s := New(2, perClass)
			err := cmp.Or(s.SetShift([]float64{4, 6}), s.Add(t.Context(), x, y))
			if i == 0 {
				s.Relabel([]int{1, -1, 0})
			}
			var made error
			forms[i], made = s.AppendBinary(nil)
			if err = cmp.Or(err, made); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(forms[0], forms[1]) {
			t.Errorf("by class %v: a set of rows with the new labels has other moments", perClass)
		}
	}
}

// setOf is the set of rows of two features.
func setOf(t *testing.T, perClass bool, x []float64, y []int) *Set {
	t.Helper()
	s := New(2, perClass)
	if err := s.Add(t.Context(), x, y); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMeansOfASet: means are those of all rows, with and without labels.
func TestMeansOfASet(t *testing.T) {
	x := []float64{1, 0, 2, 0, 6, 9}
	for _, y := range [][]int{nil, {0, 1, 0}, {-1, 0, 1}, {-1, -1, 2}} {
		s := setOf(t, len(y) > 0 && y[0] == 0, x, y)
		if a, b := s.Mean(0), s.Mean(1); !(math.Abs(a-3) <= 1e-15) || !(math.Abs(b-3) <= 1e-15) {
			t.Errorf("classes %v: means %g and %g, want 3", y, a, b)
		}
	}
	if New(2, false).Mean(1) != 0 {
		t.Error("the mean of no rows is not 0")
	}
	s := setOf(t, true, x, []int{-1, 2, 2})
	for c, want := range []float64{1, 0, 0, 2, 0} {
		if got := s.Count(c - 1); got != want {
			t.Errorf("%g rows of class %d, want %g", got, c-1, want)
		}
	}
	if s.Classes() != 3 || New(2, true).Classes() != 0 || !s.PerClass() || New(2, false).PerClass() || s.M() != 2 {
		t.Errorf("%d classes", s.Classes())
	}
}

// TestMergeFilled: a missing feature gets its value in each row.
func TestMergeFilled(t *testing.T) {
	first, y := []float64{1, 2, 3, 5}, []int{0, 1}
	for _, perClass := range []bool{false, true} {
		want := setOf(t, perClass, slices.Concat(first, []float64{4, 7, 8, 7}), []int{0, 1, 1, 0})
		got := setOf(t, perClass, first, y)
		if err := got.MergeFilled(setOf(t, perClass, []float64{4, 0, 8, 0}, []int{1, 0}), []int{1},
			[]float64{7}); err != nil {
			t.Fatal(err)
		}
		a, err := got.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		if !mat.EqualApprox(a.Total, b.Total, 1e-12) || !mat.EqualApprox(a.Means, b.Means, 1e-12) ||
			!(math.Abs(a.Mean[1]-21./4) <= 1e-12) {
			t.Errorf("by class %v: %v, want %v", perClass, mat.Formatted(a.Total), mat.Formatted(b.Total))
		}
	}
	s, o := setOf(t, false, first, y), New(2, false)
	if err := s.MergeFilled(o, []int{1}, []float64{7}); err != nil || o.shift != nil || s.Mean(1) != 3.5 {
		t.Errorf("no rows: %v", err)
	}
	o = setOf(t, false, []float64{4, 2}, nil)
	if err := s.MergeFilled(o, nil, nil); err != nil || !(math.Abs(s.Mean(1)-3) <= 1e-15) {
		t.Errorf("nothing is missing: %v, mean %g", err, s.Mean(1))
	}
}

// TestRefusedRows: the error has the row, its class and what is needed.
func TestRefusedRows(t *testing.T) {
	s := setOf(t, false, []float64{1, 2, 3, 4}, []int{0, -1})
	for want, call := range map[string]func() error{
		"3 numbers are not rows of 2 features": func() error {
			return s.Add(t.Context(), make([]float64, 3),
				nil)
		},
		"0 numbers are not rows of 0 features": func() error { return New(0, false).Add(t.Context(), nil, nil) },
		"row 1 has 3 numbers, the set 2 features": func() error {
			return s.AddRows(t.Context(), [][]float64{{1,
				2}, {1, 2, 3}}, nil)
		},
		"row 0 has 0 numbers, the set 0 features": func() error {
			return New(0, false).AddRows(t.Context(),
				[][]float64{{}}, nil)
		},
		"1 rows, 2 classes": func() error {
			return s.Add(t.Context(), []float64{1, 2},
				[]int{0, 0})
		},
		"row 1 has class -2; give a small index, or -1 for no label": func() error {
			return s.Add(t.Context(), make([]float64, 4),
				[]int{0, -2})
		},
		"row 0 has class 9223372036854775807; give a small index": func() error {
			return s.Add(t.Context(), make([]float64, 2), []int{math.MaxInt})
		},
		"there is no set to merge": func() error {
			return cmp.Or(s.MergeFilled(nil, []int{0}, []float64{1}), s.Merge(nil))
		},
		"the shift cannot change after rows were added": func() error { return s.SetShift([]float64{1, 2}) },
		"shift of 3 numbers for 2 features": func() error {
			return New(2, false).SetShift(make([]float64,
				3))
		},
		"merging 3 features into 2":                         func() error { return s.Merge(New(3, false)) },
		"merging sets of which only one has second moments": func() error { return s.Merge(New(2, true)) },
		"no rows": func() error { _, err := New(2, false).Summary(false); return err },
		"row 1, feature 1 is -Inf; impute or leave out such rows first": func() error {
			return s.Add(t.Context(), []float64{1, 2, 3, math.Inf(-1)}, nil)
		},
		"feature 1 has second moment -2; rebuild the set from its rows": func() error {
			_, err := (&Set{m: 2, shift: make([]float64, 2), weight: []float64{2}, sum: [][]float64{{0, 2}},
				second: []*mat.SymDense{mat.NewSymDense(2, nil)}}).Summary(false)
			return err
		},
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), "moments: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := s.Add(t.Context(), nil, nil); err != nil || s.Count(-1) != 1 {
		t.Errorf("no rows: %v", err)
	}
	// A variance of -1e-9 of the sum of squares is a rounding error, and counts as 0.
	for off, want := range map[float64]bool{0.9e-9: true, 1.1e-9: false} {
		s := &Set{m: 1, shift: []float64{5}, weight: []float64{1}, sum: [][]float64{{3}},
			second: []*mat.SymDense{mat.NewSymDense(1, []float64{9 * (1 - off)})}}
		sum, err := s.Summary(false)
		if (err == nil) != want || want && (sum.Total.At(0, 0) != 0 || sum.Mean[0] != 8) {
			t.Errorf("off by %g: %+v, %v", off, sum, err)
		}
	}
}
