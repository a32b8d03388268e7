package frame

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// TestScales: the divisor of a feature for each scale, and the variance up to which it counts as constant.
func TestScales(t *testing.T) {
	p := &Rows{N: 4, M: 2, X: []float64{1, 5, 3, 5, 5, 5, 7, 5}}
	for scale, want := range map[model.Scale][]float64{
		model.ScaleStandard: {math.Sqrt(5), 1}, model.ScaleAuto: {math.Sqrt(5), 1}, "": {math.Sqrt(5), 1},
		model.ScaleMinMax: {6, 1}, model.ScaleNone: {1, 1}, model.ScaleUnit: {1, 1},
	} {
		task := &Task{Scaling: scale}
		got, constant, low := task.Scales([]float64{4, 5}, []float64{5, 0}, 4, p)
		if !slices.Equal(got, want) || !slices.Equal(constant, []bool{false, true}) {
			t.Errorf("%s: %v, constant %v", scale, got, constant)
		}
		if scale == model.ScaleMinMax && !slices.Equal(low, []float64{1, 5}) {
			t.Errorf("least values %v", low)
		}
	}
	// The rounding error of a mean of 1,024 in 1,024 rows is 2^20/2^52; its square is a variance of 2^-64.
	mean := []float64{1024, 1024, 0}
	_, constant, _ := new(Task).Scales(mean, []float64{1.001 * 0x1p-64, 0.999 * 0x1p-64, 1e-300}, 1024, p)
	if !slices.Equal(constant, []bool{false, true, false}) {
		t.Errorf("constant: %v", constant)
	}
}

// given is a linear method with two parameters whose first outputs are the first columns.
func given() *Method {
	return &Method{Name: "given", Supervised: true, Map: "linear", Streaming: "moments",
		Fit: func(_ context.Context, t *Task) *Solution {
			a := mat.NewDense(t.M, t.D, nil)
			for c := range t.D {
				a.Set(c, c, 1)
			}
			return t.InBasis(a, make([]float64, t.D), t.D)
		}}
}

// TestNotesOfARun: constant features, classes of one row and a default dimension that is clamped are noted.
func TestNotesOfARun(t *testing.T) {
	d := &model.Data{N: 7, M: 3, X: []float64{0, 1, 5, 1, 3, 5, 2, 2, 5, 3, 7, 5, 4, 1, 5, 5, 0, 5, 6, 4, 5},
		Y: []int{0, 0, 0, 1, 1, 1, 2}, Classes: []string{"a", "b", "c"}}
	run := func(change func(*Task)) (*model.Model, *Task, error) {
		task := &Task{Method: given(), Report: &model.Report{}}
		change(task)
		rows, err := Prepare(t.Context(), d, true, false, task.Report)
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Load(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		m, err := task.Run(t.Context(), nil, d.Classes)
		return m, task, err
	}
	m, task, err := run(func(*Task) {})
	if err != nil || m.Dim() != 2 {
		t.Fatal(err)
	}
	notes := []string{"1 of 3 features are constant and have no effect",
		"1 of 3 classes have one row: only their mean is used"}
	if r := task.Report; !slices.Equal(r.Notes, notes) || r.Constant != 1 || r.Rank != 2 || r.Rows != 7 {
		t.Errorf("%+v", r)
	}
	clamped := "the default dim 5 was clamped to rank 2 of the total scatter; n=7, m=3"
	five := func(task *Task) { task.Method.Dim = func(*Task) int { return 5 } }
	if m, task, err := run(five); err != nil || m.Dim() != 2 || !slices.Contains(task.Report.Notes, clamped) {
		t.Errorf("%v, %q", err, task.Report.Notes)
	}
	if m, _, err := run(func(task *Task) { task.MaxDim = 1 }); err != nil || m.Dim() != 1 {
		t.Errorf("a bound of 1: %v", err)
	}
	var bound *model.DimError
	if _, _, err := run(func(task *Task) { task.D = 3 }); !errors.As(err, &bound) || bound.Asked != 3 || bound.Max != 2 {
		t.Errorf("3 of 2 dimensions: %v", err)
	}
	zeros := "2 of 3 outputs have a direction; the others are zero"
	m, task, err = run(func(task *Task) { task.D, task.Outputs = 3, 3 })
	if err != nil || m.Dim() != 3 || !slices.Contains(task.Report.Notes, zeros) {
		t.Errorf("3 outputs: %v, %+v", err, task.Report)
	}
	// Outputs are float32: what varies by more than 1e34, or by less than its reciprocal, is refused.
	for size, refused := range map[float64]bool{0.5e34: false, 2e34: true, 2e-34: false, 0.2e-34: true} {
		_, _, err := run(func(task *Task) {
			own := task.Method.Fit
			task.Method.Fit = func(ctx context.Context, t *Task) *Solution {
				sol := own(ctx, t)
				for i := range sol.Components {
					sol.Components[i] *= size
				}
				return sol
			}
		})
		if refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "which float32 cannot represent") {
			t.Errorf("outputs of %g: %v", size, err)
		}
	}
}

// TestNotesOfNeighbours: what was clamped, added or connected is noted with its figures.
func TestNotesOfNeighbours(t *testing.T) {
	x := mat.NewDense(6, 1, []float64{0, 1, 2, 20, 21, 22})
	task := &Task{X: x, M: 1, Params: map[string]string{"k": "9", "s": "2", "o": "5", "t": "auto"},
		Report: &model.Report{},
		Rows:   &Rows{N: 6, M: 1, Y: []int{0, 0, 0, 1, 1, 2}},
		Basis:  &BasisScatters{N: 6, Counts: []float64{3, 2, 1}, Class: []int{0, 1, 2}}}
	phases := map[string]float64{}
	task.Progress = func(phase string, done float64) { phases[phase] = done }
	lists := Nearest(t.Context(), task, "k")
	own, others := NearestByClass(t.Context(), task, "s", "o")
	if i, _ := lists.Row(0); len(i) != 5 {
		t.Errorf("%d neighbours", len(i))
	}
	if i, _ := own.Row(3); !slices.Equal(i, []int{4}) {
		t.Errorf("neighbours %v in a class of two", i)
	}
	if i, _ := others.Row(0); !slices.Equal(i, []int{3, 4, 5}) {
		t.Errorf("neighbours %v in other classes", i)
	}
	task.Params["k"] = "1"
	joined, k := Joined(t.Context(), task, graph.Connect)
	if i, _ := joined.Row(2); k != 1 || !slices.Contains(i, 3) {
		t.Errorf("k = %d, row 2 is joined with %v", k, i)
	}
	NoteEdges(task, nil)
	NoteFewRows(task, "q", 1, func(rows int) int { return rows })
	want := []string{
		"k=9 was clamped to 5: there are no more rows",
		"s=2 was clamped in 2 of 3 classes, down to 0: there are no more rows",
		"o=5 was clamped in 2 of 3 classes, down to 3: there are no more rows",
		"the neighbourhood graph had 2 components; the 1 shortest edges that connect them were added, of length up to 18"}
	if !slices.Equal(task.Report.Notes, want) {
		t.Errorf("notes %q", task.Report.Notes)
	}
	if done, ok := phases["neighbours"]; !ok || done != 0 {
		t.Errorf("progress %v", phases)
	}
	for value, width := range map[string]float64{"inf": math.Inf(1), "auto": 1, "2.5": 2.5} {
		task.Params["t"] = value
		if got := HeatWidth(task, lists); got != width {
			t.Errorf("a width of %s is %g", value, got)
		}
	}
}

// TestScaleOfNearCopies: a scale is at least a thousandth of the median of its class.
func TestScaleOfNearCopies(t *testing.T) {
	task := &Task{X: mat.NewDense(5, 1, []float64{0, 1e-9, 10, 20, 30}), M: 1}
	scale := []float64{0, 0, 0, 0, 0}
	scaleCopies(t.Context(), task, scale, []int{0, 1, 2, 3, 4}, 1)
	for i, want := range []float64{0.01, 0.01, 10, 10, 10} {
		if !(math.Abs(scale[i]-want) <= 1e-7) {
			t.Errorf("row %d: %g, want %g", i, scale[i], want)
		}
	}
}

// TestCapped: if there are too many rows, evenly spaced ones are used, of each class if there are classes. The report
// has a note of it.
func TestCapped(t *testing.T) {
	d := &model.Data{N: 6, M: 1, X: []float64{0, 1, 2, 3, 4, 5}}
	p := &Rows{N: 6, M: 1, X: d.X, Data: d, Index: linalg.Range(6)}
	task := &Task{Rows: p, X: mat.NewDense(6, 1, d.X), Report: &model.Report{}}
	if task.Capped(6) != task || len(task.Report.Notes) != 0 {
		t.Error("6 of 6 rows are a choice")
	}
	if c := task.Capped(3); !slices.Equal(c.Rows.Index, []int{0, 2, 4}) || c.X.At(2, 0) != 4 {
		t.Errorf("3 of 6 rows: %v", c.Rows.Index)
	}
	p.Y, p.Classes = []int{0, 1, 1, 1, 1, 0}, []string{"a", "b"}
	if c := task.Capped(3); !slices.Equal(c.Rows.Index, []int{0, 1, 3}) {
		t.Errorf("3 of 6 rows of two classes: %v", c.Rows.Index)
	}
	if note := "3 of 6 rows were used, evenly spaced: the cost grows too fast with the rows"; !slices.Contains(
		task.Report.Notes, note) {
		t.Errorf("notes %q", task.Report.Notes)
	}
}

// TestSolutionsReportTheirParameters: a number that was given stays as it was written, and a solution that leaves a
// word where a value was used cannot become a model.
func TestSolutionsReportTheirParameters(t *testing.T) {
	sol := &Solution{params: map[string]string{"a": "1e0", "b": "auto", "c": "2"}}
	sol.Use("a", 1).Use("b", math.Inf(1)).Use("c", 0.5)
	if p := sol.params; p["a"] != "1e0" || p["b"] != "inf" || p["c"] != "0.5" {
		t.Errorf("%v", p)
	}
	m := &Method{Params: []Param{{Name: "k"}, {Name: "ridge"}}}
	for _, c := range []struct {
		params      map[string]string
		convergence model.Convergence
		want        string
	}{
		{map[string]string{"k": "1", "ridge": "0"}, model.Direct, ""},
		{map[string]string{"k": "oas", "ridge": "0"}, model.Direct, ""},
		{map[string]string{"k": "1", "ridge": "0"}, "", "does not report its convergence"},
		{map[string]string{"ridge": "0"}, model.Direct, "does not report parameter k"},
		{map[string]string{"k": "auto", "ridge": "0"}, model.Direct, "reports parameter k as auto"},
		{map[string]string{"k": "1", "ridge": "oas"}, model.Direct, "reports parameter ridge as oas"},
	} {
		err := (&Solution{params: c.params, convergence: c.convergence}).check(m)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.params, err)
		}
	}
	if s := (&Solution{convergence: model.Direct}); !s.IsConverged() ||
		!s.Searched(&model.Search{Converged: true}).IsConverged() || s.convergence != model.Converged ||
		s.Searched(&model.Search{}).IsConverged() {
		t.Errorf("convergence %s", s.convergence)
	}
}

// TestSearchThatStopped is noted with the criterion before and after it.
func TestSearchThatStopped(t *testing.T) {
	task := &Task{Report: &model.Report{}}
	noteStopped(task, &Solution{})
	noteStopped(task, &Solution{search: &model.Search{Converged: true}})
	noteStopped(task, &Solution{search: &model.Search{Limit: 7, Start: 2, End: 3, Gradient: 0.5}})
	if want := "the search stopped before it converged, after at most 7 steps from a start: the criterion was 2, and is " +
		"3 with a gradient of norm 0.5"; !slices.Equal(task.Report.Notes, []string{want}) {
		t.Errorf("notes %q", task.Report.Notes)
	}
}

// TestTangentSpacesThatExplainAll: the error has the largest dimension that leaves something unexplained.
func TestTangentSpacesThatExplainAll(t *testing.T) {
	task := &Task{D: 4, Basis: &BasisScatters{N: 9}, Units: &Units{Mean: make([]float64, 5)}}
	upTo := func(most int) error {
		return FlatError(task, func(t *Task) (*mat.SymDense, bool) { return nil, t.D > most })
	}
	var bound *model.DimError
	if err := upTo(2); !errors.As(err, &bound) || bound.Asked != 4 || bound.Max != 2 ||
		!strings.HasPrefix(bound.What, "2: tangent spaces of more dimensions") {
		t.Error(err)
	}
	if err := upTo(1); !errors.As(err, &bound) || bound.Max != 1 {
		t.Error(err)
	}
	if err := upTo(0); errors.As(err, &bound) || !strings.Contains(err.Error(), "(n=9, m=5): the rows are on lines") {
		t.Error(err)
	}
}

// TestSumsOfClasses: S_w is S_t - S_b, and rounding errors of it count as 0.
func TestSumsOfClasses(t *testing.T) {
	s := &BasisScatters{N: 10, Counts: []float64{4, 6}, Means: mat.NewDense(2, 2, []float64{3, 0, -2, 0}),
		Total: mat.NewSymDense(2, []float64{6, 0, 0, 1})}
	if err := func() (err error) {
		defer fail.Catch(&err)
		s.withinFromTotal(t.Context())
		return nil
	}(); err != nil {
		t.Fatal(err)
	}
	// S_b is (4*9 + 6*4)/10 = 6 in the first direction: what is left of 6 is rounding error, and counts as 0.
	if w := s.Within; w.At(0, 0) != 0 || w.At(0, 1) != 0 || !(math.Abs(w.At(1, 1)-1) <= 1e-15) {
		t.Errorf("S_w is %v", mat.Formatted(w))
	}
	if g := s.BetweenFactor(); !(math.Abs(g.At(0, 0)-3*math.Sqrt(0.4)) <= 1e-15) ||
		!(math.Abs(g.At(0, 1)+2*math.Sqrt(0.6)) <= 1e-15) {
		t.Errorf("the factor of S_b is %v", mat.Formatted(g))
	}
}
