package fit

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/moments"
)

// FitMoments learns a model from moments alone, for methods whose Streaming is "moments". It gives the model that Fit
// gives on the same rows, within rounding, where the ridge is a number or oas. ridge=auto means oas here, since no rows
// are kept to validate on. For the same reason Auto is lda, or pairacc for more than C-1 dimensions, or pca without
// labels, and AutoDim is the method's default. Scale must be standard or none, and Landmarks 0; see
// [Landmarks.FitMoments]. Blend learns from moments if all its members do, at those scales.
func FitMoments(ctx context.Context, s *moments.Set, features, classes []string, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	c = c.withDefaults()
	method, params, err := c.resolve()
	if err == nil && s != nil && (c.Method == Auto || c.Dim == AutoDim) {
		if c, err = c.chooseWithoutRows(s); err == nil {
			method, params, err = c.resolve()
		}
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("%s: no statistics given", method.Name)
	case method.Streaming != "moments":
		return nil, fmt.Errorf("%s: %sneeds the rows; fit it from a window", method.Name, memberNeedingRows(method, params))
	case preprocess.ScaleNeedsRows(c.Scale):
		return nil, fmt.Errorf("%s: scale %s needs the rows; give standard or none", method.Name, c.Scale)
	case c.Landmarks > 0:
		return nil, fmt.Errorf("%s: %d landmarks need the rows; map the rows, and give their moments to Landmarks.FitMoments",
			method.Name, c.Landmarks)
	case method.SecondByClass && !s.PerClass():
		return nil, fmt.Errorf("%s: needs second moments by class; make the set with them", method.Name)
	case features != nil && len(features) != s.M():
		return nil, fmt.Errorf("%s: %d feature names for %d features", method.Name, len(features), s.M())
	}
	if s.Classes() > len(classes) && method.Supervised {
		return nil, fmt.Errorf("%s: statistics of %d classes, names of %d", method.Name, s.Classes(), len(classes))
	}
	if err := mapping.CheckNames(features, classes); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := newReport(c, params)
	t := newTask(method, params, c, report)
	if method.Supervised {
		report.Unlabelled = int(math.Round(s.Count(-1)))
	}
	m := run(ctx, t, func() error { return t.LoadSums(ctx, s) }, features, classes)
	t.Basis.ReuseMemory() // the next fit of a window has as many features
	return m, nil
}

// Streams reports whether Fit reads stored rows a block at a time: with a method that is fitted from moments, except
// those with moments by class, and the scale standard or none.
func (c Config) Streams() bool {
	c = c.withDefaults()
	m, err := c.method()
	return err == nil && c.Criterion == nil && c.Method != Auto && c.Method != Blend && m.Streaming == "moments" &&
		!m.Samples() && !m.SecondByClass && c.Landmarks == 0 && c.Scale != model.ScaleRank &&
		!preprocess.ScaleNeedsRows(c.Scale)
}

// chooseWithoutRows replaces what a configuration leaves open. If that is the dimension alone, it becomes the method's
// default.
func (c Config) chooseWithoutRows(s *moments.Set) (Config, error) {
	if c.Method != Auto {
		c.Dim = 0
		return c, nil
	}
	classes := 0
	for k := range s.Classes() {
		if s.Count(k) > 0 {
			classes++
		}
	}
	choosing, err := c.choosing()
	return c.WithChoice(choose.WithoutScores(choosing, classes, s.M())), err
}

// memberNeedingRows names the member of a blend that cannot be fitted from moments; "" if there is none.
func memberNeedingRows(m *frame.Method, params map[string]string) string {
	if m.Name != Blend {
		return ""
	}
	if member := blend.NeedsRows(params); member != "" {
		return fmt.Sprintf("member %s ", member)
	}
	return ""
}
