package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/memory"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// fitFlags are the flags of a fit.
type fitFlags struct {
	fit.Config
	dim string
}

func fittingFlags(f *cli.Flags) *fitFlags {
	o := &fitFlags{}
	f.StringVar(&o.Method, "method", fit.Auto,
		"`NAME` of the method, as `embedd methods` lists them, or auto to choose by cross-validation")
	o.Params = f.Settings("set", "a parameter of the method, as `NAME=VALUE`; may be repeated")
	autoFlags(f, &o.Scale, &o.Blend, &o.Nonlinear, &o.Fewest)
	f.IntVar(&o.MaxDim, "max-dim", 0, "maximum `NUMBER` of outputs for dim auto")
	f.Uint64Var(&o.Seed, "seed", 1, "`NUMBER` that seeds random choices; the same seed gives the same model")
	landmarkFlags(f, &o.Landmarks, &o.Width)
	f.Offer("method", append(methodNames(), fit.Auto)...)
	return o
}

// landmarkFlags declares the flags of landmarks, which replace the features of a linear method.
func landmarkFlags(f *cli.Flags, count *int, width *float64) {
	f.IntVar(count, "landmarks", 0,
		"`NUMBER` of rows whose kernels replace the features, so that a linear method gives curved boundaries; try 300")
	f.Float64Var(width, "width", 0, "`NUMBER` that narrows these kernels, usually 0.25 to 4 (default 1)")
}

// autoFlags declares the flags of what method auto and dim auto try.
func autoFlags(f *cli.Flags, scale *model.Scale, blend *int, nonlinear, fewest *bool) {
	*scale = model.ScaleAuto
	f.Words("scale", "`SCALE` of the features; auto compares standard, none and minmax for method auto, else it is "+
		"standard: "+strings.Join(scales, ", ")+" (default auto)", func(word string) { *scale = model.Scale(word) },
		scales...)
	f.IntVar(blend, "blend", 0, "`NUMBER` of the best candidates that method auto combines; 1 is the best alone "+
		"(default: all that are not significantly worse on held-out rows)")
	f.BoolVar(nonlinear, "nonlinear", false, "let method auto try normal scores and 300 landmarks too, for curved "+
		"boundaries; a projection then costs more")
	f.BoolVar(fewest, "fewest", false, "let dim auto have as few outputs as possible: the smallest number that is "+
		"worse on held-out rows by less than half a standard error")
}

var scales = []string{string(model.ScaleAuto), string(model.ScaleStandard), string(model.ScaleMinMax),
	string(model.ScaleUnit), string(model.ScaleNone), string(model.ScaleRank)}

// config returns the configuration of the fit. It checks what can be checked before the rows are read.
func (o *fitFlags) config(label string) (fit.Config, error) {
	c := o.Config
	c.Params = map[string]string{}
	if o.dim == fit.Auto {
		c.Dim = fit.AutoDim
	} else if o.dim != "" {
		dim, err := strconv.Atoi(o.dim)
		if err != nil || dim < 1 {
			return c, cli.Usagef("--dim %s: want a number from 1, or auto to choose by cross-validation", o.dim)
		}
		c.Dim = dim
	}
	for name, value := range o.Params {
		// METHOD.NAME=VALUE, the form of eval, works here too.
		c.Params[strings.TrimPrefix(name, c.Method+".")] = value
	}
	if err := c.Validate(); err != nil {
		return c, cli.Usagef("%w", err)
	}
	method, err := fit.Lookup(c.Method)
	if err != nil {
		return c, cli.Usagef("%w", err)
	}
	if method.Supervised && label == "" {
		return c, cli.Usagef("method %s needs labels: name their column with --label", c.Method)
	}
	return c, nil
}

// fitRows fits a model and shows the progress.
func fitRows(ctx context.Context, e *cli.Env, r *dataset.Rows, c fit.Config) (*model.Model, error) {
	show := report.NewProgress(e)
	defer show.End()
	c.Memory = memory.Free()
	c.Progress = func(phase string, done float64) { show.Show(c.Method+": "+phase, done) }
	m, err := fit.Fit(ctx, &r.Data, c)
	if bound, ok := errors.AsType[*model.DimError](err); ok {
		return nil, cli.Usagef("%s: %w: give --dim %d or less, or --dim auto", r.Name, err, bound.Max)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return m.WithNote(model.Note{Created: time.Now(), Source: map[string]string{"file": r.Name}, Nulls: r.Nulls,
		Categories: r.Categories, Dates: r.Dates}), nil
}

// methodNames are the names of all methods, for completion.
func methodNames() (names []string) {
	for _, m := range fit.Methods() {
		names = append(names, m.Name)
	}
	return names
}
