package fit

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/moments"
)

// Landmarks are rows whose kernels replace a row's features: phi(x) = V^(-1/2) U' k(x), where k(x) are the kernels
// exp(-width |x - l|^2 / median) of the row and the L landmarks, and U V U' is the kernel matrix of the landmarks. This
// is the Nyström approximation of the kernel's feature map (Williams and Seeger, Using the Nyström method to speed up
// kernel machines, 2001), so that a linear method fitted on these features draws curved boundaries. Config.Landmarks
// uses them in one fit. A caller that fits repeatedly keeps them, so that the moments of mapped rows add up. They are
// immutable, and the zero value is not usable.
type Landmarks struct{ of *preprocess.Landmarks }

// DrawLandmarks draws c.Landmarks rows, stratified by class, with the seed c.Seed. Of fewer rows it takes all.
func DrawLandmarks(ctx context.Context, d *model.Data, c Config) (_ *Landmarks, err error) {
	defer parallel.Recover(&err, "landmarks")
	ctx = parallel.Limit(ctx, c.Workers)
	defer fail.Catch(&err)
	return &Landmarks{fail.Must(preprocess.DrawLandmarks(ctx, prepare(ctx, d, c, &model.Report{}), c.kernels(),
		c.Seed))}, nil
}

// LandmarksOf returns the landmarks of a model that was fitted with the landmarks, width and scale of c.
func LandmarksOf(ctx context.Context, m *model.Model, c Config) (_ *Landmarks, err error) {
	defer parallel.Recover(&err, "landmarks")
	l, err := preprocess.LandmarksOf(parallel.Limit(ctx, c.Workers), m, c.kernels())
	if err != nil {
		return nil, err
	}
	return &Landmarks{l}, nil
}

// Match reports whether [LandmarksOf] of the model and c would return these landmarks.
func (l *Landmarks) Match(m *model.Model, c Config) bool { return l.of.Match(m, c.kernels()) }

// Len is the number of landmarks.
func (l *Landmarks) Len() int { return l.of.Len() }

// Dim is the number of features that they make. It is less than Len where some landmarks are (nearly) the same row.
func (l *Landmarks) Dim() int { return l.of.Dim() }

// Map writes the features that the landmarks make of rows to dst, len(rows) x Dim row-major.
func (l *Landmarks) Map(ctx context.Context, dst []float64, rows [][]float64) error {
	return l.of.Map(ctx, dst, rows)
}

// Fit is [Fit] on the features that the landmarks make of the rows. It ignores Landmarks, Width and Scale of c.
func (l *Landmarks) Fit(ctx context.Context, d *model.Data, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	report := &model.Report{}
	return l.fit(ctx, prepare(ctx, d, c, report), d.Features, c, report), nil
}

func (l *Landmarks) fit(ctx context.Context, p *frame.Rows, features []string, c Config,
	report *model.Report) *model.Model {
	m, err := Fit(ctx, fail.Must(l.of.Data(ctx, p)), c.withoutPreprocessing())
	if err != nil {
		panic(fail.With(fmt.Errorf("on the features of %d landmarks: %w", l.Len(), err)))
	}
	return fail.Must(l.of.Compose(m, features, report))
}

// FitMoments is [FitMoments] of the moments of rows that Map has mapped.
func (l *Landmarks) FitMoments(ctx context.Context, s *moments.Set, features, classes []string,
	c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	m, err := FitMoments(ctx, s, nil, classes, c.withoutPreprocessing())
	if err != nil {
		return nil, fmt.Errorf("on the features of %d landmarks: %w", l.Len(), err)
	}
	return l.of.Compose(m, features, &model.Report{Unlabelled: m.Report().Unlabelled})
}

// fitLandmarks fits a linear method on the features of landmarks that are drawn from its rows.
func fitLandmarks(ctx context.Context, d *model.Data, c Config) *model.Model {
	report := &model.Report{}
	p := prepare(ctx, d, c, report)
	drawn := fail.Must(preprocess.DrawLandmarks(ctx, p, c.kernels(), c.Seed))
	spec := preprocess.Spec{Landmarks: c.Landmarks, Width: preprocess.Width(c.Width)}
	c.applied = &preprocess.Applied{Rows: p, Spec: spec, Inner: c.Scale}
	return (&Landmarks{drawn}).fit(ctx, p, d.Features, c, report)
}
