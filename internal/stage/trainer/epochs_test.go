package trainer

import (
	"math"
	"testing"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// TestFairRows: models are compared by the newest rows that the new one was not fitted on: the held-out ones of its
// rows, and all newer ones. If it is not known which rows it was fitted on, only held-out ones are fair.
func TestFairRows(t *testing.T) {
	w := window.New(window.Config{Features: 1, Rows: 10_000, Classes: 10, Holdout: 0.2, Labelled: true})
	for seq := range uint64(3000) {
		w.Add(window.Row{Position: window.Position{Seq: seq}, Label: string(rune('a' + seq%3)), X: []float64{float64(seq)}})
	}
	for _, c := range []struct {
		fitted fittedRows
		n      int
		all    bool
	}{
		{fittedRows{window.Position{Seq: 500}, window.Position{Seq: 2000}}, 500, false},
		{fittedRows{window.Position{Seq: 500}, window.Position{Seq: 2000}}, 5000, true},
		{fittedRows{}, 5000, true},
	} {
		rows, all := newestFair(w, c.fitted, window.Position{}, c.n)
		heldOut := 0
		for _, r := range rows {
			if r.IsUnseen() {
				heldOut++
			} else if c.fitted.last.Seq == 0 || r.Seq <= c.fitted.last.Seq {
				t.Errorf("%+v: row %d was fitted on", c.fitted, r.Seq)
			}
			if r.Seq < c.fitted.first.Seq {
				t.Errorf("%+v: row %d is older", c.fitted, r.Seq)
			}
		}
		if n := len(rows); all != c.all || n < 400 || n > c.n+3 || heldOut < n/10 {
			t.Errorf("%+v: %d rows, %d held out, all: %t", c.fitted, n, heldOut, all)
		}
	}
}

// TestAnswers: at most two points lost, with a margin, are comparable; more, and half a point without the margin, are
// not.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		mean, err float64
		want      comparability
	}{{0.004, 0.01, comparable}, {0.006, 0.01, undecided}, {0.017, 0.002, comparable}, {0.019, 0.002, undecided},
		{0.019, 0.01, undecided}, {0.021, 0.01, different}, {0.021, 0.011, undecided}, {0.3, 0.1, different}} {
		if got := comparabilityOf(prequential.Loss{Mean: c.mean, Error: c.err}); got != c.want {
			t.Errorf("%g +- %g: answer %d, want %d", c.mean, c.err, got, c.want)
		}
	}
}

// TestDescribedLosses: a reader sees no number that is not known.
func TestDescribedLosses(t *testing.T) {
	for want, l := range map[string]prequential.Loss{
		"have no rows to be compared on":                                       {Mean: 1, Error: math.Inf(1)},
		"lose 1.2 points of accuracy on 40 rows, too few for a standard error": {Mean: 0.012, Error: math.Inf(1), Rows: 40},
		"lose 1.2 +- 0.3 points of accuracy on 40 rows":                        {Mean: 0.012, Error: 0.003, Rows: 40},
	} {
		if got := describeLoss(l); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

// TestModelsOfOtherDimensions: models of different numbers of outputs are not comparable, whatever the rows are.
func TestModelsOfOtherDimensions(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	one, err := fit.Fit(t.Context(), &model.Data{N: 3, M: 2, X: []float64{1, 2, 4, 5, 7, 9}, Features: []string{"x", "y"}},
		fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, loss, err := compareModels(t.Context(), l.data.window, one, l.live.Model, fittedRows{}, window.Position{})
	if got != different || loss != (prequential.Loss{Mean: 1}) || err != nil {
		t.Errorf("answer %d, loss %+v, %v", got, loss, err)
	}
	for want, loss := range map[string]prequential.Loss{"have no rows to be compared on": {},
		"lose 2.5 points of accuracy on 9 rows, too few for a standard error": {Mean: 0.025, Error: math.Inf(1), Rows: 9},
		"lose 2.5 +- 1.2 points of accuracy on 9 rows":                        {Mean: 0.025, Error: 0.012, Rows: 9}} {
		if got := describeLoss(loss); got != want {
			t.Errorf("%+v: %q, want %q", loss, got, want)
		}
	}
	for _, c := range []struct {
		mean, err float64
		want      comparability
	}{
		{0.0049, 0.01, comparable}, {0.0051, 0.01, undecided}, {0.02, 0, comparable}, {0.0201, 0.01, different},
		{0.0201, 0.0101, undecided}, {0.05, 0.0299, different}, {0.05, 0.0301, undecided}, {-1, 0.1, comparable},
	} {
		if got := comparabilityOf(prequential.Loss{Mean: c.mean, Error: c.err}); got != c.want {
			t.Errorf("a loss of %g +- %g: answer %d, want %d", c.mean, c.err, got, c.want)
		}
	}
}
