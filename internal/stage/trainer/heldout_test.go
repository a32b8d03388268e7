package trainer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// TestHeldOutRowsBeatChance: rows that are held out show that a model of two separate classes beats chance, for the
// candidate and for the live model.
func TestHeldOutRowsBeatChance(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.live = nil // so that nothing is fitted meanwhile
	for seq := uint64(16); seq < 46; seq++ {
		var rows []window.Row
		for row := range 20 {
			angle := float64(seq) + float64(row)
			rows = append(rows, window.Row{Position: window.Position{Seq: seq, Row: row}, MessageRows: 20, Time: 16e9,
				Label: []string{"in", "out"}[row%2], X: []float64{9*float64(row%2) + math.Cos(angle), math.Sin(angle)}})
		}
		if seq%3 == 0 { // a class of one row in 60
			rows[3].Label = "rare"
		}
		l.addRows(rows)
	}
	c := &candidate{comparison: policy.NewComparison(l.config.Training.Gate, policy.DoorBetter)}
	_, good, err := l.fitter.fit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	noise := &model.Data{N: 4, M: 2, X: []float64{0, 1e9, 0, -1e9, 1, 0, -1, 0}, Features: []string{"x", "y"}}
	other, err := fit.Fit(t.Context(), noise, fit.Config{Method: "pca", Dim: 1, Scale: model.ScaleNone})
	if err != nil {
		t.Fatal(err)
	}
	l.labels.Repeats = l.labels.All // labels come in runs
	rows := heldOutRows(l.data, window.Position{})
	for i, k := range []struct{ candidate, live *model.Model }{{good, other}, {other, good}, {good, good}, {good, other}} {
		c.Model, l.live = prequential.New(k.candidate), prequential.New(k.live)
		if i == 3 {
			c.comparison = policy.NewComparison(l.config.Training.Gate, policy.DoorMoreRows)
		}
		want, right := judged(t, l, c, rows)
		judgeHeldOut(t.Context(), l, c)
		got := c.comparison.HeldOut
		got.Evidence *= float64(i + 1)
		if !(math.Abs(got.Evidence-want.Evidence) <= 1e-9*want.Evidence) ||
			!(math.Abs(got.Nearest-want.Nearest) <= 1e-9*want.Nearest) ||
			got.CandidateBeats != want.CandidateBeats || got.LiveBeats != want.LiveBeats ||
			!(math.Abs(l.heldOutAccuracy-right) <= 1e-9) {
			t.Errorf("pair %d: held-out rows say %+v, want %+v; the live model is right about %g, want %g", i, got, want,
				l.heldOutAccuracy, right)
		}
		h := c.comparison.HeldOut
		if h.Rows != len(rows) || len(rows) < 100 || k.candidate == k.live && (!h.CandidateBeats || !h.LiveBeats) {
			t.Errorf("held out: %+v of %d rows", h, len(rows))
		}
		if k.live == good && !(l.heldOutAccuracy > 0.95 && l.heldOutAccuracy <= 1) {
			t.Errorf("the live model is right about %g of the rows", l.heldOutAccuracy)
		}
	}
}

// TestHeldOutRowsOfAllClasses: held-out rows show that a candidate is better only if they have all classes of the
// window.
func TestHeldOutRowsOfAllClasses(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.live = nil // so that nothing is fitted meanwhile
	seq := uint64(17)
	learn := func(labels ...string) {
		var rows []window.Row
		for row := range 16 {
			label := labels[row%len(labels)]
			angle := float64(seq) + float64(row)
			x := []float64{9*float64(len(label)) + math.Cos(angle), math.Sin(angle)}
			rows = append(rows, window.Row{Position: window.Position{Seq: seq, Row: row}, MessageRows: 16, Time: 16e9,
				Label: label, X: x})
		}
		l.addRows(rows)
		seq++
	}
	has := func(label string) bool {
		rows := heldOutRows(l.data, window.Position{})
		return slices.ContainsFunc(rows, func(r window.Row) bool { return r.Label == label })
	}
	for range 12 { // so that the live model beats chance
		learn("in")
		learn("out")
	}
	_, good, err := l.fitter.fit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l.live = prequential.New(good)
	l.pinned = true // so that nothing is fitted any more
	l.labels.Repeats = l.labels.All
	evidenceAt := func(door string) float64 {
		c := &candidate{Model: prequential.New(good), comparison: policy.NewComparison(l.config.Training.Gate, door)}
		judgeHeldOut(t.Context(), l, c)
		return c.comparison.HeldOut.Evidence
	}
	learn("late")
	if learn("late"); has("late") {
		t.Fatal("the first messages of the class are held out; use others")
	}
	if better, notWorse := evidenceAt(policy.DoorBetter), evidenceAt(policy.DoorMoreRows); better != 0 || notWorse == 0 {
		t.Errorf("evidence %g and %g without rows of a class; want 0, and some", better, notWorse)
	}
	for !has("late") {
		learn("late")
	}
	if evidenceAt(policy.DoorBetter) == 0 {
		t.Error("no evidence from rows of all classes")
	}
	learn("w", "wr", "wro", "wron") // too few of each to enter a fit
	if l.data.sift(); evidenceAt(policy.DoorBetter) == 0 {
		t.Error("no evidence, because of labels with four rows")
	}
}

// TestManyHeldOutRows: of more held-out rows than are needed, all classes have as many of the newest.
func TestManyHeldOutRows(t *testing.T) {
	c := configOf(fit.Config{Method: "lda", Dim: 2})
	c.Training.Window.Rows = 20_000
	l, _ := newTrainer([]string{"x", "y"}, c)
	learnRings(t, l, 9)
	l.live, l.pinned = nil, true
	for seq := uint64(16); seq < 1016; seq++ { // the last half are of one class
		var rows []window.Row
		for row := range 16 {
			class := int(seq+uint64(row)) % 2
			if seq >= 516 {
				class = 0
			}
			rows = append(rows, window.Row{Position: window.Position{Seq: seq, Row: row}, MessageRows: 16, Time: 16e9,
				Label: []string{"a", "b"}[class], X: []float64{float64(class), float64(row)}})
		}
		l.addRows(rows)
	}
	count, last := map[string]int{}, window.Position{}
	for _, r := range heldOutRows(l.data, window.Position{}) {
		if count[r.Label]++; r.Compare(last) <= 0 {
			t.Fatalf("row %v after %v", r.Position, last)
		}
		last = r.Position
	}
	if n := count["b"]; n < 300 || n >= 1000 || count["a"]+n > 2000 || count["a"] < 1000 {
		t.Errorf("held-out rows by class: %v", count)
	}
}

// judged is what held-out rows say of a candidate. A class counts as much as any other, unless it has less than a tenth
// of a fair share of the rows. right is the share of the rows that the live model is right about.
func judged(t *testing.T, l *Trainer, c *candidate, rows []window.Row) (h policy.HeldOut, right float64) {
	count, x := map[string]float64{}, []float64(nil)
	for _, r := range rows {
		count[r.Label]++
		x = append(x, r.X...)
	}
	of := func(m *prequential.Model) prequential.Scores {
		return m.Score(t.Context(), l.data.references, rows, x, true)
	}
	candidate, live, n := of(c.Model), of(l.live), float64(len(rows))
	byShares, byNearest := make([]float64, len(rows)), make([]float64, len(rows))
	for i := range rows {
		byShares[i] = candidate.Shares[i] - live.Shares[i]
		byNearest[i] = candidate.Right[i] - live.Right[i]
	}
	margin, differences := -0.01, byShares
	if c.comparison.Door == policy.DoorBetter {
		margin, differences = 0.005, byNearest
	}
	all := evidence.SequentialTest{Margin: margin, IsSample: true}
	nearest := all
	ofCandidate := policy.Sensitivity{Test: evidence.SequentialTest{IsSample: true}}
	ofLive, effect := ofCandidate, heldOutEffect(l, rows, differences)
	for i, r := range rows {
		row := evidence.Row{Weight: min(n/count[r.Label]/float64(len(count)), 10), Effect: effect, NewRun: true}
		all.AddRow(differences[i], row)
		nearest.AddRow(byNearest[i], row)
		ofCandidate.Add(candidate.Right[i], count[candidate.Class[i]]/n, row)
		ofLive.Add(live.Right[i], count[live.Class[i]]/n, row)
		right += live.Right[i] / n
	}
	return policy.HeldOut{Evidence: all.Value(), Nearest: nearest.Value(), CandidateBeats: ofCandidate.BeatsChance(),
		LiveBeats: ofLive.BeatsChance()}, right
}

// TestEffectOfHeldOutRows: rows that are held out count by the design effect of their stretches, or by that of the
// stream by blocks of up to 64 rows, if that is known and larger. The mean of this stream changes every 512 rows, which
// longer blocks take for dependence.
func TestEffectOfHeldOutRows(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	rows := heldOutRows(l.data, window.Position{})
	differences := make([]float64, len(rows))
	var clusters evidence.Clusters
	stretch, last := 0, window.Position{}
	for i := range rows {
		if from, _ := rows[i].Neighbourhood(); i == 0 || from != last {
			stretch, last = stretch+1, from
		}
		differences[i] = float64(i/2%2*2 - 1)
		clusters.Add(stretch, rows[i].Label, differences[i])
	}
	if l.drift = (evidence.DriftDetector{}); l.drift.Blocks.IsKnown() {
		t.Fatal("the design effect is known")
	}
	alone := clusters.Effect()
	if got := heldOutEffect(l, rows, differences); got != alone || len(rows) == 0 || !(got < l.drift.Blocks.Effect()) {
		t.Errorf("a design effect of %g for %d rows, want %g, below %g", got, len(rows), alone, l.drift.Blocks.Effect())
	}
	r := rand.New(rand.NewPCG(1, 2))
	value := 0.0
	for n := range 20_000 {
		if n%8 == 0 {
			value = r.NormFloat64()
		}
		l.drift.Blocks.Add(value + float64(n/512%2))
	}
	short, all := l.drift.Blocks.ShortEffect(), l.drift.Blocks.Effect()
	if got := heldOutEffect(l, rows, differences); got != short || !(alone < short && short < 0.8*all) {
		t.Errorf("a design effect of %g, want %g, which is above %g and below %g", got, short, alone, all)
	}
}

// TestHeldOutRowsOfTheLiveModel: rows that are older than those of the live model judge no candidate. They may be of an
// earlier concept, of which a candidate of the whole window has learned.
func TestHeldOutRowsOfTheLiveModel(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.fitCandidate(t.Context(), 0)
	c := l.candidateOf(0)
	if live() == nil || c == nil {
		t.Fatalf("live is %v, the candidate %v", live(), c)
	}
	l.labels.Repeats = l.labels.All // labels come in runs
	all := heldOutRows(l.data, window.Position{})
	l.liveRows.first = all[len(all)/2].Position
	judgeHeldOut(t.Context(), l, c)
	if got, want := c.comparison.HeldOut.Rows, len(all)-len(all)/2; got != want || len(all) < 4 {
		t.Errorf("%d of %d rows judge the candidate, want the newest %d", got, len(all), want)
	}
}

// TestStrayLabelsAreNoDrift: where labels come in runs, the drift detector leaves out a row of another class than its
// run.
func TestStrayLabelsAreNoDrift(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	if live() == nil {
		t.Fatal("no model is live")
	}
	for label, values := range map[string]int{"in": 1, "out": 0} {
		l.drift = evidence.DriftDetector{}
		l.labels.Repeats, l.labels.Last, l.labels.Run, l.labels.Others = l.labels.All, "in", "in", 0
		row := window.Row{Position: window.Position{Seq: 1000}, MessageRows: 20, Time: 16e9, Label: label,
			X: []float64{1, 1}}
		l.score(t.Context(), []window.Row{row})
		if got := len(l.drift.Rows[0][0]); got != values {
			t.Errorf("a row of %q in a run of \"in\" has %d values, want %d", label, got, values)
		}
	}
}
