package stage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// Sample are outputs of rows of the window: an equal share of each class.
type Sample struct {
	Rows    int           // in the window
	Limit   int           // most rows of a class
	Classes []SampleClass // most rows first
	// Oldest and Newest are the times of the oldest and the newest row of the window; zero without rows
	Oldest, Newest time.Time
	Class          []int // of each sampled row: an index of Classes
	// Outputs are row-major, for each model that was given; nil for a model of other features.
	Outputs [][]float32
}

// SampleClass is a class of the window.
type SampleClass struct {
	Name  string        `json:"name"`
	Rows  int           `json:"rows"`  // in the window
	Shown int           `json:"shown"` // in the sample
	Ages  [AgeSteps]int `json:"ages"`  // rows in each of as many equal parts of the time from Oldest to Newest
}

// AgeSteps is the number of parts into which the time of a window is divided.
const AgeSteps = 12

// SampleOf projects at most limit rows of a stage's window with each of the models. The worker does it between two
// events, so it waits for a fit that is in progress, until ctx is done.
func SampleOf(ctx context.Context, s *Stage, limit int, models []*model.Model) (*Sample, error) {
	if s.learner == nil {
		return nil, spec.ErrFixed
	}
	var sample *Sample
	var err error
	done := make(chan struct{})
	ask := func(w *window.Window) {
		defer close(done)
		sample, err = sampleOf(ctx, w, limit, models)
	}
	select {
	case s.learner.samples <- ask:
	case <-s.learner.done:
		return nil, spec.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-done:
		return sample, err
	case <-s.learner.done:
		return nil, spec.ErrClosed
	}
}

func sampleOf(ctx context.Context, w *window.Window, limit int, models []*model.Model) (*Sample, error) {
	if w == nil {
		return &Sample{Outputs: make([][]float32, len(models))}, nil
	}
	s, rows := chooseRows(w, limit)
	for _, m := range models {
		y, err := outputsOf(ctx, m, rows, w.Features())
		if err != nil {
			return nil, err
		}
		s.Outputs = append(s.Outputs, y)
	}
	return s, nil
}

// chooseRows chooses rows of the window that are evenly spread over each class.
func chooseRows(w *window.Window, limit int) (s *Sample, rows []*window.Row) {
	s = &Sample{Rows: w.Len()}
	members := map[string][]*window.Row{}
	w.EachClass(func(label string, rows []*window.Row) {
		members[label] = rows
		s.Classes = append(s.Classes, SampleClass{Name: label, Rows: len(rows)})
	})
	slices.SortFunc(s.Classes, func(a, b SampleClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Name, b.Name))
	})
	if len(s.Classes) > 0 {
		s.Limit = max(1, limit/len(s.Classes))
	}
	s.countAges(members)
	for i := range s.Classes {
		all := members[s.Classes[i].Name]
		n := min(len(all), s.Limit, limit-len(rows))
		s.Classes[i].Shown = n
		for k := range n {
			rows, s.Class = append(rows, all[k*len(all)/n]), append(s.Class, i)
		}
	}
	return s, rows
}

// countAges counts the rows of each class by their time.
func (s *Sample) countAges(members map[string][]*window.Row) {
	oldest, newest := int64(math.MaxInt64), int64(math.MinInt64)
	for _, rows := range members {
		for _, r := range rows {
			oldest, newest = min(oldest, r.Time), max(newest, r.Time)
		}
	}
	if newest < oldest {
		return
	}
	s.Oldest, s.Newest = time.Unix(0, oldest).UTC(), time.Unix(0, newest).UTC()
	// In float64, which has room for any two times and rounds. Of a window of one time the first part has all.
	step := (float64(newest)-float64(oldest))/AgeSteps + 1
	for i := range s.Classes {
		for _, r := range members[s.Classes[i].Name] {
			at := int((float64(r.Time) - float64(oldest)) / step)
			s.Classes[i].Ages[min(at, AgeSteps-1)]++
		}
	}
}

// chunk is how many rows are projected at a time, so that their features are copied once.
const chunk = 256

// outputsOf projects rows of m features, and returns nil if the model has others. An output that float32 cannot
// represent is NaN.
func outputsOf(ctx context.Context, by *model.Model, rows []*window.Row, m int) ([]float32, error) {
	if by == nil || by.M() != m {
		return nil, nil
	}
	d := by.Dim()
	x, out := make([]float64, 0, chunk*m), make([]float32, len(rows)*d)
	for from := 0; from < len(rows); from += chunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(chunk, len(rows)-from)
		x = x[:0]
		for _, r := range rows[from : from+n] {
			x = append(x, r.X...)
		}
		y := out[from*d : (from+n)*d]
		if by.Project(y, model.DenseRows(x, n, m)) == nil {
			continue
		}
		for i := range n { // one of them is too large
			if row := y[i*d : (i+1)*d]; by.Project(row, model.DenseRows(x[i*m:(i+1)*m], 1, m)) != nil {
				for k := range row {
					row[k] = float32(math.NaN())
				}
			}
		}
	}
	return out, nil
}
