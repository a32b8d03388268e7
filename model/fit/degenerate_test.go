package fit

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/method"
)

// TestDegenerateRowsWithEveryRidge: a model with finite outputs or an error, with
// and without a ridge, chosen or tuned; never a panic.
func TestDegenerateRowsWithEveryRidge(t *testing.T) {
	ctx := context.Background()
	for name, d := range fixture.Degenerate() {
		for _, method := range append(method.Table, &choose.Method) {
			for _, ridge := range []string{"", "0", "0.1"} {
				params := map[string]string{}
				for k, v := range quick(method) {
					params[k] = v
				}
				if ridge != "" {
					if method.Ridge == nil && method != &choose.Method {
						continue
					}
					params["ridge"] = ridge
				}
				for _, dim := range []int{1, AutoDim} {
					m, err := Fit(ctx, d, Config{Method: method.Name, Dim: dim, Params: params})
					if err != nil {
						continue
					}
					y := make([]float32, d.N*m.Dim())
					if err := m.Project(y, model.DenseRows(d.X, d.N, d.M)); err != nil {
						t.Errorf("%s: %s ridge %q: %v", name, method.Name, ridge, err)
					}
					for _, v := range y {
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
							t.Fatalf("%s: %s ridge %q: output %g", name, method.Name, ridge, v)
						}
					}
				}
			}
		}
	}
}

// TestAutoTakesPCAWhereClassesAreSingleRows: such labels have no information.
func TestAutoTakesPCAWhereClassesAreSingleRows(t *testing.T) {
	m := fit(t, fixture.Degenerate()["single rows"], Config{Method: Auto, Dim: AutoDim})
	if choice := m.Report().Choice; m.Method() != "pca" ||
		!strings.Contains(choice.Rule, "no class has two different rows") {
		t.Errorf("%s, by %+v", m.Method(), choice)
	}
}

// TestRareFeaturesHaveARidge: folds in which nothing varies are left out, with a note, and the fit continues.
func TestRareFeaturesHaveARidge(t *testing.T) {
	m := fit(t, fixture.Degenerate()["rare features"], Config{Method: "srda"})
	if notes := strings.Join(m.Report().Notes, "; "); !strings.Contains(notes,
		"no feature varies among its training rows") {
		t.Errorf("notes %q", notes)
	}
}
