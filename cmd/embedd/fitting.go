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
	method    *string
	dim       string
	scale     *string
	blend     *int
	nonlinear *bool
	fewest    *bool
	maxDim    *int
	landmarks *int
	width     *float64
	seed      *uint64
	params    map[string]string
}

func fittingFlags(f *cli.Flags) *fitFlags {
	o := &fitFlags{
		method: f.String("method", fit.Auto,
			"`NAME` of the method, as `embedd methods` lists them, or auto to choose by cross-validation"),
		params: f.Settings("set", "a parameter of the method, as `NAME=VALUE`; may be repeated"),
		scale: f.Choice("scale", "`SCALE` of the features; auto compares standard, none and minmax for method auto, else "+
			"it is standard", scales...),
		blend: f.Int("blend", 0, "`NUMBER` of the best candidates that method auto combines; 1 is the best alone "+
			"(default: all that are not significantly worse on held-out rows)"),
		nonlinear: nonlinearFlag(f),
		fewest:    fewestFlag(f),
		maxDim:    f.Int("max-dim", 0, "maximum `NUMBER` of outputs for dim auto"),
		seed:      f.Uint64("seed", 1, "`NUMBER` that seeds random choices; the same seed gives the same model"),
	}
	o.landmarks, o.width = landmarkFlags(f)
	f.Offer("method", append(methodNames(), fit.Auto)...)
	return o
}

// landmarkFlags declares the flags of landmarks, which replace the features of a linear method.
func landmarkFlags(f *cli.Flags) (count *int, width *float64) {
	return f.Int("landmarks", 0,
			"`NUMBER` of rows whose kernels replace the features, so that a linear method gives curved boundaries; try 300"),
		f.Float64("width", 0, "`NUMBER` that narrows these kernels, usually 0.25 to 4 (default 1)")
}

func fewestFlag(f *cli.Flags) *bool {
	return f.Bool("fewest", false, "let dim auto have as few outputs as possible: the smallest number that is worse on "+
		"held-out rows by less than half a standard error")
}

func nonlinearFlag(f *cli.Flags) *bool {
	return f.Bool("nonlinear", false, "let method auto try normal scores and 300 landmarks too, for curved "+
		"boundaries; a projection then costs more")
}

var scales = []string{string(model.ScaleAuto), string(model.ScaleStandard), string(model.ScaleMinMax),
	string(model.ScaleUnit), string(model.ScaleNone), string(model.ScaleRank)}

// config returns the configuration of the fit. It checks what can be checked before the rows are read.
func (o *fitFlags) config(label string) (fit.Config, error) {
	c := fit.Config{Method: *o.method, Scale: model.Scale(*o.scale), Blend: *o.blend, Nonlinear: *o.nonlinear,
		Fewest: *o.fewest, MaxDim: *o.maxDim, Landmarks: *o.landmarks, Width: *o.width, Seed: *o.seed,
		Params: map[string]string{}}
	if o.dim == fit.Auto {
		c.Dim = fit.AutoDim
	} else if o.dim != "" {
		dim, err := strconv.Atoi(o.dim)
		if err != nil || dim < 1 {
			return c, cli.Usagef("--dim %s: want a number from 1, or auto to choose by cross-validation", o.dim)
		}
		c.Dim = dim
	}
	for name, value := range o.params {
		// METHOD.NAME=VALUE, the form of eval, works here too.
		c.Params[strings.TrimPrefix(name, c.Method+".")] = value
	}
	if err := c.Validate(); err != nil {
		return c, cli.UsageError{Err: err}
	}
	method, err := fit.Lookup(c.Method)
	if err != nil {
		return c, cli.UsageError{Err: err}
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
	if bound, ok := asDimError(err); ok {
		return nil, cli.UsageError{Err: fmt.Errorf("%s: %w: give --dim %d or less, or --dim auto", r.Name, err, bound.Max)}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return m.WithNote(model.Note{Created: time.Now(), Source: map[string]string{"file": r.Name}, Nulls: r.Nulls,
		Categories: r.Categories, Dates: r.Dates}), nil
}

// asDimError finds the error of a --dim that is larger than the method has outputs.
func asDimError(err error) (bound *model.DimError, ok bool) {
	ok = errors.As(err, &bound)
	return bound, ok
}

// methodNames are the names of all methods, for completion.
func methodNames() (names []string) {
	for _, m := range fit.Methods() {
		names = append(names, m.Name)
	}
	return names
}
