package fit_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/score"
)

// TestAutoOfCopies: where rows come four times each, auto is better on fresh rows if it knows which belong together. In
// its folds a copy would answer for its row, so it would choose what fits rows best, not classes.
func TestAutoOfCopies(t *testing.T) {
	const rows, features, classes, copies = 200, 40, 8, 4
	random := rand.New(rand.NewPCG(5, 6))
	means := make([]float64, classes*features)
	for i := range means[:classes*6] {
		means[i/6*features+i%6] = 1.2 * random.NormFloat64()
	}
	draw := func(n, copies int) *model.Data {
		d := &model.Data{M: features, N: n * copies, Classes: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}
		for i := range n {
			c, x := i%classes, make([]float64, features)
			for j := range x {
				x[j] = means[c*features+j] + random.NormFloat64()
			}
			for range copies {
				d.X, d.Y = append(d.X, x...), append(d.Y, c)
			}
		}
		return d
	}
	const runs = 1
	right, alone := 0.0, 0.0
	for range runs {
		train, fresh, test := draw(rows, copies), draw(300, 1), draw(600, 1)
		accuracy := func() float64 {
			m, err := fit.Fit(t.Context(), train, fit.Config{Method: fit.Auto, Dim: 10, Scale: model.ScaleStandard, Blend: 1})
			if err != nil {
				t.Fatal(err)
			}
			n, err := score.Correct(t.Context(), m, fresh, test, 1)
			if err != nil {
				t.Fatal(err)
			}
			return float64(n) / float64(test.N)
		}
		alone += accuracy()
		for i := range train.N {
			train.Groups = append(train.Groups, i/copies)
		}
		right += accuracy()
	}
	if !(right >= alone+0.03*runs) {
		t.Errorf("accuracy %.3f with groups, %.3f without", right/runs, alone/runs)
	}
	d := draw(8, 1)
	d.Groups = []int{1, 2}
	if _, err := fit.Fit(t.Context(), d, fit.Config{Method: "lda", Dim: 2}); err == nil {
		t.Error("two groups for eight rows")
	}
}

// TestFewerGroupsThanFolds: of two groups one fold in three has no row to score.
func TestFewerGroupsThanFolds(t *testing.T) {
	d := fixture.Synthetic(3, 60, 5, 2)
	for i := range d.N {
		d.Groups = append(d.Groups, 2*i/d.N)
	}
	for _, c := range []fit.Config{
		{Method: fit.Auto, Dim: 2},
		{Method: fit.Auto, Dim: fit.AutoDim},
		{Method: fit.Auto, Dim: 2, Blend: 1},
		{Method: "lda", Dim: 1},
		{Method: "ksmpa", Dim: 2},
		{Method: "lsdr", Dim: 2, Params: map[string]string{"starts": "1", "iters": "5"}},
	} {
		m, err := fit.Fit(t.Context(), d, c)
		if err != nil {
			t.Errorf("%s at %d: %v", c.Method, c.Dim, err)
			continue
		}
		if choice := m.Report().Choice; c.Method == fit.Auto && (choice == nil || choice.Rule != "cv") {
			t.Errorf("%s at %d: the choice is %+v", c.Method, c.Dim, choice)
		}
	}
}

// TestNotesNameGroups: where rows of one group cannot be held out, the notes and the choice name groups.
func TestNotesNameGroups(t *testing.T) {
	d := fixture.Synthetic(3, 60, 5, 3)
	d.Groups = make([]int, d.N)
	for _, method := range []string{"lda", "dla", fit.Auto} {
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: method, Dim: 2})
		if err != nil {
			t.Fatal(err)
		}
		said := m.Report().Notes
		if choice := m.Report().Choice; choice != nil {
			said = []string{choice.Rule}
		}
		if all := strings.Join(said, "; "); !strings.Contains(all, "3 rows, in 2 groups, that cross-validation needs") {
			t.Errorf("%s: %q", method, all)
		}
	}
}
