package preprocess

import (
	"math"
	"slices"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// maxKnots is the maximum number of knots of a feature.
const maxKnots = 256

// normalScores fits the normal scores of rows of m features. A value's score is the quantile of the standard normal
// distribution at the share of rows below the value, half of the rows that equal it included.
func normalScores(x []float64, m int) *mapping.Ranks {
	n := len(x) / m
	r := &mapping.Ranks{First: []float64{0}}
	column := make([]float64, n)
	for j := range m {
		for i := range column {
			column[i] = x[i*m+j]
		}
		slices.Sort(column)
		var value, share []float64
		for from := 0; from < n; {
			to := from
			for to < n && column[to] == column[from] {
				to++
			}
			value, share = append(value, column[from]), append(share, float64(from+to)/float64(2*n))
			from = to
		}
		for _, at := range knots(share) {
			r.Value, r.Score = append(r.Value, value[at]), append(r.Score, math.Sqrt2*math.Erfinv(2*share[at]-1))
		}
		r.First = append(r.First, float64(len(r.Value)))
	}
	return r
}

// knots chooses some of the distinct values of a feature, given the share of rows at each. Scores between two knots are
// interpolated linearly, so knots are spaced by rows and not by values: less than one row in a hundred is between two
// knots that have values between them. A value that many rows share becomes a knot, and so do its neighbours.
func knots(share []float64) []int {
	if len(share) <= maxKnots {
		return linalg.Range(len(share))
	}
	// The smallest step that needs at most maxKnots. Two steps cover more than one step each, so 2/maxKnots is enough.
	for step := 1.0 / maxKnots; ; step *= 1.02 {
		at := []int{0}
		for next := 1; next < len(share); next++ {
			if from := at[len(at)-1]; next == len(share)-1 || share[next+1]-share[from] > step {
				at = append(at, next)
			}
		}
		if len(at) <= maxKnots {
			return at
		}
	}
}
