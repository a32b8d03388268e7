package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
)

// answer says whether a reader may keep the outputs of two models in one index.
type answer int

const (
	undecided answer = iota
	comparable
	different
)

const (
	// maxCrossLoss is the accuracy that a reader of stored outputs may lose within one epoch, by compareErrors standard
	// errors. Where an epoch is not comparable with the one before it loses more, and minCrossLoss by as many errors.
	maxCrossLoss  = 0.02
	minCrossLoss  = 0.005 // loss of an epoch that is not comparable
	compareErrors = 1.5   // standard errors
	// minCompared is the number of rows of the first comparison. The next ones have twice as many each, until one
	// decides or has maxCompared, which bounds the cost: every pair of rows is compared.
	minCompared = 500
	maxCompared = 4000 // rows of the last comparison
)

// answerOf returns the answer of a loss.
func answerOf(l prequential.Loss) answer {
	switch e := compareErrors * l.Error; {
	case l.Mean+e <= maxCrossLoss:
		return comparable
	case l.Mean > maxCrossLoss && l.Mean-e > minCrossLoss:
		return different
	}
	return undecided
}

// describeLoss is a loss for the reason of a promotion.
func describeLoss(l prequential.Loss) string {
	switch {
	case l.Rows == 0:
		return "have no rows to be compared on"
	case math.IsInf(l.Error, 1):
		return fmt.Sprintf("lose %.1f points on %d rows, too few for a standard error", 100*l.Mean, l.Rows)
	}
	return fmt.Sprintf("lose %.1f +- %.1f points on %d rows", 100*l.Mean, 100*l.Error, l.Rows)
}

// fittedRows are the positions of the oldest and the newest row that a model was fitted on; zero: not known.
type fittedRows struct{ first, last window.Position }

// isFair reports whether a row may compare a model of these rows with others: the model was not fitted on it, and it is
// not older than those, of another concept.
func (f fittedRows) isFair(r *window.Row) bool {
	isNewer := f.last != (window.Position{}) && r.Compare(f.last) > 0
	return r.IsIncluded() && r.Compare(f.first) >= 0 && (isNewer || r.IsUnseen())
}

// compareModels decides whether the outputs of a model of some rows are comparable with those of an earlier one, by the
// newest rows before a position that are fair to it, as many as the answer needs: rows that it was fitted on flatter
// it. The zero position is the end of the window.
func compareModels(ctx context.Context, w *window.Window, first, next *model.Model, fitted fittedRows,
	until window.Position) (answer, prequential.Loss, error) {
	loss := prequential.Loss{Mean: 1}
	if first.Dim() != next.Dim() {
		return different, loss, nil
	}
	for n := minCompared; ; n *= 2 {
		rows, all := newestFair(w, fitted, until, n)
		var err error
		if loss, err = prequential.CrossLoss(ctx, first, next, rows); err != nil {
			return undecided, loss, err
		}
		if a := answerOf(loss); a != undecided || all || n >= maxCompared {
			return a, loss, nil
		}
	}
}

// newestFair returns about n fair rows in the order of their positions: the newest ones, as many of each class as there
// are. all reports that there are no others.
func newestFair(w *window.Window, fitted fittedRows, until window.Position, n int) (rows []*window.Row, all bool) {
	most := (n + w.Classes() - 1) / max(w.Classes(), 1)
	all = true
	w.EachClass(func(_ string, members []*window.Row) {
		taken := 0
		for _, r := range slices.Backward(members) {
			switch {
			case !fitted.isFair(r), until != (window.Position{}) && r.Compare(until) >= 0:
			case taken == most:
				all = false
				return
			default:
				rows = append(rows, r)
				taken++
			}
		}
	})
	slices.SortFunc(rows, func(a, b *window.Row) int { return a.Compare(b.Position) })
	return rows, all
}

// placement is a model in the coordinates of an epoch.
type placement struct {
	model          *model.Model
	epoch          int
	origin         *model.Model      // the first model of the epoch, and of those that are recorded as one with it
	sameAs         int               // see spec.Live
	undecided      int               // see spec.Live
	previousOrigin *model.Model      // see spec.Live
	conversion     *model.Conversion // from the outputs of the epoch before, if the model begins one; nil: none
}

// beginEpoch returns the placement of the first model of an epoch that no comparison precedes.
func beginEpoch(m *model.Model, epoch int) *placement {
	return &placement{model: m, epoch: epoch, origin: m}
}
