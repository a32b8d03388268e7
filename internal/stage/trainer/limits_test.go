package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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

// windowOf is a window of n rows of one feature, of classes in turn.
func windowOf(n int, c window.Config, classes ...string) *window.Window {
	c.Features, c.Rows, c.Classes, c.Labelled = 1, n, 10, len(classes) > 0
	w, r := window.New(c), rand.New(rand.NewPCG(91, 92))
	for i := range n {
		row := window.Row{Position: window.Position{Seq: uint64(i + 1)}, X: []float64{r.NormFloat64()}}
		if len(classes) > 0 {
			row.Label = classes[i%len(classes)]
		}
		w.Add(row)
	}
	return w
}

// TestStretches: the rows of a fit are divided into runs of equally many rows: 32 of them, or fewer of 16 rows.
func TestStretches(t *testing.T) {
	for rows, size := range map[int]int{1: 16, 100: 16, 543: 16, 544: 17, 10_000: 312} {
		groups := stretches(rows)
		if len(groups) != rows {
			t.Errorf("%d rows have %d groups", rows, len(groups))
		}
		for i, group := range groups {
			if group != i/size {
				t.Fatalf("row %d of %d is in group %d, want groups of %d rows", i, rows, group, size)
			}
		}
	}
}

// TestDescriptionIsDue: the window is described again after 100 rows, or a sixteenth of it.
func TestDescriptionIsDue(t *testing.T) {
	for rows, want := range map[int]int{10: 100, 1600: 100, 1632: 102, 4000: 250} {
		w := windowOf(rows, window.Config{})
		d := description{}
		for !d.isDue(w) && d.arrived < 10_000 {
			d.arrived++
		}
		if d.arrived != want {
			t.Errorf("a window of %d rows is described after %d rows, want %d", rows, d.arrived, want)
		}
	}
	if d := (description{arrived: 1000}); d.isDue(nil) {
		t.Error("a description is due without a window")
	}
}

// TestSeenClasses: a label is a class of the stream from ten rows on.
func TestSeenClasses(t *testing.T) {
	s := evidence.LabelSequence{Rows: map[string]float64{"b": 10, "a": 11, "c": 9}}
	if got := seenClasses(&s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("classes %q", got)
	}
}

// TestHeldOutRowsAreBounded: a candidate is judged by the newest 2,000 rows that are held out, oldest first.
func TestHeldOutRowsAreBounded(t *testing.T) {
	for rows, most := range map[int]int{1000: 400, 12_000: 2000} {
		d := &dataset{window: windowOf(rows, window.Config{Holdout: 0.2}, "a", "b"),
			references: prequential.NewReferences(0)}
		d.sift()
		d.referAll()
		d.references.Sync(d.window)
		var unseen []uint64
		d.window.All(func(r *window.Row) bool {
			if r.IsUnseen() {
				unseen = append(unseen, r.Seq)
			}
			return true
		})
		var got []uint64
		for _, r := range heldOutRows(d, window.Position{}) {
			got = append(got, r.Seq)
		}
		if want := unseen[max(len(unseen)-most, 0):]; len(want) < 100 || !slices.Equal(got, want) {
			t.Errorf("of %d rows that are held out, %d judge, want the newest %d", len(unseen), len(got), len(want))
		}
	}
}

// TestLimitOfAFit: the matrices of a fit take at most the memory of the window: 12 if it is made from moments, else 40.
// Otherwise it has fewer rows than features, of which 20 copies take that memory; of fewer than 16 nothing is learned.
func TestLimitOfAFit(t *testing.T) {
	for _, c := range []struct {
		method string
		m      int
		bytes  int64
		rows   int // 0: no limit
		learns bool
	}{
		{"lda", 100, 12 * 8 * 100 * 100, 0, true},
		{"lda", 100, 12*8*100*100 - 1, 59, true},
		{"lda", 10, 12*8*10*10 - 1, 5, false},
		{"lfda", 100, 40 * 8 * 100 * 100, 0, true},
		{"lfda", 100, 40*8*100*100 - 1, 99, true}, // fewer than features
		{"auto", 100, 40*8*100*100 - 1, 99, true},
		{"lfda", 1000, 20 * 8 * 1000 * 16, 16, true},
		{"lfda", 1000, 20*8*1000*16 - 1, 15, false},
	} {
		config := configOf(fit.Config{Method: c.method})
		config.Training.Window.Bytes = c.bytes
		p := newPlan(config)
		p.setLimit(c.m)
		p.setLimit(c.m) // does not depend on the limit before
		if p.maxRows != c.rows || p.learnsNothing() == c.learns {
			t.Errorf("%s of %d features in %d bytes: %d rows, %q", c.method, c.m, c.bytes, p.maxRows, p.limit)
		}
		if c.rows == 0 {
			continue
		}
		_, fix, _ := strings.Cut(p.limit, "raise training.window.bytes to ") // MiB
		mib := int64(0)
		if _, err := fmt.Sscan(fix, &mib); err != nil {
			t.Fatalf("%q: %v", p.limit, err)
		}
		for more, limited := range map[int64]bool{0: false, -1: true} {
			config.Training.Window.Bytes = (mib + more) << 20
			p := newPlan(config)
			if p.setLimit(c.m); (p.limit != "") != limited {
				t.Errorf("%s of %d features in %d MiB: %q", c.method, c.m, mib+more, p.limit)
			}
		}
	}
}

// TestWindowRows: a method that needs the rows has a window of as many as its fit has memory for, and of at least 16.
func TestWindowRows(t *testing.T) {
	for _, method := range []string{"isomap", "mpda"} { // the latter also by the rows of the largest class
		c := configOf(fit.Config{Method: method})
		c.Spec.Label = map[string]string{"mpda": "label"}[method]
		for _, bytes := range []int64{1, 1 << 20, 16 << 20} {
			c.Training.Window.Bytes = bytes
			n := newPlan(c).windowRows(5000, 3)
			fits := c.Fit.MemoryEstimate(n, n, 3) <= bytes
			if n < 16 || !fits && n > 16 || c.Fit.MemoryEstimate(n+1, n+1, 3) <= bytes {
				t.Errorf("%d bytes: %d rows", bytes, n)
			}
		}
		for less, want := range map[int64]int{0: 500, 1: 499} {
			c.Training.Window.Bytes = c.Fit.MemoryEstimate(500, 500, 3) - less
			if n := newPlan(c).windowRows(5000, 3); n != want {
				t.Errorf("the memory of 500 rows, less %d bytes: %d rows", less, n)
			}
		}
	}
}

// TestProbesOfWideRows: a window probe fits discriminants of up to 1,024 columns, for methods that need the rows.
func TestProbesOfWideRows(t *testing.T) {
	for _, c := range []struct {
		fit  fit.Config
		m    int
		want bool
	}{{fit.Config{Method: "lfda"}, 1024, true}, {fit.Config{Method: "lfda"}, 1025, false},
		{fit.Config{Method: "auto"}, 1024, true}, {fit.Config{Method: "lda"}, 10, false},
		{fit.Config{Method: "lfda", Landmarks: 300}, 5000, true}} {
		if got := newPlan(configOf(c.fit)).probes(c.m); got != c.want {
			t.Errorf("%+v of %d features: probes %v", c.fit, c.m, got)
		}
	}
}

// TestRoomForClasses: a first model whose outputs depend on its classes has 20 outputs, as many as its classes have
// directions if that is more, and no more than there are features or the configuration allows.
func TestRoomForClasses(t *testing.T) {
	for _, c := range []struct{ classes, features, most, want int }{
		{3, 100, 0, 20}, {21, 100, 0, 20}, {25, 100, 0, 24}, {3, 10, 0, 10}, {3, 100, 12, 12},
	} {
		p := newPlan(configOf(fit.Config{Method: "lda", MaxDim: c.most}))
		s := &window.Suffix{Classes: make([]string, c.classes)}
		if got := p.settingsFor(s, c.features); got.Outputs != c.want || got.MaxDim != c.want {
			t.Errorf("%d classes, %d features: %d outputs, at most %d, want %d", c.classes, c.features, got.Outputs,
				got.MaxDim, c.want)
		}
	}
}

// TestLandmarksLoseVariance: landmarks are drawn again if the rows have less than half of the variance on them that
// they have on landmarks of their own, in any order of their classes.
func TestLandmarksLoseVariance(t *testing.T) {
	l, _ := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2, Landmarks: 20}))
	learnRings(t, l, 0)
	marks, ratios := l.fitter.landmarks.Landmarks, []float64(nil)
	if marks == nil {
		t.Fatal("no landmarks")
	}
	for k := range 16 {
		moved, inTurn := []float64{0, 1, 2, 3, 4, 5, 6, 8}[k/2], k%2 == 1
		w := window.New(window.Config{Features: 2, Rows: 1000, Classes: 10, Labelled: true, Copies: true})
		r := rand.New(rand.NewPCG(93, 94))
		for i := range 600 { // of two rings, moved, whose classes come in random order, or in turn
			angle, class := 2*math.Pi*r.Float64(), r.IntN(2)
			if inTurn {
				class = i % 2
			}
			radius := float64(1+2*class) + r.NormFloat64()/10
			w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: []string{"in", "out"}[class],
				X: []float64{moved + radius*math.Cos(angle), radius * math.Sin(angle)}})
		}
		d := l.fitter.samples(w.NewestRows(w.Len()))
		own, err := fit.DrawLandmarks(t.Context(), d, l.config.Fit)
		if err != nil {
			t.Fatal(err)
		}
		before, err := mappedVariance(t.Context(), marks, d)
		if err != nil {
			t.Fatal(err)
		}
		after, err := mappedVariance(t.Context(), own, d)
		if err != nil {
			t.Fatal(err)
		}
		ratio := before / after
		ratios = append(ratios, ratio)
		f := *l.fitter
		f.data = &dataset{window: w}
		why := f.lostVariance(t.Context())
		if isLost := strings.Contains(why, "variance"); isLost != (ratio < 0.5) && !(math.Abs(ratio-0.5) <= 0.03) {
			t.Errorf("moved by %g, classes in turn %v: the rows have %.2g of their variance, and the reason is %q", moved,
				inTurn, ratio, why)
		}
	}
	kept := func(from, to float64) bool {
		return slices.ContainsFunc(ratios, func(r float64) bool { return r > from && r < to })
	}
	if !kept(0.06, 0.45) || !kept(0.55, 2) {
		t.Errorf("shares of the variance %.2g", ratios)
	}
}

// TestBalancedWeights: all classes of a sample count alike, but a row ten times its share at most.
func TestBalancedWeights(t *testing.T) {
	for _, c := range []struct {
		share   float64
		classes int
		want    float64
	}{{0.5, 2, 1}, {0.25, 2, 2}, {0.75, 4, 1. / 3}, {0.04, 2, 10}, {0.06, 2, 1 / 0.12}, {0.001, 2, 10}} {
		if got := balancedWeight(c.share, c.classes); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("a share of %g in %d classes weighs %g, want %g", c.share, c.classes, got, c.want)
		}
	}
}

// TestRowsOfAComparison: models are compared on the newest 500 rows, and on twice as many until there is an answer, or
// on 4,000. Here the older model loses 1.95 points: its outputs are moved, and the classes are those of the sign.
func TestRowsOfAComparison(t *testing.T) {
	w := window.New(window.Config{Features: 1, Rows: 12_000, Classes: 10, Labelled: true})
	for i := range 12_000 { // any of them that follow each other are spread evenly over -1 to 1
		_, x := math.Modf(float64(i+1) * math.Phi)
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, X: []float64{2*x - 1},
			Label: map[bool]string{true: "+", false: "-"}[x > 0.5]})
	}
	from := func(mean float64) *model.Model {
		m, err := fit.Fit(t.Context(), &model.Data{N: 2, M: 1, X: []float64{mean - 1, mean + 1}, Features: []string{"x"}},
			fit.Config{Method: "pca", Dim: 1, Scale: model.ScaleNone})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	all := fittedRows{last: window.Position{Seq: 1}}
	for _, c := range []struct {
		moved float64
		want  comparability
		rows  int
	}{{0, comparable, 500}, {-0.039, undecided, 4000}, {-1, different, 500}} {
		got, loss, err := compareModels(t.Context(), w, from(c.moved), from(0), all, window.Position{})
		if err != nil || got != c.want || loss.Rows < c.rows-1 || loss.Rows > c.rows {
			t.Errorf("moved by %g: answer %d on %d rows, loss %.4f +- %.4f, want answer %d on %d: %v", c.moved, got, loss.Rows,
				loss.Mean, loss.Error, c.want, c.rows, err)
		}
	}
}

// TestRowsAreScoredBeforeTheyAreLearned: the rows of a message are scored and learned 32 at a time, so that the first
// model is from the first 128 of a message of 600.
func TestRowsAreScoredBeforeTheyAreLearned(t *testing.T) {
	c, learned := configOf(fit.Config{Method: "lda", Dim: 2}), 0
	l, live := newTrainer([]string{"x", "y"}, c)
	c.Store = func(context.Context, *spec.Release) (string, error) {
		learned = cmp.Or(learned, l.schedule.Learned)
		return "v", nil
	}
	r, e := rand.New(rand.NewPCG(95, 96)), &Event{}
	for row := range 600 {
		e.Rows = append(e.Rows, window.Row{Position: window.Position{Seq: 1, Row: row}, MessageRows: 600,
			Label: []string{"a", "b"}[row%2], X: []float64{float64(5*(row%2)) + r.NormFloat64(), r.NormFloat64()}})
	}
	if l.Learn(t.Context(), e); live() == nil || learned != 128 {
		t.Errorf("the first model is %v, after %d rows", live(), learned)
	}
}

// TestFailuresAreReported: a fit that fails again and again is reported every 1,000 rows, and after a restart.
func TestFailuresAreReported(t *testing.T) {
	l, _ := newTrainer([]string{"x"}, configOf(fit.Config{Method: "lda"}))
	var at []int
	l.host.Report = func(spec.Outcome) { at = append(at, l.schedule.Learned) }
	learned := func(from, to int) {
		for n := from; n <= to; n++ {
			l.schedule.Learned = n
			l.reportFailure(t.Context(), errors.New("no fit"), n)
		}
	}
	learned(0, 2500)
	learned(100, 1100)
	if want := []int{0, 1001, 2001, 100, 1100}; !slices.Equal(at, want) {
		t.Errorf("reports after %v rows, want %v", at, want)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	l.schedule.Learned = 9000
	l.reportFailure(ended, errors.New("no fit"), 1)
	if l.reportFailure(t.Context(), nil, 1); len(at) != 5 {
		t.Error("an end, or no error, is reported")
	}
}

// TestCheckpointIsBounded: the agreement with the labels of very many classes is left out of a checkpoint that would
// exceed 40 KiB.
func TestCheckpointIsBounded(t *testing.T) {
	left := 0
	for classes := 500; classes <= 4000; classes += 500 {
		s := checkpoint{Format: 2,
			LiveAgreement: policy.Agreement{Last: policy.Confusion{Rows: 9, True: map[string]float64{}}},
			Candidates:    []candidateState{{Agreement: policy.Agreement{Last: policy.Confusion{Rows: 9}}}}}
		for i := range classes {
			s.LiveAgreement.Last.True[fmt.Sprint("class ", i)] = 1
		}
		rest := checkpoint{}
		room := 40<<10 + len(rest.marshal()) - len(s.marshal())
		back, err := readCheckpoint(s.bytes())
		if err != nil {
			t.Fatal(err)
		}
		live, candidate := back.LiveAgreement.Last.Rows, back.Candidates[0].Agreement.Last.Rows
		isKept := live == 9 && candidate == 9
		if isGone := live == 0 && candidate == 0; isKept != (room >= 0) || isGone == isKept {
			t.Errorf("%d classes, %d bytes of room: kept %v", classes, room, isKept)
		}
		if !isKept {
			left++
		}
	}
	if left == 0 || left == 8 {
		t.Errorf("%d of 8 checkpoints are without agreement", left)
	}
}

// TestCheckpointFormats: a checkpoint of a newer format is not read.
func TestCheckpointFormats(t *testing.T) {
	for format, want := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		s, err := readCheckpoint(fmt.Appendf(nil, `{"format":%d,"alarms":5}`, format))
		if (err == nil) != want || (s.Alarms == 5) != want {
			t.Errorf("format %d: %+v, %v", format, s, err)
		}
	}
	c := checkpoint{Format: 2}
	if s, err := readCheckpoint(c.bytes()); err != nil || s.Format != 2 {
		t.Errorf("this version writes format %d: %v", s.Format, err)
	}
}

// TestFewLandmarksAreDrawnAgain: landmarks that are fewer than requested, since the first model had few rows, are drawn
// again once there are four rows for each that is requested.
func TestFewLandmarksAreDrawnAgain(t *testing.T) {
	l, _ := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2, Landmarks: 20}))
	learnRings(t, l, 0) // 300 rows
	if l.fitter.landmarks.Len() != 20 {
		t.Fatalf("%d landmarks", l.fitter.landmarks.Len())
	}
	rows := l.data.window.FirstModelRows()
	for want, again := range map[int]bool{20: false, rows / 4: true, rows/4 + 1: false} {
		if rows%4 != 0 {
			t.Fatalf("the window has %d rows", rows)
		}
		l.plan.config.Fit.Landmarks = want
		if why := l.fitter.renewalReason(t.Context(), 100); (why != "") != again {
			t.Errorf("20 landmarks of %d, %d rows: %q", want, rows, why)
		}
	}
}

// TestUnstoredFirstModel: a first model that cannot be stored is fitted again, and one that is stored is not.
func TestUnstoredFirstModel(t *testing.T) {
	c, refused := configOf(fit.Config{Method: "lda", Dim: 2}), errors.New("no connection")
	c.Store = func(context.Context, *spec.Release) (string, error) { return "v", refused }
	l, live := newTrainer([]string{"x", "y"}, c)
	learnRings(t, l, 9)
	if live() != nil || !l.ShouldRetryStore() {
		t.Errorf("the store failed: live is %v, a model is unstored: %v", live(), l.ShouldRetryStore())
	}
	refused = nil
	if l.Tick(t.Context(), time.Unix(100, 0)); live() == nil || l.ShouldRetryStore() || l.storeFailed {
		t.Errorf("it is stored: live is %v, a model is unstored: %v", live(), l.ShouldRetryStore())
	}
}

// TestInterruptedFits: after standby the fits of candidates that are still there count, and others are due.
func TestInterruptedFits(t *testing.T) {
	l, _ := newTrainer([]string{"x", "y"}, configOf(fit.Config{Method: "lda", Dim: 2}))
	learnRings(t, l, 9)
	l.fitAll(t.Context(), nil)
	fits := 0
	l.fitter.countFit = func() { fits++ }
	for _, kept := range []bool{true, false} {
		if l.setStandby(t.Context(), true); !kept {
			l.candidates = nil
		}
		if l.setStandby(t.Context(), false); (fits == 0) != kept || len(l.candidates) == 0 {
			t.Errorf("candidates kept %v: %d fits, %d candidates", kept, fits, len(l.candidates))
		}
	}
}

// TestSettingsOfASuffix: a fit has the outputs of the live model, or room for 20 classes, and as many directions as the
// choice of auto, or as the classes need of which there are more now.
func TestSettingsOfASuffix(t *testing.T) {
	chosen := &model.Choice{Dim: 5}
	for what, c := range map[string]struct {
		configured           fit.Config
		width, known         int
		choice               *model.Choice
		method               string // in place of the configured one
		classes              int
		dim, outputs, maxDim int
	}{
		"first":               {configured: fit.Config{Method: "lda"}, classes: 3, outputs: 20, maxDim: 20},
		"first, any dim":      {configured: fit.Config{Method: "lda", Dim: -1}, classes: 3, dim: -1, outputs: 20, maxDim: 20},
		"given dim":           {configured: fit.Config{Method: "lda", Dim: 3}, width: 3, classes: 9, dim: 3},
		"next":                {configured: fit.Config{Method: "lda"}, width: 7, classes: 3, outputs: 7, maxDim: 7},
		"unsupervised":        {configured: fit.Config{Method: "pca"}, width: 7, classes: 3},
		"chosen":              {fit.Config{Method: "auto"}, 10, 3, chosen, "lda", 3, 5, 10, 10},
		"chosen of any":       {fit.Config{Method: "auto"}, 10, 0, chosen, "lda", 9, 5, 10, 10},
		"chosen, more":        {fit.Config{Method: "auto"}, 10, 3, chosen, "lda", 9, 8, 10, 10},
		"chosen, one more":    {fit.Config{Method: "auto"}, 10, 3, chosen, "lda", 4, 5, 10, 10},
		"chosen, many more":   {fit.Config{Method: "auto"}, 10, 3, chosen, "lda", 15, 10, 10, 10},
		"chosen, few outputs": {fit.Config{Method: "auto"}, 4, 3, chosen, "lda", 3, 4, 4, 4},
		"chosen views":        {fit.Config{Method: "auto"}, 4, 3, chosen, "sle-ovr", 3, 4, 0, 4},
	} {
		p := newPlan(configOf(c.configured))
		if p.width, p.choiceClasses, p.choice = c.width, c.known, c.choice; c.method != "" {
			p.settings.Method = c.method
		}
		got := p.settingsFor(&window.Suffix{Classes: make([]string, c.classes)}, 100)
		if got.Dim != c.dim || got.Outputs != c.outputs || got.MaxDim != c.maxDim {
			t.Errorf("%s: dim %d of %d outputs, at most %d; want %d of %d, at most %d", what, got.Dim, got.Outputs, got.MaxDim,
				c.dim, c.outputs, c.maxDim)
		}
	}
}
