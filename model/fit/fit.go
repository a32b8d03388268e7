package fit

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Config is how to fit.
type Config struct {
	Method string     // "": Auto, here and in a stage, on the command line and in the configuration
	Own    *Criterion // in place of Method, which is empty then: a method of the caller's own
	Dim    int        // outputs of a row, d; 0: the method's default; AutoDim: by cross-validation
	// Landmarks is the number of rows, drawn from Seed, of which the kernels stand in the place of the features: what a
	// linear method makes of them is curved. 0: none. A projection costs about so many products of rows.
	Landmarks int
	Width     float64 // of the kernels exp(-Width |a-b|^2 / median), between 0.25 and 4 as a rule; 0: 1
	MaxDim    int     // the most outputs that AutoDim chooses; 0: no bound
	// Pad fills up to Dim where a linear method's criterion has fewer directions, as discriminants of C classes have
	// C-1: with directions of most variance whose outputs are uncorrelated with the criterion's. Without it more
	// outputs than there are is a *model.DimError. The model's InformativeRank says how many the criterion decided.
	Pad   bool
	Scale model.Scale // "": ScaleAuto
	Blend int         // of the best candidates of Auto so many count; 0: all not told apart from the best; 1: the best
	// Nonlinear lets Auto try normal scores and landmarks too, and blend what it made of them. A projection then costs
	// what that of some hundred landmarks does.
	Nonlinear bool
	Params    map[string]string // of the method, by name; see Method.Params
	Seed      uint64            // for methods that draw; the same seed gives the same model
	// Workers is the most goroutines that a fit runs on at one time, that of the caller among them; 0: as many as there
	// are cores, or as model.Limit of the context allows. The model does not depend on it. (Products of dense matrices
	// inside gonum may take a core more for moments.)
	Workers int
	// Memory is the most that a fit may hold beside its rows, in bytes, as Held counts it: where it would be more, Fit says
	// so and begins nothing. 0: no bound.
	Memory int64
	// Progress, where set, is called from the fitting goroutine with the phase
	// and the share of it that is done, in [0, 1].
	Progress func(phase string, done float64)

	choice *model.Choice // what Auto and AutoDim were settled to
	front  *front        // what the rows have gone through, where Fit is behind it

	Memo *frame.Memo // of an evaluation, which fits the same rows more than once
}

// Validate checks everything that can be checked without rows.
func (c Config) Validate() error {
	_, _, err := c.resolve()
	return err
}

// Describe says what there is to know of the method that is named, or of the caller's own.
func (c Config) Describe() (Method, error) {
	m, err := c.method()
	if err != nil {
		return Method{}, err
	}
	return describe(m), nil
}

// withDefaults fills the zero fields that have one meaning everywhere.
func (c Config) withDefaults() Config {
	if c.Own == nil && c.Method == "" {
		c.Method = Auto
	}
	if c.Scale == "" {
		c.Scale = model.ScaleAuto
	}
	if c.Scale == model.ScaleAuto && c.Method != Auto {
		c.Scale = model.ScaleStandard
	}
	return c
}

func (c Config) method() (*frame.Method, error) {
	if c.Own != nil {
		return c.Own.method(c)
	}
	m, err := lookup(c.withDefaults().Method)
	if err == nil && m.Name == Blend {
		m = blendOf(c.Params["members"])
	}
	return m, err
}

// name is that of the method, for errors that come before it is looked at.
func (c Config) name() string {
	if c.Own != nil {
		return c.Own.Name
	}
	return c.withDefaults().Method
}

func (c Config) resolve() (*frame.Method, map[string]string, error) {
	m, err := c.method()
	if err != nil {
		return nil, nil, err
	}
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	params, err := m.Resolve(c.Params)
	if err == nil && m.Name == Blend && params["members"] == "" {
		err = fmt.Errorf("method %s blends its parameter members, and none is given; name some, as lda/standard/2,pca/standard/8",
			m.Name)
	}
	return m, params, err
}

// check is what holds whatever the method.
func (c Config) check() error {
	if err := checkScale(c.Scale); err != nil && c.Scale != model.ScaleAuto {
		return err
	}
	if c.MaxDim < 0 || c.MaxDim > 0 && c.Dim > c.MaxDim {
		return fmt.Errorf("dim %d is not within max dim %d; give at least 1, 0 for no bound, and no dim above it", c.Dim,
			c.MaxDim)
	}
	if c.Nonlinear {
		switch {
		case c.withDefaults().Method != Auto || c.Own != nil:
			return fmt.Errorf("nonlinear is for method auto, which tries landmarks and normal scores then; for %s give landmarks, or the scale rank", c.name())
		case c.Landmarks > 0:
			return fmt.Errorf("nonlinear auto draws landmarks of its own, %d; give no landmarks, or leave nonlinear out", curvedLandmarks)
		case c.Scale == model.ScaleRank:
			return fmt.Errorf("nonlinear auto tries the scale rank beside others; give no scale, or leave nonlinear out")
		}
	}
	if c.Landmarks > 0 && c.Scale == model.ScaleRank {
		return fmt.Errorf("landmarks do not stand behind the scale rank; give another scale, or no landmarks")
	}
	if c.Landmarks < 0 || !(c.Width >= 0) || math.IsInf(c.Width, 0) {
		return fmt.Errorf("%d landmarks of width %g; give numbers from 0", c.Landmarks, c.Width)
	}
	if c.Blend < 0 {
		return fmt.Errorf("blend is %d; give the number of candidates that auto blends, 1 for the best alone, or 0 for all that held-out rows do not tell apart from it",
			c.Blend)
	}
	if c.Workers < 0 {
		return fmt.Errorf("workers is %d; give at least 1, or 0 for all cores", c.Workers)
	}
	if c.Dim < 0 && c.Dim != AutoDim {
		return fmt.Errorf("dim is %d; give at least 1, 0 for the method's default, or %d (AutoDim) for the best by cross-validation", c.Dim, AutoDim)
	}
	return nil
}

// width is that of the kernels of landmarks.
func (c Config) width() float64 {
	if c.Width == 0 {
		return 1
	}
	return c.Width
}

func checkScale(s model.Scale) error {
	switch s {
	case "", model.ScaleStandard, model.ScaleMinMax, model.ScaleUnit, model.ScaleNone, model.ScaleRank:
		return nil
	}
	return fmt.Errorf("unknown scale %q; give one of standard, minmax, unit, none, rank, auto", s)
}

// Fit learns a model from rows. The same rows in the same order with the same
// configuration give the same digest. Methods that need labels use the
// labelled rows only. The model of Auto bears the name of the method that was
// chosen; its parameter auto, and the report, say so. A cancelled ctx ends the fit with its error.
func Fit(ctx context.Context, d *model.Data, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	c = c.withDefaults()
	if err := c.fits(d); err != nil {
		return nil, err
	}
	c.Memory = 0 // for what it is made of
	if c.Landmarks > 0 {
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return fitLandmarks(ctx, d, c)
	}
	if c.Scale == model.ScaleRank {
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return fitRanked(ctx, d, c)
	}
	if c.Method == Auto || c.Dim == AutoDim {
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return choose(ctx, d, c)
	}
	return fitSettled(ctx, d, c)
}

// fitSettled is Fit of a method and a dimension that are settled.
func fitSettled(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	method, params, err := c.resolve()
	if err != nil {
		return nil, err
	}
	return fitMethod(ctx, method, params, d, c)
}

func fitMethod(ctx context.Context, method *frame.Method, params map[string]string, d *model.Data,
	c Config) (*model.Model, error) {
	report := c.begin(params)
	end := report.Phase("prepare")
	rows, err := frame.Prepare(ctx, d, method.Supervised, c.Scale == model.ScaleUnit, report)
	if err != nil {
		return nil, err
	}
	end()
	t := &frame.Task{Method: method, Params: params, D: c.Dim, Pad: c.Pad, Seed: c.Seed, Scaling: c.Scale,
		Progress: c.Progress, Report: report, Memo: c.Memo}
	t.ReportProgress("statistics", 0)
	end = report.Phase("statistics")
	if err := t.Load(ctx, rows); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	end()
	m, err := t.Run(ctx, d.Features, d.Classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	return m, nil
}

// begin starts the report of a fit, and marks the parameters where auto decided.
func (c Config) begin(params map[string]string) *model.Report {
	r := &model.Report{}
	if c.choice != nil {
		params["auto"] = c.choice.Chosen
		copied := *c.choice
		r.Choice = &copied
	}
	return r
}
