package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
)

// settle puts the dimension that is taken of one method in front of the table, and says where it is not the one with the
// most rows right: the least that this one does not beat. Of the candidates of auto the one with the most rows right
// stands (docs/methods.md says what else was tried).
func (a *selection) settle(ranked []model.Score) (note string) {
	if a.c.Method == Auto {
		return ""
	}
	at, best := 0, ranked[0]
	for i, s := range ranked {
		if s.Dim < ranked[at].Dim && !a.beats(best, s) {
			at = i
		}
	}
	toFront(ranked, at)
	if best.Correct > ranked[0].Correct {
		note = fmt.Sprintf("%s at %d has more rows right, but by less than half a standard error of the difference",
			best.Method, best.Dim)
	}
	return note
}

// toFront puts the one at an index first, and leaves the others in their order.
func toFront(ranked []model.Score, at int) {
	first := ranked[at]
	copy(ranked[1:at+1], ranked[:at])
	ranked[0] = first
}

// taken is a table with the candidate of one of its scores at a dimension, where that was scored, in front.
func taken(ranked []model.Score, s model.Score, d int) []model.Score {
	ranked = slices.Clone(ranked)
	at := slices.IndexFunc(ranked, func(x model.Score) bool {
		return x.Dim == d && x.Method == s.Method && x.Scale == s.Scale && x.Landmarks == s.Landmarks &&
			x.Width == s.Width && maps.Equal(x.Params, s.Params)
	})
	if at > 0 {
		toFront(ranked, at)
	}
	return ranked
}

// modest is a dimension of an entry. Where that is every column, so that nothing would be reduced, it is the least one
// that is not worse.
func (a *selection) modest(e *entry, full int) int {
	if full < a.whole.Columns || e.right[full] == nil { // maps that classify by themselves keep no rows
		return full
	}
	for _, d := range e.dims {
		if !a.better(e, full, e, d) {
			return d
		}
	}
	return full
}

// half is by how many standard errors of the difference a challenger must win.
const half = 0.5

// better tells whether an entry at a dimension is better than another one: by half a standard error of the difference, on
// the same rows.
func (a *selection) better(x *entry, dx int, y *entry, dy int) bool {
	more, deviation := paired(x.uses(dx, a.p.N), y.uses(dy, a.p.N))
	return more > half*deviation
}

// beats is better for neighbours alone. Of a map that classifies by itself only the number of rows is known.
func (a *selection) beats(x, y model.Score) bool {
	right, other := a.entryOf(x).right[x.Dim], a.entryOf(y).right[y.Dim]
	if right == nil || other == nil {
		return x.Correct > y.Correct
	}
	more, deviation := paired(right, other)
	return more > half*deviation
}

// paired is by how much the sum of x is more than that of y, and the standard error of that, of rows one by one.
func paired(x, y []int) (more, deviation float64) {
	difference := make([]float64, len(x))
	for i := range x {
		difference[i] = float64(x[i] - y[i])
	}
	more = floats.Sum(difference)
	for _, v := range difference {
		deviation += (v - more/float64(len(x))) * (v - more/float64(len(x)))
	}
	return more, math.Sqrt(deviation)
}
