package stage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin/spec"
)

// corners makes n rows of classes from to to-1, in runs of a length. Classes differ in all of 24 features.
func corners(r *rand.Rand, n, from, to, run int) []row {
	rows := make([]row, n)
	for i := range rows {
		class := from + i/run%(to-from)
		if run == 1 {
			class = from + r.IntN(to-from)
		}
		corner := rand.New(rand.NewPCG(1, uint64(class)))
		x := make([]float32, 24)
		for j := range x {
			x[j] = float32(2*corner.NormFloat64() + r.NormFloat64())
		}
		rows[i] = row{x, fmt.Sprintf("c%02d", class)}
	}
	return rows
}

// neighbours is the share of rows whose nearest of as many others in the outputs of a model has their class.
func neighbours(t *testing.T, m *model.Model, rows []row) float64 {
	t.Helper()
	half := len(rows) / 2
	correct, err := score.Correct(t.Context(), m, dataOf(rows[:half]), dataOf(rows[half:]), 1)
	if err != nil {
		t.Fatal(err)
	}
	return float64(correct) / float64(len(rows)-half)
}

// TestRoomForClasses: the first model of a stream has room for the classes that appear later, and outputs without a
// direction cost nothing.
func TestRoomForClasses(t *testing.T) {
	for _, method := range []string{"lda", "pairacc", fit.Auto} {
		if method == fit.Auto && !testsize.Long() {
			continue // its fits take ten times as long as those of the others
		}
		t.Run(method, func(t *testing.T) {
			s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: method} })
			r := rand.New(rand.NewPCG(91, 92))
			seq, rows := uint64(1), 0
			for known := 2; known <= 14; known += 2 {
				learnRows(t, s, seq, corners(r, 300, 0, known, 1))
				seq, rows = seq+300, rows+300
			}
			l := s.Live()
			if l == nil || l.Model.Dim() != 20 {
				t.Fatalf("live is %+v: %s", l, s.Status().Note)
			}
			fresh := corners(r, 800, 0, 14, 1)
			of, err := fit.Fit(t.Context(), dataOf(corners(r, 2000, 0, 14, 1)), fit.Config{Method: "lda"})
			if err != nil {
				t.Fatal(err)
			}
			if have, want := neighbours(t, l.Model, fresh), neighbours(t, of, fresh); !(have >= want-0.03) {
				t.Errorf("after %d rows %.3f of the neighbours are right, with lda of all classes %.3f: %s", rows, have,
					want, s.Status().Note)
			}
		})
	}
}

// TestRoomInRuns: a stream whose labels come in runs has as many outputs as the same rows in any order.
func TestRoomInRuns(t *testing.T) {
	for _, run := range []int{1, 1000} {
		s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: "lda"} })
		r := rand.New(rand.NewPCG(93, 94))
		learnRows(t, s, 1, corners(r, 3000, 0, 10, run))
		if l := s.Live(); l == nil || l.Model.Dim() != 20 {
			t.Errorf("runs of %d: live is %+v: %s", run, l, s.Status().Note)
		}
	}
}

// TestZeroOutputs: outputs without a direction are zero for every row, also after a later model was aligned.
func TestZeroOutputs(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: "lda"}; c.Training.Every.Rows = 100 })
	r := rand.New(rand.NewPCG(95, 96))
	learnRows(t, s, 1, corners(r, 300, 0, 4, 1))
	first := s.Live()
	learnRows(t, s, 400, corners(r, 4000, 0, 4, 1))
	for _, m := range []*model.Model{first.Model, s.Live().Model} {
		y := project(t, m, dataOf(corners(r, 50, 0, 4, 1)))
		for i, v := range y {
			if i%20 >= 3 && v != 0 {
				t.Fatalf("output %d of row %d is %g", i%20, i/20, v)
			}
		}
	}
	if s.Live() == first {
		t.Errorf("no second model: %s", s.Status().Note)
	}
}
