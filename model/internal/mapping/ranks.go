package mapping

import (
	"fmt"
	"slices"
)

// Ranks are the normal scores of features: for each feature ascending knots with their scores. Scores between two
// knots are interpolated; outside the knots the score is that of the nearest one.
type Ranks struct {
	First []float64 // m + 1: where the knots of each feature begin, and the end of the last
	Value []float64 // of the scaled features
	Score []float64
}

// To writes the scores of the scaled row z to dst.
func (r *Ranks) To(dst, z []float64) {
	for j, v := range z {
		from, to := int(r.First[j]), int(r.First[j+1])
		value, score := r.Value[from:to], r.Score[from:to]
		at, found := slices.BinarySearch(value, v)
		switch {
		case found || at == 0:
			dst[j] = score[at]
		case at == len(value):
			dst[j] = score[at-1]
		default:
			share := (v - value[at-1]) / (value[at] - value[at-1])
			dst[j] = score[at-1] + share*(score[at]-score[at-1])
		}
	}
}

func (r *Ranks) check(m int) error {
	if len(r.First) != m+1 || r.First[0] != 0 || r.First[m] != float64(len(r.Value)) || len(r.Score) != len(r.Value) {
		return fmt.Errorf("first, value and score do not hold the knots of %d features", m)
	}
	for j := range m {
		from, err := whole("first", r.First[j], float64(len(r.Value)))
		if err != nil {
			return err
		}
		to, err := whole("first", r.First[j+1], float64(len(r.Value)+1))
		if err != nil {
			return err
		}
		if to <= from {
			return fmt.Errorf("feature %d has no knot", j)
		}
		for k := from + 1; k < to; k++ {
			if !(r.Value[k-1] < r.Value[k]) || r.Score[k-1] > r.Score[k] {
				return fmt.Errorf("the knots of feature %d do not ascend at value[%d]", j, k)
			}
		}
	}
	return nil
}
