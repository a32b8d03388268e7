package fit

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/method"
)

// TestDegenerateRowsWithEveryRidge: a model with finite outputs or an error, with
// and without a ridge, chosen or tuned; never a panic.
func TestDegenerateRowsWithEveryRidge(t *testing.T) {
	ctx := context.Background()
	for name, d := range degenerate() {
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
	m := fit(t, degenerate()["single rows"], Config{Method: Auto, Dim: AutoDim})
	if choice := m.Report().Choice; m.Method() != "pca" ||
		!strings.Contains(choice.Rule, "no class has two different rows") {
		t.Errorf("%s, by %+v", m.Method(), choice)
	}
}

// TestRareFeaturesHaveARidge: folds in which nothing varies are left out, with a note, and the fit continues.
func TestRareFeaturesHaveARidge(t *testing.T) {
	m := fit(t, degenerate()["rare features"], Config{Method: "srda"})
	if notes := strings.Join(m.Report().Notes, "; "); !strings.Contains(notes,
		"no feature varies among its 8 training rows") {
		t.Errorf("notes %q", notes)
	}
}

// degenerate are small data sets whose rows hardly differ.
func degenerate() map[string]*model.Data {
	rare := &model.Data{X: make([]float64, 12*20), N: 12, M: 20, Classes: []string{"a", "b"}}
	rare.X[3], rare.X[3*20+7] = 1, 2 // nothing varies in a fold without rows 0 and 3
	for i := range rare.N {
		rare.Y = append(rare.Y, i/6)
	}
	equal := &model.Data{X: make([]float64, 8*3), N: 8, M: 3, Classes: []string{"a", "b"},
		Y: []int{0, 0, 0, 0, 1, 1, 1, 1}}
	for i := 4; i < 8; i++ {
		equal.X[3*i] = 1 // one point per class
	}
	return map[string]*model.Data{
		"rare features": rare,
		"equal rows":    equal,
		"two rows":      {X: []float64{1, 2, 3, 5}, N: 2, M: 2, Y: []int{0, 1}, Classes: []string{"a", "b"}},
		"single rows": {X: []float64{1, 2, 3, 5, 4, 4, 0, 1}, N: 4, M: 2, Y: []int{0, 1, 2, 3},
			Classes: []string{"a", "b", "c", "d"}},
		"one column": {X: []float64{1, 2, 3, 5, 4, 9}, N: 6, M: 1, Y: []int{0, 0, 0, 1, 1, 1},
			Classes: []string{"a", "b"}},
	}
}

// TestCopiesAreNoNeighbours: lfda of rows that come ten times each has the directions of the rows alone: the scale of a
// row is its distance to the nearest other row, not to a copy, which would be 0.
func TestCopiesAreNoNeighbours(t *testing.T) {
	alone := synthetic(1, 60, 4, 2)
	copies := &model.Data{M: alone.M, N: 10 * alone.N, Classes: alone.Classes, Features: alone.Features}
	for i := range copies.N {
		copies.X = append(copies.X, alone.X[i/10*alone.M:][:alone.M]...)
		copies.Y = append(copies.Y, alone.Y[i/10])
	}
	var outputs [2][]float32
	for i, c := range []struct {
		rows *model.Data
		k    string
	}{{alone, "1"}, {copies, "7"}} {
		m, err := Fit(t.Context(), c.rows, Config{Method: "lfda", Dim: 1, Scale: model.ScaleNone,
			Params: map[string]string{"kNN": c.k, "ridge": "0"}})
		if err != nil {
			t.Fatal(err)
		}
		outputs[i] = make([]float32, alone.N)
		if err := m.Project(outputs[i], model.DenseRows(alone.X, alone.N, alone.M)); err != nil {
			t.Fatal(err)
		}
	}
	dot, a, b := 0.0, 0.0, 0.0
	for i, v := range outputs[0] {
		w := outputs[1][i]
		dot, a, b = dot+float64(v*w), a+float64(v*v), b+float64(w*w)
	}
	if cosine := dot / math.Sqrt(a*b); !(math.Abs(cosine) > 1-1e-5) {
		t.Errorf("outputs of the copies and of the rows alone have the cosine %v", cosine)
	}
}

// TestKSMPAOfTwoDifferentRows: two different rows, many times each, have one direction, and not a second that is
// constant.
func TestKSMPAOfTwoDifferentRows(t *testing.T) {
	d := &model.Data{N: 20, M: 1, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.X, d.Y = append(d.X, float64(i%2)), append(d.Y, i/2%2)
	}
	c := Config{Method: "ksmpa", Params: map[string]string{"kernel": "gauss", "ridge": "0.1"}}
	if m := fit(t, d, c); m.Dim() != 1 {
		t.Errorf("%d outputs by default", m.Dim())
	}
	c.Dim = 2
	_, err := Fit(t.Context(), d, c)
	if bound := (*model.DimError)(nil); !errors.As(err, &bound) || bound.Max != 1 {
		t.Errorf("2 outputs: %v", err)
	}
}
