package trainer

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// landmarks are the landmarks that candidates are fitted on. The first fit draws them, and they are part of each model:
// moments of mapped rows add up, and a restart finds them in the live model. New landmarks begin a new epoch. They are
// drawn if the old ones do not serve: the rows have changed so that they hardly vary on the old landmarks, the first
// model had few rows to draw from, or the live model has none, or others than configured. Until a candidate on new
// landmarks is promoted, the new landmarks are drawn again at each checkpoint, so that a restart finds them in its
// window, and whenever older rows are removed.
type landmarks struct {
	*fit.Landmarks // nil: the next fit draws them
	renewal
}

// renewal is the part of landmarks that a checkpoint saves.
type renewal struct {
	New     bool `json:"new,omitempty"`     // they are not those of the live model
	Alarmed bool `json:"alarmed,omitempty"` // the rows have changed, and whether the landmarks serve is not checked yet
}

// minKeptVariance is the share of the variance of rows on new landmarks that the rows must have on the old ones.
const minKeptVariance = 0.5

// keepLandmarks takes the landmarks of the live model. All models of an epoch have the same ones, so that sums of
// mapped rows stay valid.
func (f *fitter) keepLandmarks(ctx context.Context, m *model.Model) {
	if !f.plan.hasLandmarks() {
		return
	}
	if l := f.landmarks.Landmarks; l != nil && l.Match(m, f.plan.config.Fit) {
		f.landmarks = landmarks{Landmarks: l}
		return
	}
	l, err := fit.LandmarksOf(ctx, m, f.plan.config.Fit)
	if err != nil {
		f.log.Info("candidates are fitted on new landmarks", "cause", err)
		f.replaceLandmarks()
		return
	}
	f.landmarks = landmarks{Landmarks: l}
	f.mapWindow()
}

// mapWindow makes the window sum rows as the landmarks map them.
func (f *fitter) mapWindow() {
	if l := f.landmarks.Landmarks; l != nil && f.data.window != nil {
		f.data.window.SetMapping(window.Mapping{Dim: l.Dim(), Map: l.Map})
	}
}

// prepare determines which rows enter a fit, and draws landmarks from them if there are none.
func (f *fitter) prepare(ctx context.Context) error {
	f.data.sift()
	if !f.plan.hasLandmarks() || f.landmarks.Landmarks != nil {
		return nil
	}
	s := f.data.window.NewestRows(f.data.window.Len())
	l, err := fit.DrawLandmarks(ctx, f.samples(s), f.plan.config.Fit)
	if err != nil {
		return fmt.Errorf("drawing landmarks from %d rows: %w", s.Rows, err)
	}
	f.log.Info("landmarks were drawn", "landmarks", l.Len(), "rank", l.Dim(), "requested", f.plan.config.Fit.Landmarks,
		"rows", s.Rows)
	f.landmarks.Landmarks = l
	f.mapWindow()
	return nil
}

// resumeLandmarks is keepLandmarks after a restart.
func (f *fitter) resumeLandmarks(m *model.Model, r renewal) {
	f.keepLandmarks(context.Background(), m)
	if f.plan.hasLandmarks() && r.New {
		f.replaceLandmarks()
	}
	f.landmarks.Alarmed = f.landmarks.Alarmed || r.Alarmed
}

// replaceLandmarks makes the next fit draw new landmarks.
func (f *fitter) replaceLandmarks() { f.landmarks = landmarks{renewal: renewal{New: true}} }

// redrawLandmarks makes the next fit draw landmarks again unless they are those of the live model.
func (f *fitter) redrawLandmarks() {
	if f.landmarks.New {
		f.landmarks.Landmarks = nil
	}
}

// renewalReason says why the landmarks do not serve any more, once there are enough rows to draw others; else "".
// firstRows is the number of rows that a first model needs.
func (f *fitter) renewalReason(ctx context.Context, firstRows int) string {
	if !f.plan.hasLandmarks() || f.landmarks.New || f.landmarks.Landmarks == nil {
		return ""
	}
	rows, want := f.data.window.FirstModelRows(), f.plan.config.Fit.Landmarks
	if f.landmarks.Len() < want && rows >= 4*want {
		return fmt.Sprintf("only %d rows exist, of %d requested", f.landmarks.Len(), want)
	}
	if !f.landmarks.Alarmed || rows < firstRows {
		return ""
	}
	f.landmarks.Alarmed = false
	return f.lostVariance(ctx)
}

// lostVariance says how much variance the rows of the window have lost on the landmarks, "" if it is not too much.
// Landmarks drawn from half of the rows show how much variance the rest would have on new ones. The half is drawn too:
// every other row may be of one class.
func (f *fitter) lostVariance(ctx context.Context) string {
	d := f.samples(f.data.window.NewestRows(f.data.window.Len()))
	order := rand.New(rand.NewPCG(f.plan.config.Fit.Seed, 0)).Perm(d.N)
	fresh, err := fit.DrawLandmarks(ctx, d.Subset(order[:d.N/2]), f.plan.config.Fit)
	if err != nil {
		return "" // no landmarks can be drawn from these rows
	}
	rest := d.Subset(order[d.N/2:])
	before, err := mappedVariance(ctx, f.landmarks.Landmarks, rest)
	if err != nil {
		return ""
	}
	after, err := mappedVariance(ctx, fresh, rest)
	if err != nil || before >= minKeptVariance*after {
		return ""
	}
	return fmt.Sprintf("the rows have changed: their variance on the old landmarks is %.3g, on new ones %.3g",
		before, after)
}

// mappedVariance is the total variance of rows as landmarks map them.
func mappedVariance(ctx context.Context, l *fit.Landmarks, d *model.Data) (float64, error) {
	rows := make([][]float64, d.N)
	for i := range rows {
		rows[i] = d.X[i*d.M : (i+1)*d.M]
	}
	phi := mat.NewDense(d.N, l.Dim(), nil)
	if err := l.Map(ctx, phi.RawMatrix().Data, rows); err != nil {
		return 0, err
	}
	total := 0.0
	for j := range l.Dim() {
		total += stat.PopVariance(mat.Col(nil, j, phi), nil)
	}
	return total, nil
}
