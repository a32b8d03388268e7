package plugin

import (
	"slices"

	"github.com/embedd/embedd/plugin/window"
)

// maxReferences is how many rows a class of a new row is told by.
const maxReferences = 500

// references are the newest held-out rows, as many of each class as fit: no model was fitted on them, so they judge
// all alike. They are in the order of their positions.
type references struct {
	rows    []*window.Row
	count   map[string]int
	level   int       // most rows a class; it only falls, until a cut
	changes int       // of rows
	x       []float64 // scratch of sideBySide
}

func newReferences() *references {
	return &references{count: map[string]int{}, level: maxReferences}
}

func (r *references) add(row *window.Row) {
	at, there := slices.BinarySearchFunc(r.rows, row, func(a, b *window.Row) int { return a.Compare(b.Position) })
	if there {
		return
	}
	r.rows = slices.Insert(r.rows, at, row)
	r.changes++
	r.count[row.Label]++
	if len(r.rows) > maxReferences {
		for sum := maxReferences + 1; sum > maxReferences && r.level > 1; {
			sum = 0
			for _, n := range r.count {
				sum += min(n, r.level)
			}
			if sum > maxReferences {
				r.level--
			}
		}
	}
	over := false
	for _, n := range r.count {
		over = over || n > r.level
	}
	if over {
		r.rows = slices.DeleteFunc(r.rows, func(x *window.Row) bool { // oldest first
			if r.count[x.Label] <= r.level {
				return false
			}
			r.drop(x)
			return true
		})
	}
}

func (r *references) drop(x *window.Row) {
	r.changes++
	if r.count[x.Label]--; r.count[x.Label] == 0 {
		delete(r.count, x.Label)
	}
}

// follow leaves out rows that have left the window, or that enter no fit any more, so that a window that is filled again
// has the same references.
func (r *references) follow(w *window.Window) {
	r.rows = slices.DeleteFunc(r.rows, func(x *window.Row) bool {
		if x.Enters() && w.At(x.Position) == x {
			return false
		}
		r.drop(x)
		return true
	})
}

// cut leaves out rows before a position.
func (r *references) cut(p window.Position) {
	r.level = maxReferences
	r.rows = slices.DeleteFunc(r.rows, func(x *window.Row) bool {
		if x.Compare(p) >= 0 {
			return false
		}
		r.drop(x)
		return true
	})
}

// sideBySide copies the features of a few rows into memory that the next call takes again.
func (r *references) sideBySide(rows []*window.Row) []float64 {
	r.x = r.x[:0]
	for _, row := range rows {
		r.x = append(r.x, row.X...)
	}
	return r.x
}
