package stage

import (
	"io"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
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
		{func(c *spec.Config) { c.Classes = -1 },
			"-1 classes, 0 epochs, a window of 1073741824 bytes and 0s, and a fit every 5000 rows or 10m0s: none can be " +
				"negative"},
		{func(c *spec.Config) { c.Epochs = -1 },
			"1000 classes, -1 epochs, a window of 1073741824 bytes and 0s, and a fit every 5000 rows or 10m0s: none can be " +
				"negative"},
		{func(c *spec.Config) { c.Training.Window.Bytes = -1 },
			"1000 classes, 0 epochs, a window of -1 bytes and 0s, and a fit every 5000 rows or 10m0s: none can be negative"},
		{func(c *spec.Config) { c.Training.Window.Age = -1 },
			"1000 classes, 0 epochs, a window of 1073741824 bytes and -1ns, and a fit every 5000 rows or 10m0s: none can be " +
				"negative"},
		{func(c *spec.Config) { c.Training.Every.Rows = -1 },
			"1000 classes, 0 epochs, a window of 1073741824 bytes and 0s, and a fit every -1 rows or 0s: none can be negative"},
		{func(c *spec.Config) { c.Training.Every.Period = -1 },
			"1000 classes, 0 epochs, a window of 1073741824 bytes and 0s, and a fit every 0 rows or -1ns: none can be negative"},
		{func(c *spec.Config) { c.Resume = &spec.Live{} },
			"Config.Resume has no model; set its Model, or leave Resume nil"},
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
