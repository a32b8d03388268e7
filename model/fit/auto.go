package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
)

// fitAuto is Fit for a configuration that leaves the method, the dimension or both open.
func fitAuto(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	choosing, err := c.choosing()
	if err != nil {
		return nil, err
	}
	if choosing.Method != nil && !choosing.Method.Supervised {
		c.Dim = 0
		return fitPreprocessed(ctx, d, c)
	}
	if classes := presentClasses(d); c.Method == Auto && classes < 2 {
		rule := "no row has a label"
		if classes == 1 { // one class says no more than none
			rule = "all labelled rows are of one class"
		}
		return fitChosen(ctx, d, c, &model.Choice{Chosen: choosing.Open(), Rule: rule, Method: "pca"})
	}
	p, err := frame.Prepare(ctx, d, true, c.Scale == model.ScaleUnit, &model.Report{})
	if err != nil {
		return nil, err
	}
	r, err := choose.Run(ctx, p, choosing)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	if choice := r.Default; choice != nil {
		m, err := fitChosen(ctx, d, c, choice)
		if err != nil && c.Method == Auto && ctx.Err() == nil {
			// Where no class has two different rows, labels say nothing about its shape.
			choice.Method, choice.Rule = "pca", choice.Rule+"; "+err.Error()
			return fitChosen(ctx, d, c, choice)
		}
		return m, err
	}
	return fitBest(ctx, d, c, r)
}

// fitBest fits the best choice that can be fitted on all rows: on all rows a criterion may have fewer directions than
// in the folds, or none.
func fitBest(ctx context.Context, d *model.Data, c Config, r *choose.Result) (*model.Model, error) {
	note := r.Note
	if r.Blend != nil {
		m, err := fitBlend(ctx, d, c, r.Blend)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		note = "no blend: " + strings.TrimPrefix(err.Error(), Blend+": ")
	}
	var best *model.Choice
	var first error
	for choice := range r.Candidates {
		if first == nil {
			best = choice
		} else {
			note = fmt.Sprintf("%s at %d has more correct held-out rows, but cannot be fitted on all rows: %v",
				best.Method, best.Dim, first)
		}
		choice.Note = cmp.Or(choice.Note, note)
		m, err := fitChosen(ctx, d, c, choice)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// fitBlend fits a chosen blend. Unless the dimension was given, it has fewer outputs if on all rows there are no more.
func fitBlend(ctx context.Context, d *model.Data, c Config, choice *model.Choice) (*model.Model, error) {
	m, err := fitChosen(ctx, d, c, choice)
	if fewer := (*model.DimError)(nil); c.Dim <= 0 && errors.As(err, &fewer) && fewer.Max > 0 {
		choice.Note, choice.Dim = fmt.Sprintf("%d outputs: %v", fewer.Max, err), fewer.Max
		return fitChosen(ctx, d, c, choice)
	}
	return m, err
}

// fitChosen fits what was chosen.
func fitChosen(ctx context.Context, d *model.Data, c Config, choice *model.Choice) (*model.Model, error) {
	return fitPreprocessed(ctx, d, c.WithChoice(choice))
}

// choosing is what the configuration leaves open.
func (c Config) choosing() (choose.Config, error) {
	out := choose.Config{Params: c.Params, Dim: c.Dim, MaxDim: c.MaxDim, Scale: c.Scale, Blend: c.Blend,
		Fewest: c.Fewest, Nonlinear: c.Nonlinear, Seed: c.Seed, Progress: c.Progress, Applied: c.applied}
	if c.Method == Auto {
		return out, nil
	}
	var err error
	out.Method, err = c.method()
	return out, err
}

// presentClasses is the number of classes that have rows.
func presentClasses(d *model.Data) int {
	if d == nil {
		return 0
	}
	seen := map[int]bool{}
	for _, c := range d.Y {
		if c >= 0 {
			seen[c] = true
		}
	}
	return len(seen)
}

// WithChoice replaces Auto and AutoDim by what was chosen, so that other rows can be fitted in the same way. The
// report of such a fit contains the choice. A chosen dimension of 0 is the method's default. Without a choice, as in
// the report of a fit that left nothing open, c is unchanged.
func (c Config) WithChoice(choice *model.Choice) Config {
	if choice == nil {
		return c
	}
	if c.withDefaults().Method == Auto {
		c.Params = candidateParams(choice.Method, c.Params["ridge"])
		switch {
		case len(choice.Members) > 0:
			c.Params = blend.Params(choice.Members)
		case c.Nonlinear && c.Blend != 1 && len(choice.Scores) > 0: // as the members of the blend that it beat keep theirs
			maps.Copy(c.Params, choice.Scores[0].Params)
		}
		c.Method, c.Nonlinear = choice.Method, false
		if c.Scale == model.ScaleAuto || c.Scale == "" || choice.Scale == model.ScaleRank {
			c.Scale = choice.Scale
		}
		if choice.Landmarks > 0 {
			c.Landmarks, c.Width = choice.Landmarks, choice.Width
		}
	}
	if c.Dim == AutoDim || c.Dim == 0 {
		c.Dim, c.Fewest = choice.Dim, false
	}
	c.choice = choice
	return c
}

// candidateParams are the parameters with which auto fits the method that it chose. It passes its ridge on to a method
// that has one. The ridge auto is the default of every candidate.
func candidateParams(name, ridge string) map[string]string {
	params := map[string]string{}
	m, err := lookup(name)
	if err != nil {
		return params
	}
	if m.Auto != nil {
		maps.Copy(params, m.Auto.Fixed)
	}
	if m.Ridge != nil && ridge != "" && ridge != "auto" {
		params["ridge"] = ridge
	}
	return params
}
