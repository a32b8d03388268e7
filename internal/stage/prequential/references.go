package prequential

import (
	"slices"

	"github.com/embedd/embedd/internal/stage/window"
)

// maxReferences bounds the number of reference rows.
const maxReferences = 500

// minPerClass is the number of references that a class has if the window has so many rows of it.
const minPerClass = 10

const (
	// enoughPerClass is the number of held-out rows per class that is enough to compare two models, and enoughReferences
	// the number that is enough for any number of classes.
	enoughPerClass   = 8
	enoughReferences = 100
)

// References are the newest held-out rows, at most MaxPerClass of each class. No model was fitted on them, so they are
// fair to all models. A class with few held-out rows, such as one of a single run of labels, has substitutes: its
// oldest rows that fits do see. All are ordered by position.
type References struct {
	rows        []*window.Row
	substitutes []*window.Row
	all         []*window.Row // both
	classes     numbering     // of all
	merged      int           // the value of changes when all was merged
	count       map[string]int
	maxPerClass int // it only falls, until a cut
	changes     int // of rows

	// Scratch memory of features, and of the outputs of new references and of rows that are scored:
	x                            []float64
	referenceOutputs, rowOutputs projector
}

// NewReferences returns an empty set. A maxPerClass above 0 is that of an earlier set.
func NewReferences(maxPerClass int) *References {
	if maxPerClass <= 0 {
		maxPerClass = maxReferences
	}
	return &References{count: map[string]int{}, maxPerClass: maxPerClass}
}

// MaxPerClass is the maximum number of rows per class.
func (r *References) MaxPerClass() int { return r.maxPerClass }

// Len is the number of rows.
func (r *References) Len() int { return len(r.rows) + len(r.substitutes) }

// AreFew reports whether there are fewer held-out rows than enoughReferences, and fewer than enoughPerClass times the
// number of classes. Of two models one may then be better with these references, and the other with more.
func (r *References) AreFew() bool {
	return len(r.rows) < min(enoughPerClass*len(r.count), enoughReferences)
}

// All returns the rows in the order of their positions.
func (r *References) All() []*window.Row {
	if r.merged != r.changes {
		r.merged = r.changes
		r.all = append(append(r.all[:0], r.rows...), r.substitutes...)
		slices.SortFunc(r.all, byPosition)
		r.classes.set(r.all)
	}
	return r.all
}

func byPosition(a, b *window.Row) int { return a.Compare(b.Position) }

// CanJudge reports whether there is a reference of the row's class that is no neighbour of the row. Models are not
// scored on other rows, about which none can be right.
func (r *References) CanJudge(row *window.Row) bool {
	from, to := row.Neighbourhood()
	return slices.ContainsFunc(r.All(), func(x *window.Row) bool {
		return x.Label == row.Label && (x.Compare(from) < 0 || x.Compare(to) >= 0)
	})
}

// Add adds a row unless it is in the set, and removes the oldest rows of classes that exceed the maximum.
func (r *References) Add(row *window.Row) {
	at, found := slices.BinarySearchFunc(r.rows, row, byPosition)
	if found {
		return
	}
	r.rows = slices.Insert(r.rows, at, row)
	r.changes++
	r.count[row.Label]++
	if len(r.rows) > maxReferences {
		for sum := maxReferences + 1; sum > maxReferences && r.maxPerClass > 1; {
			sum = 0
			for _, n := range r.count {
				sum += min(n, r.maxPerClass)
			}
			if sum > maxReferences {
				r.maxPerClass--
			}
		}
	}
	over := 0
	for _, n := range r.count {
		over += max(n-r.maxPerClass, 0)
	}
	r.removeIf(func(x *window.Row) bool {
		if over == 0 || r.count[x.Label] <= r.maxPerClass {
			return false
		}
		over--
		return true
	})
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

// Sync removes rows that have left the window or enter no fit any more, and substitutes for missing ones. So a window
// that is filled again after a restart has the same references.
func (r *References) Sync(w *window.Window) {
	r.removeIf(func(x *window.Row) bool { return !x.IsIncluded() })
	var next []*window.Row
	w.EachClass(func(label string, rows []*window.Row) {
		missing := min(minPerClass, r.maxPerClass) - r.count[label]
		for i := 0; i < len(rows) && missing > 0; i++ {
			if x := rows[i]; x.IsIncluded() && !x.IsHeldOut() {
				next = append(next, x)
				missing--
			}
		}
	})
	slices.SortFunc(next, byPosition)
	if !slices.Equal(next, r.substitutes) {
		r.substitutes = next
		r.changes++
	}
}

// Cut removes rows that a cut of the window has removed, and resets the maximum per class.
func (r *References) Cut(w *window.Window) {
	r.maxPerClass = maxReferences
	r.Sync(w)
}
