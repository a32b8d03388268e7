package fit

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/moments"
)

// FitMoments learns a model from statistics alone, for methods whose Streaming
// is "moments". It gives the model that Fit gives on the same rows, within
// rounding, where the ridge is a number or oas; ridge=auto means oas here,
// since no rows are kept to validate on. For the same reason Auto is lda, or
// pairacc for more than C-1 dimensions, or pca without labels, and AutoDim the method's default.
// Scale is standard or none, and there are no Landmarks: see [Landmarks.FitMoments]. Blend is one of these methods where
// all its members are, at those scales.
func FitMoments(ctx context.Context, s *moments.Set, features, classes []string, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	c = c.withDefaults()
	method, params, err := c.resolve()
	if err == nil && s != nil && (c.Method == Auto || c.Dim == AutoDim) {
		chooseByMoments(s, &c)
		method, params, err = c.resolve()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("%s: no statistics given", method.Name)
	case method.Streaming != "moments":
		return nil, fmt.Errorf("%s: %sneeds the rows; fit it from a window", method.Name, whoNeedsRows(method, params))
	case ofRows(c.Scale):
		return nil, fmt.Errorf("%s: scale %s needs the rows; give standard or none", method.Name, c.Scale)
	case c.Landmarks > 0:
		return nil, fmt.Errorf("%s: %d landmarks need the rows; map them, and give Landmarks.FitMoments their statistics",
			method.Name, c.Landmarks)
	case method.SecondByClass && !s.PerClass():
		return nil, fmt.Errorf("%s: needs second moments by class; make the set with them", method.Name)
	case features != nil && len(features) != s.M():
		return nil, fmt.Errorf("%s: %d feature names for %d features", method.Name, len(features), s.M())
	}
	if s.Classes() > len(classes) && method.Supervised {
		return nil, fmt.Errorf("%s: statistics of %d classes, names of %d", method.Name, s.Classes(), len(classes))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := c.begin(params)
	t := &frame.Task{Method: method, Params: params, D: c.Dim, Pad: c.Pad, Seed: c.Seed, Scaling: c.Scale,
		Progress: c.Progress, Report: report}
	end := report.Phase("statistics")
	if method.Supervised {
		report.Unlabelled = int(math.Round(s.Count(-1)))
	}
	if err := t.LoadSums(ctx, s); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	end()
	m, err := t.Run(ctx, features, classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	return m, nil
}

// ofRows tells whether a scale is of the rows themselves: their moments do not have it.
func ofRows(s model.Scale) bool {
	return s == model.ScaleMinMax || s == model.ScaleUnit || s == model.ScaleRank
}
