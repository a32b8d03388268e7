package trainer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
)

// TestRowsAreMeasured: when the whole window is fitted, the dependence of its newest rows is measured, and checkpoints
// have it.
func TestRowsAreMeasured(t *testing.T) {
	for copies, c := range map[int]struct{ from, to float64 }{1: {1, 1.5}, 20: {10, 30}} {
		l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
		r := rand.New(rand.NewPCG(3, 4))
		class, x := 0, []float64(nil)
		for seq := uint64(1); seq <= 50; seq++ {
			e := &Event{}
			for row := range 20 {
				if row%copies == 0 {
					class = r.IntN(2)
					x = []float64{9*float64(class) + r.NormFloat64(), r.NormFloat64()}
				}
				e.Rows = append(e.Rows, window.Row{Position: window.Position{Seq: seq, Row: row}, MessageRows: 20,
					Label: []string{"in", "out"}[class], Time: int64(seq) * 1e9, X: slices.Clone(x)})
			}
			l.Learn(t.Context(), e)
		}
		if live() == nil {
			t.Fatal("no first model")
		}
		got := l.drift.Blocks.Rows
		if !(c.from <= got.Effect && got.Effect <= c.to) {
			t.Errorf("%d copies of each row have a design effect of %g, want %g to %g", copies, got.Effect, c.from, c.to)
		}
		s, err := readCheckpoint(l.state())
		if err != nil || s.Drift.Blocks.Rows != got {
			t.Errorf("the checkpoint has %+v, want %+v: %v", s.Drift.Blocks.Rows, got, err)
		}
	}
}
