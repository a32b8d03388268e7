package manifold

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/similarity"
)

// TestDefaultsOfASimilarity: weights and width are relative to the rows, unless they are given.
func TestDefaultsOfASimilarity(t *testing.T) {
	g := mat.NewDense(2, 2, []float64{3, 9, 9, 5}) // the mean squared length is 4
	params := map[string]string{"alpha": "auto", "beta": "auto", "sigma": "auto", "iters": "7", "tol": "0.5",
		"start": "sum"}
	task := &frame.Task{Params: params, Report: &model.Report{}}
	if r := balance(task, g); r.Alpha != 32 || r.Beta != 0.4 || r.Steps != 7 || r.Tolerance != 0.5 || !r.SumToOne {
		t.Errorf("%+v", r)
	}
	squared := mat.NewDense(3, 3, []float64{0, 1, 9, 1, 0, 4, 9, 4, 0})
	if w := heatWidth(task, squared); w != 8 { // 4 times the mean of 1, 1 and 4
		t.Errorf("width %g", w)
	}
	pairs := mat.NewDense(4, 4, []float64{0, 0, 5, 5, 0, 0, 5, 5, 5, 5, 0, 0, 5, 5, 0, 0})
	if w := heatWidth(task, pairs); w != 0.1 { // each row has an equal one: 0.02 of the least largest distance
		t.Errorf("width of pairs %g", w)
	}
	params["alpha"], params["beta"], params["sigma"], params["start"] = "1", "2", "0.5", "ones"
	if r := balance(task, g); r.Alpha != 1 || r.Beta != 2 || r.SumToOne {
		t.Errorf("%+v", r)
	}
	if w := heatWidth(task, squared); w != 2 {
		t.Errorf("given width %g", w)
	}
	for value, want := range map[string]string{"3": "", "2000": "", "2": "a whole number >= 3",
		"2001":  "give at most 2000",
		"10000": "give at most 2000", "x": "a whole number >= 3"} {
		err := rowsCheck(value)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s rows: %v, want %q", value, err, want)
		}
	}
	params["rows"] = "9"
	for n, want := range map[int]int{5: 4, 9: 8, 50: 8} {
		task.Rows = &frame.Rows{N: n}
		if got, _ := learnedBound(task); got != want {
			t.Errorf("%d rows: at most %d outputs, want %d", n, got, want)
		}
	}
}

// TestNotesOfALearning: the report notes the values that were chosen, and what to do if the search did not converge.
func TestNotesOfALearning(t *testing.T) {
	l := &learnedSimilarity{Learned: &similarity.Learned{Start: 9, End: 3, Zero: 5, Steps: 4, Gradient: 0.5},
		rule: similarity.Rule{Alpha: 1, Beta: 2, Steps: 8}, rate: 0.25, sigma: 0.75}
	if s := l.search(); s.Start != 9 || s.End != 3 || s.Gradient != 0.5 || s.Steps != 4 || s.Limit != 8 || s.Converged {
		t.Errorf("%+v", s)
	}
	if u := l.used(); u["alpha"] != 1 || u["beta"] != 2 || u["sigma"] != 0.75 {
		t.Errorf("%v", u)
	}
	chosen := "similarity: alpha 1, beta 2, heat exp(-0.25 d^2)"
	for _, c := range []struct {
		auto, start string
		end         float64
		converged   bool
		want        []string
	}{
		{"1", "sum", 3, true, nil},
		{"auto", "sum", 3, true, []string{chosen}},
		{"1", "sum", 3, false, []string{"the similarity is not the optimum: J is 3; give more iters"}},
		{"1", "ones", 6, false, []string{"the similarity is not the optimum: J is 6; without any similarity it is 5; " +
			"use start=sum, or give more iters"}},
	} {
		for _, name := range []string{"alpha", "beta", "sigma"} {
			task := &frame.Task{Params: map[string]string{name: c.auto, "start": c.start}, Report: &model.Report{}}
			l.End, l.Converged = c.end, c.converged
			if searched(task, l) != l || !slices.Equal(task.Report.Notes, c.want) {
				t.Errorf("%s=%s: %q, want %q", name, c.auto, task.Report.Notes, c.want)
			}
		}
	}
}

// TestGraphOfASimilarity: entries up to 1e-6 of the largest are not edges, and a similarity of zero has no graph.
func TestGraphOfASimilarity(t *testing.T) {
	task := &frame.Task{X: mat.NewDense(3, 1, []float64{0, 1, 2}), Report: &model.Report{}}
	of := func(small float64) *learnedSimilarity {
		return &learnedSimilarity{Learned: &similarity.Learned{W: mat.NewDense(3, 3,
			[]float64{0, 4, small, 4, 0, 4, small, 4, 0})}}
	}
	for small, edges := range map[float64]int{3.9e-6: 4, 4.1e-6: 6} {
		if got := learnedGraph(t.Context(), task, of(small)).Stored(); got != edges {
			t.Errorf("a weight of %g: %d entries, want %d", small, got, edges)
		}
	}
	pairs := mat.NewDense(4, 4, []float64{0, 4, 0, 0, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 4, 0})
	apart := &frame.Task{X: mat.NewDense(4, 1, []float64{0, 1, 3, 4}), Report: &model.Report{}}
	learnedGraph(t.Context(), apart, &learnedSimilarity{Learned: &similarity.Learned{W: pairs}})
	if notes := apart.Report.Notes; len(notes) != 1 || !strings.HasPrefix(notes[0],
		"the neighbourhood graph had 2 compo") {
		t.Errorf("two pairs: %q", notes)
	}
	err := func() (err error) {
		defer fail.Catch(&err)
		learnedGraph(t.Context(), task, &learnedSimilarity{Learned: &similarity.Learned{W: mat.NewDense(2, 2, nil)}})
		return nil
	}()
	if err == nil || err.Error() != "all similarities became 0; give a smaller beta, or scale the features" {
		t.Error(err)
	}
	v := []float64{1, 2, 6}
	if centreVector(v); !slices.Equal(v, []float64{-2, -1, 3}) {
		t.Errorf("centred: %v", v)
	}
	f := mat.NewDense(4, 2, []float64{3, 1, 9, 1, 1, 2, 5, 8})
	if subtractMedians(f); !mat.Equal(f, mat.NewDense(4, 2, []float64{-2, -1, 4, -1, -4, 0, 0, 6})) {
		t.Errorf("about the median: %v", mat.Formatted(f))
	}
	if !(math.Abs(mat.Sum(f.ColView(0))+2) <= 1e-15) {
		t.Error("the columns are others")
	}
}
