package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// logTo returns a logger of lines without times.
func logTo(log io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestLimitsOfAConfig: each number of a configuration is valid up to its limits, and the error beyond has the number.
func TestLimitsOfAConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(c *spec.Config)
		want   string
	}{
		{func(c *spec.Config) {}, ""},
		{func(c *spec.Config) { c.Training.Holdout = 0.5 }, ""},
		{func(c *spec.Config) { c.Training.Holdout = 0.51 },
			"holdout 0.51 is not in (0, 0.5]; candidates are scored by held-out rows"},
		{func(c *spec.Config) { c.Training.Holdout = -0.1 },
			"holdout -0.1 is not in (0, 0.5]; candidates are scored by held-out rows"},
		{func(c *spec.Config) { c.Training.Holdout = math.NaN() },
			"holdout NaN is not in (0, 0.5]; candidates are scored by held-out rows"},
		{func(c *spec.Config) { c.Training.Gate.Evidence = 1.01 }, ""},
		{func(c *spec.Config) { c.Training.Gate.Evidence = 1 },
			"gate: evidence 1 is not above 1, or margin 0 not in [0, 1)"},
		{func(c *spec.Config) { c.Training.Gate.Margin = 0.99 }, ""},
		{func(c *spec.Config) { c.Training.Gate.Margin = 1 },
			"gate: evidence 1000 is not above 1, or margin 1 not in [0, 1)"},
		{func(c *spec.Config) { c.Training.Gate.Margin = -0.01 },
			"gate: evidence 1000 is not above 1, or margin -0.01 not in [0, 1)"},
		{func(c *spec.Config) { c.Training.Gate.MoreRows = 1.01 }, ""},
		{func(c *spec.Config) { c.Training.Gate.MoreRows = 1 },
			"gate: more rows 1, new class 0 or following 0 is neither above 1 nor 0, for the default"},
		{func(c *spec.Config) { c.Training.Gate.NewClass = 1 },
			"gate: more rows 0, new class 1 or following 0 is neither above 1 nor 0, for the default"},
		{func(c *spec.Config) { c.Training.Gate.Following = -2 },
			"gate: more rows 0, new class 0 or following -2 is neither above 1 nor 0, for the default"},
		{func(c *spec.Config) { c.Training.Window.Rows = 4 }, ""},
		{func(c *spec.Config) { c.Training.Window.Rows = 3 },
			"a window of 3 rows is too small; two classes of two rows need 4"},
		{func(c *spec.Config) { c.Training.Quota.By = spec.QuotaSubject }, ""},
		{func(c *spec.Config) { c.Training.Quota = spec.Quota{By: spec.QuotaSubject, Share: 1} }, ""},
		{func(c *spec.Config) { c.Training.Quota = spec.Quota{By: spec.QuotaSubject, Share: 1.01} },
			`quota by "subject" of 1.01: it must be by subject, or by key with a key column named, and a ` +
				`share in (0, 1]`},
		{func(c *spec.Config) { c.Training.Quota = spec.Quota{By: spec.QuotaSubject, Share: -1} },
			`quota by "subject" of -1: it must be by subject, or by key with a key column named, and a ` +
				`share in (0, 1]`},
		{func(c *spec.Config) { c.Training.Quota.By = spec.QuotaKey },
			`quota by "key" of 0.5: it must be by subject, or by key with a key column named, and a share ` +
				`in (0, 1]`},
		{func(c *spec.Config) { c.Training.Quota.By, c.Spec.Key = spec.QuotaKey, "k" }, ""},
		{func(c *spec.Config) { c.Training.Quota.By = "day" },
			`quota by "day" of 0.5: it must be by subject, or by key with a key column named, and a share ` +
				`in (0, 1]`},
		{func(c *spec.Config) { c.Labels = &spec.Labels{} },
			`labels in separate messages are joined by key: key column "" and label column "label" must ` +
				`both be named`},
		{func(c *spec.Config) { c.Labels, c.Spec.Key = &spec.Labels{}, "k" }, ""},
		{func(c *spec.Config) { c.Labels, c.Spec.Key = &spec.Labels{Wait: -1}, "k" },
			"labels are waited for -1ns within 268435456 bytes; neither can be negative"},
		{func(c *spec.Config) { c.Labels, c.Spec.Key = &spec.Labels{Bytes: -1}, "k" },
			"labels are waited for 24h0m0s within -1 bytes; neither can be negative"},
		{func(c *spec.Config) { c.Spec.Features = nil },
			`no features are named, so nothing would be learned or transformed: set Config.Spec.Features ` +
				`to columns of numbers, or to "*" for all of them, and Config.Spec.Label to the column of the ` +
				`classes`},
		{func(c *spec.Config) { c.Spec.Features, c.Contract = nil, testContract(t) }, ""},
		{func(c *spec.Config) { c.Spec.Encodings = []arrowio.Encoding{{Column: "x"}} },
			`column "x" has an encoding, and a stage that learns takes numbers only: send numbers, or set ` +
				`Fixed to a model of such columns`},
		{func(c *spec.Config) { c.Fit.Method, c.Fit.Nonlinear = "auto", true },
			"nonlinear auto and the scale rank need all rows at each fit, and a stage fits again and " +
				"again; configure landmarks, or fit once and serve the model as it is"},
		{func(c *spec.Config) { c.Fit.Scale = model.ScaleRank },
			"nonlinear auto and the scale rank need all rows at each fit, and a stage fits again and " +
				"again; configure landmarks, or fit once and serve the model as it is"},
		{func(c *spec.Config) { c.Fit.Landmarks = 20 }, ""},
		{func(c *spec.Config) { c.Fit.Method, c.Fit.Landmarks, c.Spec.Label = "pca", 20, "" },
			"landmarks are judged by how well labels are predicted on them, and no label column is named; " +
				"name one, or set landmarks to 0"},
		{func(c *spec.Config) { c.Fit.Method, c.Fit.Landmarks = "isomap", 20 },
			"method isomap makes its own map, extension; landmarks are for linear methods"},
		{func(c *spec.Config) { c.Spec.Label = "" },
			"method lda learns from labels, and no label column is named; name one, or use method pca"},
		{func(c *spec.Config) { c.Fit.Method, c.Spec.Label = "pca", "" }, ""},
		{func(c *spec.Config) { c.Training.Block = 1 }, ""}, {func(c *spec.Config) { c.Training.Block = -1 },
			"training.block: method lda would learn from summaries of blocks, and a block of fewer than " +
				"one message needs every row; remove one of both settings"},
		{func(c *spec.Config) { c.Training.Block, c.Labels, c.Spec.Key = 1, &spec.Labels{}, "k" },
			"training.block: method lda would learn from summaries of blocks, and labels in separate " +
				"messages needs every row; remove one of both settings"},
		{func(c *spec.Config) { c.Training.Block, c.Training.Quota.By = 1, spec.QuotaSubject },
			"training.block: method lda would learn from summaries of blocks, and a quota per source needs " +
				"every row; remove one of both settings"},
		{func(c *spec.Config) { c.Training.Block, c.Fit.Landmarks = 1, 20 },
			"training.block: method lda would learn from summaries of blocks, and landmarks needs every " +
				"row; remove one of both settings"},
		{func(c *spec.Config) { c.Training.Block, c.Until = 1, spec.UntilPCA },
			"training.block: method lda would learn from summaries of blocks, and a PCA that serves until " +
				"a first model exists needs every row; remove one of both settings"},
		{func(c *spec.Config) { c.Training.Block, c.Fit.Scale = 1, model.ScaleNone }, ""},
		{func(c *spec.Config) { c.Training.Block, c.Fit.Scale = 1, model.ScaleUnit },
			`training.block: method lda would learn from summaries of blocks, and scale "unit" needs every ` +
				`row; remove one of both settings`},
	} {
		config := spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Fit: fit.Config{Method: "lda"}}
		c.change(&config)
		s, err := New(config)
		if s != nil {
			s.Close()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	c, err := withDefaults(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "k"},
		Labels: &spec.Labels{}, Training: spec.Training{Quota: spec.Quota{By: spec.QuotaKey}}})
	if err != nil || c.Training.Quota.Share != 0.5 || c.Training.Holdout != 0.2 || c.Training.Gate.Evidence != 1000 ||
		c.Training.Window.Rows != 20000 || c.Training.Window.Bytes != 1<<30 || c.Classes != 1000 ||
		c.Training.Every != (spec.Every{Rows: 5000, Period: 10 * time.Minute}) || c.Labels.Wait != 24*time.Hour ||
		c.Labels.Bytes != 256<<20 || c.Fit.Method != "auto" || c.Fit.Blend != 1 || c.Fit.Scale != "standard" {
		t.Errorf("defaults %+v, %v", c, err)
	}
}

// TestFixedModel: a stage with a fixed model learns nothing, and says so.
func TestFixedModel(t *testing.T) {
	t.Parallel()
	first := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(61, 62)), 120, 3)
	learnRows(t, first, 1, rows)
	m := first.Live().Model
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}}, Fixed: m})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range []error{s.Refit(), s.Adopt(first.Live(), false)} {
		if !errors.Is(err, spec.ErrFixed) {
			t.Errorf("%v, want %v", err, spec.ErrFixed)
		}
	}
	st := s.Status()
	if s.Learn(decode(t, s, rows), spec.Position{}) != nil || s.Wait(t.Context()) != nil || s.Backlog() != 0 ||
		s.Learns() || s.TakeOver(nil) || st.Live != s.Live() || st.Live.Epoch != 1 ||
		st.Live.Version != m.Digest()[:16] || !math.IsNaN(st.Accuracy+st.Chance+st.Candidate+st.HeldOut) {
		t.Errorf("status %+v", st)
	}
	if s.LabelLimits() != (spec.Labels{}) || s.LabelStatus() != (spec.LabelStatus{}) {
		t.Error("labels have limits")
	}
	if rows, labels := s.LabelsAhead(); rows || labels {
		t.Error("a stream is ahead")
	}
	s.LabelsReached(time.Now())
	s.Standby(true)
	_, err = New(spec.Config{Spec: arrowio.Spec{Features: []string{"y"}}, Fixed: m})
	const differs = `the fixed model and the features of messages differ: its feature "x[0]" is in no entry`
	if err == nil || err.Error() != differs {
		t.Errorf("other features: %v", err)
	}
}

// TestCodecs: messages in other formats than the configured ones have the same rows and outputs.
func TestCodecs(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Output.Compression = "zstd" })
	rows := clouds(rand.New(rand.NewPCG(63, 64)), 120, 3)
	learnRows(t, s, 1, rows)
	arrowed := encodeRows(t, rows[:1])
	text := fmt.Sprintf(`{"x":%s}`, strings.Join(strings.Fields(fmt.Sprint(rows[0].x)), ","))
	for _, c := range []struct {
		in, out wire.Format
		msg     []byte
		want    string
	}{
		{wire.FormatArrow, wire.FormatArrow, arrowed, "\xff\xff\xff\xff"},
		{wire.FormatJSON, wire.FormatJSON, []byte(text),
			`{"embedding":[`},
		{wire.FormatArrow, wire.FormatJSON, arrowed, `[{"label":"c0","embedding":[`},
		{wire.FormatJSON, wire.FormatCSV, []byte(text), "embedding_0,embedding_1\n"},
		{wire.FormatNDJSON, wire.FormatArrow, []byte(text), "\xff\xff\xff\xff"},
	} {
		codec, err := NewCodec(s, c.in, c.out)
		if err != nil {
			t.Fatal(err)
		}
		isOwn := c.in == wire.FormatArrow
		if (codec.decoder == s.decoder) != isOwn || (codec.encoder == s.encoder) != (isOwn && c.out == wire.FormatArrow) {
			t.Errorf("%s to %s: the caches of the stage are shared", c.in, c.out)
		}
		m, err := codec.Decode(c.msg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Transform(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := codec.Encode(r, wire.Pair{Key: "more", Value: "pairs"})
		if err != nil || !bytes.HasPrefix(out, []byte(c.want)) {
			t.Errorf("%s to %s: %q, %v", c.in, c.out, out, err)
		}
		if hasMore := bytes.Contains(out, []byte("pairs")); hasMore != (c.out == wire.FormatArrow) {
			t.Errorf("%s to %s: the metadata has the pair: %v", c.in, c.out, hasMore)
		}
	}
	for _, formats := range [][2]wire.Format{{"xml", "json"}, {"json", "xml"}} {
		if _, err := NewCodec(s, formats[0], formats[1]); err == nil {
			t.Errorf("formats %v", formats)
		}
	}
}

// TestSampleOfModels: a sample has the outputs of each model of the window's features, NaN where one exceeds float32.
func TestSampleOfModels(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: "pca", Dim: 2, Scale: model.ScaleNone} })
	got, err := SampleOf(t.Context(), s, 10, []*model.Model{nil})
	if err != nil || got.Rows != 0 || len(got.Outputs) != 1 {
		t.Errorf("before the first row: %+v, %v", got, err)
	}
	rows := clouds(rand.New(rand.NewPCG(65, 66)), 600, 3)
	learnRows(t, s, 1, rows)
	m := s.Live().Model
	other, err := fit.Fit(t.Context(), &model.Data{N: 3, M: 1, X: []float64{1, 2, 4}, Features: []string{"x"}},
		fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err = SampleOf(t.Context(), s, 300, []*model.Model{m, nil, other})
	if err != nil || got.Rows != 600 || len(got.Outputs) != 3 || got.Outputs[1] != nil || got.Outputs[2] != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, one := range []int{0, 99, 255, 256, 299} {
		want := make([]float32, 2)
		w := inspect(s).Window
		_, sampled := chooseRows(w, 300)
		if err := m.Project(want, model.DenseRows(sampled[one].X, 1, testFeatures)); err != nil ||
			!slices.Equal(got.Outputs[0][2*one:2*one+2], want) {
			t.Errorf("%d: row %d has outputs %v, want %v", i, one, got.Outputs[0][2*one:2*one+2], want)
		}
	}
	zero, large := make([]float64, testFeatures), slices.Repeat([]float64{math.MaxFloat64}, testFeatures)
	huge := []*window.Row{{X: zero}, {X: large}, {X: zero}}
	y, err := outputsOf(t.Context(), m, huge, testFeatures)
	if err != nil || y[0] != y[4] || y[1] != y[5] || y[0] != y[0] || y[2] == y[2] || y[3] == y[3] {
		t.Errorf("outputs %v, %v", y, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := outputsOf(ended, m, huge, testFeatures); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	s.Close()
	if _, err := SampleOf(t.Context(), s, 10, nil); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("of a closed stage: %v", err)
	}
	if s.Wait(t.Context()) == nil || s.Refit() == nil || s.Adopt(&spec.Live{Model: m}, false) == nil {
		t.Error("a closed stage learns")
	}
}

// TestTrainableCandidates: a schema can be fixed early if a model could be fitted: on two rows without labels, on four
// if labels come later, else on two classes of two rows.
func TestTrainableCandidates(t *testing.T) {
	t.Parallel()
	two := map[string]int{"a": 2, "b": 2}
	for _, c := range []struct {
		label   string
		late    bool
		rows    int
		classes map[string]int
		want    bool
	}{
		{"", false, 1, nil, false}, {"", false, 2, nil, true}, {"l", true, 3, two, false}, {"l", true, 4, nil, true},
		{"l", false, 3, nil, false}, {"l", false, 4, nil, true}, {"l", false, 3, two, true},
		{"l", false, 9, map[string]int{"a": 9, "b": 1}, false}, {"l", false, 9, map[string]int{"a": 9}, false},
		{"l", false, 9, map[string]int{"a": 1, "b": 2, "c": 2}, true}, {"l", true, 4, map[string]int{"a": 9}, true},
	} {
		l := &learner{config: &spec.Config{Spec: arrowio.Spec{Label: c.label}}}
		if c.late {
			l.late = &lateLabels{}
		}
		if got := l.isTrainable(&contractCandidate{rows: c.rows, classes: c.classes}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestFullQueue: rows beyond an eighth of the window's memory are not learned, and the first of them are logged.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := &spec.Config{Logger: logTo(&log)}
	c.Training.Window.Bytes = 8 * 3 * (9*6 + rowOverhead + 3)
	l := &learner{config: c, stage: &Stage{}, wake: make(chan struct{}, 1)}
	l.stage.contract.Store(testContract(t))
	event := func(rows, fixes int) *trainer.Event {
		e := &trainer.Event{Fixes: make([]trainer.Fix, fixes)}
		for range rows {
			e.Rows = append(e.Rows, window.Row{Label: "ab", Source: "c"})
		}
		return e
	}
	for _, step := range []struct{ rows, fixes, queued, waiting, dropped int }{
		{0, 0, 0, 0, 0}, {2, 0, 1, 2, 0}, {1, 0, 2, 3, 0}, {1, 0, 2, 3, 1}, {2, 3, 2, 3, 6},
	} {
		l.enqueue(event(step.rows, step.fixes))
		if len(l.queue) != step.queued || l.waiting != step.waiting || l.dropped != step.dropped ||
			l.bytes != int64(step.waiting*(9*6+rowOverhead+3)) {
			t.Errorf("%+v: %d events of %d rows in %d bytes, %d dropped", step, len(l.queue), l.waiting, l.bytes, l.dropped)
		}
	}
	want := `level=WARN msg="rows are not learned because they arrive faster than they can be learned" rows=1 fix="send ` +
		`fewer labelled rows, raise training.window.bytes, or wait while Status.Backlog is high"` + "\n"
	if log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
}

// TestPanicOfAnEvent: an event that panics is logged and reported, and the worker continues.
func TestPanicOfAnEvent(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var outcomes []spec.Outcome
	s := newStage(t, func(c *spec.Config) {
		c.Logger = logTo(&log)
		c.Observe = func(o spec.Outcome) { outcomes = append(outcomes, o) }
	})
	waitIdle(t, s)
	s.learner.handle(t.Context(), &trainer.Event{Adopt: &spec.Live{}, Rows: make([]window.Row, 3)})
	if len(outcomes) != 1 || outcomes[0].Rows != 3 || outcomes[0].Promoted || outcomes[0].Err == nil ||
		outcomes[0].Reason != "learning from a message panicked" ||
		!math.IsNaN(outcomes[0].Candidate) || !math.IsNaN(outcomes[0].Previous) ||
		!strings.HasPrefix(outcomes[0].Err.Error(), "learning from a message panicked: ") {
		t.Errorf("outcomes %+v", outcomes)
	}
	if !strings.HasPrefix(log.String(), `level=ERROR msg="learning from a message panicked; please report it" panic="`) ||
		!strings.Contains(log.String(), ` stack="goroutine`) {
		t.Errorf("the log has %q", log.String())
	}
}

// TestFeaturesOfSummaries: sums of features that exceed the window's memory are refused with what they need, at the
// byte, and features that are not those of the schema with both numbers.
func TestFeaturesOfSummaries(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Training.Block, c.Training.Window.Bytes = 10, 3*8*500*500 })
	if _, err := s.SummaryBuilder(Block{}, make([]string, 500)); err != nil {
		t.Error(err)
	}
	_, err := s.SummaryBuilder(Block{}, make([]string, 501))
	if want := "sums of 501 features need more than training.window.bytes, 6000000; raise it to 6 MiB, or remove " +
		"training.block"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.setFeatures([]string{"a", "b"}); err != nil || s.Contract().Len() != 2 {
		t.Errorf("features %v, %v", s.Contract(), err)
	}
	err = s.setFeatures([]string{"a"})
	var e *arrowio.Error
	if !errors.As(err, &e) || e.Code != wire.SchemaChanged ||
		e.Error() != "the schema has 2 features and the model has 1, "+
			"or others; use a model of these features, or change the schema: embedd schema reset, or schema.features" {
		t.Errorf("other features: %v", err)
	}
	if err := s.FixContract(testContract(t)); !errors.As(err, &e) || e.Error() != "the schema is 2 features: a, b; label "+
		"label, and the stored one is 6 features: x[6]; label label; restart the process to use the stored schema" {
		t.Errorf("another contract: %v", err)
	}
}

// TestStatusOfCandidates: candidates are listed with their messages and rows, the leader first, at most eight, and the
// hint says how many messages have the leading one once more than a tenth have not.
func TestStatusOfCandidates(t *testing.T) {
	t.Parallel()
	var c candidates
	if c.leader() != nil || c.hint() != "" || c.total() != 0 || c.status() != nil {
		t.Error("no message has a candidate")
	}
	add := func(name string, seq uint64, messages int) {
		k, err := arrowio.NewContract([]string{name}, "l", "")
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			c.add(k, window.Position{Seq: seq}, time.Unix(int64(seq), 0), usableRows{rows: 3, unlabelled: 2,
				labels: []string{"p", "q", "r"}}, 2)
		}
	}
	add("a", 5, 9)
	if add("b", 3, 1); c.hint() != "" {
		t.Errorf("of one in ten: %q", c.hint())
	}
	if add("c", 4, 1); c.hint() != "messages have different features: 9 of 11 have the most frequent ones, 1 features: "+
		"a; label l; send the same from each publisher, or set schema.features with sizes" {
		t.Errorf("of two in eleven: %q", c.hint())
	}
	got := c.status()
	if len(got) != 3 || got[0].Messages != 9 || got[0].Rows != 45 || got[0].First != 5 || got[1].First != 3 ||
		got[2].First != 4 || got[2].Rows != 5 || len(c.leader().classes) != 2 || c.leader().classes["p"] != 9 ||
		c.leader().unlabelled != 18 || c.leader().rows != 27 {
		t.Errorf("%+v, leader %+v", got, c.leader())
	}
	for k := range 100 {
		add(fmt.Sprint("x", k), uint64(10+k), 1)
	}
	if len(c.byID) != 64 || c.other != 39 || c.total() != 111 || len(c.status()) != 8 {
		t.Errorf("%d candidates, %d other messages of %d, %d listed", len(c.byID), c.other, c.total(), len(c.status()))
	}
	text, err := c.marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseCandidates(text, arrowio.Spec{Features: []string{"*"}, Label: "l"})
	if err != nil || len(back) != 8 || back[0].messages != 9 || back[0].rows != 27 || back[0].unlabelled != 18 ||
		!back[0].since.Equal(time.Unix(5, 0)) || !back[0].newest.Equal(time.Unix(5, 0)) || back[0].first.Seq != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, other := range []arrowio.Spec{{Features: []string{"*"}}, {Features: []string{"*"}, Label: "l", Key: "k"},
		{Features: []string{"z"}, Label: "l"}} {
		if back, err := parseCandidates(text, other); err != nil || len(back) != 0 {
			t.Errorf("%+v accepts %+v, %v", other, back, err)
		}
	}
	var merged candidates
	one := back[0]
	later := one
	later.first, later.since, later.newest = window.Position{Seq: 2}, time.Unix(1, 0), time.Unix(99, 0)
	merged.merge(one)
	merged.merge(later)
	if k := merged.leader(); k.messages != 18 || k.rows != 54 || k.unlabelled != 36 || k.first.Seq != 2 ||
		!k.since.Equal(time.Unix(1, 0)) || !k.newest.Equal(time.Unix(99, 0)) {
		t.Errorf("%+v", k)
	}
}
