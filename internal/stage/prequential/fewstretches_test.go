package prequential

import (
	"testing"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// TestLossOfTwoStretches: rows of two stretches do not tell the error of a loss, which would be estimated as 0.
func TestLossOfTwoStretches(t *testing.T) {
	w := window.New(window.Config{Features: 2, Rows: 10_000, Classes: 10, Holdout: 0.2, Labelled: true})
	d := &model.Data{M: 2, Classes: []string{"a", "b", "c"}}
	var rows []*window.Row
	for seq := range uint64(200) {
		x := []float64{float64(seq%3) + float64(seq*7919%101)/80, float64(seq*7907%97) / 97}
		p := window.Position{Seq: seq + 1}
		w.Add(window.Row{Position: p, Label: d.Classes[seq%3], X: x})
		d.X, d.Y, d.N = append(d.X, x...), append(d.Y, int(seq%3)), d.N+1
		if r := w.At(p); r.IsHeldOut() {
			rows = append(rows, r)
		}
	}
	var models [2]*model.Model
	for i, method := range []string{"pca", "lda"} {
		var err error
		if models[i], err = fit.Fit(t.Context(), d, fit.Config{Method: method, Dim: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := CrossLoss(t.Context(), models[0], models[1], rows)
	if err != nil || l.Rows == 0 || !(l.Error >= 1e-3) {
		t.Errorf("loses %g +- %g on %d rows, %v", l.Mean, l.Error, l.Rows, err)
	}
}

// TestSubstitutes: the references of a class without held-out rows are its oldest fitted rows: ten of them, or fewer if
// the level allows fewer.
func TestSubstitutes(t *testing.T) {
	w := window.New(window.Config{Features: 1, Rows: 100, Classes: 9, Labelled: true, Holdout: 0.2})
	for i := range 100 {
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: []string{"a", "b"}[i%2],
			X: []float64{float64(i)}})
	}
	w.Sift()
	for level, want := range map[int]int{0: 20, 4: 8, 15: 20} {
		r := NewReferences(level)
		if r.Sync(w); r.Len() != want {
			t.Errorf("level %d: %d references, want %d", level, r.Len(), want)
		}
		for _, x := range r.All() {
			if x.IsHeldOut() || x.Seq > 60 {
				t.Errorf("row %d is a reference, held out %v", x.Seq, x.IsHeldOut())
			}
		}
	}
}
