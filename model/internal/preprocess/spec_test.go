package preprocess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// TestKindsOfSpecs: landmarks and normal scores make a map that is not linear, and some scales need the rows.
func TestKindsOfSpecs(t *testing.T) {
	for _, c := range []struct {
		spec      Spec
		kind      string
		nonlinear bool
		needsRows bool
	}{
		{Spec{}, "features", false, false}, {Spec{Scale: model.ScaleNone}, "features", false, false},
		{Spec{Scale: model.ScaleStandard}, "features", false, false},
		{Spec{Scale: model.ScaleMinMax}, "features", false, true},
		{Spec{Scale: model.ScaleUnit}, "features", false, true}, {Spec{Scale: model.ScaleRank}, "rank", true, true},
		{Spec{Landmarks: 1, Scale: model.ScaleNone}, "landmarks", true, false},
	} {
		if c.spec.Kind() != c.kind || c.spec.Nonlinear() != c.nonlinear || ScaleNeedsRows(c.spec.Scale) != c.needsRows ||
			CheckScale(c.spec.Scale) != nil {
			t.Errorf("%+v: %s, nonlinear %v, needs rows %v", c.spec, c.spec.Kind(), c.spec.Nonlinear(),
				ScaleNeedsRows(c.spec.Scale))
		}
	}
	if CheckScale(model.ScaleAuto) == nil || CheckScale("x") == nil || Width(0) != 1 || Width(0.25) != 0.25 {
		t.Error("auto is a scale of rows, or the default width is not 1")
	}
}

// TestRowsWithoutLabels: preprocessing of rows without labels makes rows without labels, of all rows though it was
// fitted on some.
func TestRowsWithoutLabels(t *testing.T) {
	d := fixture.Synthetic(5, 30, 3, 2)
	for _, labelled := range []bool{true, false} {
		if !labelled {
			d.Y, d.Classes = nil, nil
		}
		p, err := frame.Prepare(t.Context(), d, labelled, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []Spec{{}, {Landmarks: 5, Width: 1}, {Scale: model.ScaleRank}} {
			f, err := spec.Fit(t.Context(), NewTraining(p, linalg.Range(10)), model.ScaleStandard, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if f.Task.Rows.N != 10 || f.Rows.N != 30 || (f.Rows.Y != nil) != labelled ||
				(f.Task.Basis.Within != nil) != labelled {
				t.Errorf("%+v, labelled %v: fitted on %d of %d rows", spec, labelled, f.Task.Rows.N, f.Rows.N)
			}
		}
	}
}

// TestLandmarksNextToEachOther: two landmarks have two features if the smaller eigenvalue of their kernels is more than
// 1e-8 of the larger one.
func TestLandmarksNextToEachOther(t *testing.T) {
	for share, want := range map[float64]int{1e-3: 2, 2e-8: 2, 0.5e-8: 1, 0: 1} {
		l := &Landmarks{mean: []float64{0}, scale: []float64{1}, rows: []float64{0, math.Sqrt(2 * share)},
			kernel: mapping.Kernel{Name: "gauss", Param: []float64{1}}}
		if l.whiten(t.Context()); l.Dim() != want || l.Len() != 2 {
			t.Errorf("eigenvalues of the ratio %g: %d features, want %d", share, l.Dim(), want)
		}
	}
}

// TestQuotas: classes share the landmarks in proportion to their sizes, with at least one each.
func TestQuotas(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		of := make([][]rankedRow, 1+r.IntN(6))
		n := 0
		for i := range of {
			of[i] = make([]rankedRow, 1+r.IntN(40))
			n += len(of[i])
		}
		count := 1 + r.IntN(n)
		taken := quotas(of, n, count)
		all := 0
		for i, k := range taken {
			all += k
			exact := float64(count) * float64(len(of[i])) / float64(n)
			if k > len(of[i]) || len(of) <= count && (k < 1 || !(math.Abs(float64(k)-exact) <= float64(len(of)))) ||
				len(of) > count && (k == 1) != (i < count) {
				t.Errorf("%d of %d rows in class %d: %d of %v", count, n, i, k, taken)
			}
		}
		if all != count {
			t.Errorf("%d landmarks of %d", all, count)
		}
	}
}

// TestLandmarksOfOtherModels: landmarks are taken from a model that was fitted with these kernels, and no other.
func TestLandmarksOfOtherModels(t *testing.T) {
	params := func(count int, width, scale string) map[string]string {
		return map[string]string{"landmarks": fmt.Sprint(count), "width": width, "scale": scale}
	}
	gauss := mapping.Kernel{Name: "gauss", Param: []float64{1}}
	moved := mapping.Kernel{Name: "gauss", Param: []float64{1}, Origin: []float64{0}}
	kernels := func(rows int, k mapping.Kernel) model.Mapping {
		x := make([]float64, rows)
		for i := range x {
			x[i] = float64(i)
		}
		return &mapping.KernelMap{D: 1, Rows: x, Coefficients: x, K: k}
	}
	for name, c := range map[string]struct {
		of     model.Mapping
		params map[string]string
		want   bool
	}{
		"these":          {kernels(3, gauss), params(3, "1", "standard"), true},
		"fewer rows":     {kernels(2, gauss), params(3, "1", "standard"), true},
		"more rows":      {kernels(4, gauss), params(3, "1", "standard"), false},
		"another width":  {kernels(3, gauss), params(3, "2", "standard"), false},
		"another scale":  {kernels(3, gauss), params(3, "1", "none"), false},
		"another number": {kernels(3, gauss), params(4, "1", "standard"), false},
		"another kernel": {kernels(3, mapping.Kernel{Name: "linear"}), params(3, "1", "standard"), false},
		"an origin":      {kernels(3, moved), params(3, "1", "standard"), false},
		"no kernels":     {&mapping.Linear{D: 1, Components: []float64{1}}, params(3, "1", "standard"), false},
	} {
		m, err := model.New(model.Content{Method: "lda", Params: c.params, Features: []string{"x"}, Rows: 9, Map: c.of,
			Mean: []float64{0}, Scale: []float64{1}, Report: model.Report{Convergence: model.Direct}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := LandmarksOf(t.Context(), m, Kernels{Count: 3})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (!l.Match(m, Kernels{Count: 3}) || l.Match(m, Kernels{Count: 4}) ||
			l.Match(m, Kernels{Count: 3, Width: 2})) {
			t.Errorf("%s: they do not match their model alone", name)
		}
	}
}

// TestHashOfRows: the hash of one zero is the first number of SplitMix64 with that seed; -0 counts as 0, and the order
// of numbers matters.
func TestHashOfRows(t *testing.T) {
	for seed, want := range map[uint64]uint64{0: 0xe220a8397b1dcdaf, 1234567: 6457827717110365317} {
		if got := hashRow([]float64{0}, seed); got != want {
			t.Errorf("seed %d: %x, want %x", seed, got, want)
		}
	}
	if hashRow([]float64{math.Copysign(0, -1), 1}, 7) != hashRow([]float64{0, 1}, 7) ||
		hashRow([]float64{1, 2}, 7) == hashRow([]float64{2, 1}, 7) || hashRow(nil, 7) != 7 {
		t.Error("equal rows have different hashes, or rows in another order the same")
	}
}
