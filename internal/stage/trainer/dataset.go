package trainer

import (
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
)

// dataset is the window of rows that models are fitted on, with the reference rows that they are scored by.
type dataset struct {
	window     *window.Window // nil until the features are known
	references *prequential.References
	labelled   bool
	log        *slog.Logger
	features   func() []string

	overClassLimit   int // rows that were left out because their class exceeds the maximum
	outliers         int // outliers that summaries left out
	reportedOutliers int // from this number of outliers on they are logged again

	// For labels that arrive in separate messages:
	waiting     window.Position // the oldest row that waits for one; zero: none
	newestLabel window.Position // that was read
	resumedRow  window.Position // the newest row that was learned before a restart
	resumedTo   window.Position // the newest label that was read before a restart
}

// sift determines which rows enter fits: outliers and rows of classes with few rows do not, and are no references
// either. It is called before each fit, at each checkpoint and when a class has enough rows, so that a restart finds
// the same rows.
func (d *dataset) sift() {
	if d.window == nil {
		return
	}
	more := d.window.Sift()
	d.references.Sync(d.window)
	if more {
		d.referAll()
	}
	if n := d.window.Outliers().Rows; n > 0 && n >= d.reportedOutliers { // the first, and then one in ten times as many
		d.reportedOutliers = 10 * n
		d.log.Warn("outliers are not learned", "rows", n, "newest", d.describeOutlier(), "fix",
			"find their publisher; if the values are right, send their logarithm")
	}
}

// refer adds a row of the window to the references if it is held out and enters fits.
func (d *dataset) refer(p window.Position) {
	if r := d.window.At(p); r != nil && r.HeldOut() && r.IsIncluded() {
		d.references.Add(r)
	}
}

// referAll does so for all rows of the window.
func (d *dataset) referAll() {
	d.window.All(func(r *window.Row) bool {
		if r.HeldOut() && r.IsIncluded() {
			d.references.Add(r)
		}
		return true
	})
}

// withKnownLabels returns the rows whose labels enter fits: models are not scored on others.
func (d *dataset) withKnownLabels(rows []window.Row) []window.Row {
	if !d.labelled {
		return rows
	}
	unknown := func(r window.Row) bool { return !d.window.IsKnown(r.Label) }
	if !slices.ContainsFunc(rows, unknown) {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), unknown)
}

// added updates references after rows were added to the window.
func (d *dataset) added() {
	d.references.Sync(d.window)
	if d.window.NeedsSift() {
		d.sift()
	}
}

// cut removes rows before a position.
func (d *dataset) cut(at window.Position) {
	d.window.Cut(at)
	d.references.Cut(at)
}

// describeOutlier returns a sentence about the newest outlier, "" if there is none.
func (d *dataset) describeOutlier() string {
	f := d.window.Outliers()
	if f.Rows == 0 {
		return ""
	}
	from := ""
	if f.Newest.Source != "" {
		from = " of " + f.Newest.Source
	}
	value := f.Newest.X[f.Feature]
	why := fmt.Sprintf("nine in ten rows are within %.3g of %.3g", f.Reach, f.Median)
	if math.Abs(value) > window.Enormous {
		why = fmt.Sprintf("sums of squares of numbers beyond %g exceed float64", window.Enormous)
	}
	return fmt.Sprintf("%d outliers were not learned, the newest row %d of message %d%s: feature %s is %.4g, and %s",
		f.Rows, f.Newest.Row, f.Newest.Seq, from, d.features()[f.Feature], value, why)
}

// refill adds the rows of an event that were learned before a restart to the window, and returns the rest. Their labels
// may arrive again after rows that are new; models are not scored on them again.
func (d *dataset) refill(e *Event, resuming bool) []window.Row {
	if e.LabelledBy == nil || d.resumedRow.Seq == 0 {
		return e.Rows
	}
	rest := e.Rows[:0]
	for i, r := range e.Rows {
		if r.Compare(d.resumedRow) > 0 || e.LabelledBy[i].Compare(d.resumedTo) > 0 {
			rest = append(rest, r)
			continue
		}
		if d.window.Add(r) == window.Added && !resuming {
			d.refer(r.Position)
		}
	}
	return rest
}

// fix changes rows of the window and the references. Scores of the past stay.
func (d *dataset) fix(fixes []Fix) {
	for _, f := range fixes {
		if d.window == nil {
			return
		}
		if f.Replaced {
			d.window.Remove(f.At)
		} else if !d.window.Relabel(f.At, f.Label) {
			continue
		}
		d.references.Sync(d.window)
		d.refer(f.At)
	}
}

// readFrom is the position from which a restart reads: the oldest row of the window, or an older one that waits for its
// label.
func (d *dataset) readFrom() window.Position {
	oldest, any := d.window.Oldest()
	if d.waiting.Seq > 0 && (!any || d.waiting.Created == oldest.Created && d.waiting.Compare(oldest) < 0) {
		return d.waiting
	}
	return oldest
}

// newest copies the newest rows that enter fits, oldest first, with their labels.
func (d *dataset) newest(n int) (x []float64, labels []string) {
	w := d.window
	if w.Len() == 0 {
		return nil, nil
	}
	first, n := w.Back(n), min(n, w.Len())
	x, labels = make([]float64, 0, n*w.Features()), make([]string, 0, n)
	w.All(func(r *window.Row) bool {
		if r.Compare(first) >= 0 && r.IsIncluded() {
			x, labels = append(x, r.X...), append(labels, r.Label)
		}
		return true
	})
	return x, labels
}
