package plugin

import (
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/plugin/window"
)

// sift looks which rows enter fits: not those of labels that came a few times beside classes of hundreds, and none with
// a feature so far away that it alone would decide what is learned. The others are no references either. It looks
// before each fit, at each checkpoint, so that a restart finds the same, and when a class has come to have enough rows.
func (t *trainer) sift() {
	if t.window == nil {
		return
	}
	more := t.window.Sift()
	t.references.follow(t.window)
	if more {
		t.referAll()
	}
	t.tellFar()
}

// refer puts a row of the window among the references, where it is held out and enters fits.
func (t *trainer) refer(p window.Position) {
	if r := t.window.At(p); r != nil && r.Held() && r.Enters() {
		t.references.add(r)
	}
}

// referAll does so for all rows of the window.
func (t *trainer) referAll() {
	t.window.All(func(r *window.Row) bool {
		if r.Held() && r.Enters() {
			t.references.add(r)
		}
		return true
	})
}

// known are the rows whose labels enter fits: those of others say nothing about a model.
func (t *trainer) known(rows []window.Row) []window.Row {
	if !t.labelled() {
		return rows
	}
	unknown := func(r window.Row) bool { return !t.window.Knows(r.Label) }
	if !slices.ContainsFunc(rows, unknown) {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), unknown)
}

// tellFar logs the first row with a far feature, and then one in ten times as many.
func (t *trainer) tellFar() {
	if n := t.window.Far().Rows; n > 0 && n >= t.farTold {
		t.farTold = 10 * n
		t.log.Warn("rows with a feature far from the others' are not learned from", "rows", n, "newest", t.farRow(),
			"cure", "find out who sends it; if the values are right, send their logarithm")
	}
}

// farRow says which row was set aside last, "" where none was.
func (t *trainer) farRow() string {
	f := t.window.Far()
	if f.Rows == 0 {
		return ""
	}
	from := ""
	if f.Newest.Source != "" {
		from = " of " + f.Newest.Source
	}
	value := f.Newest.X[f.Feature]
	why := fmt.Sprintf("nine in ten rows are within %.3g of %.3g", f.Reach, f.Middle)
	if math.Abs(value) > window.Enormous {
		why = fmt.Sprintf("sums of squares of what is beyond %g leave float64", window.Enormous)
	}
	return fmt.Sprintf("%d rows were set aside, the newest row %d of message %d%s: feature %s is %.4g, and %s", f.Rows,
		f.Newest.Row, f.Newest.Seq, from, t.stage.Features()[f.Feature], value, why)
}
