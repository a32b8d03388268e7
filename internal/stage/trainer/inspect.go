package trainer

import (
	"context"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Parts are the parts of a trainer that tests of package stage look at.
type Parts struct {
	Window    *window.Window
	Schedule  policy.Schedule
	Live      *prequential.Model
	Landmarks *fit.Landmarks
	Renewed   bool       // the landmarks are not those of the live model
	Settings  fit.Config // of the next fit
	ByMoments bool
	Probe     bool

	Fit        func(context.Context) (*model.Model, error) // fits the whole window
	Samples    func(*window.Suffix) *model.Data
	WindowRows func(rows, features int) int
}

// Inspect returns the parts of a trainer that is idle.
func Inspect(t *Trainer) Parts {
	return Parts{Window: t.data.window, Schedule: t.schedule, Live: t.live, Landmarks: t.fitter.landmarks.Landmarks,
		Renewed: t.fitter.landmarks.New, Settings: t.plan.settings, ByMoments: t.plan.byMoments(),
		Probe: t.probe != nil,
		Fit: func(ctx context.Context) (*model.Model, error) {
			_, m, err := t.fitter.fit(ctx, 0)
			return m, err
		},
		Samples: t.fitter.samples, WindowRows: t.plan.windowRows}
}
