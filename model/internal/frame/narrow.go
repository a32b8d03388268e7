package frame

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// An output is narrow if less than minParticipation of the rows takes part in it, or if the middle half of the rows
// covers less than minQuartiles of its largest absolute value. Most rows are then one dot in a picture.
const (
	minParticipation = 0.01
	minQuartiles     = 0.05
)

// noteNarrow reports the narrow outputs of an embedding, rows of d. Constant outputs are not: they show no row at all.
func noteNarrow(t *Task, embedding []float64, d int) {
	n := len(embedding) / d
	var narrow []string
	share, middle := math.Inf(1), math.Inf(1) // the least of them
	for c := range d {
		y := make([]float64, n)
		for i := range y {
			y[i] = embedding[i*d+c]
		}
		p, q := participation(y), quartiles(y)
		if p >= minParticipation && q >= minQuartiles || !(p > 0) {
			continue
		}
		narrow = append(narrow, fmt.Sprint(c+1))
		share, middle = min(share, p), min(middle, q)
	}
	if len(narrow) == 0 {
		return
	}
	t.Report.Note(fmt.Sprintf("output %s of %d hardly differs between most of the %d rows: its participation ratio is "+
		"%.2g %% of the rows, its interquartile range %.2g %% of its largest value; give more neighbours, or leave out "+
		"the rows that are far from all others", strings.Join(narrow, ", "), d, n, 100*share, 100*middle))
}

// participation is the participation ratio about the mean, (sum y^2)^2 / sum y^4, as a share of the rows: 1 if all
// rows are equally far from the mean, 1/n if one row differs from the others. It is 0 if none differs.
func participation(y []float64) float64 {
	mean, largest := 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		largest = max(largest, math.Abs(v-mean))
	}
	if largest == 0 {
		return 0
	}
	second, fourth := 0.0, 0.0
	for _, v := range y {
		s := (v - mean) / largest * (v - mean) / largest // no power of it underflows in all rows
		second += s
		fourth += s * s
	}
	return second * second / fourth / float64(len(y))
}

// quartiles is the interquartile range divided by the largest absolute value.
func quartiles(y []float64) float64 {
	sorted := slices.Sorted(slices.Values(y))
	at := func(share float64) float64 { // between two rows
		position := share * float64(len(sorted)-1)
		i := int(position)
		low, high := sorted[i], sorted[min(i+1, len(sorted)-1)]
		return low + (position-float64(i))*(high-low)
	}
	return (at(0.75) - at(0.25)) / max(-sorted[0], sorted[len(sorted)-1])
}
