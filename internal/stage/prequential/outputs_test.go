package prequential

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// TestOutputsFollowTheReferences: a model has outputs for new references and forgets those that left, scores no rows if
// there are none, and allocates nothing if no reference has changed.
func TestOutputsFollowTheReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	row := func(seq uint64) *window.Row {
		label, shift := "a", 0.0
		if seq%2 == 1 {
			label, shift = "b", 5
		}
		x := []float64{r.NormFloat64() + shift, r.NormFloat64(), r.NormFloat64()}
		return &window.Row{Position: window.Position{Seq: seq}, Label: label, X: x}
	}
	refs, d := NewReferences(0), &model.Data{M: 3, Classes: []string{"a", "b"}}
	for seq := range uint64(100) {
		next := row(seq)
		refs.Add(next)
		d.X, d.Y, d.N = append(d.X, next.X...), append(d.Y, int(seq%2)), d.N+1
	}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	v := New(m)
	if out := v.Score(t.Context(), refs, nil, nil, true); len(out.Right) != 0 || len(out.NearestMean) != 0 {
		t.Errorf("%d scores of no rows", len(out.Right))
	}
	if k := v.outputs(t.Context(), refs); len(k.rows) != 100 || len(k.y) != 100 || len(k.labels) != 2 || k.count[0] != 50 {
		t.Fatalf("%d references of 100 are known, %d classes", len(k.rows), len(k.labels))
	}
	asked := []window.Row{*row(200), *row(201)}
	x := append(append([]float64{}, asked[0].X...), asked[1].X...)
	if out := v.Score(t.Context(), refs, asked, x,
		true); out.Right[0]+out.Right[1] != 2 || out.NearestMean[0]+out.NearestMean[1] != 2 {
		t.Errorf("%+v on rows in the midst of their classes", out)
	}
	far := *row(202) // as one of several rows: the others have their own scores
	far.X = []float64{1e300, 1e300, 1e300}
	mixed := []window.Row{asked[0], far, asked[1]}
	out := v.Score(t.Context(), refs, mixed, slices.Concat(asked[0].X, far.X, asked[1].X), true)
	if !slices.Equal(out.Right, []float64{1, 0, 1}) || out.NearestMean[0]+out.NearestMean[2] != 2 || out.Class[2] != "b" {
		t.Errorf("%+v of two rows and one that cannot be projected", out)
	}
	if near := nearOf(nil, &asked[0]); near != (span{}) {
		t.Errorf("%+v of no references are near", near)
	}
	refs.removeIf(func(r *window.Row) bool { return r.Seq < 40 })
	refs.Add(row(300))
	if k := v.outputs(t.Context(), refs); len(k.rows) != 61 || k.rows[60].Seq != 300 || k.count[1] != 30 {
		t.Errorf("%d references of 61 are known after a cut", len(k.rows))
	}
	if n := testing.AllocsPerRun(10, func() { v.outputs(t.Context(), refs) }); n > 0 {
		t.Errorf("%g allocations where no reference has changed", n)
	}
}

// TestOutputsInReusedMemory: a model that takes over the memory of another one has the outputs of one that does not,
// also where some references, all those of a class, cannot be projected.
func TestOutputsInReusedMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	refs, d := NewReferences(0), &model.Data{M: 3, Classes: []string{"a", "b"}}
	for i := range 80 {
		x, label := []float64{r.NormFloat64() + 5*float64(i%2), r.NormFloat64(), r.NormFloat64()}, d.Classes[i%2]
		d.X, d.Y, d.N = append(d.X, x...), append(d.Y, i%2), d.N+1
		if i%20 == 7 {
			label, x = "far", []float64{1e300, 1e300, 1e300}
		}
		refs.Add(&window.Row{Position: window.Position{Seq: uint64(i)}, Label: label, X: x})
	}
	var models []*model.Model
	for _, method := range []string{"pca", "lda"} { // of two outputs and of one
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	old, next := New(models[0]), New(models[1])
	old.outputs(t.Context(), refs)
	next.ReuseMemory(old)
	for round, rows := range []int{76, 68, 59} {
		got, want := next.outputs(t.Context(), refs), New(models[1]).outputs(t.Context(), refs)
		if !slices.Equal(got.rows, want.rows) || !slices.Equal(got.y, want.y) || !slices.Equal(got.class, want.class) ||
			!slices.Equal(got.count, want.count) || !slices.Equal(got.sum, want.sum) {
			t.Errorf("round %d: other outputs than without the memory of another model", round)
		}
		if len(got.rows) != rows || !slices.Equal(got.labels, []string{"a", "b"}) {
			t.Errorf("round %d: outputs of %d references of %v, want %d", round, len(got.rows), got.labels, rows)
		}
		refs.removeIf(func(r *window.Row) bool { return r.Seq < uint64(10*(round+1)) })
		refs.Add(&window.Row{Position: window.Position{Seq: uint64(100 + round)}, Label: "b", X: []float64{5, 0, 0}})
	}
}

// TestCopiesDoNotAnswer: a row is not judged by copies of itself or rows next to it, so that labels at random are
// recognised no better than by chance.
func TestCopiesDoNotAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var rows []window.Row
	d := &model.Data{M: 3, Classes: []string{"a", "b"}}
	for len(rows) < 3000 {
		x, class := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}, r.IntN(2)
		for range 10 {
			rows = append(rows, window.Row{Position: window.Position{Seq: uint64(len(rows))}, Label: d.Classes[class], X: x})
			d.X, d.Y, d.N = append(d.X, x...), append(d.Y, class), d.N+1
		}
	}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "pca"})
	if err != nil {
		t.Fatal(err)
	}
	v, refs, right, judged := New(m), NewReferences(0), 0.0, 0
	for i := range rows {
		if refs.CanJudge(&rows[i]) {
			out := v.Score(t.Context(), refs, rows[i:i+1], rows[i].X, true)
			right += out.Right[0]
			judged++
		}
		refs.Add(&rows[i])
	}
	if share := right / float64(judged); judged < 2900 || !(share <= 0.6) || !(share >= 0.4) {
		t.Errorf("%.2f of %d rows with labels at random are recognised", share, judged)
	}
}

// TestReferencesAreBounded: there are 500 at most, the newest ones of the class with more rows.
func TestReferencesAreBounded(t *testing.T) {
	refs := NewReferences(0)
	for seq := range uint64(1000) {
		label := "many"
		if seq%10 == 0 {
			label = "few"
		}
		refs.Add(&window.Row{Position: window.Position{Seq: seq}, Label: label})
		if n := refs.Len(); n != min(int(seq)+1, 500) {
			t.Fatalf("%d references after row %d", n, seq)
		}
	}
	if rows := refs.All(); len(rows) != 500 || refs.MaxPerClass() != 400 || rows[55].Seq != 550 || rows[56].Seq != 556 {
		t.Errorf("%d references, at most %d of a class, the 56th and 57th are rows %d and %d", len(rows), refs.MaxPerClass(),
			rows[55].Seq, rows[56].Seq)
	}
}

// TestReferencesOfEachClass: a class of which no row is held out has references too, until enough are.
func TestReferencesOfEachClass(t *testing.T) {
	w := window.New(window.Config{Features: 1, Rows: 10000, Classes: 10, Holdout: 0.2, Balance: true, Labelled: true})
	refs, label := NewReferences(0), "many"
	seq := uint64(0)
	next := func() *window.Row {
		seq++
		w.Add(window.Row{Position: window.Position{Seq: seq}, Label: label, X: []float64{float64(seq)}})
		r := w.At(window.Position{Seq: seq})
		if r.IsHeldOut() {
			refs.Add(r)
		}
		refs.Sync(w)
		return r
	}
	for range 500 {
		next()
	}
	for next().IsHeldOut() { // until a stretch that is not held out begins
	}
	label = "few"
	count := func() (n, held int) {
		for _, r := range refs.All() {
			if r.Label == "few" {
				if n++; r.IsHeldOut() {
					held++
				}
			}
		}
		return n, held
	}
	for i := 1; i <= 200; i++ {
		next()
		if n, held := count(); n < min(i, 10) || n > max(10, held) {
			t.Fatalf("%d references, %d of them held out, after %d rows", n, held, i)
		}
	}
	if n, held := count(); n != held {
		t.Errorf("%d references of which %d are held out", n, held)
	}
}

// TestKeptVariance: without labels a row scores the share of its squared length that the outputs keep, the mean scores
// 1, and a row whose square exceeds float64 nothing.
func TestKeptVariance(t *testing.T) {
	d := &model.Data{M: 2, N: 4, X: []float64{3, 0, -3, 0, 0, 1, 0, -1}}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "pca", Dim: 1, Scale: model.ScaleNone})
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{2, 0, 0, 2, 1, 1, 0, 0, 1e200, 1e200}
	rows := make([]window.Row, 5)
	out := New(m).Score(t.Context(), NewReferences(0), rows, x, false)
	for i, want := range []float64{1, 0, 0.5, 1, 0} {
		if !(math.Abs(out.Right[i]-want) <= 1e-6) {
			t.Errorf("row %d keeps %g, want %g", i, out.Right[i], want)
		}
	}
}

// TestFewReferences: eight held-out rows of each class are enough, and so are a hundred of many classes.
func TestFewReferences(t *testing.T) {
	for _, c := range []struct {
		classes, rows int
		want          bool
	}{{1, 7, true}, {1, 8, false}, {10, 79, true}, {10, 80, false}, {50, 99, true}, {50, 100, false}} {
		refs := NewReferences(0)
		for i := range c.rows {
			refs.Add(&window.Row{Position: window.Position{Seq: uint64(i)}, Label: fmt.Sprint(i % c.classes)})
		}
		if refs.AreFew() != c.want {
			t.Errorf("%d rows of %d classes: few is %t", c.rows, c.classes, !c.want)
		}
	}
}
