package plugin

import (
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// TestKnownFollowsTheReferences: a view knows new references and forgets those that left, judges no rows where there
// are none, and allocates little where nothing changed.
func TestKnownFollowsTheReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	row := func(seq uint64) *window.Row {
		label, shift := "a", 0.0
		if seq%2 == 1 {
			label, shift = "b", 5
		}
		x := []float64{r.NormFloat64() + shift, r.NormFloat64(), r.NormFloat64()}
		return &window.Row{Position: window.Position{Seq: seq}, Label: label, X: x}
	}
	refs, d := newReferences(), &model.Data{M: 3, Classes: []string{"a", "b"}}
	for seq := range uint64(100) {
		next := row(seq)
		refs.add(next)
		d.X, d.Y, d.N = append(d.X, next.X...), append(d.Y, int(seq%2)), d.N+1
	}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	v := newView(m)
	if out := v.judge(t.Context(), refs, nil, nil, true); len(out.right) != 0 || len(out.means) != 0 {
		t.Errorf("%d verdicts on no rows", len(out.right))
	}
	if k := v.refer(t.Context(), refs); len(k.rows) != 100 || len(k.y) != 100 || len(k.labels) != 2 || k.count[0] != 50 {
		t.Fatalf("%d references of 100 are known, %d classes", len(k.rows), len(k.labels))
	}
	asked := []window.Row{*row(200), *row(201)}
	x := append(append([]float64{}, asked[0].X...), asked[1].X...)
	if out := v.judge(t.Context(), refs, asked, x, true); out.right[0]+out.right[1] != 2 || out.means[0]+out.means[1] != 2 {
		t.Errorf("%+v on rows in the midst of their classes", out)
	}
	refs.cut(window.Position{Seq: 40})
	refs.add(row(300))
	if k := v.refer(t.Context(), refs); len(k.rows) != 61 || k.rows[60].Seq != 300 || k.count[1] != 30 {
		t.Errorf("%d references of 61 are known after a cut", len(k.rows))
	}
	if n := testing.AllocsPerRun(10, func() { v.refer(t.Context(), refs) }); n > 0 {
		t.Errorf("%g allocations where no reference has changed", n)
	}
}
