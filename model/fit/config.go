package fit

import (
	"cmp"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// Config configures a fit.
type Config struct {
	Method    string     // "": Auto, here and in a stage, on the command line and in the configuration
	Criterion *Criterion // a method of the caller; Method is empty then
	Dim       int        // outputs of a row, d; 0: the method's default; AutoDim: by cross-validation
	// Landmarks is the number of rows, drawn from Seed, whose kernels replace the features (Nyström features), so that
	// a linear method makes a nonlinear map. 0: none. Projecting a row costs about one dot product per landmark.
	Landmarks int
	Width     float64 // of the kernels exp(-Width |a-b|^2 / median), usually between 0.25 and 4; 0: 1
	MaxDim    int     // the largest dimension that AutoDim or a default chooses; 0: no bound
	// Pad fills up to Dim where the criterion of a linear method has fewer directions, as discriminants of C classes have
	// C-1: with directions of most variance whose outputs are uncorrelated with those of the criterion. Without it more
	// outputs than directions is a *model.DimError. The model's InformativeRank is the number that the criterion decided.
	Pad bool
	// Outputs is the number of outputs of a linear map if its criterion has fewer directions, or Dim is less: the other
	// outputs are zero for every row, so that a later fit, of more classes, has the same number. Dim is at most that. It
	// excludes Pad. 0: Dim. A map of several kinds of features has Dim outputs.
	Outputs int
	Scale   model.Scale // "": ScaleAuto
	// Blend is the number of Auto's best candidates that are blended; 0: all that are not significantly worse than the
	// best one; 1: no blend.
	Blend int
	// Fewest asks AutoDim for as few dimensions as possible: the smallest number that is worse than the best one by less
	// than half a standard error. Without it Auto reduces the dimension only if held-out rows show no loss.
	Fewest bool
	// Nonlinear lets Auto try normal scores and landmarks too, and blend them. Projecting a row then costs as much as
	// with a few hundred landmarks.
	Nonlinear bool
	// DesignEffect is how many rows are worth one independent row, where rows depend on each other: the ridge oas is that
	// of so many times fewer rows. Cross-validation that chooses a method or a dimension does not use it. 0: 1.
	DesignEffect float64
	Params       map[string]string // of the method, by name; see Method.Params
	Seed         uint64            // for methods that draw; the same seed gives the same model
	// Workers is the most goroutines that a fit runs on concurrently, including the caller's; 0: as many as there are
	// cores, or as model.Limit of the context allows. The model does not depend on it. (Dense matrix products inside
	// gonum may briefly use one core more.)
	Workers int
	// Memory is the most that a fit may hold in addition to its rows, in bytes, as MemoryEstimate estimates it. Fit
	// returns a *MemoryError at once if it would need more. 0: no bound.
	Memory int64
	// Progress, if set, is called from the fitting goroutine with the phase and the share of it that is done, in [0, 1].
	Progress func(phase string, done float64)
	// Memo, if set, shares intermediate results between fits.
	Memo *Memo

	choice  *model.Choice       // what Auto and AutoDim were replaced by
	applied *preprocess.Applied // preprocessing in front of this fit
}

// Memo shares intermediate results, such as a learned similarity, between fits of one method on the same rows with
// different dimensions. It must not be used by two fits concurrently, nor for other rows. The zero value is ready to
// use.
type Memo struct{ shared map[string]any }

// Validate checks everything that can be checked without rows.
func (c Config) Validate() error {
	_, _, err := c.resolve()
	return err
}

// Describe describes the configured method.
func (c Config) Describe() (Method, error) {
	m, err := c.method()
	if err != nil {
		return Method{}, err
	}
	return describe(m), nil
}

// withDefaults replaces zero fields that have the same default for every method.
func (c Config) withDefaults() Config {
	if c.Criterion == nil && c.Method == "" {
		c.Method = Auto
	}
	c.Scale = cmp.Or(c.Scale, model.ScaleAuto)
	if c.Scale == model.ScaleAuto && c.Method != Auto {
		c.Scale = model.ScaleStandard
	}
	return c
}

func (c Config) method() (*frame.Method, error) {
	if c.Criterion != nil {
		return c.Criterion.method(c)
	}
	m, err := lookup(c.withDefaults().Method)
	if err == nil && m.Name == Blend {
		m = blend.Of(c.Params)
	}
	return m, err
}

// name is the method's name, for errors that are reported before it is looked up.
func (c Config) name() string {
	if c.Criterion != nil {
		return c.Criterion.Name
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
	if c.Fewest && !m.Supervised && m.Name != Auto {
		return nil, nil, fmt.Errorf("fewest compares dimensions by labels, which method %s does not use; remove fewest",
			m.Name)
	}
	params, err := m.Resolve(c.Params)
	if err == nil && m.Name == Blend && params["members"] == "" {
		err = fmt.Errorf("method %s needs the parameter members, for example lda/standard/2,pca/standard/8", m.Name)
	}
	if err == nil && m.Name == Blend {
		err = blend.CheckScale(params, c.withDefaults().Scale)
	}
	return m, params, err
}

// check checks what does not depend on the method.
func (c Config) check() error {
	if err := preprocess.CheckScale(c.Scale); err != nil && c.Scale != model.ScaleAuto {
		return err
	}
	switch {
	case c.MaxDim < 0:
		return fmt.Errorf("max dim is %d; give at least 1, or 0 for no bound", c.MaxDim)
	case c.MaxDim > 0 && c.Dim > c.MaxDim:
		return fmt.Errorf("dim %d is above max dim %d; give a smaller dim, or a larger max dim", c.Dim, c.MaxDim)
	case c.Fewest && (c.Dim > 0 || c.Dim == 0 && c.withDefaults().Method != Auto):
		return fmt.Errorf("fewest is for dim auto, which then has as few outputs as possible; remove fewest or the dim")
	case c.Nonlinear && (c.withDefaults().Method != Auto || c.Criterion != nil):
		return fmt.Errorf("nonlinear is for method auto, which then tries landmarks and normal scores; "+
			"for %s give landmarks, or the scale rank", c.name())
	case c.Nonlinear && c.Landmarks > 0:
		return fmt.Errorf("nonlinear auto draws %d landmarks itself; remove landmarks or nonlinear", choose.Landmarks)
	case c.Nonlinear && c.Scale == model.ScaleRank:
		return fmt.Errorf("nonlinear auto tries the scale rank among others; remove scale or nonlinear")
	case c.Landmarks > 0 && c.Scale == model.ScaleRank:
		return fmt.Errorf("landmarks cannot be combined with the scale rank; give another scale, or no landmarks")
	case c.Landmarks < 0 || !(c.Width >= 0) || math.IsInf(c.Width, 0):
		return fmt.Errorf("landmarks is %d, and their width %g; give numbers from 0", c.Landmarks, c.Width)
	case c.Blend < 0:
		return fmt.Errorf("blend is %d; give the number of candidates that auto blends, 1 for the best one alone, "+
			"or 0 for all that are not significantly worse than it", c.Blend)
	case c.Memory < 0:
		return fmt.Errorf("memory is %d; give the bytes that a fit may hold, or 0 for no bound", c.Memory)
	case c.Workers < 0:
		return fmt.Errorf("workers is %d; give at least 1, or 0 for all cores", c.Workers)
	case !(c.DesignEffect == 0 || c.DesignEffect >= 1 && c.DesignEffect <= math.MaxFloat64):
		return fmt.Errorf("design effect %g; give a number of at least 1, or 0", c.DesignEffect)
	case c.Outputs < 0 || c.Outputs > 0 && (c.Pad || c.Dim > c.Outputs):
		return fmt.Errorf("%d outputs for dim %d; give 0, or at least dim, without pad", c.Outputs, c.Dim)
	case c.Dim < 0 && c.Dim != AutoDim:
		return fmt.Errorf("dim is %d; give at least 1, 0 for the method's default, "+
			"or %d (AutoDim) for the best by cross-validation", c.Dim, AutoDim)
	}
	return nil
}

// kernels are those of the configured landmarks.
func (c Config) kernels() preprocess.Kernels {
	return preprocess.Kernels{Count: c.Landmarks, Width: c.Width, Scale: c.Scale}
}

// withoutPreprocessing is the configuration of the fit on the rows that landmarks or normal scores make.
func (c Config) withoutPreprocessing() Config {
	c.Landmarks, c.Width, c.Scale = 0, 0, model.ScaleNone
	return c
}
