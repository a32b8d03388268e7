package trainer

import (
	"fmt"
	"sort"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// plan is how models are fitted: the method and its settings, as configured or as auto chose them, within the memory
// bound.
type plan struct {
	config        *spec.Config
	configured    fit.Method    // auto, if that chooses the method
	method        fit.Method    // that candidates are fitted with
	settings      fit.Config    // with the number of outputs, and the method that auto chose
	width         int           // outputs of the live model, on which readers rely; 0 before the first
	choiceClasses int           // classes from which auto chose; 0: not known
	choice        *model.Choice // of auto
	// maxRows is the maximum number of rows of a fit if matrices of features x features exceed the memory limit; 0: no
	// limit. limit is a sentence about it.
	maxRows int
	limit   string
}

func newPlan(c *spec.Config) *plan {
	p := &plan{config: c, settings: c.Fit}
	p.configured, _ = c.Fit.Describe() // the configuration is valid
	if p.method = p.configured; p.method.Name == fit.Auto && !p.labelled() {
		p.method, _ = fit.Lookup("pca") // which is what auto fits without labels
	}
	p.settings.Pad = !p.reservesOutputs()
	return p
}

// labelled reports whether rows need a label to be learned from.
func (p *plan) labelled() bool { return p.config.Spec.Label != "" }

// byMoments reports whether the method, or the one that auto chose, is fitted from moments.
func (p *plan) byMoments() bool { return p.method.Streaming == "moments" && p.canUseMoments() }

// canUseMoments reports whether any model can be fitted from moments, given how rows are prepared.
func (p *plan) canUseMoments() bool {
	scale := p.config.Fit.Scale
	return p.limit == "" &&
		(p.hasLandmarks() || scale == "" || scale == model.ScaleStandard || scale == model.ScaleNone)
}

// choosesMethod reports whether auto chooses the method.
func (p *plan) choosesMethod() bool { return p.configured.Name == fit.Auto && p.labelled() }

// hasLandmarks reports whether fits see kernel values of landmarks instead of features.
func (p *plan) hasLandmarks() bool { return p.config.Fit.Landmarks > 0 }

// columns is the maximum number of columns of a fit.
func (p *plan) columns(features int) int {
	if p.hasLandmarks() {
		return p.config.Fit.Landmarks
	}
	return features
}

// keepMethod keeps the number of outputs, on which readers rely, and the method that auto chose from rows of as many
// classes as given.
func (p *plan) keepMethod(width int, choice *model.Choice, classes int) {
	if choice != nil && choice.Rule == "cv" {
		p.choice, p.choiceClasses = choice, classes
		p.settings = p.config.Fit.WithChoice(choice)
	}
	p.width = width
	if p.settings.Pad = !p.reservesOutputs(); p.settings.Pad {
		p.settings.Dim = width
	}
	if method, err := p.settings.Describe(); err == nil && method.Name != fit.Auto {
		p.method = method
	}
}

// reservedOutputs is the number of outputs of a first model of up to as many classes, plus one. Directions of its
// classes come first; the other outputs are zero until there are more classes.
const reservedOutputs = 20

// reservesOutputs reports whether a first model has outputs for classes that may come: their number is not configured,
// and depends on the classes.
func (p *plan) reservesOutputs() bool {
	method := p.configured
	return p.config.Fit.Dim <= 0 && p.labelled() && (p.choosesMethod() ||
		p.config.Fit.Criterion == nil && method.Supervised && (method.ByClasses || p.config.Fit.Dim == fit.AutoDim) &&
			allowsZeroOutputs(method))
}

// allowsZeroOutputs reports whether models of a method can have outputs that are zero.
func allowsZeroOutputs(m fit.Method) bool { return m.Map == "linear" || m.Map == "kernel" }

// settingsFor returns the settings with which a suffix is fitted: with as many directions as its classes have, within
// the number of outputs.
func (p *plan) settingsFor(s *window.Suffix, features int) fit.Config {
	c, directions := p.settings, len(s.Classes)-1
	if !p.reservesOutputs() {
		return c
	}
	c.Dim, c.Outputs = 0, p.width
	if p.width == 0 {
		c.Outputs = min(max(reservedOutputs, directions), p.columns(features))
		if c.MaxDim > 0 {
			c.Outputs = min(c.Outputs, c.MaxDim)
		}
	}
	c.MaxDim = c.Outputs
	if method, _ := c.Describe(); !allowsZeroOutputs(method) && p.width > 0 && method.Name != fit.Auto {
		c.Dim, c.Outputs = p.width, 0
	} else if p.choice != nil {
		c.Dim = min(p.choice.Dim, p.width)
		if p.choiceClasses > 0 && len(s.Classes) > p.choiceClasses {
			c.Dim = min(max(c.Dim, directions), p.width)
		}
	} else if p.width == 0 {
		c.Dim = p.config.Fit.Dim // 0 or AutoDim
	}
	return c
}

// Memory of a fit besides the window, as measured: in matrices of features x features, or, if rows are fewer than
// features, in copies of its rows.
const (
	momentMatrices = 12 // of a method that is fitted from moments
	rowMatrices    = 40 // of auto, and of methods that need the rows
	wideCopies     = 20
	minWideRows    = 16 // rows from which something can be learned
	landmarkCopies = 6  // of the landmarks: of the live model, of the origin and of new ones, plain and packed
)

// setLimit bounds what is learned of m features. A fit may take as much memory as the window, besides it. If its
// matrices do not fit, models are fitted from fewer rows than features, which needs none; if not even those fit,
// nothing is learned.
func (p *plan) setLimit(m int) { p.maxRows, p.limit = p.limitOf(m) }

func (p *plan) limitOf(m int) (rows int, sentence string) {
	c := int64(p.columns(m))
	bytes, matrix := p.config.Training.Window.Bytes, 8*c*c
	matrices := int64(rowMatrices)
	if newPlan(p.config).byMoments() && !p.choosesMethod() { // p may have a limit already
		matrices = momentMatrices
	}
	need := matrices*matrix + 2*p.landmarkBytes(m) // rows have room besides landmarks
	if need <= bytes {
		return 0, ""
	}
	if p.hasLandmarks() {
		return 0, fmt.Sprintf("nothing is learned: %d landmarks of %d features need more than training.window.bytes, "+
			"%d; raise it to %d MiB, or configure fewer landmarks", c, m, bytes, need>>20+1)
	}
	rows = min(int(bytes/(8*wideCopies*int64(m))), m-1)
	fix := fmt.Sprintf("raise training.window.bytes to %d MiB, or send fewer features", need>>20+1)
	if rows < minWideRows {
		return rows, fmt.Sprintf("nothing is learned: with %d features training.window.bytes, %d, allows fits of %d "+
			"rows; %s", m, bytes, rows, fix)
	}
	return rows, fmt.Sprintf("%d features: the matrices of a fit would take more than training.window.bytes, %d, so "+
		"models are fitted from %d rows at most; %s", m, bytes, rows, fix)
}

// windowRows reduces a number of rows of m features so that what a fit holds besides them takes no more memory than the
// window. It depends on the configuration alone, not on the method that auto chose: a restart has the same window.
func (p *plan) windowRows(rows, m int) int {
	method := p.configured
	if p.canUseMoments() && (method.Streaming == "moments" || method.Name == fit.Auto && !p.labelled()) {
		return rows
	}
	return max(minWideRows, sort.Search(rows, func(n int) bool {
		return p.config.Fit.MemoryEstimate(n+1, n+1, m) > p.config.Training.Window.Bytes
	}))
}

// windowConfig returns the configuration of the window, once the limit is set, and the number of rows that it was asked
// for.
func (p *plan) windowConfig(features int) (c window.Config, rows int) {
	w := p.config.Training.Window
	if p.limit != "" {
		w.Rows = min(w.Rows, max(p.maxRows, 4))
	}
	c = window.Config{Features: features, Rows: min(w.Rows, p.windowRows(w.Rows, features)), Age: w.Age,
		Bytes:   w.Bytes - QueueBytes(w.Bytes) - p.landmarkBytes(features),
		Classes: p.config.Classes, Holdout: p.config.Training.Holdout, Balance: w.Balance == spec.BalanceClass,
		Share:    p.config.Training.Quota.Share,
		Labelled: p.labelled(), Moments: p.byMoments(), Copies: !p.byMoments() || p.hasLandmarks(),
		MappedColumns: p.config.Fit.Landmarks}
	if p.config.Training.Block > 0 {
		c.Summaries, c.Balance = true, false // the summaries are balanced
	}
	if p.choosesMethod() { // the method may or may not learn from moments, and that changes
		c.Moments, c.Copies = p.canUseMoments(), true
	}
	c.Moments = c.Moments || p.probes(features)
	return c, w.Rows
}

// maxProbeFeatures bounds the cost of a probe: a fit takes m^3 operations.
const maxProbeFeatures = 1024

// probes reports whether methods may be fitted that need the window probe, and it does not cost too much.
func (p *plan) probes(features int) bool {
	return p.labelled() && p.canUseMoments() && p.columns(features) <= maxProbeFeatures &&
		(p.choosesMethod() || !p.byMoments())
}

// FirstRows is the number of labelled rows that a first model needs with the given number of features. The
// configuration must be valid.
func FirstRows(c *spec.Config, features int) int {
	p := newPlan(c)
	p.setLimit(features)
	w, _ := p.windowConfig(features)
	s := policy.Schedule{Config: policy.Config{Every: c.Training.Every, Features: features,
		Landmarks: c.Fit.Landmarks, MaxRows: w.MaxRows()}}
	return s.FirstRows()
}

// landmarkBytes is the memory of the landmarks of the models that are kept.
func (p *plan) landmarkBytes(m int) int64 {
	return landmarkCopies * 8 * int64(p.config.Fit.Landmarks) * int64(m)
}

// learnsNothing reports whether the memory bound leaves no room for learning.
func (p *plan) learnsNothing() bool { return p.limit != "" && p.maxRows < minWideRows }
