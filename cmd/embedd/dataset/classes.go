package dataset

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/embedd/embedd/arrowio"
)

// classOf is the number of the class of a row, -1 without a label.
func (r *reading) classOf(b *arrowio.Batch, row int) int {
	text, ok := b.Label(row)
	if r.spec.Label == "" || !ok {
		return -1
	}
	class, ok := r.labels[text]
	if !ok {
		class = len(r.labels)
		r.labels[text] = class
	}
	return class
}

// sortClasses orders the classes as people expect, 2 before 10 and numbers before words, so that the order of the rows
// does not change the model. Classes whose rows were all left out are dropped.
func (r *Rows) sortClasses(labels map[string]int) {
	used := make([]bool, len(labels))
	for _, c := range r.Y {
		if c >= 0 {
			used[c] = true
		}
	}
	for name, c := range labels {
		if used[c] {
			r.Classes = append(r.Classes, name)
		}
	}
	slices.SortFunc(r.Classes, compareClasses)
	place := make([]int, len(labels))
	for i, name := range r.Classes {
		place[labels[name]] = i
	}
	for i, c := range r.Y {
		if c >= 0 {
			r.Y[i] = place[c]
		}
	}
}

func compareClasses(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	switch {
	case errX == nil && errY == nil && x != y:
		return cmp.Compare(x, y)
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
