package choose

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model"
)

// minGain is by how many standard errors of the difference one candidate has to win.
const minGain = 0.5

// beats reports whether candidate x at dimension dx is better than y at dy on the same n rows, by at least half a
// standard error of the difference. For maps that classify by themselves only the number of correct rows is known.
func beats(x *candidate, dx int, y *candidate, dy, n int) bool {
	if x.nearestCounts[dx] == nil || y.nearestCounts[dy] == nil {
		return x.score[dx].Correct > y.score[dy].Correct
	}
	return isAhead(x.usefulCounts(dx, n), y.usefulCounts(dy, n), minGain)
}

// isAhead reports whether x is more than y by over the given number of standard errors of the difference.
func isAhead(x, y []int, errors float64) bool {
	more, deviation := paired(x, y)
	return more > errors*deviation
}

// paired is the difference of the sums of x and y and its standard error, from differences row by row.
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

// smallest is the smallest dimension of a candidate that its dimension best does not beat.
func smallest(e *candidate, best, n int) int {
	for _, d := range e.dims {
		if !beats(e, best, e, d, n) {
			return d
		}
	}
	return best
}

// minShift is by how many standard errors of the difference a dimension has to win to take the place of the one that
// auto has without looking at the scores. Half of one, as between dimensions of a given method, changed it by luck: on
// fresh rows the nearest neighbour was correct less often (docs/methods.md has the measurements).
const minShift = 2

// shifts reports whether a candidate is better at dimension d than at its dimension best by minShift standard errors of
// the difference.
func shifts(e *candidate, d, best, n int) bool {
	return isAhead(e.usefulCounts(d, n), e.usefulCounts(best, n), minShift)
}

// fewDims is the number of dimensions below which a smaller one has to win to take the place of the best: so few lose
// on fresh rows what folds do not show.
const fewDims = 5

// withoutLoss is the smallest dimension of a candidate that has at least as many correct rows as its dimension best;
// one below fewDims and half of the columns has to beat it by minShift.
func withoutLoss(e *candidate, best, columns, n int) int {
	for _, d := range e.dims {
		if d < min(fewDims, columns/2) {
			if shifts(e, d, best, n) {
				return d
			}
			continue
		}
		if !isAhead(e.usefulCounts(best, n), e.usefulCounts(d, n), 0) {
			return d
		}
	}
	return best
}

// moveToFront puts the score at an index first and keeps the order of the others.
func moveToFront(ranked []model.Score, at int) {
	first := ranked[at]
	copy(ranked[1:at+1], ranked[:at])
	ranked[0] = first
}

// withFirst is a copy of the ranking that starts with the candidate of s at dimension d, if it was scored there.
func withFirst(ranked []model.Score, s model.Score, d int) []model.Score {
	ranked = slices.Clone(ranked)
	at := slices.IndexFunc(ranked, func(x model.Score) bool { return x.Dim == d && sameCandidate(x, s) })
	if at > 0 {
		moveToFront(ranked, at)
	}
	return ranked
}

// runnerUp is the best score after the first one; where methods are compared, of another method.
func runnerUp(ranked []model.Score, methods bool) *model.Score {
	for j := 1; j < len(ranked); j++ {
		if !methods || ranked[j].Method != ranked[0].Method {
			return &ranked[j]
		}
	}
	return nil
}
