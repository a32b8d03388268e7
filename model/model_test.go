package model

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// The results of accessors are copies: writing to them changes no model.
func TestModelImmutable(t *testing.T) {
	m := fileModels(t)[0]
	want := fileOf(t, m)
	for _, s := range [][]string{m.Features(), m.Classes()} {
		s[0] = "changed"
	}
	for _, s := range [][]float64{m.Mean(), m.Scale(), m.Eigenvalues(), m.Components()} {
		s[0] = 42
	}
	m.Params()["ridge"] = "changed"
	m.Note().Source["stream"] = "changed"
	encoded := m.WithNote(Note{Categories: []string{"city"}, Dates: []string{"when"}})
	encoded.Note().Categories[0], encoded.Note().Dates[0] = "changed", "changed"
	if n := encoded.Note(); n.Categories[0] != "city" || n.Dates[0] != "when" {
		t.Errorf("the note of a model changed: %+v", n)
	}
	source := map[string]string{"file": "a"}
	noted := m.WithNote(Note{Created: time.Now(), Source: source})
	source["file"] = "changed"
	if noted.Note().Source["file"] != "a" || string(fileOf(t, m)) != string(want) {
		t.Error("a model changed")
	}
	if !m.Unit() || m.M() != 5 || m.Dim() != 2 || m.Rows() != 10 || m.InformativeRank() != 1 || m.Map() != "linear" ||
		m.Method() != "test" {
		t.Error("an accessor is wrong")
	}
	if v := fileModels(t)[1]; v.Components() != nil || v.Map() != "views" {
		t.Error("views have only separate components")
	}
}

// One model serves many goroutines at once, each with the same bits.
func TestModelConcurrent(t *testing.T) {
	mo := randomLinear(t, 64, 8, 1, 1)
	x, _ := rowsOf(mo, 4096)
	want := project(t, mo, rowMajor(x, 4096, 64))
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for n := 4096; n > 0; n /= 2 {
				y := make([]float32, n*8)
				if err := mo.Project(y, rowMajor(x, n, 64)); err != nil || !sameBits(y, want[:n*8]) {
					t.Errorf("goroutine %d: %d rows differ, %v", g, n, err)
				}
			}
		})
	}
	wait.Wait()
}

// TestNoModel: for nil and for the zero value, a function with an error result names the argument.
func TestNoModel(t *testing.T) {
	good, rows := fileModels(t)[0], DenseRows(make([]float64, 15), 3, 5)
	for _, m := range []*Model{nil, {}} {
		_, suspects := m.ProjectSuspects(make([]float32, 9), rows)
		_, _, candidate := Align(t.Context(), m, good, rows, AlignRigid)
		_, _, live := Align(t.Context(), good, m, rows, AlignRigid)
		_, from := FitConversion(t.Context(), m, good, rows)
		_, to := FitConversion(t.Context(), good, m, rows)
		for err, argument := range map[error]string{suspects: "the receiver", candidate: "candidate", live: "live",
			from: "from", to: "to",
			m.Project(make([]float32, 9), rows):                                     "the receiver",
			m.ProjectClasses(t.Context(), make([]float32, 9), make([]int, 3), rows): "the receiver",
			m.ScaledTo(make([]float64, 15), rows):                                   "the receiver"} {
			if err == nil || !strings.Contains(err.Error(), argument+" is no model; make one with New, Read or package fit") {
				t.Errorf("%s: %v", argument, err)
			}
		}
	}
}

// TestSubset: rows without labels have none in a subset.
func TestSubset(t *testing.T) {
	s := (&Data{N: 3, M: 1, X: []float64{1, 2, 3}}).Subset([]int{2, 0})
	if s.N != 2 || s.Y != nil || !slices.Equal(s.X, []float64{3, 1}) {
		t.Errorf("%+v", s)
	}
}

// An invalid model is an error with its cause.
func TestSealRefuses(t *testing.T) {
	for want, change := range map[string]func(m *Model){
		"no method":              func(m *Model) { m.fitted.Method = "" },
		"no features":            func(m *Model) { m.fitted.Mean = nil },
		"scales":                 func(m *Model) { m.fitted.Scale = m.fitted.Scale[1:] },
		"feature names":          func(m *Model) { m.fitted.Features = m.fitted.Features[1:] },
		"no mapping":             func(m *Model) { m.mapping = nil },
		"dimension":              func(m *Model) { m.mapping = &mapping.Linear{} },
		"negative":               func(m *Model) { m.fitted.Rows = -1 },
		"positive and finite":    func(m *Model) { m.fitted.Scale = []float64{1, 0, 1, 1, 1} },
		"mean[1] is NaN":         func(m *Model) { m.fitted.Mean = []float64{1, math.NaN(), 1, 1, 1} },
		"UTF-8":                  func(m *Model) { m.fitted.Classes = []string{"\xff"} },
		`features are named "a"`: func(m *Model) { m.fitted.Features = []string{"a", "b", "c", "d", "a"} },
		`classes are named "c"`:  func(m *Model) { m.fitted.Classes = []string{"c", "d", "c"} },
		"parameter":              func(m *Model) { m.fitted.Params = map[string]string{"a": "\xff"} },
		"5 x 2 are needed":       func(m *Model) { m.mapping = &mapping.Linear{D: 2, Components: make([]float64, 9)} },
		"as many outputs":        func(m *Model) { m.mapping = &mapping.Linear{D: 6, Components: make([]float64, 30)} },
		"components[3] is Inf": func(m *Model) {
			m.mapping = &mapping.Linear{D: 1,
				Components: []float64{0, 0, 0, math.Inf(1), 0}}
		},
	} {
		m := *fileModels(t)[0]
		change(&m)
		if _, err := m.seal(); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "+Inf", "Inf"), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for want, change := range map[string]func(v *mapping.Views){
		"offset":                   func(v *mapping.Views) { v.Offset = v.Offset[1:] },
		"components":               func(v *mapping.Views) { v.Components = v.Components[1:] },
		"window, 3":                func(v *mapping.Views) { v.Window = v.Window[1:] },
		"class index":              func(v *mapping.Views) { v.Label = []float64{0, 1, 2, 0, 1, 3} },
		"is 0.5":                   func(v *mapping.Views) { v.Label = []float64{0, 1, 2, 0, 1, 0.5} },
		"fewer than 2":             func(v *mapping.Views) { v.Label = make([]float64, 6) },
		"float32 cannot represent": func(v *mapping.Views) { v.Window = append([]float64{1e-300}, v.Window[1:]...) },
		"more output":              func(v *mapping.Views) { v.D, v.Offset = 6, make([]float64, 18) },
		"3 x 4 x 1 are n":          func(v *mapping.Views) { v.D, v.Offset = 1, make([]float64, 3) },
	} {
		m := *fileModels(t)[1]
		v := *m.mapping.(*mapping.Views)
		change(&v)
		m.mapping = &v
		if _, err := m.seal(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("views: want an error with %q, got %v", want, err)
		}
	}
}

// The norm of a row stays in float64 where the squares would not, and ignores missing values.
func TestRowNorm(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{3, 4}, 5}, {[]float64{3e200, 4e200}, 5e200}, {[]float64{3e-200, 4e-200}, 5e-200},
		{[]float64{0, 0}, 1}, {[]float64{math.NaN(), 3, math.Inf(1), 4}, 5}, {nil, 1},
	} {
		if got := linalg.RowNorm(c.x); !(math.Abs(got-c.want) <= 1e-15*c.want) {
			t.Errorf("norm of %v is %g", c.x, got)
		}
	}
}

func TestScaledTo(t *testing.T) {
	m := randomLinear(t, 3, 1, 10, 2)
	x := []float64{m.fitted.Mean[0] + m.fitted.Scale[0], math.NaN(), m.fitted.Mean[2] - 2*m.fitted.Scale[2]}
	z := make([]float64, 3)
	if err := m.ScaledTo(z, DenseRows(x, 1, 3)); err != nil {
		t.Fatal(err)
	}
	for j, want := range []float64{1, 0, -2} {
		if !(math.Abs(z[j]-want) <= 1e-14) {
			t.Errorf("feature %d is %g, want %g", j, z[j], want)
		}
	}
	if m.ScaledTo(z[:2], DenseRows(x, 1, 3)) == nil || m.ScaledTo(z, DenseRows(x, 1, 2)) == nil {
		t.Error("a short dst or too few features: no error")
	}
}

// TestNewNeedsWhatTheFitReports: a model of a new fit says how the fit ended and which values its parameters had. A
// file of version 1 does not need them.
func TestNewNeedsWhatTheFitReports(t *testing.T) {
	m := seal(t, randomLinear(t, 10, 4, 5, 2))
	for says, change := range map[string]func(*Content){
		"does not report its convergence": func(c *Content) { c.Report.Convergence = "" },
		`convergence "maybe"`:             func(c *Content) { c.Report.Convergence = "maybe" },
		"parameter width is auto":         func(c *Content) { c.Params = map[string]string{"width": "auto"} },
		"":                                func(*Content) {},
	} {
		c := m.Content()
		c.Report.Convergence = Stopped
		change(&c)
		_, err := New(c)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
	old := *m
	old.fitted.Params, old.fitted.Report.Convergence = map[string]string{"width": "auto"}, ""
	var file bytes.Buffer
	if err := Write(&file, seal(t, &old)); err != nil {
		t.Fatal(err)
	}
	if read, err := Read(&file); err != nil || read.Params()["width"] != "auto" {
		t.Errorf("a file that reports neither: %v", err)
	}
}
