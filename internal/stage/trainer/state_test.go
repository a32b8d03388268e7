package trainer

import (
	"bytes"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/profile"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestScoredRows: rows count as evidence by their difference, with the effect of the stream and, where the nearest
// reference judges, that of the references.
func TestScoredRows(t *testing.T) {
	for _, door := range []string{policy.DoorBetter, policy.DoorMoreRows} {
		l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
		_, m, err := l.fitter.fit(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		c := &candidate{Model: prequential.New(m), comparison: policy.NewComparison(l.config.Training.Gate, door)}
		l.candidates = []*candidate{c}
		for part := range 4 {
			var rows []window.Row
			var x []float64
			for i := range 20 {
				row := window.Row{Position: window.Position{Seq: uint64(30 + part), Row: i}, Time: 30e9, MessageRows: 20,
					Label: []string{"in", "out"}[i%2], X: []float64{float64(i), float64(i % 5)}}
				rows, x = append(rows, row), append(x, row.X...)
			}
			test, nearest, sampling := c.comparison.Test, c.comparison.Nearest, l.labels
			sampling.Rows = maps.Clone(sampling.Rows)
			effect, n := l.drift.Blocks.Effect(), float64(l.data.references.Len())
			u := c.Score(t.Context(), l.data.references, rows, x, true)
			v := l.live.Score(t.Context(), l.data.references, rows, x, true)
			for i := range rows {
				row := sampling.Add(rows[i].Label)
				row.Effect = effect
				byNearest := row
				byNearest.Effect += 0.15 * min(float64(test.Count)/n, 5)
				if door == policy.DoorBetter {
					test.AddRow(u.Right[i]-v.Right[i], byNearest)
				} else {
					nearest.AddRow(u.Right[i]-v.Right[i], byNearest)
					test.AddRow(u.Shares[i]-v.Shares[i], row)
				}
			}
			l.score(t.Context(), rows)
			if c.comparison.Test != test || c.comparison.Nearest != nearest || len(l.x) != len(x) {
				t.Errorf("door %s, part %d: %+v, want %+v; by the nearest %+v, want %+v; %d numbers", door, part,
					c.comparison.Test, test, c.comparison.Nearest, nearest, len(l.x))
			}
		}
	}
}

// TestSeriesOfModels: values of the next model continue those of the live one if that is not early, and has the same
// method and the same classes.
func TestSeriesOfModels(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	same, of := l.live, func(method string, classes ...string) *prequential.Model {
		d := &model.Data{M: 2, Classes: classes}
		for i := range 40 {
			d.X, d.Y, d.N = append(d.X, float64(i%2*9+i%7), float64(i%5)), append(d.Y, i%2), d.N+1
		}
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: method, Dim: 1})
		if err != nil {
			t.Fatal(err)
		}
		return prequential.New(m)
	}
	for _, c := range []struct {
		every int
		m     *prequential.Model
		want  bool
	}{{1, same, true}, {1000, same, false}, {1, of("pairacc", "in", "out"), false}, {1, of("lda", "in", "out"), true},
		{1, of("lda", "in", "other"), false}} {
		l.schedule.Every.Rows = c.every
		if got := continuesSeries(l, c.m); got != c.want {
			t.Errorf("a first model of %d rows, %s of %q: continues %v", c.every, c.m.Method(), c.m.Classes(), got)
		}
	}
}

// TestReadFrom: a restart reads from the oldest row of the window, or from an older one of the same stream that waits.
func TestReadFrom(t *testing.T) {
	at := func(created int64, seq uint64) window.Position { return window.Position{Created: created, Seq: seq} }
	w := window.New(window.Config{Features: 1, Rows: 10})
	w.Add(window.Row{Position: at(2, 5), X: []float64{1}})
	for _, c := range []struct{ waiting, want window.Position }{
		{at(0, 0), at(2, 5)}, {at(2, 4), at(2, 4)}, {at(2, 6), at(2, 5)}, {at(1, 4), at(2, 5)}, {at(2, 0), at(2, 5)},
	} {
		if got := (&dataset{window: w, waiting: c.waiting}).readFrom(); got != c.want {
			t.Errorf("waiting from %v: %v, want %v", c.waiting, got, c.want)
		}
	}
	none := &dataset{window: window.New(window.Config{Features: 1, Rows: 10}), waiting: at(1, 4)}
	if got := none.readFrom(); got != at(1, 4) {
		t.Errorf("without rows: %v", got)
	}
}

// TestRowsUntilAFit: no number of rows makes a fit due while nothing may be fitted.
func TestRowsUntilAFit(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	l.pinned = true
	pinned := rowsUntilFit(l)
	l.pinned, l.standby = false, true
	standby := rowsUntilFit(l)
	l.standby = false
	empty, _ := newTrainer([]string{"x"}, configOf(fit.Config{Method: "lda"}))
	never := configOf(fit.Config{Method: "lda"})
	never.Training.Gate.NeverFirst = true
	closed, _ := newTrainer([]string{"x"}, never)
	if n := rowsUntilFit(l); pinned != math.MaxInt || standby != math.MaxInt || rowsUntilFit(closed) != math.MaxInt ||
		rowsUntilFit(empty) != 100 || n < 1 || n > 100 {
		t.Errorf("pinned %d, on standby %d, without a first model %d, before the first row %d, then %d", pinned, standby,
			rowsUntilFit(closed), rowsUntilFit(empty), n)
	}
}

// TestStartOver: nothing of the models stays, and the next fit is a first one.
func TestStartOver(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	if l.standby = true; l.drift.Len() == 0 || l.newest == 0 {
		t.Fatalf("%d rows of drift, newest %d", l.drift.Len(), l.newest)
	}
	startOver(t.Context(), l)
	if l.live != nil || l.candidates != nil || l.newest != 0 || l.drift.Len() != 0 || l.plan.width != 0 ||
		l.schedule.Learned != 300 || len(l.schedule.Fitted) != 0 {
		t.Errorf("live %v, newest %d, %d rows of drift, width %d, schedule %+v", l.live, l.newest, l.drift.Len(),
			l.plan.width, l.schedule)
	}
}

// TestOrderOfCandidates: the longest suffix comes first, in whatever order they are fitted.
func TestOrderOfCandidates(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	for _, sizes := range [][]int{{0, 250, 125}, {125, 250, 0}} {
		l.candidates = nil
		var got []int
		for _, size := range sizes {
			l.fitCandidate(t.Context(), size)
		}
		for _, c := range l.candidates {
			got = append(got, c.size)
		}
		if !slices.Equal(got, []int{0, 250, 125}) {
			t.Errorf("fitted as %v: %v", sizes, got)
		}
	}
}

// TestBootstrapModel: a PCA of the first 100 rows goes live with the last of them, and without a window that has fewer
// rows than configured there is no warning.
func TestBootstrapModel(t *testing.T) {
	c, log := configOf(fit.Config{Method: "lda", Dim: 2}), &bytes.Buffer{}
	c.Until, c.Logger = spec.UntilPCA, slog.New(slog.NewTextHandler(log, nil))
	l, live := newTrainer([]string{"x", "y"}, c)
	var reports []spec.Outcome
	l.host.Report = func(o spec.Outcome) { reports = append(reports, o) }
	row := func(i int) []float64 { return []float64{float64(i), float64(i * i % 7)} }
	for i := range 99 {
		l.Learn(t.Context(), &Event{Unlabelled: [][]float64{row(i)}})
	}
	if live() != nil {
		t.Error("a model of 99 rows is live")
	}
	l.Learn(t.Context(), &Event{Unlabelled: [][]float64{row(99)}})
	l.Learn(t.Context(), &Event{Unlabelled: [][]float64{row(100)}})
	if live() == nil || l.unlabelled != nil || !live().Bootstrap || len(reports) != 1 || reports[0].Rows != 100 ||
		reports[0].Door != policy.DoorBootstrap || reports[0].Reason != "a PCA of the first 100 rows serves until a first "+
		"model exists" || strings.Contains(log.String(), "WARN") {
		t.Errorf("%+v, reports %+v, log %s", live(), reports, log)
	}
}

// TestUnusualStreamsAreLogged: each kind is logged once, one about the model as a warning.
func TestUnusualStreamsAreLogged(t *testing.T) {
	w := window.New(window.Config{Features: 20, Rows: 1000, Labelled: true})
	for i := range 400 {
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: string(rune('a' + i%16)), MessageRows: 1,
			X: make([]float64, 20)})
	}
	log := &bytes.Buffer{}
	var d description
	for range 2 {
		d.arrived = 7
		d.update(w, profile.Stream{Outputs: 2}, func() {}, slog.New(slog.NewTextHandler(log, nil)))
	}
	text := log.String()
	for _, want := range []string{"level=WARN msg=\"the model has few outputs for its classes\" description=",
		"level=INFO msg=\"the stream is unusual\" kind=" + string(spec.UnusualCopies) + " description=\"96 %",
		"level=INFO msg=\"the stream is unusual\" kind=" + string(spec.UnusualConstant) + " description=\"20 of"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the log has %q %d times: %s", want, strings.Count(text, want), text)
		}
	}
	if d.arrived != 0 || len(d.unusual) != 3 {
		t.Errorf("%d rows have arrived, unusual: %+v", d.arrived, d.unusual)
	}
}
