package frame

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/mapping"
)

// TestPadByHand: outputs are padded by the directions of most variance, in the features too, as far as there are any.
func TestPadByHand(t *testing.T) {
	for _, c := range []struct {
		padTo      int
		perFeature bool
		columns    []float64 // row-major
		bound      int       // of the error; 0: none
	}{
		{1, false, []float64{1, 0, 0}, 0},
		{2, false, []float64{1, 0, 0, 0.5, 0, 0}, 0}, // of the variances 9, 4 and 0
		{2, true, []float64{1, 0, 0, 0.5, 7, 0}, 0},
		{3, false, nil, 2}, {4, false, nil, 3},
	} {
		task := &Task{Method: &Method{Map: "linear"}, M: 3, padTo: c.padTo, Report: &model.Report{},
			Basis: &BasisScatters{N: 9, Total: mat.NewSymDense(3, []float64{9, 0, 0, 0, 4, 0, 0, 0, 0})},
			Units: &Units{Mean: make([]float64, 3)}}
		sol := &Solution{Components: []float64{1, 0, 0}, Dim: 1, Eigenvalues: []float64{5}}
		if c.perFeature {
			sol.features = []float64{1, 0, 7}
		}
		err := func() (err error) {
			defer fail.Catch(&err)
			pad(task, sol)
			return nil
		}()
		var bound *model.DimError
		if errors.As(err, &bound) != (c.bound > 0) || c.bound > 0 && (bound.Max != c.bound || bound.Asked != c.padTo) {
			t.Errorf("to %d outputs: %v", c.padTo, err)
		}
		if err != nil {
			continue
		}
		got := sol.Components
		if c.perFeature {
			got = sol.features
		}
		for i, v := range got {
			if want := c.columns[i]; !(math.Abs(math.Abs(v)-want) <= 1e-12) {
				t.Errorf("to %d outputs: %v, want %v", c.padTo, got, c.columns)
				break
			}
		}
		note := "the criterion has 1 directions; 1 more outputs are the directions of most variance"
		if sol.Dim != c.padTo || len(sol.Eigenvalues) != c.padTo || slices.Contains(task.Report.Notes,
			note) != (c.padTo > 1) {
			t.Errorf("to %d outputs: %+v, %q", c.padTo, sol, task.Report.Notes)
		}
	}
}

// TestFillByHand: zero outputs are added to a linear map, also among features, and to a kernel map with its offset.
func TestFillByHand(t *testing.T) {
	task := &Task{Method: &Method{Map: "linear"}, Outputs: 3, Report: &model.Report{}}
	sol := &Solution{Components: []float64{1, 2}, Dim: 1, features: []float64{3, 4, 5}, Eigenvalues: []float64{9}}
	if fill(task, sol); !slices.Equal(sol.Components, []float64{1, 0, 0, 2, 0, 0}) || sol.Dim != 3 ||
		!slices.Equal(sol.features, []float64{3, 0, 0, 4, 0, 0, 5, 0, 0}) || !slices.Equal(sol.Eigenvalues,
		[]float64{9, 0, 0}) {
		t.Errorf("%+v", sol)
	}
	if want := []string{"1 of 3 outputs have a direction; the others are zero"}; !slices.Equal(task.Report.Notes, want) {
		t.Errorf("notes %q", task.Report.Notes)
	}
	if fill(task, sol); sol.Dim != 3 || len(task.Report.Notes) != 1 {
		t.Error("outputs are filled twice")
	}
	task.Method = &Method{Map: "kernel"}
	kernel := &mapping.KernelMap{D: 2, Rows: []float64{1}, Coefficients: []float64{1, 2}, Offset: []float64{3, 4}}
	sol = &Solution{Dim: 2, Mapping: kernel}
	fill(task, sol)
	if wide := sol.Mapping.(*mapping.KernelMap); wide.D != 3 || !slices.Equal(wide.Coefficients, []float64{1, 2, 0}) ||
		!slices.Equal(wide.Offset, []float64{3, 4, 0}) || kernel.D != 2 {
		t.Errorf("%+v", wide)
	}
	other := &mapping.Tangent{Training: mapping.Training{D: 2}}
	sol = &Solution{Dim: 2, Mapping: other}
	if fill(task, sol); sol.Dim != 2 || sol.Mapping != mapping.Map(other) {
		t.Errorf("another map is filled: %+v", sol)
	}
	task.Method = &Method{Map: "extension"}
	sol = &Solution{Components: []float64{1}, Dim: 1}
	if fill(task, sol); sol.Dim != 1 || hasZeros(task) {
		t.Error("outputs of an extension are filled")
	}
	for _, c := range []struct {
		pad          bool
		of           string
		outputs, dim int
		want         bool
		padTo        int
	}{{false, "linear", 5, 4, true, 0}, {true, "linear", 0, 4, true, 4}, {true, "linear", 0, 7, false, 0},
		{true, "kernel", 0, 4, false, 0}, {false, "linear", 0, 4, false, 0}} {
		task := &Task{Method: &Method{Map: c.of}, Outputs: c.outputs, Pad: c.pad, D: c.dim, Columns: 6}
		if got := task.narrow(2); got != c.want || got && task.D != 2 || task.padTo != c.padTo {
			t.Errorf("%+v: %v, dim %d, padded to %d", c, got, task.D, task.padTo)
		}
	}
}
