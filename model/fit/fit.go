package fit

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// Fit learns a model from rows. The same rows in the same order with the same configuration give the same digest.
// Methods that need labels use the labelled rows only. The model of Auto has the name of the chosen method; its
// parameter auto and the report say that it was chosen. A cancelled ctx ends the fit with the error of the context.
//
// Stored rows are read a block at a time if Config.Streams says so and there are more of them than features; otherwise
// Fit loads them. The model is the same.
func Fit(ctx context.Context, d *model.Data, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := c.checkMemory(d); err != nil {
		return nil, err
	}
	c.Memory = 0 // already checked, for the fits inside this one too
	if d, err = load(c, d); err != nil {
		return nil, err
	}
	if c.Landmarks == 0 && c.Scale != model.ScaleRank && (c.Method == Auto || c.Dim == AutoDim) {
		return fitAuto(ctx, d, c)
	}
	return fitPreprocessed(ctx, d, c)
}

// AtMost is Fit with the requested dimension or, if that is lower, the largest that the rows allow.
func AtMost(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	m, err := Fit(ctx, d, c)
	for bound := (*model.DimError)(nil); errors.As(err, &bound) && bound.Max > 0 && bound.Max < c.Dim; {
		c.Dim = bound.Max
		m, err = Fit(ctx, d, c)
	}
	return m, err
}

// fitPreprocessed fits with the preprocessing that the configuration names.
func fitPreprocessed(ctx context.Context, d *model.Data, c Config) (_ *model.Model, err error) {
	defer fail.Catch(&err)
	switch {
	case c.Landmarks > 0:
		return fitLandmarks(ctx, d, c), nil
	case c.Scale == model.ScaleRank:
		return fitRanked(ctx, d, c), nil
	}
	method, params := fail.Must2(c.resolve())
	return fitWith(ctx, method, params, d, c), nil
}

func fitWith(ctx context.Context, method *frame.Method, params map[string]string, d *model.Data,
	c Config) *model.Model {
	report := newReport(c, params)
	end := report.Phase("prepare")
	rows := fail.Must(frame.Prepare(ctx, d, method.Supervised, c.Scale == model.ScaleUnit, report))
	end()
	t := newTask(method, params, c, report)
	t.ReportProgress("statistics", 0)
	return run(ctx, t, func() error { return t.Load(ctx, rows) }, d.Features, d.Classes)
}

// run loads a task and fits it. Its errors name the method.
func run(ctx context.Context, t *frame.Task, load func() error, features, classes []string) *model.Model {
	check := func(err error) {
		if err != nil {
			panic(fail.With(fmt.Errorf("%s: %w", t.Method.Name, err)))
		}
	}
	end := t.Report.Phase("statistics")
	check(load())
	end()
	m, err := t.Run(ctx, features, classes)
	check(err)
	return m
}

func newTask(m *frame.Method, params map[string]string, c Config, report *model.Report) *frame.Task {
	t := &frame.Task{Method: m, Params: params, D: c.Dim, MaxDim: c.MaxDim, Pad: c.Pad, Outputs: c.Outputs, Seed: c.Seed,
		DesignEffect: c.DesignEffect, Scaling: c.Scale, Progress: c.Progress, Report: report}
	if c.Memo != nil {
		if c.Memo.shared == nil {
			c.Memo.shared = map[string]any{}
		}
		t.Memo = c.Memo.shared
	}
	return t
}

// newReport starts the report of a fit, and marks the parameters if auto decided.
func newReport(c Config, params map[string]string) *model.Report {
	r := &model.Report{}
	if c.choice != nil {
		params["auto"] = c.choice.Chosen
		copied := *c.choice
		r.Choice = &copied
	}
	return r
}

// prepare checks the rows of a fit with landmarks or normal scores.
func prepare(ctx context.Context, d *model.Data, c Config, report *model.Report) *frame.Rows {
	supervised := fail.Must(c.method()).Supervised || c.withDefaults().Method == Auto && presentClasses(d) > 1
	return fail.Must(frame.Prepare(ctx, d, supervised, c.Scale == model.ScaleUnit, report))
}

// fitRanked fits a linear method to normal scores.
func fitRanked(ctx context.Context, d *model.Data, c Config) *model.Model {
	report := &model.Report{}
	p := prepare(ctx, d, c, report)
	spec := preprocess.Spec{Scale: model.ScaleRank}
	s := fail.Must(spec.Fit(ctx, preprocess.NewTraining(p, nil), model.ScaleStandard, c.Seed, nil))
	inner := c.withoutPreprocessing()
	inner.applied = &preprocess.Applied{Rows: p, Spec: spec, Inner: model.ScaleStandard}
	m := fail.Must(Fit(ctx, s.Rows.Data, inner))
	a := m.Components()
	if a == nil {
		panic(fail.With(fmt.Errorf("method %s is not linear; normal scores need a linear method, or give another scale",
			m.Method())))
	}
	dim := m.Dim()
	w := mat.NewDense(p.M, dim, a)
	for j, v := range m.Scale() {
		row := w.RawRowView(j)
		for c := range row {
			row[c] /= v
		}
	}
	sum := &mapping.Sum{D: dim, Offset: make([]float64, dim)}
	s.AddTo(sum, w, m.Mean())
	content := m.Content()
	content.Features, content.Float64 = frame.FeatureNames(d.Features, d.M), false
	content.Mean, content.Scale, content.Map = s.Mean, s.Scale, sum
	content.Params["scale"] = string(model.ScaleRank)
	content.Report.Unlabelled, content.Report.Imputed = report.Unlabelled, report.Imputed
	content.Report.Notes = append(report.Notes, content.Report.Notes...)
	return fail.Must(model.New(content))
}

// load returns the data with its rows in memory, unless they are stored and can be read a block at a time.
func load(c Config, d *model.Data) (*model.Data, error) {
	if d == nil || d.Stored == nil || d.N < 0 || d.M < 1 {
		return d, nil
	}
	if c.Streams() {
		m, err := c.method()
		if err != nil {
			return nil, err
		}
		if used(d, m.Supervised) > d.M { // fewer rows than features are expressed in the space that they span
			return d, nil
		}
	}
	loaded := *d
	loaded.Stored, loaded.X = nil, slices.Grow([]float64(nil), d.N*d.M)[:d.N*d.M]
	return &loaded, d.Stored.ReadRows(loaded.X, 0)
}

// used is the number of rows that a method uses.
func used(d *model.Data, supervised bool) int {
	if !supervised {
		return d.N
	}
	n := 0
	for _, class := range d.Y {
		if class >= 0 {
			n++
		}
	}
	return n
}
