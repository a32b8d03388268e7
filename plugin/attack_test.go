package plugin

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestOneRowStopsNothing: a class of one row with a far feature, among rows that are learned: later fits go on, and the
// status says which row it was.
func TestOneRowStopsNothing(t *testing.T) {
	for _, far := range []float32{1e4, 1e6, 1e9, 1e19, 3e38} {
		for _, class := range []string{"once", "c0"} {
			t.Run(fmt.Sprint(far, " ", class), func(t *testing.T) {
				failed := 0
				s := newStage(t, func(c *Config) {
					c.Observe = func(o Outcome) {
						if o.Err != nil {
							failed++
						}
					}
				})
				r := rand.New(rand.NewPCG(71, 72))
				rows := clouds(r, 1500, 3)
				for i := 7; i < 700; i += 70 { // more than one, since a fifth is held out
					rows[i].x, rows[i].class = append([]float32{far}, rows[i].x[1:]...), class
					if class == "once" {
						rows[i].class += fmt.Sprint(i)
					}
				}
				teach(t, s, 1, rows)
				st := s.Status()
				if failed > 0 || st.Accuracy < 0.99 {
					t.Errorf("%d fits failed, accuracy %.3f: %+v", failed, st.Accuracy, st)
				}
				if want := fmt.Sprintf("of in.a: feature x[0] is %.4g, and nine in ten rows are within", far); st.Far != 10 ||
					!strings.Contains(st.FarRow, want) || !strings.Contains(st.FarRow, "10 rows were set aside") {
					t.Errorf("the status says %q of %d rows, not %q", st.FarRow, st.Far, want)
				}
			})
		}
	}
}

// TestJunkLabels: labels that mean nothing, of one to three rows each, before and among the classes, keep no class out.
func TestJunkLabels(t *testing.T) {
	for _, each := range []int{1, 2, 3} {
		for _, labels := range []int{1000, 10000} {
			for _, when := range []string{"before", "among"} {
				if labels > 1000 && (each == 2 || when == "among") {
					continue
				}
				t.Run(fmt.Sprint(labels, " of ", each, " rows ", when), func(t *testing.T) {
					s := newStage(t, func(c *Config) { c.Training.Window.Rows = 2000; c.Fit.Dim = 0 })
					r := rand.New(rand.NewPCG(73, 74))
					real := clouds(r, 3000, 3)
					junk := clouds(r, labels*each, 3)
					for i := range junk {
						junk[i].class = fmt.Sprint("junk", i/each)
					}
					var rows []row
					if when == "before" {
						rows = append(junk, real...)
					} else {
						for i := range max(len(junk), len(real)) {
							if i < len(junk) {
								rows = append(rows, junk[i])
							}
							rows = append(rows, real[i%len(real)])
						}
					}
					teach(t, s, 1, rows)
					st := s.Status()
					if st.Live == nil {
						t.Fatalf("no model: %+v", st)
					}
					if n := len(st.Live.Model.Classes()); n != 3 || st.Live.Model.Dim() != 2 || st.Largest < 300 {
						t.Errorf("%d classes, %d outputs, largest %d", n, st.Live.Model.Dim(), st.Largest)
					}
				})
			}
		}
	}
}
