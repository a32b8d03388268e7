package trainer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// fitter fits models on suffixes of the window, on landmarks if the configuration asks for them.
type fitter struct {
	plan      *plan
	data      *dataset
	log       *slog.Logger
	features  func() []string
	countFit  func() // counts a fit
	blocks    *evidence.Dependence
	landmarks landmarks
}

// fit fits a suffix of the window; size 0 is the whole window.
func (f *fitter) fit(ctx context.Context, size int) (s *window.Suffix, m *model.Model, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fitting %s panicked: %v; please report it", f.plan.method.Name, p)
		}
	}()
	n := cmp.Or(size, f.data.window.Len())
	if err := f.prepare(ctx); err != nil {
		return nil, nil, err
	}
	if f.plan.byMoments() {
		s, err = f.data.window.Newest(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		m, err = f.fitMoments(ctx, s, f.settingsFor(s))
	} else {
		s = f.data.window.NewestRows(n)
		m, err = f.fitRows(ctx, s, f.settingsFor(s))
	}
	f.countFit()
	if err != nil {
		return nil, nil, fmt.Errorf("fitting on %d rows: %w", s.Rows, err)
	}
	return s, m, nil
}

// settingsFor returns the settings with which a suffix is fitted. The design effect is unknown before a model is live,
// and that of longer blocks counts a change of the concept as dependence.
func (f *fitter) settingsFor(s *window.Suffix) fit.Config {
	c := f.plan.settingsFor(s, f.data.window.Features())
	if f.blocks.IsKnown() {
		c.DesignEffect = min(f.blocks.Effect(), f.blocks.ShortEffect())
	}
	return c
}

// samples returns a suffix in the form of a fit from rows.
func (f *fitter) samples(s *window.Suffix) *model.Data {
	d := &model.Data{X: s.X, N: s.Rows, M: f.data.window.Features(), Features: f.features()}
	if f.plan.labelled() {
		d.Y, d.Classes = s.Y, s.Classes
		d.Groups = stretches(s.Rows)
	}
	return d
}

const (
	foldStretches = 32 // into which the rows of a fit are divided
	minStretch    = 16 // rows
)

// stretches are the groups of n rows in their order in the stream: rows next to each other may be copies, or depend on
// each other, so none judges its neighbours.
func stretches(n int) []int {
	groups := make([]int, n)
	for i := range groups {
		groups[i] = i / max(n/foldStretches, minStretch)
	}
	return groups
}

// fitRows fits a suffix of rows.
func (f *fitter) fitRows(ctx context.Context, s *window.Suffix, c fit.Config) (*model.Model, error) {
	if l := f.landmarks.Landmarks; l != nil {
		return l.Fit(ctx, f.samples(s), c)
	}
	return fit.Fit(ctx, f.samples(s), c)
}

// fitMoments fits the moments of a suffix.
func (f *fitter) fitMoments(ctx context.Context, s *window.Suffix, c fit.Config) (*model.Model, error) {
	features := f.features()
	if l := f.landmarks.Landmarks; l != nil {
		return l.FitMoments(ctx, s.Moments, features, s.Classes, c)
	}
	return fit.FitMoments(ctx, s.Moments, features, s.Classes, c)
}
