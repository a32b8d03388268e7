package window

import (
	"math"
	"slices"
)

// Two kinds of rows in the window enter no fit: rows of classes with few rows, and outliers, which alone would decide
// what is learned. Sift determines both from the rows that are there; a row that arrives in between is judged by the
// last Sift.

// exclusion is the reason why a row enters no fit.
type exclusion uint8

const (
	included    exclusion = iota
	sparseClass           // its class has too few rows
	outlier               // a feature is too far from its usual range
)

const (
	// A class with sufficientRows always enters fits; one with fewer does if that is a fifth of the usual size.
	sufficientRows = 10
	// firstModelRows is the minimum number of rows of the classes of a first model.
	firstModelRows = 4
	// defaultMaxRatio is how many times as far from the median as nine in ten rows are a feature may be. For a normal
	// distribution it is 160 standard deviations; of heavy-tailed features it excludes few rows, those that would
	// decide alone.
	defaultMaxRatio = 100
	// FarTail is how many times as far from the median as nine in ten rows a feature of a row in the far tail is. Of a
	// normal distribution with a million rows there is none.
	FarTail = 30
	// Enormous is the largest magnitude of a feature: sums of squares of larger ones may exceed float64. Rows with
	// larger ones are always outliers.
	Enormous = 1e140
	// maxOutliers is the maximum share of outliers; if more rows are that far, the ratio is raised.
	maxOutliers = 0.25
	// sparseFeature limits how much smaller the reach of a feature may be than its larger values, and than the usual
	// reach of the features. Of a pixel that is nearly always 0, nine in ten values do not show its range.
	sparseFeature = 10
	// sampledForStats is the approximate number of rows that the statistics are computed from.
	sampledForStats = 256
)

// robustStats are robust statistics of the features.
type robustStats struct {
	median []float64
	// 1 / the distance from the median within which nine in ten rows are, see sparseFeature; 0: unknown
	inverseReach []float64
	maxRatio     float64 // a row further than this many times that distance is an outlier
}

// ratio is the largest distance of a row's features from their medians, relative to their reach, and the feature.
// Missing features are ignored; enormous ones have an infinite ratio.
func (u *robustStats) ratio(x []float64) (most float64, feature int) {
	for j, v := range x {
		if math.Abs(v) > Enormous && !math.IsInf(v, 0) {
			return math.Inf(1), j
		}
		if d := math.Abs(v-u.median[j]) * u.inverseReach[j]; d > most && !math.IsInf(v, 0) {
			most, feature = min(d, math.MaxFloat64), j
		}
	}
	return most, feature
}

// isOutlier reports whether a row with this ratio is an outlier.
func (u *robustStats) isOutlier(ratio float64) bool {
	return ratio > u.maxRatio || math.IsInf(ratio, 1)
}

const (
	// Learning may pause after pauseFeatures features of the sample, and after pauseRatios rows: some tenths of a
	// millisecond with 256 features.
	pauseFeatures = 8
	pauseRatios   = 512
)

// robustStatsOf computes the statistics of rows.
func robustStatsOf(rows [][]float64, c Config) *robustStats {
	m := c.Features
	u := &robustStats{median: make([]float64, m), inverseReach: make([]float64, m), maxRatio: defaultMaxRatio}
	reaches, tops := make([]float64, m), make([]float64, m)
	v := make([]float64, 0, len(rows))
	for j := range m {
		if j%pauseFeatures == 0 {
			c.pause()
		}
		v = v[:0]
		for _, x := range rows {
			if f := x[j]; math.Abs(f) <= Enormous {
				v = append(v, f)
			}
		}
		if len(v) < 4 {
			tops[j] = math.NaN()
			continue
		}
		slices.Sort(v)
		u.median[j] = v[(len(v)-1)/2]
		for i, f := range v {
			v[i] = math.Abs(f - u.median[j])
		}
		slices.Sort(v)
		reaches[j], tops[j] = v[(len(v)-1)*9/10], v[len(v)-3]
		if reaches[j] == 0 && m == 1 { // nearly constant: take the reach of the other values
			if i, _ := slices.BinarySearch(v, math.SmallestNonzeroFloat64); len(v)-i >= 4 {
				reaches[j] = v[(i+len(v)-1)/2]
			}
		}
	}
	usual := upperQuartile(reaches)
	for j, reach := range reaches {
		switch {
		case math.IsNaN(tops[j]): // too few values
			continue
		case reach == 0:
			reach = usual / sparseFeature
		default:
			reach = max(reach, min(tops[j], usual)/sparseFeature)
		}
		if reach > 0 {
			u.inverseReach[j] = 1 / max(reach, 1e-300)
		}
	}
	return u
}

// upperQuartile is the upper quartile of the positive values; 0 if there are none.
func upperQuartile(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), func(f float64) bool { return f <= 0 })
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[(len(v)-1)*3/4]
}

// limitOutliers raises maxRatio until at most maxOutliers of the rows that are not enormous are outliers.
func (u *robustStats) limitOutliers(ratios []float64) {
	for {
		n, all := 0, 0
		for _, r := range ratios {
			if !math.IsInf(r, 1) {
				all++
				if r > u.maxRatio {
					n++
				}
			}
		}
		if float64(n) <= maxOutliers*float64(all) || math.IsInf(u.maxRatio, 0) {
			return
		}
		u.maxRatio *= 10
	}
}

// FindOutliers reports which of the rows of m features are outliers.
func FindOutliers(x []float64, m int) []bool {
	n := len(x) / m
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = x[i*m : (i+1)*m]
	}
	u := robustStatsOf(rows, Config{Features: m})
	ratios := make([]float64, n)
	for i, r := range rows {
		ratios[i], _ = u.ratio(r)
	}
	u.limitOutliers(ratios)
	out := make([]bool, n)
	for i, r := range ratios {
		out[i] = u.isOutlier(r)
	}
	return out
}

// Outliers describes the outliers of a window.
type Outliers struct {
	Rows    int // found so far
	Newest  Row
	Feature int     // of the newest
	Median  float64 // of the feature
	Reach   float64 // the distance from it within which nine in ten rows are
}

// Outliers describes the outliers that were found.
func (w *Window) Outliers() Outliers { return w.outliers }

// Tails is the share of the rows of a window with a feature that is more than FarTail times as far from its median as
// nine in ten rows, as of the last Sift.
func Tails(w *Window) float64 { return w.tails }

// Sift determines which rows enter fits. It reports whether some do that did not after the last call.
func (w *Window) Sift() (more bool) {
	w.sift()
	more, w.newlyIncluded = w.newlyIncluded, false
	return more
}

func (w *Window) sift() {
	if !w.changed {
		return
	}
	if !w.config.Summaries {
		dropFew(w)
	}
	if w.blockList.rows == 0 {
		return
	}
	w.changed = false
	least := w.classes.minRows(w.config.Labelled)
	w.classes.included = w.classes.included[:0]
	for c := range w.classes.rows {
		w.classes.included = append(w.classes.included, w.classes.size(c) >= least)
	}
	sample := make([][]float64, 0, 2*sampledForStats)
	bound := share(sampledForStats / float64(w.blockList.rows))
	w.All(func(r *Row) bool {
		if r.draw(drawStats) <= bound {
			sample = append(sample, r.X)
		}
		return true
	})
	w.stats = robustStatsOf(sample, w.config)
	ratios, far := make([]float64, 0, w.blockList.rows), 0
	w.All(func(r *Row) bool {
		ratio, _ := w.stats.ratio(r.X)
		if ratio > FarTail {
			far++
		}
		if ratios = append(ratios, ratio); len(ratios)%pauseRatios == 0 {
			w.config.pause()
		}
		return true
	})
	w.tails = float64(far) / float64(len(ratios))
	w.stats.limitOutliers(ratios)
	for _, b := range w.blocks {
		for _, r := range b.rows {
			before := r.excluded
			r.excluded = included
			if w.stats.isOutlier(ratios[0]) {
				r.excluded = outlier
				w.countOutlier(r)
			} else if !w.classes.included[r.class] {
				r.excluded = sparseClass
			}
			ratios = ratios[1:]
			if (before == included) != (r.excluded == included) {
				b.sum = nil
				w.newlyIncluded = w.newlyIncluded || r.excluded == included
			}
		}
	}
	w.classes.lend(w.blockList.forgetSum)
}

// classify judges a new row by the last Sift.
func (w *Window) classify(r *Row) {
	if w.stats == nil {
		return
	}
	if ratio, _ := w.stats.ratio(r.X); w.stats.isOutlier(ratio) {
		r.excluded = outlier
		w.countOutlier(r)
	} else if r.class >= len(w.classes.included) || !w.classes.included[r.class] {
		r.excluded = sparseClass
	}
}

// countOutlier counts an outlier, once.
func (w *Window) countOutlier(r *Row) {
	if r.counted {
		return
	}
	r.counted = true
	w.outliers.Rows++
	if r.Compare(w.outliers.Newest.Position) < 0 {
		return
	}
	_, j := w.stats.ratio(r.X)
	w.outliers = Outliers{Rows: w.outliers.Rows, Newest: *r, Feature: j, Median: w.stats.median[j],
		Reach: 1 / w.stats.inverseReach[j]}
}

// NeedsSift reports whether a class has enough rows since the last Sift, or too few.
func (w *Window) NeedsSift() bool {
	if w.stats == nil {
		return false
	}
	least := w.classes.minRows(w.config.Labelled)
	for c := range w.classes.rows {
		if enters := w.classes.size(c) >= least; enters != (c < len(w.classes.included) && w.classes.included[c]) {
			return true
		}
	}
	return false
}

// IsKnown reports whether rows with a label enter fits, as of the last Sift: models are not scored on others.
func (w *Window) IsKnown(label string) bool {
	if w.stats == nil {
		return true
	}
	c, ok := w.classes.index[label]
	return ok && c < len(w.classes.included) && w.classes.included[c]
}

// FirstModelRows is the number of rows that a first model would be fitted on: those of classes that are large enough.
func (w *Window) FirstModelRows() int {
	if !w.config.Labelled {
		return w.Len()
	}
	return w.Len() - w.classes.below(max(w.classes.minRows(w.config.Labelled), firstModelRows))
}

// EstablishedClasses is the number of classes with at least firstModelRows rows.
func (w *Window) EstablishedClasses() (n int) {
	for c := range w.classes.rows {
		if w.classes.size(c) >= firstModelRows {
			n++
		}
	}
	return n
}

// SparseRows is the number of rows of classes with too few rows to enter a fit.
func (w *Window) SparseRows() int { return w.classes.below(w.classes.minRows(w.config.Labelled)) }

// below is the number of rows of classes that have fewer rows than least.
func (t *classes) below(least int) (n int) {
	for c := range t.rows {
		if size := t.size(c); size < least {
			n += size
		}
	}
	return n
}
