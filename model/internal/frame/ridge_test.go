package frame

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// TestShrinkageOfAnyUnit: the shrinkage does not depend on the unit of the features.
func TestShrinkageOfAnyUnit(t *testing.T) {
	s := mat.NewSymDense(3, []float64{4, 1, -0.5, 1, 2, 0.25, -0.5, 0.25, 1})
	want, ridge := OAS(s, 20, 3)
	if !(want > 0.05 && want < 0.5) {
		t.Fatalf("shrinkage %g", want)
	}
	for _, unit := range []float64{1e-307, 1e-170, 1e-81, 1e77, 1e155, 1e307} { // of the variances
		var scaled mat.SymDense
		scaled.ScaleSym(unit, s)
		got, r := OAS(&scaled, 20, 3)
		if !(math.Abs(got-want) <= 1e-12 && math.Abs(r-ridge) <= 1e-12) {
			t.Errorf("variances times %g: shrinkage %g and ridge %g, want %g and %g", unit, got, r, want, ridge)
		}
	}
}

// TestShrinkageByHand compares with ((tr S^2)/p^2 + u^2) / ((n+1) ((tr S^2)/p^2 - u^2/p)), u the mean of the diagonal.
func TestShrinkageByHand(t *testing.T) {
	s := []float64{4, 1, 1, 2} // the numerator is 14.5, the denominator n+1
	for _, c := range []struct {
		s                []float64
		n                float64
		columns          int
		shrinkage, ridge float64
	}{
		{s, 20, 2, 14.5 / 21, 14.5 / 6.5},
		{s, 14, 2, 14.5 / 15, 10},
		{s, 13.5, 2, 1, 10},
		{s, 14.5e9 - 1, 2, 1e-9, 1e-6},
		{[]float64{1, 0, 0, 1}, 20, 2, 1, 10}, // no number of rows would tell it from the identity
		{[]float64{0, 0, 0, 0}, 20, 2, 0, 1e-6},
		{[]float64{3, 0, 0, 0}, 20, 1, 0, 1e-6},
	} {
		shrinkage, ridge := OAS(mat.NewSymDense(2, c.s), c.n, c.columns)
		if !(math.Abs(shrinkage-c.shrinkage) <= 1e-12*c.shrinkage) || !(math.Abs(ridge-c.ridge) <= 1e-12*c.ridge) {
			t.Errorf("%v, n = %g: %g and %g, want %g and %g", c.s, c.n, shrinkage, ridge, c.shrinkage, c.ridge)
		}
	}
}

// TestRuleOfARidge: the rule is cv if the ridge was chosen among several, also where a kernel was chosen, else fixed or
// oas.
func TestRuleOfARidge(t *testing.T) {
	d := &model.Data{N: 24, M: 2, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.X, d.Y = append(d.X, float64(i*i%7)+3*float64(i%2), float64(i%5)), append(d.Y, i%2)
	}
	for _, c := range []struct {
		ridge, kernel string
		grid          []float64
		without       float64
		rule          string
		relative      float64 // 0: that of the shrinkage, or of the choice
		scores        int
	}{
		{"0.25", "", nil, 0, "fixed", 0.25, 0}, {"oas", "", []float64{1}, 0, "oas", 0, 0}, {"auto", "", nil, 0, "oas", 0, 0},
		{"auto", "", []float64{0.1, 1}, 0, "cv", 0, 3}, {"auto", "", []float64{0.1, 1}, 0.3, "cv", 0, 2},
		{"0.25", "auto", nil, 0, "fixed", 0.25, 2}, {"auto", "auto", []float64{1}, 0, "cv", 0, 4},
	} {
		task := loaded(t, d, &Method{Name: "own", Supervised: true, Map: "linear", Streaming: "window",
			Ridge: &RidgeRule{Scatter: WithinScatter, Grid: c.grid, Without: c.without,
				Kernels: func(*Task) []string { return []string{"one", "other"} }},
			Fit: func(_ context.Context, t *Task) *Solution {
				return t.InBasis(mat.NewDense(t.M, t.D, []float64{1, 0, 0, 1}), nil, 0)
			}})
		task.Params = map[string]string{"ridge": c.ridge}
		if c.kernel != "" {
			task.Params["kernel"] = c.kernel
		}
		ChooseRidge(t.Context(), task)
		r := task.Report.Ridge
		if r.Rule != c.rule || len(r.Scores) != c.scores || r.Columns != 2 || r.Relative != task.Ridge ||
			c.relative > 0 && r.Relative != c.relative || (r.Shrinkage != nil) != (c.ridge != "0.25") {
			t.Errorf("%+v: %+v", c, r)
		}
		if c.kernel != "" && task.Params["kernel"] != "one" { // no other one is ahead
			t.Errorf("%+v: the kernel is %s", c, task.Params["kernel"])
		}
	}
	// Without rows to hold out the ridge is oas, or the one for that.
	few := &model.Data{N: 4, M: 2, X: d.X[:8], Y: d.Y[:4], Classes: d.Classes}
	for without, rule := range map[float64]string{0: "oas", 0.3: "fixed"} {
		task := loaded(t, few, &Method{Name: "own", Supervised: true, Map: "linear", Streaming: "window",
			Ridge: &RidgeRule{Scatter: WithinScatter, Grid: []float64{1, 2}, Without: without}})
		task.Params = map[string]string{"ridge": "auto"}
		ChooseRidge(t.Context(), task)
		if r := task.Report.Ridge; r.Rule != rule || without > 0 && r.Relative != without || len(task.Report.Notes) != 1 ||
			!strings.Contains(task.Report.Notes[0], "without cross-validation: fewer than 2 classes have the 3 rows") {
			t.Errorf("without folds: %+v, %q", r, task.Report.Notes)
		}
	}
}

// TestWithinOfRounding: a variance within classes of at most 256 roundings of the total one counts as none, and so do
// its products with other columns.
func TestWithinOfRounding(t *testing.T) {
	for share, none := range map[float64]bool{200 * 0x1p-52: true, 300 * 0x1p-52: false} {
		a, b := math.Sqrt(1-share), math.Sqrt(0.5)
		s := BasisScatters{N: 2, Counts: []float64{1, 1}, Means: mat.NewDense(2, 2, []float64{a, b, -a, -b}),
			Total: mat.NewSymDense(2, []float64{1, a*b + 1e-9, a*b + 1e-9, 1})}
		s.withinFromTotal(t.Context())
		got := []float64{s.Within.At(0, 0), s.Within.At(0, 1), s.Within.At(1, 0), s.Within.At(1, 1)}
		want := []float64{share, 1e-9, 1e-9, 0.5}
		if none {
			want = []float64{0, 0, 0, 0.5}
		}
		for i := range got {
			if !(math.Abs(got[i]-want[i]) <= 4*0x1p-52) {
				t.Errorf("a share of %g within classes: %g, want %g", share, got, want)
				break
			}
		}
	}
}
