package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// newTrainer returns a trainer in a host that only keeps the live model.
func newTrainer(features []string, c *spec.Config) (t *Trainer, live func() *spec.Live) {
	var now *spec.Live
	live = func() *spec.Live { return now }
	return New(c, Host{Live: live, Promote: func(l *spec.Live) { now = l }, Features: func() []string { return features },
		CountFit: func() {}, Report: func(spec.Outcome) {}, Times: func() (a, b EventTime) { return a, b },
		Pause: func() {}}), live
}

// sentences is a log whose messages are sentences, with attributes whose keys are not. Others panic.
type sentences struct{ slog.Handler }

func (sentences) Enabled(context.Context, slog.Level) bool { return true }

func (sentences) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if !strings.Contains(r.Message, " ") || len(a.Key) > 20 {
			panic(fmt.Sprintf("the log has the message %q with the key %q", r.Message, a.Key))
		}
		return true
	})
	return nil
}

// configOf is the configuration of a trainer for learnRings.
func configOf(f fit.Config) *spec.Config {
	return &spec.Config{Spec: arrowio.Spec{Label: "label"}, Fit: f, Training: spec.Training{Every: spec.Every{Rows: 100},
		Window:  spec.Window{Rows: 1000, Bytes: 1 << 30, Balance: spec.BalanceClass},
		Holdout: 0.2, Gate: spec.Gate{Evidence: 1000}, Align: spec.AlignRigid},
		Classes: 10, Logger: slog.New(sentences{slog.DiscardHandler}), Clock: time.Now}
}

// learnRings learns 300 rows of two rings, whose radii differ, around the origin and a point.
func learnRings(t *testing.T, l *Trainer, apart float64) {
	r := rand.New(rand.NewPCG(71, 72))
	for seq := uint64(1); seq <= 15; seq++ {
		e := &Event{}
		for row := range 20 {
			angle, class := 2*math.Pi*r.Float64(), float64(row%2)
			radius := 1 + 2*class
			e.Rows = append(e.Rows, window.Row{Position: window.Position{Seq: seq, Row: row}, MessageRows: 20,
				Label: []string{"in", "out"}[row%2], Time: int64(seq) * 1e9,
				X: []float64{apart*class + radius*math.Cos(angle) + r.NormFloat64()/10,
					radius*math.Sin(angle) + r.NormFloat64()/10}})
		}
		l.Learn(t.Context(), e)
	}
}

// TestWrongLabelsAreNoClasses: two labels of four rows each do not make a live model of two classes early, whose
// candidates need little evidence. Two classes with a quarter of the rows do.
func TestWrongLabelsAreNoClasses(t *testing.T) {
	l, _ := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	before := earlyOdds(l)
	for _, c := range []struct {
		rows    int
		isEarly bool
	}{{8, false}, {99, false}, {100, true}} {
		for i := l.data.window.Len() - 300; i < c.rows; i++ {
			l.data.window.Add(window.Row{Position: window.Position{Seq: 20, Row: i}, Label: []string{"on", "off"}[i%2],
				X: []float64{float64(i), 1}})
		}
		if got := earlyOdds(l); got < before != c.isEarly {
			t.Errorf("with %d rows of unknown classes: odds %g, before %g", c.rows, got, before)
		}
	}
}

// TestChangeWhileFollowing: a change cuts the window, also while the stage follows a drift if the live model is at
// chance since then, or if its landmarks have to be checked; else it is part of that drift.
func TestChangeWhileFollowing(t *testing.T) {
	for _, c := range []struct {
		followed  int
		beats     bool
		landmarks int
		alarms    int
	}{{0, true, 0, 1}, {250, true, 0, 0}, {250, false, 0, 1}, {250, true, 20, 1}} {
		l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2, Landmarks: c.landmarks}))
		learnRings(t, l, 9)
		if live() == nil || !l.live.Sensitivity.BeatsChance() {
			t.Fatalf("the live model is %v, or at chance", live())
		}
		if l.rules.Followed = c.followed; !c.beats {
			l.live.Sensitivity = policy.Sensitivity{}
		}
		l.fitAndPromote(t.Context(), true, nil)
		if l.alarms != c.alarms || c.alarms == 0 && l.rules.Followed != c.followed {
			t.Errorf("%+v: %d alarms, and %d is followed", c, l.alarms, l.rules.Followed)
		}
	}
}

// TestMethodChangesWhileFollowing: a stage that followed a drift does so no more once its method is one whose suffixes
// are not fitted from moments, so a change cuts the window.
func TestMethodChangesWhileFollowing(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.rules.Followed = 250
	c := configOf(fit.Config{Method: "lfda", Dim: 2})
	c.Resume = &spec.Live{Model: live().Model, Version: "1", State: l.state()}
	next, _ := newTrainer([]string{"x", "y"}, c)
	learnRings(t, next, 9) // fills the window again
	more := &Event{}
	for row := range 20 {
		more.Rows = append(more.Rows, window.Row{Position: window.Position{Seq: 16, Row: row}, MessageRows: 20, Time: 16e9,
			Label: []string{"in", "out"}[row%2], X: []float64{9 * float64(row%2), 1}})
	}
	next.Learn(t.Context(), more)
	if next.resume != nil || next.live == nil || next.rules.Followed != 0 {
		t.Errorf("with lfda the newest %d rows are followed", next.rules.Followed)
	}
}

// TestCorrectedToOneClassTooMany: a row whose corrected label the window has no room for is counted, and no reference.
func TestCorrectedToOneClassTooMany(t *testing.T) {
	c := configOf(fit.Config{Method: "lda", Dim: 2})
	c.Classes = 2
	l, _ := newTrainer([]string{"x", "y"}, c)
	learnRings(t, l, 9)
	references := l.data.references.Len()
	at := l.data.references.All()[0].Position
	l.Learn(t.Context(), &Event{Fixes: []Fix{{At: at, Label: "third"}}})
	if l.data.window.At(at) != nil {
		t.Fatal("the row is in the window")
	}
	if n := l.Status().OverClassLimit; n != 1 {
		t.Errorf("%d rows are of classes beyond the maximum", n)
	}
	if n := l.data.references.Len(); n != references-1 {
		t.Errorf("%d of %d references are left", n, references)
	}
}

// TestLandmarksAreCut: when older rows are removed, landmarks that are not those of the live model are drawn again from
// the remaining rows.
func TestLandmarksAreCut(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2, Landmarks: 20}))
	learnRings(t, l, 0)
	marks := &l.fitter.landmarks
	first := marks.Landmarks
	if live() == nil || first == nil || marks.New {
		t.Fatalf("landmarks are %+v", marks.renewal)
	}
	l.cut(t.Context(), 200, false)
	if n := l.data.window.Len(); n != 200 {
		t.Errorf("%d rows are left, want 200", n)
	}
	if marks.Landmarks != first || marks.New || !marks.Alarmed {
		t.Errorf("landmarks of the live model are gone, or will not be checked: %+v", marks.renewal)
	}
	l.fitter.replaceLandmarks()
	if err := l.fitter.prepare(t.Context()); err != nil || marks.Landmarks == nil {
		t.Fatal(err)
	}
	l.cut(t.Context(), 100, false)
	if marks.Landmarks != nil || !marks.New || marks.Alarmed {
		t.Errorf("landmarks of removed rows stay: %+v", marks.renewal)
	}
}

// TestOwnModelIsAdopted: if the store brings the model that this trainer has promoted, for example since the answer to
// a write was lost, candidates and evidence stay.
func TestOwnModelIsAdopted(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.fitAll(t.Context(), nil)
	c := l.candidateOf(0)
	if live() == nil || c == nil {
		t.Fatalf("live is %v, the candidate %v", live(), c)
	}
	l.Learn(t.Context(), &Event{Adopt: live()})
	if l.candidateOf(0) != c {
		t.Errorf("the candidate %v became %v", c, l.candidateOf(0))
	}
}

// TestModelOfARestore: a model that goes live when the window is filled again, before the next rows are learned, has a
// checkpoint that does not have the labels of these: a further restart would not score them.
func TestModelOfARestore(t *testing.T) {
	c := configOf(fit.Config{Method: "lda", Dim: 2})
	c.Labels = &spec.Labels{}
	event := func(seq uint64) *Event {
		r := rand.New(rand.NewPCG(71, seq))
		e := &Event{OfLabels: true}
		for row := range 20 {
			at := window.Position{Seq: seq, Row: row}
			e.Rows = append(e.Rows, window.Row{Position: at, MessageRows: 20, Label: []string{"in", "out"}[row%2],
				Time: int64(seq) * 1e9, X: []float64{9*float64(row%2) + r.NormFloat64(), r.NormFloat64()}})
			e.LabelledBy, e.NewestLabel = append(e.LabelledBy, at), at
		}
		return e
	}
	l, live := newTrainer([]string{"x", "y"}, c)
	for seq := uint64(1); seq <= 15; seq++ {
		l.Learn(t.Context(), event(seq))
	}
	if live() == nil {
		t.Fatal("no first model")
	}
	reset := *live()
	reset.WasReset, reset.State = true, l.state()
	c.Resume = &reset
	var labels []window.Position // in the checkpoints of models
	c.Store = func(_ context.Context, r *spec.Release) (string, error) {
		s, err := readCheckpoint(r.State)
		labels = append(labels, s.NewestLabel)
		return "after the reset", err
	}
	next, _ := newTrainer([]string{"x", "y"}, c)
	next.host.Promote(&reset)
	for seq := uint64(1); seq <= 16; seq++ {
		next.Learn(t.Context(), event(seq))
	}
	if want := (window.Position{Seq: 15, Row: 19}); len(labels) == 0 || labels[0] != want {
		t.Errorf("the checkpoints have the labels up to %v, want %v", labels, want)
	}
}

// TestIsClose: a method is close to the chosen one if it is at most a standard error behind at the chosen dimension.
func TestIsClose(t *testing.T) {
	choice := &model.Choice{Method: "mfa", Dim: 2, Scores: []model.Score{
		{Method: "mfa", Dim: 2, Scored: 9}, {Method: "lda", Dim: 5, Scored: 9},
		{Method: "lda", Dim: 2, Scored: 9, Behind: 0.02, BehindError: 0.02},
		{Method: "pca", Dim: 2, Scored: 9, Behind: 0.021, BehindError: 0.02},
		{Method: "dla", Dim: 2}, {Method: "lpp", Dim: 5, Scored: 9},
	}}
	for method, want := range map[string]bool{"lda": true, "pca": false, "dla": false, "lpp": false, "npe": false} {
		if isClose(choice, method) != want {
			t.Errorf("%s is close: %v", method, !want)
		}
	}
	choice.Scores[2].Behind = 0.021
	if isClose(choice, "lda") {
		t.Error("the score at another dimension counts")
	}
}

// TestCarryOver: after a swap the rules know which suffix is live since when, and each candidate keeps the evidence
// that its predecessor on the same suffix had.
func TestCarryOver(t *testing.T) {
	m := func(size int, judged float64) *candidate {
		c := &candidate{Model: &prequential.Model{}, size: size}
		c.Sensitivity.Add(1, 0.5, evidence.Row{Weight: 1, Effect: judged})
		return c
	}
	swapped, old, other, next := m(250, 1), m(1000, 2), m(4000, 3), m(1000, 4)
	live := m(0, 5)
	trainer := &Trainer{live: live.Model, schedule: policy.Schedule{Learned: 9000},
		candidates: []*candidate{next, swapped}}
	before := swapped.Sensitivity
	carryOver(trainer, []*candidate{swapped, old, other}, swapped)
	if r := trainer.rules; r.Live != 250 || r.SwappedAt != 9000 || !r.HasLive {
		t.Errorf("%+v", r)
	}
	if !reflect.DeepEqual(next.Sensitivity, old.Sensitivity) || !reflect.DeepEqual(swapped.Sensitivity, before) {
		t.Error("a candidate has the evidence of another suffix")
	}
}

// TestHeldOutIsOfTheFit: what held-out rows say of a candidate does not stay for the next fit of its suffix where
// labels no longer come in runs.
func TestHeldOutIsOfTheFit(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.fitCandidate(t.Context(), 0)
	c := l.candidateOf(0)
	if live() == nil || c == nil {
		t.Fatalf("live is %v, the candidate %v", live(), c)
	}
	c.comparison.HeldOut = policy.HeldOut{Evidence: 40, Rows: 100, CandidateBeats: true, LiveBeats: true}
	l.fitCandidate(t.Context(), 0)
	if c := l.candidateOf(0); c == nil || c.comparison.HeldOut != (policy.HeldOut{}) {
		t.Errorf("after another fit the candidate is %+v", c)
	}
}

// TestHeldOutRowsJudgeOften: the evidence of held-out rows is divided by the number of candidates that they have judged
// against the live model.
func TestHeldOutRowsJudgeOften(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.fitCandidate(t.Context(), 0)
	c := l.candidateOf(0)
	if live() == nil || c == nil {
		t.Fatalf("live is %v, the candidate %v", live(), c)
	}
	l.labels.Repeats, l.judged = l.labels.All, 0 // labels come in runs
	var odds []float64
	for range 4 {
		judgeHeldOut(t.Context(), l, c)
		odds = append(odds, c.comparison.HeldOut.Evidence)
	}
	if l.judged != 4 || c.comparison.HeldOut.Rows == 0 || !(odds[0] > 0) || odds[1] != odds[0]/2 ||
		odds[3] != odds[0]/4 {
		t.Errorf("%d candidates were judged on %d rows, with the evidence %g", l.judged, c.comparison.HeldOut.Rows, odds)
	}
}

// TestNothingWasJudgedAgainstAnAdoptedModel: candidates that were judged against the model before make none need more
// evidence against one that an operator chose.
func TestNothingWasJudgedAgainstAnAdoptedModel(t *testing.T) {
	l, live := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	if live() == nil {
		t.Fatal("no first model")
	}
	l.judged, l.heldOutAccuracy = 40, 0.9
	other := *live()
	other.Version = "another"
	if l.Learn(t.Context(), &Event{Adopt: &other}); l.judged != 0 || !math.IsNaN(l.heldOutAccuracy) {
		t.Errorf("%d candidates were judged, and the model was right on %g", l.judged, l.heldOutAccuracy)
	}
}

// TestReferenceEffect: few rows per reference hardly add to the design effect, many as many as a reference judges, and
// none without labels.
func TestReferenceEffect(t *testing.T) {
	c := &spec.Config{Spec: arrowio.Spec{Label: "label"}, Fit: fit.Config{Method: "lda"},
		Logger: slog.New(slog.DiscardHandler), Training: spec.Training{Holdout: 0.2}}
	l, _ := newTrainer([]string{"x"}, c)
	for i := range 100 {
		l.data.references.Add(&window.Row{Position: window.Position{Seq: uint64(i)}, Label: "a"})
	}
	for rows, want := range map[int]float64{0: 0, 10: 0.015, 200: 0.3, 500: 0.75, 10_000: 0.75} {
		if got := referenceEffect(l, rows); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%d rows by 100 references add %g, want %g", rows, got, want)
		}
	}
	l, _ = newTrainer([]string{"x"}, &spec.Config{Fit: fit.Config{Method: "pca"}, Logger: c.Logger, Training: c.Training})
	if got := referenceEffect(l, 500); got != 0 {
		t.Errorf("without labels the references add %g", got)
	}
}

// TestCheckpointOfManySuffixes: a checkpoint of a large window keeps its other parts next to the evidence for many
// suffixes, and is below the size limit of the stores.
func TestCheckpointOfManySuffixes(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	schedule := policy.Schedule{Config: policy.Config{Features: 4, MaxRows: 100_000_000, Nested: true}}
	sizes := schedule.Sizes(100_000_000)
	var rules policy.Rules
	for n := range 300 {
		scores := make([]policy.RuleOutcomes, len(sizes))
		for k, size := range sizes {
			scores[k] = policy.RuleOutcomes{Size: size, Right: []float64{r.Float64()}}
		}
		rules.Add(spec.Gate{Evidence: 1000}, scores, scores[0].Right,
			[]evidence.Row{{NewRun: n%9 == 0, Weight: 1 / 3., Effect: 1.1}})
	}
	s := checkpoint{Format: 2, Rules: rules, Probe: &probeState{Sizes: sizes, Rules: rules},
		LiveAgreement: policy.Agreement{Last: policy.Confusion{Rows: 40, Right: 30}}}
	text := s.bytes()
	back, err := readCheckpoint(text)
	if err != nil || back.LiveAgreement.Last.Rows != 40 {
		t.Errorf("%d suffixes: the agreement of the live model is %+v (%v)", len(sizes), back.LiveAgreement.Last, err)
	}
	if len(text) > 400<<10 {
		t.Errorf("%d suffixes: a checkpoint of %d bytes", len(sizes), len(text))
	}
}

// TestUnstoredModelIsNoFit: the candidates that were fitted with a model that could not be stored are gone, so they do
// not count as the last fits of their suffixes.
func TestUnstoredModelIsNoFit(t *testing.T) {
	c := configOf(fit.Config{Method: "lda", Dim: 2})
	l, live := newTrainer([]string{"x", "y"}, c)
	learnRings(t, l, 9)
	l.fitAll(t.Context(), nil)
	whole := l.candidateOf(0)
	if live() == nil || whole == nil {
		t.Fatalf("live is %v, the candidate %v", live(), whole)
	}
	fitted := slices.Clone(l.schedule.Fitted)
	l.schedule.Learned += 100
	c.Store = func(context.Context, *spec.Release) (string, error) { return "", errors.New("no connection") }
	short := &candidate{Model: prequential.New(whole.Model.Model), size: 250}
	s := &window.Suffix{First: whole.first, Last: whole.last, Rows: 250}
	err := l.promote(t.Context(), whole.Model.Model, s, short, spec.Outcome{Door: policy.DoorBetter}, time.Now())
	if err == nil || l.candidateOf(0) != whole || !slices.Equal(l.schedule.Fitted, fitted) {
		t.Errorf("%v: fits %+v became %+v", err, fitted, l.schedule.Fitted)
	}
}

// logged returns a trainer of learned rings with a live model, and its log without times.
func logged(t *testing.T, f fit.Config) (*Trainer, *bytes.Buffer, func() *spec.Live) {
	t.Helper()
	log := &bytes.Buffer{}
	c := configOf(f)
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: timeless}))
	l, live := newTrainer([]string{"x", "y"}, c)
	if learnRings(t, l, 9); live() == nil {
		t.Fatal("no first model")
	}
	log.Reset()
	return l, log, live
}

// TestChangesAreLogged: a change of the rows is counted and logged with the rows that stay, and a chosen model with its
// version.
func TestChangesAreLogged(t *testing.T) {
	for backwards, stay := range map[bool]int{false: 100, true: 200} {
		l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2})
		if n := l.data.window.Len(); n != 300 {
			t.Fatalf("%d rows", n)
		}
		l.cut(t.Context(), 100, backwards)
		if l.data.window.Len() != stay || l.alarms != 1 || l.candidates != nil || l.drift.Len() != 0 {
			t.Errorf("backwards %v: %d rows stay after %d alarms", backwards, l.data.window.Len(), l.alarms)
		}
		want := "level=INFO msg=\"the distribution of the rows has changed; older rows are left out\" kept=" +
			map[int]string{100: "100", 200: "200"}[stay] + "\n"
		if log.String() != want {
			t.Errorf("the log has %q", log.String())
		}
		log.Reset()
		other := *live()
		other.Version = "v7"
		l.adopt(t.Context(), &other, true)
		want = "level=INFO msg=\"a chosen model goes live\" version=v7 pinned=true\n"
		if log.String() != want || !l.pinned ||
			l.candidates != nil || l.newest != 0 {
			t.Errorf("the log has %q, pinned %v", log.String(), l.pinned)
		}
	}
}

// TestStatusOfATrainer: the status has the limits of the configuration, and what is not known is NaN.
func TestStatusOfATrainer(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.config.Labels = &spec.Labels{Bytes: 77}
	s := l.Status()
	if s.Rows != 300 || s.Classes != 2 || s.Needed != 100 || s.Alarms != 0 || s.Restoring || s.Pinned || !s.Trainable ||
		s.LearnsNothing || !s.Newest.Equal(time.Unix(15, 0)) || s.Limits.WindowRows != 1000 || s.Limits.LabelBytes != 77 ||
		s.Limits.Classes != 10 || s.Limits.WindowBytes != 1<<30 || s.ReadFrom != 1 || s.RowsUntilFit == nil {
		t.Errorf("%+v", s)
	}
	l.candidates = nil
	for k, odds := range []float64{3, 5, 5, 4} { // of equal ones that of the shorter suffix
		c := &candidate{Model: prequential.New(l.live.Model), rows: 100 * k}
		c.comparison = policy.NewComparison(l.config.Training.Gate, policy.DoorBetter)
		c.comparison.HeldOut.Evidence = odds
		l.candidates = append(l.candidates, c)
	}
	s = l.Status()
	if s.CandidateRows != 200 || s.Evidence != 5 || s.Door != policy.DoorBetter || s.EvidenceRequired != 1000 {
		t.Errorf("the best candidate is %+v", s)
	}
	empty, _ := newTrainer([]string{"x"}, configOf(fit.Config{Method: "lda"}))
	if s := empty.Status(); s.Rows != 0 || !s.Newest.IsZero() || s.Limits.LabelBytes != 0 ||
		!math.IsNaN(s.Accuracy) || !math.IsNaN(s.Chance) || !math.IsNaN(s.Candidate) || !math.IsNaN(s.HeldOut) {
		t.Errorf("without rows: %+v", s)
	}
}

// TestWaitingRows: events with rows report which row waits for its label; requests and standby changes do not.
func TestWaitingRows(t *testing.T) {
	l, _, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	on := true
	for name, e := range map[string]*Event{"refit": {Refit: true}, "standby": {Standby: &on}, "adopt": {Adopt: live()}} {
		l.data.waiting = window.Position{Seq: 5}
		if l.Learn(t.Context(), e); l.data.waiting.Seq != 5 {
			t.Errorf("%s: row %d waits", name, l.data.waiting.Seq)
		}
	}
	if l.Learn(t.Context(), &Event{OldestWaiting: window.Position{Seq: 7}}); l.data.waiting.Seq != 7 {
		t.Errorf("row %d waits", l.data.waiting.Seq)
	}
}
