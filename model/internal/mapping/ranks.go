package mapping

import (
	"fmt"
	"math"
	"slices"
	"sort"
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

// rankTable finds the scores of features without a search over all knots: for each feature, equal intervals between the
// first and the last knot, as many as there are knots.
type rankTable struct {
	*Ranks
	rate  []float64 // intervals per unit of each feature
	start []int32   // the first knot that may be in each interval; one more than intervals for each feature
}

func newRankTable(r *Ranks) *rankTable {
	m := len(r.First) - 1
	t := &rankTable{Ranks: r, rate: make([]float64, m), start: make([]int32, len(r.Value)+m)}
	for j := range m {
		from, to := int(r.First[j]), int(r.First[j+1])
		value, start := r.Value[from:to], t.start[from+j:to+j+1]
		if rate := float64(len(value)) / (value[len(value)-1] - value[0]); rate <= math.MaxFloat64 {
			t.rate[j] = rate
		}
		at := 0
		for i := range start {
			for at < len(value) && t.interval(j, value[at]-value[0], len(value)) < i {
				at++
			}
			start[i] = int32(at)
		}
	}
	return t
}

// interval is that of a value of feature j, given its distance from the first of n knots. It does not descend as values
// ascend, so all knots below an interval are below the values in it.
func (t *rankTable) interval(j int, distance float64, n int) int {
	if t.rate[j] == 0 { // the range of the knots, and so the distance, may be infinite
		return 0
	}
	return min(int(distance*t.rate[j]), n-1)
}

// maxSteps is the number of knots of an interval up to which they are compared one after the other.
const maxSteps = 8

// to writes the scores of n scaled rows to dst, with the same bits as To. One feature of all rows comes after the
// other, since the knots of all features may not fit into a cache.
func (t *rankTable) to(dst, z []float64, n int) {
	m := len(t.rate)
	for j := range m {
		from, to := int(t.First[j]), int(t.First[j+1])
		value, score, start := t.Value[from:to], t.Score[from:to], t.start[from+j:to+j+1]
		first, last := value[0], value[len(value)-1]
		for at := j; at < n*m; at += m {
			switch v := z[at]; {
			case !(v > first):
				dst[at] = score[0]
			case v >= last:
				dst[at] = score[len(score)-1]
			default:
				i := t.interval(j, v-first, len(value))
				k, end := int(start[i]), int(start[i+1])
				if end-k > maxSteps {
					k += sort.SearchFloat64s(value[k:end], v)
				}
				for value[k] < v {
					k++
				}
				if value[k] == v {
					dst[at] = score[k]
				} else {
					share := (v - value[k-1]) / (value[k] - value[k-1])
					dst[at] = score[k-1] + share*(score[k]-score[k-1])
				}
			}
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
