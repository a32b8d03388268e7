package prequential

import (
	"slices"

	"github.com/embedd/embedd/internal/stage/window"
)

// maxReferences bounds the number of reference rows.
const maxReferences = 500

// References are the newest held-out rows, at most Level of each class. No model was fitted on them, so they are fair
// to all models. They are ordered by position.
type References struct {
	rows    []*window.Row
	count   map[string]int
	level   int       // maximum rows per class; it only falls, until a cut
	changes int       // of rows
	x       []float64 // scratch memory of features
}

// NewReferences returns an empty set. A level above 0 is that of an earlier set.
func NewReferences(level int) *References {
	if level <= 0 {
		level = maxReferences
	}
	return &References{count: map[string]int{}, level: level}
}

// Level is the maximum number of rows per class.
func (r *References) Level() int { return r.level }

// Len is the number of rows.
func (r *References) Len() int { return len(r.rows) }

// Add adds a row unless it is in the set, and removes the oldest rows of classes that exceed the level.
func (r *References) Add(row *window.Row) {
	at, found := slices.BinarySearchFunc(r.rows, row, func(a, b *window.Row) int { return a.Compare(b.Position) })
	if found {
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
		r.removeIf(func(x *window.Row) bool { return r.count[x.Label] > r.level })
	}
}

// removeIf removes rows, oldest first.
func (r *References) removeIf(remove func(*window.Row) bool) {
	r.rows = slices.DeleteFunc(r.rows, func(x *window.Row) bool {
		if !remove(x) {
			return false
		}
		r.changes++
		if r.count[x.Label]--; r.count[x.Label] == 0 {
			delete(r.count, x.Label)
		}
		return true
	})
}

// Sync removes rows that have left the window or enter no fit any more. So a window that is filled again after a
// restart has the same references.
func (r *References) Sync(w *window.Window) {
	r.removeIf(func(x *window.Row) bool { return !x.IsIncluded() || w.At(x.Position) != x })
}

// Cut removes rows before a position, and resets the level.
func (r *References) Cut(p window.Position) {
	r.level = maxReferences
	r.removeIf(func(x *window.Row) bool { return x.Compare(p) < 0 })
}

// features copies the features of rows into memory that the next call overwrites.
func (r *References) features(rows []*window.Row) []float64 {
	r.x = r.x[:0]
	for _, row := range rows {
		r.x = append(r.x, row.X...)
	}
	return r.x
}
