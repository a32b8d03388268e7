package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
)

// settle puts what is taken of the best candidate in front of the table: the least of its dimensions that it does not
// beat. Where auto compares methods, the dimension that has the most rows right stands as long as it is less than every
// column (docs/methods.md says what else was tried). The note says where another one has more rows right.
func (a *selection) settle(ranked []model.Score) (note string) {
	best := ranked[0]
	if a.c.Method == Auto && best.Dim < a.whole.Columns {
		return ""
	}
	e := a.entryOf(best)
	d := a.least(e, best.Dim)
	toFront(ranked, slices.IndexFunc(ranked, func(s model.Score) bool { return s.Dim == d && a.entryOf(s) == e }))
	if best.Correct > ranked[0].Correct {
		note = fmt.Sprintf("%s at %d has more rows right, but by less than half a standard error of the difference",
			best.Method, best.Dim)
	}
	return note
}

// least is the smallest dimension of an entry that another one of its dimensions does not beat.
func (a *selection) least(e *entry, than int) int {
	for _, d := range e.dims {
		if !a.better(e, than, e, d) {
			return d
		}
	}
	return than
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

// half is by how many standard errors of the difference a challenger must win.
const half = 0.5

// better tells whether an entry at a dimension is better than another one: by half a standard error of the difference, on
// the same rows. Of a map that classifies by itself only the number of rows is known.
func (a *selection) better(x *entry, dx int, y *entry, dy int) bool {
	if x.right[dx] == nil || y.right[dy] == nil {
		return x.score[dx].Correct > y.score[dy].Correct
	}
	more, deviation := paired(x.uses(dx, a.p.N), y.uses(dy, a.p.N))
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
