package trainer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// comparability says whether a reader may keep the outputs of two models in one index.
type comparability int

const (
	undecided comparability = iota
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

// comparabilityOf compares a loss with its bounds, by its standard error.
func comparabilityOf(l prequential.Loss) comparability {
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
		return fmt.Sprintf("lose %.1f points of accuracy on %d rows, too few for a standard error", 100*l.Mean, l.Rows)
	}
	return fmt.Sprintf("lose %.1f +- %.1f points of accuracy on %d rows", 100*l.Mean, 100*l.Error, l.Rows)
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
	until window.Position) (comparability, prequential.Loss, error) {
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
		if a := comparabilityOf(loss); a != undecided || all || n >= maxCompared {
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

// align brings a model of a suffix into the coordinates of the live one, and decides to which epoch it belongs.
func align(ctx context.Context, t *Trainer, m *model.Model, s *window.Suffix, live *spec.Live,
	o *spec.Outcome) (*placement, error) {
	next := max(live.Epoch, live.Epochs) + 1
	if live.IsProvisional() {
		return beginEpoch(m, next), nil
	}
	x, labels := t.data.newestRows(alignedRows)
	anchors := model.DenseRows(x, len(labels), m.M())
	aligned, a, err := model.Align(ctx, m, live.Model, anchors, string(t.config.Training.Align))
	if err != nil {
		return nil, err
	}
	if exact, err := prequential.KeepsDistances(ctx, m, aligned, x, len(labels)); err != nil {
		return nil, err
	} else if !exact {
		o.Reason += "; a new epoch: the coordinates of the old one would exceed the precision of float32"
		return beginEpoch(m, next), nil
	}
	o.Displacement = a.Residual
	found := different
	switch {
	case t.fitter.landmarks.New:
		o.Reason += "; a new epoch: it is fitted on new landmarks"
	case t.plan.labelled():
		var loss prequential.Loss
		if found, loss, err = compareModels(ctx, t.data.window, t.origin, aligned, fittedRows{s.First, s.Last},
			window.Position{}); err != nil {
			return nil, err
		}
		o.Reason += [...]string{
			undecided:  "; a new epoch, for now: it is not decided what coordinates of the old one's first model lose: they ",
			comparable: "; coordinates of the epoch's first model ",
			different:  "; a new epoch: coordinates of the old one's first model ",
		}[found] + describeLoss(loss)
	case a.Comparable:
		found = comparable
		o.Reason += "; its outputs are comparable with those of the live model"
	default:
		o.Reason += "; a new epoch: its outputs are not comparable with those of the live model"
	}
	if found == comparable {
		return &placement{model: aligned, epoch: live.Epoch, origin: t.origin, sameAs: live.SameAs,
			undecided: live.Undecided, previousOrigin: t.previousOrigin}, nil
	}
	p := beginEpoch(aligned, next)
	if found == undecided {
		p.undecided, p.previousOrigin = cmp.Or(live.SameAs, live.Epoch), t.origin
	}
	if p.conversion, err = model.FitConversion(ctx, t.origin, aligned, anchors); err != nil {
		return nil, err
	}
	if p.conversion != nil {
		p.conversion.FromEpoch = uint64(live.Epoch)
	}
	return p, nil
}

// settleEpoch decides whether the epoch of the live model is comparable with those before it, where the rows at its
// first promotion did not, and records the answer. It is called when the candidates have just been fitted, before
// the live model is replaced, and before a change of the rows, at a position, removes those that can tell: a restart
// decides at the same rows. An epoch that is undecided at a change stays separate.
func settleEpoch(ctx context.Context, t *Trainer, change window.Position) {
	live := t.host.Live()
	if t.previousOrigin == nil || t.live == nil || t.pinned || t.standby {
		return
	}
	found, loss, err := compareModels(ctx, t.data.window, t.previousOrigin, t.live.Model, t.liveRows, change)
	if err == nil && found == comparable && t.origin.Digest() != t.live.Digest() {
		found, loss, err = compareModels(ctx, t.data.window, t.previousOrigin, t.origin, t.liveRows, change)
	}
	if change != (window.Position{}) && found == undecided {
		found = different
	}
	if err != nil || found == undecided {
		return
	}
	next := *live
	next.Undecided, next.Before = 0, nil
	if found == comparable {
		note := live.Model.Note()
		note.SameAs = uint64(live.Undecided)
		next.SameAs, next.Origin, next.Model = live.Undecided, t.previousOrigin, live.Model.WithNote(note)
	}
	if t.config.SettleEpoch != nil {
		if err := t.config.SettleEpoch(ctx, &next); err != nil {
			t.log.Warn("the answer whether two epochs are comparable could not be stored; it is looked for again later",
				"epoch", live.Epoch, "before", live.Undecided, "error", err)
			return
		}
	}
	t.previousOrigin = nil
	if found == comparable {
		t.origin = next.Origin
	}
	t.host.Promote(&next)
	t.log.Info("more rows have decided whether an epoch is comparable with the one before", "epoch", live.Epoch, "before",
		live.Undecided, "comparable", found == comparable, "loss", describeLoss(loss))
}
