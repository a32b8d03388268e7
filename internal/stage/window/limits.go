package window

import (
	"math"
	"math/bits"
	"slices"
)

// limits are the range of each feature that enters fits, from the rows of a block or of a summary. A value beyond it is
// replaced by its nearest end (it is winsorised), and an extreme one by the median, so that no value has the leverage
// to decide a fit alone, and many equal ones do not either.
type limits struct {
	median    []float64
	reach     []float64 // largest distance from the median within the range; infinite: unknown
	low, high []float64 // the range
	// The distance from the median beyond which a value is replaced by the median. It is infinite if more than half of
	// the values are equal: the others may be all that the feature says.
	extreme []float64
}

const (
	// A range reaches reachOfNine times as far as nine in ten rows, which is 16 standard deviations of a normal
	// distribution; reachOfMost times as far as 97 in 100; and reachOfTop times as far as all but two rows of the sample,
	// or as is usual for the features if that is less.
	reachOfNine = 10
	reachOfMost = 5 // of 97 in 100 rows
	reachOfTop  = 5 // of all but two rows
	// reachOfUsual is how many times the usual distance of all features the range reaches for a feature of which more
	// than half of the values are equal, such as a pixel that is nearly always 0: its quantiles say nothing.
	reachOfUsual = 10
	// A value is extreme if it is extremeRatio times as far from the median as the limit. Rows with one are no
	// references.
	extremeRatio = 10
	// Enormous is the largest magnitude of a feature: sums of squares of larger ones may exceed float64. Rows with
	// larger ones are always set aside.
	Enormous = 1e140
	// sampledForLimits is the approximate number of rows that limits are computed from.
	sampledForLimits = 256
	// minForLimits is the minimum number of values of a feature.
	minForLimits = 4
)

// Learning may pause after pauseFeatures features of the sample, and after pauseSifted rows: some tenths of a
// millisecond with 256 features.
const (
	pauseFeatures = 8
	pauseSifted   = 512
)

// spread are the distances of a sample of a feature from its median.
type spread struct {
	nine, most, top float64 // that of nine in ten rows, of 97 in 100, of all but two
	isConstant      bool    // of more than half of the rows it is 0
	isKnown         bool
}

// limitsOf computes the limits of m features from a sample of rows. It calls pause now and then.
func limitsOf(rows [][]float64, m int, pause func()) *limits {
	l := &limits{median: make([]float64, m), reach: make([]float64, m), low: make([]float64, m), high: make([]float64, m),
		extreme: make([]float64, m)}
	all := make([]spread, m)
	var values [pauseFeatures][]float64 // of some features: a row is read for all of them at once
	for c := range values {
		values[c] = make([]float64, 0, len(rows))
	}
	for j := range m {
		if j%pauseFeatures == 0 {
			pause()
			collect(&values, rows, j, min(j+pauseFeatures, m))
		}
		v := values[j%pauseFeatures]
		if n := len(v); n >= minForLimits {
			selectRank(v, (n-1)/2)
			median, equal := v[(n-1)/2], 0
			for i, f := range v {
				if v[i] = math.Abs(f - median); f == median {
					equal++
				}
			}
			nine, most, top := (n-1)*9/10, (n-1)*97/100, n-3
			selectRank(v, min(nine, top))
			slices.Sort(v[min(nine, top):])
			l.median[j], all[j] = median, spread{v[nine], v[most], v[top], equal > n/2, true}
		}
	}
	usual := usualReach(all)
	for j, s := range all {
		reach := max(reachOfNine*s.nine, reachOfMost*s.most, reachOfTop*min(s.top, usual))
		if s.isConstant {
			reach = max(reach, reachOfUsual*usual)
		}
		if !s.isKnown || reach == 0 {
			reach = math.Inf(1)
		}
		if l.reach[j], l.extreme[j] = reach, extremeRatio*reach; s.isConstant {
			l.extreme[j] = math.Inf(1)
		}
		l.low[j], l.high[j] = rounded(l.median[j]-reach, reach), rounded(l.median[j]+reach, reach)
	}
	return l
}

// collect collects the values of the features from one, inclusive, to another, exclusive.
func collect(values *[pauseFeatures][]float64, rows [][]float64, from, to int) {
	for c := range values {
		values[c] = values[c][:0]
	}
	for _, x := range rows {
		for c, f := range x[from:to] {
			if math.Abs(f) <= Enormous {
				values[c] = append(values[c], f)
			}
		}
	}
}

// selectRank reorders v: the value at the rank is the one that sorting moves there, no value before it is larger, and
// none after it is smaller.
func selectRank(v []float64, rank int) {
	for rounds := 2 * bits.Len(uint(len(v))); len(v) > 12 && rounds > 0; rounds-- {
		a, b, c := v[0], v[len(v)/2], v[len(v)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		n := partition(v, pivot)
		if n == 0 { // nothing is less than the pivot
			if n = partition(v, math.Nextafter(pivot, math.Inf(1))); rank < n {
				return // the value of the rank equals the pivot
			}
		}
		if rank < n {
			v = v[:n]
		} else {
			v, rank = v[n:], rank-n
		}
	}
	slices.Sort(v) // few are left, or the pivots were bad
}

// partition moves the values less than a pivot to the front, and returns how many they are. It has no branch that
// depends on a value, since half of these would be mispredicted.
func partition(v []float64, pivot float64) (n int) {
	for i, f := range v {
		isLess := 0
		if f < pivot {
			isLess = 1
		}
		v[i], v[n] = v[n], f
		n += isLess
	}
	return n
}

// usualReach is the upper quartile of the positive distances of nine in ten rows; if there are none, of 97 in 100, or
// of all but two.
func usualReach(all []spread) float64 {
	for _, of := range []func(spread) float64{
		func(s spread) float64 { return s.nine },
		func(s spread) float64 { return s.most },
		func(s spread) float64 { return s.top },
	} {
		var v []float64
		for _, s := range all {
			if d := of(s); d > 0 {
				v = append(v, d)
			}
		}
		if len(v) > 0 {
			slices.Sort(v)
			return v[(len(v)-1)*3/4]
		}
	}
	return 0
}

// rounded is the nearest float32, unless it is too far away relative to the reach: rows of float32 remain that.
func rounded(v, reach float64) float64 {
	if f := float64(float32(v)); math.Abs(f-v) <= reach/100 {
		return f
	}
	return v
}

// judgement is how a row compares with the limits.
type judgement struct {
	isLimited  bool    // a value is beyond them
	extreme    int     // number of extreme values
	isEnormous bool    // a value is beyond Enormous
	feature    int     // the one that is farthest, relative to its limit
	ratio      float64 // its distance from the median, as a multiple of its reach
}

// judge compares a row with the limits. Missing features are ignored.
func (l *limits) judge(x []float64) (g judgement) {
	low, high := l.low[:len(x)], l.high[:len(x)]
	for j, v := range x {
		if v >= low[j] && v <= high[j] && math.Abs(v) <= Enormous {
			continue // the usual case
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		ratio := math.Abs(v-l.median[j]) / l.reach[j]
		if math.Abs(v) > Enormous {
			g.isEnormous, ratio = true, math.Inf(1)
		}
		g.isLimited = true
		if ratio > extremeRatio {
			g.extreme++
		}
		if ratio > g.ratio {
			g.ratio, g.feature = ratio, j
		}
	}
	return g
}

// contain reports whether no row within bounds has a value beyond the limits.
func (l *limits) contain(low, high []float64) bool {
	for j, v := range low {
		if !(v >= max(l.low[j], -Enormous) && high[j] <= min(l.high[j], Enormous)) {
			return false
		}
	}
	return true
}

// apply replaces the values of a row that are beyond the limits. Missing ones stay missing.
func (l *limits) apply(x []float64) {
	for j, v := range x {
		switch {
		case v >= l.low[j] && v <= l.high[j] || math.IsNaN(v):
		case math.Abs(v-l.median[j]) > l.extreme[j]:
			x[j] = l.median[j]
		case v < l.low[j]:
			x[j] = l.low[j]
		default:
			x[j] = l.high[j]
		}
	}
}

// isEqual reports whether two limits are the same: the ranges follow from medians and reaches.
func (l *limits) isEqual(o *limits) bool {
	return l == o || l != nil && o != nil && slices.Equal(l.median, o.median) && slices.Equal(l.reach, o.reach) &&
		slices.Equal(l.extreme, o.extreme)
}

const (
	// A row is set aside if at least a wrongFeatures-th of its features are extreme: what is left of it says little.
	wrongFeatures = 4
	// At most one in maxSetAside rows of a block or a summary is set aside, and one in maxOfClass of each class there.
	maxSetAside = 100
	maxOfClass  = 20 // so that outliers never remove a class
)

// suspect is a row that may be set aside.
type suspect struct{ n, class int }

// isSuspect reports whether a row of m features may be set aside.
func (g *judgement) isSuspect(m int) bool { return g.extreme > 0 && g.extreme*wrongFeatures >= m }

// chooseSetAside calls setAside for the first suspects, within the limits of all rows and of each class. perClass is
// the number of rows of each class. The first ones stay set aside while rows arrive; the others are within limits, too.
func chooseSetAside(suspects []suspect, rows int, perClass map[int]int, setAside func(n int)) {
	left, of := rows/maxSetAside, map[int]int{}
	for _, s := range suspects {
		if left > 0 && of[s.class] < perClass[s.class]/maxOfClass {
			left--
			of[s.class]++
			setAside(s.n)
		}
	}
}
