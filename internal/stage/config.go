package stage

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// withDefaults fills the zero fields and checks the configuration.
func withDefaults(c spec.Config) (spec.Config, error) {
	set(&c.Nulls, spec.NullsReject)
	set(&c.Until, spec.UntilHold)
	set(&c.Classes, 1000)
	set(&c.Training.Window.Bytes, 1<<30)
	set(&c.Training.Gate.Evidence, 1000)
	set(&c.Training.Window.Rows, 20000)
	set(&c.Training.Window.Balance, spec.BalanceClass)
	set(&c.Training.Align, spec.AlignRigid)
	set(&c.Training.Holdout, 0.2)
	if c.Fit.Criterion == nil {
		set(&c.Fit.Method, fit.Auto)
	}
	// The choice of a scale among nearly equal ones would change from candidate to candidate, and with it the sums that
	// can be kept. A blend must be configured.
	set(&c.Fit.Scale, model.ScaleStandard)
	set(&c.Fit.Blend, 1)
	if c.Training.Every == (spec.Every{}) {
		c.Training.Every = spec.Every{Rows: 5000, Period: 10 * time.Minute}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if q := &c.Training.Quota; q.By == spec.QuotaNone {
		q.Share = 0
	} else {
		set(&q.Share, 0.5)
	}
	if c.Labels != nil {
		labels := *c.Labels
		set(&labels.Wait, 24*time.Hour)
		set(&labels.Bytes, 256<<20)
		c.Labels = &labels
	}
	if err := checkValues(&c); err != nil || c.Fixed != nil {
		return c, err
	}
	return c, checkLearning(&c)
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkValues refuses values that are out of their range.
func checkValues(c *spec.Config) error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"nulls", string(c.Nulls), []string{"reject", "impute", "skip"}},
		{"until ready", string(c.Until), []string{"hold", "pca", "skip"}},
		{"window balance", string(c.Training.Window.Balance), []string{"class", "none"}},
		{"align", string(c.Training.Align), []string{"none", "sign", "block", "rigid"}},
	} {
		if !slices.Contains(f.allowed, f.value) {
			return fmt.Errorf("%s %q is not one of %v", f.name, f.value, f.allowed)
		}
	}
	if q := c.Training.Quota; q.By != spec.QuotaNone && (q.By != spec.QuotaSubject && q.By != spec.QuotaKey ||
		!(q.Share > 0 && q.Share <= 1) || q.By == spec.QuotaKey && c.Spec.Key == "") {
		return fmt.Errorf("quota by %q of %g: it must be by subject, or by key with a key column named, and a "+
			"share in (0, 1]", q.By, q.Share)
	}
	if h := c.Training.Holdout; !(h > 0 && h <= 0.5) {
		return fmt.Errorf("holdout %g is not in (0, 0.5]; candidates are scored by held-out rows", h)
	}
	if g := c.Training.Gate; !(g.Evidence > 1) || !(g.Margin >= 0 && g.Margin < 1) {
		return fmt.Errorf("gate: evidence %g is not above 1, or margin %g not in [0, 1)", g.Evidence, g.Margin)
	} else if slices.ContainsFunc([]float64{g.MoreRows, g.NewClass, g.Following},
		func(v float64) bool { return !(v == 0 || v > 1) }) {
		return fmt.Errorf("gate: more rows %g, new class %g or following %g is neither above 1 nor 0, for the default",
			g.MoreRows, g.NewClass, g.Following)
	}
	if c.Training.Window.Rows < 4 {
		return fmt.Errorf("a window of %d rows is too small; two classes of two rows need 4", c.Training.Window.Rows)
	}
	if t := c.Training; c.Classes < 0 || c.Epochs < 0 || t.Window.Bytes < 0 || t.Window.Age < 0 || t.Every.Rows < 0 ||
		t.Every.Period < 0 {
		return fmt.Errorf("%d classes, %d epochs, a window of %d bytes and %v, and a fit every %d rows or %v: none can be "+
			"negative", c.Classes, c.Epochs, t.Window.Bytes, t.Window.Age, t.Every.Rows, t.Every.Period)
	}
	return nil
}

// checkLearning refuses settings that a stage cannot learn with.
func checkLearning(c *spec.Config) error {
	if c.Resume != nil && c.Resume.Model == nil {
		return errors.New("Config.Resume has no model; set its Model, or leave Resume nil")
	}
	if len(c.Spec.Features) == 0 && c.Contract == nil {
		return errors.New(`no features are named, so nothing would be learned or transformed: set Config.Spec.Features ` +
			`to columns of numbers, or to "*" for all of them, and Config.Spec.Label to the column of the classes`)
	}
	switch l := c.Labels; {
	case l == nil:
	case c.Spec.Key == "" || c.Spec.Label == "":
		return fmt.Errorf("labels in separate messages are joined by key: key column %q and label column %q must "+
			"both be named", c.Spec.Key, c.Spec.Label)
	case l.Wait < 0 || l.Bytes < 0:
		return fmt.Errorf("labels are waited for %v within %d bytes; neither can be negative", l.Wait, l.Bytes)
	}
	method, err := c.Fit.Describe()
	if err != nil {
		return err
	}
	if c.Fit.Nonlinear || c.Fit.Scale == model.ScaleRank {
		return errors.New("nonlinear auto and the scale rank need all rows at each fit, and a stage fits again " +
			"and again; configure landmarks, or fit once and serve the model as it is")
	}
	if c.Fit.Landmarks > 0 && c.Spec.Label == "" {
		return errors.New("landmarks are judged by how well labels are predicted on them, and no label column is " +
			"named; name one, or set landmarks to 0")
	}
	if c.Fit.Landmarks > 0 && c.Fit.Method != fit.Auto && method.Map != "linear" {
		return fmt.Errorf("method %s makes its own map, %s; landmarks are for linear methods", method.Name, method.Map)
	}
	if err := c.Fit.Validate(); err != nil {
		return err
	}
	if err := checkBlock(c, method); err != nil {
		return err
	}
	if method.Supervised && c.Spec.Label == "" {
		return fmt.Errorf("method %s learns from labels, and no label column is named; name one, or use method pca",
			method.Name)
	}
	return nil
}

// checkBlock refuses settings that cannot be combined with summaries of blocks.
func checkBlock(c *spec.Config, method fit.Method) error {
	if c.Training.Block == 0 {
		return nil
	}
	conflict := ""
	switch scale := c.Fit.Scale; {
	case c.Training.Block < 0:
		conflict = "a block of fewer than one message"
	case c.Labels != nil:
		conflict = "labels in separate messages"
	case c.Training.Quota.By != spec.QuotaNone:
		conflict = "a quota per source"
	case c.Fit.Landmarks > 0:
		conflict = "landmarks"
	case c.Until == spec.UntilPCA:
		conflict = "a PCA that serves until a first model exists"
	case scale != model.ScaleStandard && scale != model.ScaleNone:
		conflict = fmt.Sprintf("scale %q", scale)
	}
	if conflict == "" {
		return nil
	}
	return fmt.Errorf("training.block: method %s would learn from summaries of blocks, and %s needs every row; "+
		"remove one of both settings", method.Name, conflict)
}
