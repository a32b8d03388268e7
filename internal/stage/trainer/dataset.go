package trainer

import (
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// dataset is the window of rows that models are fitted on, with the reference rows that they are scored by.
type dataset struct {
	window     *window.Window // nil until the features are known
	references *prequential.References
	labelled   bool
	log        *slog.Logger
	features   func() []string

	maxClasses       int
	overClassLimit   int // rows that were left out because their class exceeds the maximum
	outliers         int // outliers that summaries set aside
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
		d.references.Sync(d.window)
	}
	f := d.window.Outliers()
	if n := f.Rows + f.Limited; n > 0 && f.Newest.X != nil && n >= d.reportedOutliers {
		d.reportedOutliers = 10 * n // the first, and then one in ten times as many
		d.log.Warn("outliers are set aside, or learned within limits", "rows", n, "newest", d.describeOutlier(), "fix",
			"find their publisher; if the values are right, send their logarithm")
	}
}

// addReference adds a row of the window to the references if it is held out and enters fits. nil adds nothing.
func (d *dataset) addReference(r *window.Row) {
	if r != nil && r.IsHeldOut() && r.IsIncluded() {
		d.references.Add(r)
	}
}

// referAll does so for all rows of the window.
func (d *dataset) referAll() {
	d.window.All(func(r *window.Row) bool { d.addReference(r); return true })
}

// scorable returns the rows that models are scored on: those whose labels enter fits and have a reference, and that are
// not from before a change that older rows have left the window for.
func (d *dataset) scorable(rows []window.Row) []window.Row {
	if !d.labelled {
		return rows
	}
	start, _ := d.window.Bounds()
	skipped := func(r window.Row) bool {
		return !d.window.IsKnown(r.Label) || r.Compare(start) < 0 || !d.references.CanJudge(&r)
	}
	if !slices.ContainsFunc(rows, skipped) {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), skipped)
}

// isBackwards reports whether rows that have just arrived, with labels in separate messages, are older than half of the
// window.
func (d *dataset) isBackwards(rows []window.Row) bool {
	if len(rows) == 0 || d.window.Len() == 0 {
		return false
	}
	arrived := make([]window.Position, len(rows))
	for i := range rows {
		arrived[i] = rows[i].Position
	}
	slices.SortFunc(arrived, window.Position.Compare)
	return arrived[len(arrived)/2].Compare(d.window.Back(d.window.Len()/2)) < 0
}

// syncReferences updates the references after rows were added to the window.
func (d *dataset) syncReferences() {
	d.references.Sync(d.window)
	if d.window.NeedsSift() {
		d.sift()
	}
}

// cut removes rows before a position.
func (d *dataset) cut(at window.Position) {
	d.window.Cut(at)
	d.references.Cut(d.window)
}

// setBounds gives the window the bounds of another one, see [window.Window.Bounds].
func (d *dataset) setBounds(start window.Position, quota int) {
	if d.window != nil {
		d.cut(start)
		d.window.LowerQuota(quota)
		d.references.Sync(d.window)
	}
}

// countOutliers notes the outliers in a status.
func (d *dataset) countOutliers(s *spec.Status) {
	f := d.window.Outliers()
	s.Outliers, s.LimitedRows, s.LastOutlier = f.Rows+d.outliers, f.Limited, d.describeOutlier()
	s.OutlierClasses = nil
	for _, c := range f.Classes {
		s.OutlierClasses = append(s.OutlierClasses, spec.ClassOutliers{Class: c.Label, Rows: c.Rows, SetAside: c.SetAside,
			Limited: c.Limited})
	}
}

// describeOutlier returns a sentence about the newest outlier, "" if there is none.
func (d *dataset) describeOutlier() string {
	f := d.window.Outliers()
	if f.Newest.X == nil {
		return ""
	}
	from := ""
	if f.Newest.Source != "" {
		from = " of " + f.Newest.Source
	}
	value := f.Newest.X[f.Feature]
	why := fmt.Sprintf("its limits are within %.3g of %.3g", f.Reach, f.Median)
	if math.Abs(value) > window.Enormous {
		why = fmt.Sprintf("sums of squares of numbers beyond %g exceed float64", window.Enormous)
	}
	return fmt.Sprintf("%d outliers were set aside, %d are learned within limits; the newest is row %d of "+
		"message %d%s: feature %s is %.4g, and %s", f.Rows, f.Limited, f.Newest.Row, f.Newest.Seq, from,
		d.features()[f.Feature], value, why)
}

// refill adds the rows of an event that were learned before a restart to the window, and returns the rest. Their labels
// may arrive again after rows that are new; models are not scored on them again.
func (d *dataset) refill(e *Event, resuming bool) []window.Row {
	if e.OfLabels { // a restart from a checkpoint among these rows needs those that are not learned then
		for i := range e.Rows {
			if p := e.Rows[i].Position; d.waiting.Seq == 0 || p.Compare(d.waiting) < 0 {
				d.waiting = p
			}
		}
	}
	if e.LabelledBy == nil || d.resumedRow.Seq == 0 {
		return e.Rows
	}
	rest, labels := e.Rows[:0], e.LabelledBy[:0]
	for i, r := range e.Rows {
		if by := e.LabelledBy[i]; r.Compare(d.resumedRow) > 0 || by.Compare(d.resumedTo) > 0 {
			rest, labels = append(rest, r), append(labels, by)
			continue
		}
		if d.window.Add(r) == window.Added && !resuming {
			d.addReference(d.window.At(r.Position))
			d.references.Sync(d.window)
		}
	}
	e.LabelledBy = labels
	return rest
}

// setNewestLabel records the newest label that was read, for a checkpoint. left is the number of rows of the event that
// are not learned yet. A checkpoint may be taken among the rows of a message of labels, which are in any order: the
// newest label is then that of the last row that is learned.
func (d *dataset) setNewestLabel(e *Event, left int) {
	if e.LabelledBy == nil && len(e.Fixes) == 0 {
		return
	}
	if d.newestLabel = e.NewestLabel; e.OfLabels && left > 0 {
		d.newestLabel = e.LabelledBy[len(e.LabelledBy)-left-1]
	}
}

// hasNewFixes reports whether fixes of an event are due to labels that were read after the checkpoint of a restart. A
// checkpoint that was taken among the rows of a message of labels has the fixes of that message.
func (d *dataset) hasNewFixes(e *Event) bool {
	isPartlyLearned := e.OfLabels && e.NewestLabel.Created == d.resumedTo.Created && e.NewestLabel.Seq == d.resumedTo.Seq
	return d.window != nil && d.resumedRow.Seq > 0 && !isPartlyLearned && e.NewestLabel.Compare(d.resumedTo) > 0 &&
		slices.ContainsFunc(e.Fixes, func(f Fix) bool { return d.window.At(f.At) != nil })
}

// fix changes rows of the window and the references, and returns the fixes to rows that are not there. Scores of the
// past stay.
func (d *dataset) fix(fixes []Fix) (missing []Fix) {
	if d.window == nil {
		return fixes
	}
	for _, f := range fixes {
		if d.window.At(f.At) == nil {
			missing = append(missing, f)
			continue
		}
		if f.Replaced {
			d.window.Remove(f.At)
		} else if outcome := d.window.Relabel(f.At, f.Label); outcome == window.Duplicate { // it has this label
			continue
		} else if outcome == window.OverClassLimit {
			d.countOverClassLimit(1)
		}
		d.references.Sync(d.window)
		d.addReference(d.window.At(f.At))
		d.references.Sync(d.window)
	}
	return missing
}

// countOverClassLimit counts rows that are not learned since their class exceeds the maximum.
func (d *dataset) countOverClassLimit(rows int) {
	if rows > 0 && d.overClassLimit == 0 {
		d.log.Warn("rows of new classes are not learned", "rows", rows, "limit", d.maxClasses,
			"fix", "raise limits.classes, or check that the label column holds classes")
	}
	d.overClassLimit += rows
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

// newestRows copies the newest rows that enter fits, oldest first, with their labels.
func (d *dataset) newestRows(n int) (x []float64, labels []string) {
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
