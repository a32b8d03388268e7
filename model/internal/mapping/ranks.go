package mapping

import (
	"fmt"
	"math"
	"sort"
)

// Ranks are the normal scores of features: for each feature ascending knots with their scores. Scores between two
// knots are interpolated; outside the knots the score is that of the nearest one.
type Ranks struct {
	First []float64 // m + 1: where the knots of each feature begin, and the end of the last
	Value []float64 // of the scaled features
	Score []float64
}

// Apply replaces the values of scaled rows z by their scores.
func (r *Ranks) Apply(z []float64) {
	table := newRankTable(r)
	for i := range z {
		table.score(z[i:i+1], i%len(table.rate))
	}
}

// rankTable finds the scores of features without a search over all knots: for each feature, equal intervals between the
// first and the last knot, two for each knot.
type rankTable struct {
	*Ranks
	knots []knot    // of Value and Score, side by side
	rate  []float64 // intervals per unit of each feature
	start []int32   // the first knot that may be in each interval; one more than intervals for each feature
}

type knot struct{ value, score float64 }

// perKnot is the number of intervals for each knot. With two, most have one knot at most.
const perKnot = 2

func newRankTable(r *Ranks) *rankTable {
	m := len(r.First) - 1
	t := &rankTable{Ranks: r, knots: make([]knot, len(r.Value)), rate: make([]float64, m),
		start: make([]int32, perKnot*len(r.Value)+m)}
	for i, v := range r.Value {
		t.knots[i] = knot{v, r.Score[i]}
	}
	for j := range m {
		knots, start := t.feature(j)
		first := knots[0].value
		if rate := float64(perKnot*len(knots)) / (knots[len(knots)-1].value - first); rate <= math.MaxFloat64 {
			t.rate[j] = rate
		}
		at := 0
		for i := range start {
			for at < len(knots) && interval(knots[at].value-first, t.rate[j], len(start)-1) < i {
				at++
			}
			start[i] = int32(at)
		}
	}
	return t
}

// feature is the part of the table for feature j.
func (t *rankTable) feature(j int) ([]knot, []int32) {
	from, to := int(t.First[j]), int(t.First[j+1])
	return t.knots[from:to], t.start[perKnot*from+j : perKnot*to+j+1]
}

// interval is that of a value, of count, given its distance from the first knot. It does not descend as values ascend,
// so all knots below an interval are below the values in it.
func interval(distance, rate float64, count int) int {
	if rate == 0 { // the range of the knots, and so the distance, may be infinite
		return 0
	}
	return min(int(distance*rate), count-1)
}

// maxSteps is the number of knots of an interval up to which they are compared one after the other.
const maxSteps = 8

// score replaces scaled values of feature j by their scores, with the same bits as a search over all knots.
func (t *rankTable) score(values []float64, j int) {
	knots, start := t.feature(j)
	rate, first, last := t.rate[j], knots[0], knots[len(knots)-1]
	for at, v := range values {
		if !(v > first.value) {
			values[at] = first.score
			continue
		}
		if v >= last.value {
			values[at] = last.score
			continue
		}
		i := interval(v-first.value, rate, len(start)-1)
		k := int(start[i])
		if end := int(start[i+1]); end-k > maxSteps {
			k += sort.Search(end-k, func(i int) bool { return knots[k+i].value >= v })
		}
		// Adding the result of a comparison twice takes less time than a branch, which is hard to predict here.
		k += below(knots[k].value, v)
		k += below(knots[k].value, v)
		for knots[k].value < v {
			k++
		}
		if b := knots[k]; b.value == v {
			values[at] = b.score
		} else {
			a := knots[k-1]
			values[at] = a.score + (v-a.value)/(b.value-a.value)*(b.score-a.score)
		}
	}
}

// fetch reads the table of feature j in order, which takes a fraction of the time of reading it where rows happen to
// need it, if it is not in a cache. The result means nothing.
func (t *rankTable) fetch(j int) float64 {
	const line = 64 // bytes, of most processors
	knots, start := t.feature(j)
	sum := 0.0
	for i := 0; i < len(knots); i += line / 16 {
		sum += knots[i].value
	}
	last := int32(0)
	for i := 0; i < len(start); i += line / 4 {
		last += start[i]
	}
	return sum + float64(last)
}

// below is 1 for a < b, else 0.
func below(a, b float64) int {
	if a < b {
		return 1
	}
	return 0
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
