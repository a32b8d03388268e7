package plugin

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// landmarks are those that candidates are fitted behind, where the configuration asks for some. They are drawn at the
// first fit, are part of each model, and stay: moments of rows that they mapped add up, and a restart finds them in the
// live model. New ones are a new epoch. They are drawn where the old ones do not serve: where the rows have changed so
// that these hardly vary any more as the old landmarks see them, where a first model had few rows to draw from, and where
// the live model has none, or others than are asked for. What is fitted behind new ones has to earn its place like any
// candidate; until it has, they are drawn anew with each checkpoint, so that a restart finds them in its window, and where
// older rows are left out.
type landmarks struct {
	*fit.Landmarks // nil: to be drawn by the next fit
	renewal
}

// renewal is what a checkpoint keeps of landmarks.
type renewal struct {
	New     bool `json:"new,omitempty"`     // they are not those of the live model
	Alarmed bool `json:"alarmed,omitempty"` // the rows have changed, and nobody has looked yet whether they still serve
}

// worn is the share of the variance of rows, as new landmarks would see it, that the old ones must see.
const worn = 0.5

// behind tells whether models are fitted behind landmarks.
func (t *trainer) behind() bool { return t.config.Fit.Landmarks > 0 }

// columns is how many features fits have of each row, at most.
func (t *trainer) columns(features int) int {
	if t.behind() {
		return t.config.Fit.Landmarks
	}
	return features
}

// stayBehind takes the landmarks of a model that is live. All models of an epoch have the same: what was made of them, and
// what the window has summed behind them, stays.
func (t *trainer) stayBehind(ctx context.Context, m *model.Model) {
	if !t.behind() {
		return
	}
	if l := t.marks.Landmarks; l != nil && l.Made(m, t.config.Fit) {
		t.marks = landmarks{Landmarks: l}
		return
	}
	l, err := fit.LandmarksOf(ctx, m, t.config.Fit)
	if err != nil {
		t.log.Info("candidates are fitted behind landmarks of their own", "cause", err)
		t.renew()
		return
	}
	t.marks = landmarks{Landmarks: l}
	t.lift()
}

// lift has the window sum what the landmarks make of rows.
func (t *trainer) lift() {
	if l := t.marks.Landmarks; l != nil && t.window != nil {
		t.window.Lift(window.Lift{Dim: l.Dim(), Map: l.Map})
	}
}

// draw draws landmarks from the window where there are none.
func (t *trainer) draw(ctx context.Context) error {
	if !t.behind() || t.marks.Landmarks != nil {
		return nil
	}
	s := t.window.NewestRows(t.window.Len())
	l, err := fit.DrawLandmarks(ctx, t.data(s), t.config.Fit)
	if err != nil {
		return fmt.Errorf("drawing landmarks from %d rows: %w", s.Rows, err)
	}
	t.log.Info("landmarks were drawn", "landmarks", l.Len(), "rank", l.Dim(), "asked", t.config.Fit.Landmarks, "rows", s.Rows)
	t.marks.Landmarks = l
	t.lift()
	return nil
}

// resumeBehind is stayBehind after a restart.
func (t *trainer) resumeBehind(m *model.Model, r renewal) {
	t.stayBehind(context.Background(), m)
	if t.behind() && r.New {
		t.renew()
	}
	t.marks.Alarmed = t.marks.Alarmed || r.Alarmed
}

// renew has new landmarks drawn by the next fit.
func (t *trainer) renew() { t.marks = landmarks{renewal: renewal{New: true}} }

// redraw draws landmarks anew that are not of the live model.
func (t *trainer) redraw() {
	if t.marks.New {
		t.marks.Landmarks = nil
	}
}

// lookAtLandmarks renews landmarks that do not serve, once there are rows enough to draw others.
func (t *trainer) lookAtLandmarks(ctx context.Context) {
	if !t.behind() || t.marks.New || t.marks.Landmarks == nil {
		return
	}
	rows := t.window.Learnable()
	why := ""
	if few := t.marks.Len() < t.config.Fit.Landmarks; few && rows >= 4*t.config.Fit.Landmarks {
		why = fmt.Sprintf("%d rows, of %d asked for, were all that there were", t.marks.Len(), t.config.Fit.Landmarks)
	} else if t.marks.Alarmed && rows >= t.policy.firstRows() {
		t.marks.Alarmed = false
		why = t.wornBy(ctx)
	}
	if why == "" {
		return
	}
	t.log.Info("candidates are fitted behind new landmarks", "cause", why)
	t.renew()
	t.candidates, t.policy.Fitted = nil, nil
	if t.scouts != nil {
		t.scouts.cut(t.window.Len())
	}
}

// wornBy says how the rows of the window have left the landmarks, "" where they have not: every other row tells how new
// landmarks would see the rest.
func (t *trainer) wornBy(ctx context.Context) string {
	d := t.data(t.window.NewestRows(t.window.Len()))
	var odd, even []int
	for i := range d.N {
		if i%2 == 0 {
			even = append(even, i)
		} else {
			odd = append(odd, i)
		}
	}
	fresh, err := fit.DrawLandmarks(ctx, d.Subset(even), t.config.Fit)
	if err != nil {
		return "" // nothing can be drawn from these rows
	}
	rest := d.Subset(odd)
	now, err := varianceBehind(ctx, t.marks.Landmarks, rest)
	if err != nil {
		return ""
	}
	then, err := varianceBehind(ctx, fresh, rest)
	if err != nil || now >= worn*then {
		return ""
	}
	return fmt.Sprintf("the rows have changed: their variance behind the old landmarks is %.3g, behind new ones %.3g", now, then)
}

// varianceBehind is the total variance of rows as landmarks see them.
func varianceBehind(ctx context.Context, l *fit.Landmarks, d *model.Data) (float64, error) {
	rows := make([][]float64, d.N)
	for i := range rows {
		rows[i] = d.X[i*d.M : (i+1)*d.M]
	}
	r := l.Dim()
	phi := make([]float64, d.N*r)
	if err := l.Map(ctx, phi, rows); err != nil {
		return 0, err
	}
	mean, all := make([]float64, r), 0.0
	for i := range d.N {
		for j, v := range phi[i*r : (i+1)*r] {
			mean[j] += v / float64(d.N)
			all += v * v / float64(d.N)
		}
	}
	return all - squares(mean), nil
}

// fitRows fits a suffix of rows.
func (t *trainer) fitRows(ctx context.Context, s *window.Suffix, c fit.Config) (*model.Model, error) {
	if l := t.marks.Landmarks; l != nil {
		return l.Fit(ctx, t.data(s), c)
	}
	return fit.Fit(ctx, t.data(s), c)
}

// fitMoments fits the moments of a suffix.
func (t *trainer) fitMoments(ctx context.Context, s *window.Suffix, c fit.Config) (*model.Model, error) {
	features := t.stage.Features()
	if l := t.marks.Landmarks; l != nil {
		return l.FitMoments(ctx, s.Moments, features, s.Classes, c)
	}
	return fit.FitMoments(ctx, s.Moments, features, s.Classes, c)
}
