package method_test

import (
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/modeltest"
)

// formula is a method with parameters, and its definition.
type formula struct {
	method    string
	params    map[string]string
	reference modeltest.Reference // nil: a test of the family compares it
}

// TestFormulas compares each method with its definition. The references share no code with the methods, so that no
// fault can be in both.
func TestFormulas(t *testing.T) {
	compared := map[string]bool{}
	for _, family := range []map[string]formula{scatterFormulas(), marginFormulas(), iterativeFormulas(),
		manifoldFormulas(), localityFormulas(), patchFormulas()} {
		for name, f := range family {
			compared[f.method] = true
			t.Run(name, func(t *testing.T) {
				modeltest.Run(t, fit.Config{Method: f.method, Seed: 5, Params: f.params}, f.reference)
			})
		}
	}
	for _, m := range method.Table {
		if !compared[m.Name] {
			t.Errorf("%s is compared with no formula", m.Name)
		}
	}
}

// rulesOf are the rules of each method: its default dimension and its bound for 50 rows of 4 classes and 10 columns;
// how it chooses the ridge; the values that tuning tries; and when auto tries it, with which settings.
var rulesOf = map[string]string{
	"pca": "dim 2, at most rank 10 of the total scatter; auto 6",
	"lda": "dim 3, at most the 3 discriminant directions of 4 classes (C-1); ridge [0.1 1]; auto 3;" +
		" with landmarks",
	"srda":    "dim 3, at most the 3 discriminant directions of 4 classes (C-1); ridge [0.1 1]",
	"sle":     "dim 3, at most rank 10 of the total scatter",
	"sle-ovr": "dim 2, at most rank 10 of the total scatter; ridge []",
	"pairacc": "dim 3, at most rank 10 of the total scatter; ridge []; auto 7; with landmarks;" +
		" tried at 1/4/false 1/4/true 2/4/false 2/4/true",
	"mfa": "dim 2, at most rank 10 of the total scatter; ridge [0.1 1]; k1 of [5 10 15 20 25 30];" +
		" k2 of [5 10 20 40 80]; auto 1; with landmarks",
	"lfda": "dim 2, at most rank 10 of the total scatter; ridge [0.1 1]; kNN of [3 7 15]; auto 2",
	"dla": "dim 2, at most rank 10 of the total scatter; k1 of [5 10 20]; k2 of [5 10 20];" +
		" beta of [auto 0.1 1]; in folds map[beta:0.3]; auto 4; settings [map[beta:0.1] map[beta:1]]",
	"lsda": "dim 2, at most rank 10 of the total scatter; ridge [1e-06 0.0001 0.01 0.1 1];" +
		" k of [5 10 15 20 25 30]; beta of [0.1 0.5 0.9]; in folds map[pca:1]",
	"lpp": "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 10 15 20 25 30];" +
		" t of [auto 0.0001 0.01 0.25 1 100]",
	"npe":   "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 10 15 20 25 30]",
	"lltsa": "dim 2, at most rank 10 of the total scatter; ridge []; k of [auto 10 15 20 25 30]",
	"le": "dim 2, at most 49, the rows less one; k of [5 10 15 20 25 30];" +
		" t of [inf auto 0.0001 0.01 0.25 1]",
	"lle":    "dim 2, at most 49, the rows less one; k of [5 10 15 20 25 30]",
	"isomap": "dim 2, at most 49, the rows less one; 20000 rows; k of [5 10 15 20 25 30]",
	"lsmpa": "dim 2, at most rank 10 of the total scatter; ridge [0.1 1]; k of [5 10 20]; auto 5;" +
		" at one scale",
	"ksmpa": "dim 2, at most the 49 directions of the rows that were looked at; ridge [0.01 0.1 1];" +
		" 0.1 without folds; k of [5 10 20]; in folds map[kernel:gauss]; auto 9; at one scale;" +
		" tried at 1/2/true 2/2/true 3/2/true; fixed map[kernel:gauss]",
	"lenews":  "dim 2, at most 49, the rows that are looked at less one",
	"lenewks": "dim 2, at most 49, the rows that are looked at less one",
	"lppnews": "dim 2, at most rank 10 of the total scatter; ridge []",
	"tnca": "dim 2, at most rank 10 of the total scatter; ridge []; at least 0.3 and 0.1; auto 8;" +
		" at one scale; with landmarks;" +
		" tried at 1/2/true 2/2/true 3/2/true 1/4/false 1/4/true 2/4/false 2/4/true 3/4/true",
	"dawge": "dim 2, at most rank 10 of the total scatter; ridge [1e-06 0.0001 0.01 0.1 1];" +
		" 0.1 without folds; k of [10 30 100]; c of [0.1 1 10]",
	"lsdr": "dim 2, at most rank 10 of the total scatter",
	"mpda": "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 7 15]; gamma of [0 1];" +
		" ridge of [0.1 1 10]",
	"pmpda": "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 7 15]; gamma of [0 1];" +
		" ridge of [0.1 1 10]",
	"tsimr":     "dim 2, at most 49, the rows less one; k of [5 10 20]",
	"mp-tsimr":  "dim 2, at most 49, the rows less one; k of [5 10 20]",
	"ltsimr":    "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 10 20]",
	"mp-ltsimr": "dim 2, at most rank 10 of the total scatter; ridge []; k of [5 10 20]",
	"lpfe":      "dim 2, at most rank 10 of the total scatter; ridge []",
}

// TestRulesOfMethods compares the rules of each method with the table.
func TestRulesOfMethods(t *testing.T) {
	for _, m := range method.Table {
		if got, want := rules(m), rulesOf[m.Name]; got != want {
			t.Errorf("%s: %s\nwant %s", m.Name, got, want)
		}
	}
	if len(method.Table) != len(rulesOf) {
		t.Errorf("%d methods, %d in the table", len(method.Table), len(rulesOf))
	}
}

func rules(m *frame.Method) string {
	params, err := m.Resolve(nil)
	if err != nil {
		return err.Error()
	}
	task := &frame.Task{Method: m, Params: params, D: 2, M: 10, Columns: 10, Report: &model.Report{},
		X:     mat.NewDense(50, 10, nil),
		Rows:  &frame.Rows{N: 50, M: 10, Y: make([]int, 50), Classes: []string{"a", "b", "c", "d"}, Index: linalg.Range(50)},
		Basis: &frame.BasisScatters{N: 50, Counts: []float64{20, 15, 10, 5}, Class: []int{0, 1, 2, 3}},
		Units: &frame.Units{Mean: make([]float64, 10), Scale: make([]float64, 10)}}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	dim := 2
	if m.Dim != nil {
		dim = m.Dim(task)
	}
	bound, what := m.MaxDim(task)
	add("dim %d, at most %s", dim, fmt.Sprintf(what, bound))
	if m.MaxRows > 0 {
		add("%d rows", m.MaxRows)
	}
	if r := m.Ridge; r != nil {
		add("ridge %v", r.Grid)
		if r.Floor != nil {
			add("at least %g and %g", r.Floor(2), r.Floor(10))
		}
		if r.Without > 0 {
			add("%g without folds", r.Without)
		}
	}
	for _, p := range m.Params {
		if p.Grid != nil {
			add("%s of %v", p.Name, p.Grid)
		}
	}
	if len(m.InFolds) > 0 {
		add("in folds %v", m.InFolds)
	}
	if a := m.Auto; a != nil {
		add("auto %d", a.Rank)
		if a.OneScale {
			add("at one scale")
		}
		if a.Landmarks {
			add("with landmarks")
		}
		if a.Tried != nil {
			tried := ""
			for _, classes := range []int{2, 4} {
				for d := 1; d <= 3; d++ {
					for _, few := range []bool{false, true} {
						if a.Tried(d, classes, few) {
							tried += fmt.Sprintf(" %d/%d/%v", d, classes, few)
						}
					}
				}
			}
			add("tried at%s", tried)
		}
		if a.Fixed != nil {
			add("fixed %v", a.Fixed)
		}
		if a.Settings != nil {
			add("settings %v", a.Settings)
		}
	}
	return strings.Join(out, "; ")
}
