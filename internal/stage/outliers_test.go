package stage

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin/spec"
)

// TestHeavyTailedStreams: a stage learns streams with heavy tails, or with a few values of a million, as well as clean
// ones, sets at most one row in a hundred aside, and no more than one in twenty of a class.
func TestHeavyTailedStreams(t *testing.T) {
	const n = 3000
	pareto := func(w *world) float64 { // its tails are those of Student's distribution with 1.5 degrees of freedom
		return []float64{1, -1}[w.IntN(2)] * (math.Pow(w.Float64(), -1/1.5) - 1)
	}
	for name, c := range map[string]struct {
		draw  func(w *world, i int, x []float64)
		least float64 // accuracy
	}{
		"a million in any feature": {func(w *world, i int, x []float64) {
			if i%100 == 7 {
				x[w.IntN(len(x))] = 1e6
			}
		}, 0.75},
		"a million in one feature": {func(w *world, i int, x []float64) {
			if i%100 == 7 {
				x[3] = 1e6
			}
		}, 0.75},
		"in another unit": {func(w *world, i int, x []float64) {
			if i%50 == 7 {
				for j := range x {
					x[j] *= 1e6
				}
			}
		}, 0.75},
		"log-normal features": {func(w *world, i int, x []float64) {
			for j := range x {
				x[j] += math.Exp(2*w.NormFloat64()) / 8
			}
		}, 0.6},
		"tails as of Student's distribution with 1.5 degrees of freedom": {func(w *world, i int, x []float64) {
			for j := range x {
				x[j] += pareto(w) / 4
			}
		}, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(c *spec.Config) {
				c.Fit.Dim, c.Training = 7, spec.Training{}
				c.Spec = arrowio.Spec{Features: []string{"x"}, Label: "label"}
			})
			w := newWorld(5)
			w.Rand = rand.New(rand.NewPCG(5, 9))
			for at := 0; at < n; at += 100 {
				rows := make([]row64, 100)
				for i := range rows {
					rows[i] = w.row()
					c.draw(w, i, rows[i].x)
				}
				rec := record64(rows)
				m, err := s.FromRecord(rec)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Learn(m, spec.Position{Seq: uint64(at/100 + 1), Time: time.Unix(int64(at), 0)}); err != nil {
					t.Fatal(err)
				}
				waitIdle(t, s)
				rec.Release()
			}
			st := s.Status()
			right := accuracyOf(t, s.Live().Model, newWorld(5))
			t.Logf("%.1f%% right; %d of %d rows set aside, %d limited; %+v", 100*right, st.Outliers, st.Rows, st.LimitedRows,
				st.OutlierClasses)
			if right < c.least || st.Outliers > st.Rows/100 || st.Alarms > 0 {
				t.Errorf("%.1f%% right; %d of %d rows set aside, %d alarms", 100*right, st.Outliers, st.Rows, st.Alarms)
			}
			for _, of := range st.OutlierClasses {
				if of.SetAside > of.Rows/20 {
					t.Errorf("%+v", of)
				}
			}
		})
	}
}
