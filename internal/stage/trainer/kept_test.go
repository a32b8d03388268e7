package trainer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

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

// TestRowsArriveBackwards: rows with labels in separate messages are backwards if their median is before that of the
// window.
func TestRowsArriveBackwards(t *testing.T) {
	for _, c := range []struct {
		window int
		rows   []uint64
		want   bool
	}{
		{0, []uint64{1}, false}, {100, nil, false}, {100, []uint64{51}, false}, {100, []uint64{50}, true},
		{100, []uint64{1, 99}, false}, {100, []uint64{99, 1, 2}, true}, {100, []uint64{1, 60, 70}, false},
		{100, []uint64{90, 3, 80, 2, 1}, true}, {1, []uint64{1}, false},
	} {
		d := &dataset{window: windowOf(c.window, window.Config{}, "a", "b")}
		var rows []window.Row
		for _, seq := range c.rows {
			rows = append(rows, window.Row{Position: window.Position{Seq: seq}})
		}
		if got := d.isBackwards(rows); got != c.want {
			t.Errorf("rows %v of a window of %d: %v", c.rows, c.window, got)
		}
	}
}

// TestHeldOutRowsBeatChance: rows that are held out show that a model of two separate classes beats chance, be it the
// candidate or the live model.
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
		l.addRows(rows)
	}
	c := &candidate{comparison: policy.Compare(l.config.Training.Gate, policy.DoorBetter)}
	_, good, err := l.fitter.fit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	noise := &model.Data{N: 4, M: 2, X: []float64{0, 1e9, 0, -1e9, 1, 0, -1, 0}, Features: []string{"x", "y"}}
	other, err := fit.Fit(t.Context(), noise, fit.Config{Method: "pca", Dim: 1, Scale: model.ScaleNone})
	if err != nil {
		t.Fatal(err)
	}
	l.sampling.Repeats = l.sampling.All // labels come in runs
	rows := heldOutRows(l.data)
	for _, k := range []struct{ candidate, live *model.Model }{{good, other}, {other, good}, {good, good}} {
		c.Model, l.live = prequential.New(k.candidate), prequential.New(k.live)
		judgeHeldOut(t.Context(), l, c)
		h := c.comparison.HeldOut
		if h.Rows != len(rows) || len(rows) < 100 || k.candidate == k.live && (!h.Candidate || !h.Live) {
			t.Errorf("held out: %+v of %d rows", h, len(rows))
		}
		if k.live == good && !(l.heldOut > 0.95 && l.heldOut <= 1) {
			t.Errorf("the live model is right about %g of the rows", l.heldOut)
		}
	}
}

// TestDamagedCheckpoint: a checkpoint that cannot be read is logged, and the rows are learned again.
func TestDamagedCheckpoint(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	for state, want := range map[string]string{"": "", "{}": "",
		"damaged": `level=WARN msg="the checkpoint cannot be read; the rows are learned again" error="the checkpoint is ` +
			`damaged: invalid character 'd' looking for beginning of value"` + "\n",
		`{"format":3}`: `level=WARN msg="the checkpoint cannot be read; the rows are learned again" error="the checkpoint ` +
			`has format 3 and this embedd reads 2; use a newer embedd"` + "\n"} {
		log.Reset()
		l.resumeFrom(&spec.Live{Model: live().Model, State: []byte(state)})
		if log.String() != want || l.resume == nil || l.resume.Format != 0 || l.live == nil || l.origin == nil {
			t.Errorf("%q: %q, %+v", state, log.String(), l.resume)
		}
	}
}

// TestUnsavedCheckpoint: a checkpoint that cannot be saved is logged, unless the trainer ends.
func TestUnsavedCheckpoint(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	var saved []byte
	var refused error
	l.config.Checkpoint = func(_ context.Context, state []byte) error {
		saved = state
		return refused
	}
	l.schedule.Learned += 7
	if l.saveCheckpoint(t.Context()); log.Len() > 0 || len(saved) == 0 || l.schedule.Saved != l.schedule.Learned {
		t.Errorf("%q, %q", saved, log.String())
	}
	refused = errors.New("no connection")
	l.saveCheckpoint(t.Context())
	if want := `level=WARN msg="a checkpoint could not be saved; a restart reads more rows" error="no connection"` +
		"\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	log.Reset()
	saved = nil
	if l.saveCheckpoint(ended); saved != nil || log.Len() > 0 {
		t.Errorf("after the end: %q, %q", saved, log.String())
	}
}

// TestFailedFits: the log and the report of a failed fit have its rows and its error.
func TestFailedFits(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2})
	var reports []spec.Outcome
	l.host.Report = func(o spec.Outcome) { reports = append(reports, o) }
	l.reportFailure(t.Context(), errors.New("no fit"), 7)
	if want := `level=ERROR msg="a fit failed; the live model stays" rows=7 error="no fit"` + "\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
	if len(reports) != 1 || reports[0].Rows != 7 || reports[0].Reason != "no fit" || reports[0].Err == nil ||
		reports[0].Live != live() || reports[0].Promoted || !math.IsNaN(reports[0].Candidate) ||
		!math.IsNaN(reports[0].Previous) {
		t.Errorf("reports %+v", reports)
	}
	first, _ := newTrainer([]string{"x"}, l.config)
	log.Reset()
	first.reportFailure(t.Context(), errors.New("no fit"), 8)
	if want := `level=ERROR msg="a fit failed; no model is live yet" rows=8 error="no fit"` + "\n"; log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
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

// TestRowsOfTooManyClasses: rows of classes beyond the maximum are counted, and the first are logged.
func TestRowsOfTooManyClasses(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	for _, rows := range []int{0, 3, 2} {
		l.data.countOverClassLimit(rows)
	}
	want := `level=WARN msg="rows of new classes are not learned" rows=3 limit=10 fix="raise limits.classes, or check ` +
		`that the label column holds classes"` + "\n"
	if l.data.overClassLimit != 5 || log.String() != want {
		t.Errorf("%d rows, the log has %q", l.data.overClassLimit, log.String())
	}
}

// TestFixedLabels: a fix to a row that is not there is returned, the label that a row has changes nothing, another one
// moves the reference, and a replaced row leaves the window.
func TestFixedLabels(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	d := l.data
	row := *d.references.All()[0]
	other := map[string]string{"in": "out", "out": "in"}[row.Label]
	rows, references := d.window.Len(), d.references.Len()
	absent := Fix{At: window.Position{Seq: 99}, Label: "in"}
	if got := d.fix([]Fix{absent, {At: row.Position, Label: row.Label}}); !slices.Equal(got, []Fix{absent}) {
		t.Errorf("fixes that are left: %v", got)
	}
	if d.window.At(row.Position).Label != row.Label || d.references.Len() != references {
		t.Error("the label that a row has changes it")
	}
	d.fix([]Fix{{At: row.Position, Label: other}})
	if got := d.window.At(row.Position); got == nil || got.Label != other || d.references.Len() != references ||
		!slices.ContainsFunc(d.references.All(), func(r *window.Row) bool { return r.Position == row.Position }) {
		t.Errorf("after another label the row is %+v", got)
	}
	d.fix([]Fix{{At: row.Position, Replaced: true}})
	if d.window.At(row.Position) != nil || d.window.Len() != rows-1 || d.references.Len() != references-1 {
		t.Error("a replaced row is still there")
	}
	if got := (&dataset{}).fix([]Fix{absent}); !slices.Equal(got, []Fix{absent}) {
		t.Errorf("without a window: %v", got)
	}
}

// TestNewestRows: models are aligned by the newest rows that enter fits, oldest first.
func TestNewestRows(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	x, labels := l.data.newest(3)
	if len(x) != 6 || !slices.Equal(labels, []string{"out", "in", "out"}) {
		t.Errorf("%v, %v", x, labels)
	}
	if last := l.data.window.At(window.Position{Seq: 15, Row: 19}); !slices.Equal(x[4:], last.X) {
		t.Errorf("the last row is %v, want %v", x[4:], last.X)
	}
	if x, labels = l.data.newest(1000); len(labels) != 300 || len(x) != 600 {
		t.Errorf("%d rows", len(labels))
	}
	if x, labels = (&dataset{window: windowOf(0, window.Config{})}).newest(3); x != nil || labels != nil {
		t.Errorf("of no rows: %v, %v", x, labels)
	}
}

// TestRestoredComparisons: a comparison continues after a restart with the same gate, and starts over with another one.
func TestRestoredComparisons(t *testing.T) {
	gate := spec.Gate{Evidence: 1000}
	for _, door := range []string{policy.DoorBetter, policy.DoorMoreRows, policy.DoorNewClass} {
		for name, c := range map[string]struct {
			gate    spec.Gate
			nearest int
			kept    bool
		}{
			"same": {gate, 3, true}, "earlier version": {gate, 0, true},
			"margin": {spec.Gate{Evidence: 1000, Margin: 0.1}, 3, false},
			"closed": {spec.Gate{Evidence: 1000, MoreRows: math.Inf(1), NewClass: math.Inf(1)}, 3, door == policy.DoorBetter},
		} {
			was := &candidate{Model: &prequential.Model{}, size: 250, comparison: policy.Compare(gate, door)}
			was.comparison.Test.Count, was.comparison.HeldOut.Rows, was.comparison.Nearest.Count = 5, 6, c.nearest
			s := stateOf(was)
			if s.Size != 250 || s.Growing != (door != policy.DoorBetter) || (s.Door != "") != (door == policy.DoorNewClass) {
				t.Errorf("the state of a candidate by door %s is %+v", door, s)
			}
			now := policy.Compare(c.gate, policy.DoorBetter)
			s.restore(&now, c.gate)
			got := now.Door == door && now.Test.Count == 5 && now.HeldOut.Rows == 6 && now.Nearest.Count == c.nearest
			if got != c.kept || !c.kept && now.Test.Count != 0 {
				t.Errorf("%s, door %s: %+v, kept %v", name, door, now, got)
			}
		}
	}
}

// TestForgottenModels: the state of a checkpoint whose models are not the live one is that of its rows.
func TestForgottenModels(t *testing.T) {
	at := window.Position{Seq: 7}
	rows := checkpoint{Format: 2, Last: at, Oldest: at, Level: 3, References: 4, Alarms: 5, Known: 6,
		Policy: policy.Schedule{Learned: 7}, Sampling: evidence.Sampling{Count: 8}}
	s := rows
	s.Rules, s.Candidates, s.Probe = policy.Rules{Live: 1}, []candidateState{{Size: 1}}, &probeState{}
	s.Live.Last.Rows, s.LiveBeats.Test.Count, s.LiveFitted, s.LiveFrom, s.LiveTo, s.Judged = 1, 2, 3, at, at, 4
	s.Policy.Fitted = []policy.SuffixFit{{Size: 1}}
	s.Drift.Add("a", 1)
	if s.forgetModels(); !reflect.DeepEqual(s, rows) {
		t.Errorf("%+v, want %+v", s, rows)
	}
}

// TestProbeModels: a window probe has a discriminant of each suffix, the longest first, also behind landmarks.
func TestProbeModels(t *testing.T) {
	for _, landmarks := range []int{0, 20} {
		l, _, _ := logged(t, fit.Config{Method: "lfda", Dim: 2, Landmarks: landmarks})
		if l.probe == nil {
			t.Fatal("no probe")
		}
		l.probe.members = nil
		for _, size := range []int{250, 0, 125, 250} {
			l.probe.fit(t.Context(), size)
		}
		if got := l.probe.state().Sizes; !slices.Equal(got, []int{0, 250, 125}) {
			t.Errorf("%d landmarks: discriminants of %v rows", landmarks, got)
		}
		for _, m := range l.probe.members {
			if m.Method() != "lda" || m.M() != 2 {
				t.Errorf("%d landmarks: a %s of %d features", landmarks, m.Method(), m.M())
			}
		}
	}
	if compareSizes(0, 250) <= 0 || compareSizes(250, 0) >= 0 || compareSizes(250, 500) >= 0 || compareSizes(0, 0) != 0 {
		t.Error("the whole window is not the longest suffix")
	}
}

// TestDoorsOfACandidate: a candidate that was judged by whether it is better needs only be no worse once it has more
// rows, and starts over; otherwise its evidence stays when it is fitted again.
func TestDoorsOfACandidate(t *testing.T) {
	for _, c := range []struct {
		was   string
		grown bool
		door  string
		count int
	}{
		{policy.DoorBetter, false, policy.DoorBetter, 5}, {policy.DoorBetter, true, policy.DoorMoreRows, 0},
		{policy.DoorMoreRows, false, policy.DoorMoreRows, 5}, {policy.DoorMoreRows, true, policy.DoorMoreRows, 5},
	} {
		l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
		l.fitCandidate(t.Context(), 0)
		k := l.candidateOf(0)
		k.comparison = policy.Compare(l.config.Training.Gate, c.was)
		k.comparison.Test.Count = 5
		if c.grown {
			_, m, err := l.fitter.fit(t.Context(), 60)
			if err != nil {
				t.Fatal(err)
			}
			l.live = prequential.New(m)
		} else {
			l.live = prequential.New(k.Model.Model)
		}
		if l.fitCandidate(t.Context(), 0); k.comparison.Door != c.door || k.comparison.Test.Count != c.count {
			t.Errorf("%+v: door %s after %d rows", c, k.comparison.Door, k.comparison.Test.Count)
		}
	}
}

// TestOutlierIsDescribed: the newest outlier is described with its place, its feature and its limits.
func TestOutlierIsDescribed(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	if got := l.data.describeOutlier(); got != "" {
		t.Errorf("without outliers: %q", got)
	}
	e := &Event{}
	for row := range 2 {
		e.Rows = append(e.Rows, window.Row{Position: window.Position{Seq: 16, Row: row}, MessageRows: 2, Time: 16e9,
			Label: "in", Source: "in.a", X: []float64{1, []float64{1e6, -1e200}[row]}})
	}
	l.Learn(t.Context(), e)
	l.data.sift()
	got := l.data.describeOutlier()
	if want := "2 outliers were set aside, 0 are learned within limits; the newest is row 1 of message 16 of in.a: " +
		"feature y is -1e+200, and sums of squares of numbers beyond 1e+140 exceed float64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const begins = `level=WARN msg="outliers are set aside, or learned within limits" rows=2 newest="`
	if !strings.HasPrefix(log.String(), begins) ||
		!strings.HasSuffix(log.String(), `fix="find their publisher; if the values are right, send their logarithm"`+"\n") {
		t.Errorf("the log has %q", log.String())
	}
	var s spec.Status
	if l.data.countOutliers(&s); s.Outliers != 2 || s.LimitedRows != 0 || s.LastOutlier != got ||
		len(s.OutlierClasses) != 1 || s.OutlierClasses[0].Class != "in" || s.OutlierClasses[0].SetAside != 2 {
		t.Errorf("status %+v", s)
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
		c.comparison = policy.Compare(l.config.Training.Gate, policy.DoorBetter)
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

// TestModelsOfOtherDimensions: models of different numbers of outputs are not comparable, whatever the rows are.
func TestModelsOfOtherDimensions(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	one, err := fit.Fit(t.Context(), &model.Data{N: 3, M: 2, X: []float64{1, 2, 4, 5, 7, 9}, Features: []string{"x", "y"}},
		fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, loss, err := compareModels(t.Context(), l.data.window, one, l.live.Model, fittedRows{}, window.Position{})
	if got != different || loss != (prequential.Loss{Mean: 1}) || err != nil {
		t.Errorf("answer %d, loss %+v, %v", got, loss, err)
	}
	for want, loss := range map[string]prequential.Loss{"have no rows to be compared on": {},
		"lose 2.5 points on 9 rows, too few for a standard error": {Mean: 0.025, Error: math.Inf(1), Rows: 9},
		"lose 2.5 +- 1.2 points on 9 rows":                        {Mean: 0.025, Error: 0.012, Rows: 9}} {
		if got := describeLoss(loss); got != want {
			t.Errorf("%+v: %q, want %q", loss, got, want)
		}
	}
	for _, c := range []struct {
		mean, err float64
		want      answer
	}{
		{0.0049, 0.01, comparable}, {0.0051, 0.01, undecided}, {0.02, 0, comparable}, {0.0201, 0.01, different},
		{0.0201, 0.0101, undecided}, {0.05, 0.0299, different}, {0.05, 0.0301, undecided}, {-1, 0.1, comparable},
	} {
		if got := answerOf(prequential.Loss{Mean: c.mean, Error: c.err}); got != c.want {
			t.Errorf("a loss of %g +- %g: answer %d, want %d", c.mean, c.err, got, c.want)
		}
	}
}

// TestEffectOfHeldOutRows: while the design effect of the stream is not known, rows that are held out count by that of
// their stretches alone.
func TestEffectOfHeldOutRows(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	rows := heldOutRows(l.data)
	differences := make([]float64, len(rows))
	for i := range differences {
		differences[i] = float64(i/2%2*2 - 1)
	}
	if l.drift = (evidence.DriftDetector{}); l.drift.Blocks.IsKnown() {
		t.Fatal("the design effect is known")
	}
	var clusters evidence.Clusters
	stretch, last := 0, window.Position{}
	for i := range rows {
		if from, _ := rows[i].Neighbourhood(); i == 0 || from != last {
			stretch, last = stretch+1, from
		}
		clusters.Add(stretch, rows[i].Label, differences[i])
	}
	if got, want := heldOutEffect(l, rows, differences), clusters.Effect(); got != want || len(rows) == 0 ||
		!(got < l.drift.Blocks.Effect()) {
		t.Errorf("a design effect of %g for %d rows, want %g, below %g", got, len(rows), want, l.drift.Blocks.Effect())
	}
}

// TestLandmarksOfAModel: candidates keep the landmarks of the live model, and draw others if it has none or others than
// configured; after a restart those that were to be drawn again still are.
func TestLandmarksOfAModel(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2, Landmarks: 20})
	f := l.fitter
	first := f.landmarks.Landmarks
	f.keepLandmarks(t.Context(), live().Model)
	if f.landmarks.Landmarks != first || f.landmarks.New || log.Len() > 0 {
		t.Errorf("landmarks %+v, the log has %q", f.landmarks.renewal, log.String())
	}
	f.landmarks = landmarks{}
	if f.keepLandmarks(t.Context(), live().Model); f.landmarks.Len() != 20 || f.landmarks.New {
		t.Errorf("%d landmarks of the model, %+v", f.landmarks.Len(), f.landmarks.renewal)
	}
	for _, r := range []renewal{{}, {New: true}, {Alarmed: true}, {New: true, Alarmed: true}} {
		f.landmarks = landmarks{}
		if f.resume(live().Model, r); f.landmarks.renewal != r || (f.landmarks.Landmarks == nil) != r.New {
			t.Errorf("after a restart with %+v: %+v", r, f.landmarks)
		}
	}
	rows := &model.Data{N: 3, M: 2, X: []float64{1, 2, 4, 5, 7, 9}, Features: []string{"x", "y"}}
	plain, err := fit.Fit(t.Context(), rows, fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	f.landmarks = landmarks{Landmarks: first}
	if f.keepLandmarks(t.Context(), plain); f.landmarks.Landmarks != nil || !f.landmarks.New ||
		!strings.HasPrefix(log.String(), `level=INFO msg="candidates are fitted on new landmarks" cause="`) {
		t.Errorf("landmarks %+v, the log has %q", f.landmarks, log.String())
	}
	log.Reset()
	if err := f.draw(t.Context()); err != nil || f.landmarks.Len() != 20 {
		t.Errorf("%d landmarks are drawn, %v", f.landmarks.Len(), err)
	}
	if !strings.HasPrefix(log.String(), `level=INFO msg="landmarks were drawn" landmarks=20 rank=`) ||
		!strings.HasSuffix(log.String(), " requested=20 rows=260\n") {
		t.Errorf("the log has %q", log.String())
	}
	if f.redraw(); f.landmarks.Landmarks != nil {
		t.Error("landmarks that are not those of the live model stay")
	}
	f.landmarks = landmarks{Landmarks: first}
	if f.redraw(); f.landmarks.Landmarks != first {
		t.Error("landmarks of the live model are drawn again")
	}
	none, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	none.fitter.keepLandmarks(t.Context(), live().Model)
	none.fitter.resume(live().Model, renewal{New: true})
	err = none.fitter.draw(t.Context())
	if err != nil || none.fitter.landmarks.Landmarks != nil || none.fitter.landmarks.New {
		t.Errorf("without landmarks there are %+v, %v", none.fitter.landmarks, err)
	}
}

// TestFitThatPanics: a panic of a method is the error of its fit, with the name of the method.
func TestFitThatPanics(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.fitter.features = func() []string { panic("no names") }
	_, _, err := l.fitter.fit(t.Context(), 0)
	if want := "fitting lda panicked: no names; please report it"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWaitingRows: each event with rows says which row waits for its label, and no request or change of standby does.
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
