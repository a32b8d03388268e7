package evidence

import (
	"math"
	"slices"
)

// RowDependence is how the rows of a stream depend on their neighbours, by their features. A change of the concept does
// not disturb it, and it is known before the outcomes of models are.
type RowDependence struct {
	// Effect is the design effect of outcomes with the correlations of the rows; 0: not measured.
	Effect float64 `json:"effect"`
	// Ratios are what blockScale.ratio would be for these outcomes.
	Ratios [shortScales]float64 `json:"ratios"`
}

// comparedRow is a row that is compared with others of its class.
type comparedRow struct {
	at      int
	distant [][]float64 // the distant rows before and after it, where there are any
	least   float64     // distance to them
}

const (
	lags         = 10  // 1, 2, 4 ... 512 rows
	comparedRows = 256 // rows that are compared with others
	// minMeasured is the number of rows that a measurement needs.
	minMeasured = 512
	// minCompared is the number of pairs of rows that a correlation needs.
	minCompared = 16
	// minCorrelation is the least correlation that counts: less may be chance.
	minCorrelation = 0.15

	// MaxMeasured is the number of newest rows to measure.
	MaxMeasured = 4096
)

// MeasureRows measures consecutive rows, oldest first. Row by row it compares the squared distance to the row that is
// 1, 2, 4 ... rows later with that to distant rows, all of one class. Distant are rows that are a quarter of all rows
// apart: the one before and the one after, of which the nearer one counts, since the other may be of another concept.
// One minus the median ratio is the correlation at that lag, times the share of rows that have a row of their class
// there. The correlations are used up to the first that is too small. Features are scaled by the mean squared
// difference of distant rows. If labels come in runs, a row counts if the two before it have its label: others may be
// wrong. It is false if there are too few rows.
func MeasureRows(labels []string, x [][]float64, inRuns bool) (RowDependence, bool) {
	n := len(labels)
	if n < minMeasured {
		return RowDependence{}, false
	}
	isStray := func(i int) bool {
		return inRuns && (i < 2 || labels[i] != labels[i-1] || labels[i] != labels[i-2])
	}
	ofClass := map[string][]int{}
	for i, class := range labels {
		if !isStray(i) {
			ofClass[class] = append(ofClass[class], i)
		}
	}
	scale := make([]float64, len(x[0]))
	var rows []comparedRow
	for k := range comparedRows {
		r := comparedRow{at: k * n / comparedRows}
		if isStray(r.at) {
			continue
		}
		same := ofClass[labels[r.at]]
		if before, _ := slices.BinarySearch(same, r.at-n/4+1); before > 0 {
			r.distant = append(r.distant, x[same[before-1]])
		}
		if after, _ := slices.BinarySearch(same, r.at+n/4); after < len(same) {
			r.distant = append(r.distant, x[same[after]])
		}
		for _, d := range r.distant {
			addSquares(scale, x[r.at], d)
		}
		rows = append(rows, r)
	}
	for i, r := range rows {
		rows[i].least = math.Inf(1)
		for _, d := range r.distant {
			rows[i].least = min(rows[i].least, distance(scale, x[r.at], d))
		}
	}
	var correlations [lags + 1]float64
	for l := range lags {
		pairs, ratios := 0.0, []float64(nil)
		for _, r := range rows {
			later := r.at + 1<<l
			if later >= n || isStray(later) || len(r.distant) == 0 {
				continue
			}
			pairs++
			if labels[later] != labels[r.at] {
				continue
			}
			if ratio := distance(scale, x[r.at], x[later]) / r.least; !math.IsNaN(ratio) {
				ratios = append(ratios, ratio)
			}
		}
		slices.Sort(ratios)
		if len(ratios) < minCompared || !(ratios[len(ratios)/2] <= 1-minCorrelation) {
			break
		}
		correlations[l] = (1 - ratios[len(ratios)/2]) * float64(len(ratios)) / pairs
	}
	d := RowDependence{Effect: blockVariance(&correlations, math.Inf(1))}
	for i := range d.Ratios {
		block := float64(int(minBlock) << i)
		d.Ratios[i] = max(2*blockVariance(&correlations, block)-blockVariance(&correlations, 2*block), 1)
	}
	return d, true
}

// addSquares adds the squared differences of two rows, without missing features.
func addSquares(to, a, b []float64) {
	for j := range to {
		if d := a[j] - b[j]; !math.IsNaN(d) {
			to[j] += d * d
		}
	}
}

// distance is the mean squared difference of two rows, scaled, without missing features and constant ones.
func distance(scale, a, b []float64) float64 {
	sum, n := 0.0, 0.0
	for j, s := range scale {
		if d := a[j] - b[j]; s > 0 && !math.IsNaN(d) {
			sum, n = sum+d*d/s, n+1
		}
	}
	return sum / n
}

// blockVariance is the variance of the sum of a block of rows, in multiples of that of independent rows, by the
// correlations at lags 1, 2, 4 ... and linear between them.
func blockVariance(correlations *[lags + 1]float64, rows float64) float64 {
	v := 1.0
	for l := range lags {
		lag := 1 << l
		for k := range lag {
			share := float64(k) / float64(lag)
			v += 2 * max(1-float64(lag+k)/rows, 0) * ((1-share)*correlations[l] + share*correlations[l+1])
		}
	}
	return v
}
