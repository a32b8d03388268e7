package trial

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/tools/learning/streams"
)

// Aside is what the limits of a window do to the rows of a stream, and what they cost.
type Aside struct {
	Rows, SetAside, Limited int
	// The accuracies of fits on the rows within the limits, and on the rows as they are.
	With, Without float64
}

// SetAside fits the method of the alternatives on all rows of a stream, as a window passes them to fits and as they
// are.
func SetAside(ctx context.Context, s streams.Stream, seed uint64) (a Aside, err error) {
	source, err := s.Open(s.Rows, seed)
	if err != nil {
		return a, err
	}
	a.Rows = source.Rows()
	var w *window.Window
	var plain *moments.Set
	for seq := range uint64(a.Rows / streams.BatchRows) {
		d := source.Next()
		if w == nil {
			plain = moments.New(d.M, false)
			w = window.New(window.Config{Features: d.M, Rows: a.Rows, Classes: len(d.Classes), Labelled: true, Moments: true})
		}
		if err := plain.Add(ctx, d.X, d.Y); err != nil {
			return a, err
		}
		for i, y := range d.Y {
			w.Add(window.Row{Position: window.Position{Seq: seq + 1, Row: i}, Label: d.Classes[y],
				X: d.X[i*d.M : (i+1)*d.M], MessageRows: d.N})
		}
	}
	ref, query := source.Fresh(rand.New(rand.NewPCG(seed, 3)), a.Rows-1, manyRefs, manyQueries)
	accuracy := func(set *moments.Set, classes []string) float64 {
		m, fitErr := fit.FitMoments(ctx, set, nil, classes, fit.Config{Method: alternative})
		if fitErr != nil {
			err = fitErr
			return math.NaN()
		}
		right, scoreErr := Accuracy(ctx, m, ref, query)
		if scoreErr != nil {
			err = scoreErr
		}
		return right
	}
	within, err := w.Newest(ctx, a.Rows)
	if err != nil {
		return a, err
	}
	a.With, a.Without = accuracy(within.Moments, within.Classes), accuracy(plain, query.Classes)
	for _, c := range w.Outliers().Classes {
		a.SetAside, a.Limited = a.SetAside+c.SetAside, a.Limited+c.Limited
	}
	return a, err
}
