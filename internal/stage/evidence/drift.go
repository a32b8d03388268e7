package evidence

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// DriftDetector finds changes of the mean of values in [0, 1]. Each value has a class, and the order of the classes
// does not matter: the detector splits the newest rows in two in time, compares the means of each class, and pools the
// differences over the classes, each with the weight n0 n1 / (n0 + n1) of its rows in both parts (Cochran, Biometrics
// 10, 1954; Mantel and Haenszel, J. Natl. Cancer Inst. 22, 1959). So there is one test for all classes. Rows that
// depend on their neighbours count as fewer, see [Dependence].
//
// Points to split at, the bound and its union over them are those of ADWIN for large windows, with 5 buckets per size
// (Bifet and Gavaldà, Learning from time-changing data with adaptive windowing, SDM 2007); with one class it is ADWIN.
// It checks every 8 rows, theirs every 32. Theirs drops the oldest bucket until the parts agree; this one cuts at once
// where they differ most, so that it keeps what came after the change.
type DriftDetector struct {
	Delta      float64        `json:"delta"`  // probability of a false alarm per check; 0: defaultDelta
	Strata     map[string]int `json:"strata"` // number of each class
	Rows       [][]Bucket     `json:"rows"`   // Rows[i] holds buckets of 2^i rows, newest last
	SinceCheck int            `json:"waits"`  // rows since the last check
	// Earlier is how many of the oldest rows have values of an earlier model. Those of the present one are as high or
	// higher: a fall compared with them is a change, a rise is not.
	Earlier int        `json:"earlier,omitempty"`
	Blocks  Dependence `json:"blocks"` // of the rows, also those before the window
	totals  []Sums     // of each stratum, in the window; nil: not computed
	largest float64    // ratio of the last search
}

// Bucket has the sums of consecutive rows by class. Rows without a value are in none.
type Bucket []Sums

// Sums are the values of one class.
type Sums struct {
	Stratum           int
	Rows, Sum, Square float64
}

const (
	maxBuckets = 5 // of one size; with fewer a change is found later
	checkEvery = 8 // rows between two searches for a change
	// defaultDelta is a quarter of ADWIN's 0.002, which checks a quarter as often.
	defaultDelta  = 0.0005
	minPartValues = 16 // independent values that a part needs
	// maxStrata bounds the memory of a window: further classes share the last stratum.
	maxStrata = 32
	// priorRows is the number of rows of the usual variance that are added to those of a class.
	priorRows = 4
)

// MarshalJSON writes four numbers.
func (s Sums) MarshalJSON() ([]byte, error) {
	return json.Marshal([]float64{float64(s.Stratum), s.Rows, s.Sum, s.Square})
}

// UnmarshalJSON reads four numbers.
func (s *Sums) UnmarshalJSON(text []byte) error {
	var four [4]float64
	if err := json.Unmarshal(text, &four); err != nil {
		return err
	}
	*s = Sums{int(four[0]), four[1], four[2], four[3]}
	return nil
}

func (s *Sums) add(o Sums) {
	s.Rows += o.Rows
	s.Sum += o.Sum
	s.Square += o.Square
}

// merge returns the sums of two buckets, both in the order of their strata.
func merge(a, b Bucket) Bucket {
	out := make(Bucket, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Stratum < b[0].Stratum:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0].Stratum < a[0].Stratum:
			out, b = append(out, b[0]), b[1:]
		default:
			both := a[0]
			both.add(b[0])
			out, a, b = append(out, both), a[1:], b[1:]
		}
	}
	return out
}

// Add adds a row: its class, and its value in [0, 1], NaN if it has none. It reports whether the mean has changed. The
// window then holds what came after the change.
func (a *DriftDetector) Add(class string, v float64) bool {
	var b Bucket
	if !math.IsNaN(v) {
		b = Bucket{{a.stratum(class), 1, v, v * v}}
		a.observe(b[0])
	}
	if len(a.Rows) == 0 {
		a.Rows = append(a.Rows, nil)
	}
	a.Rows[0] = append(a.Rows[0], b)
	for i := 0; i < len(a.Rows) && len(a.Rows[i]) > maxBuckets; i++ {
		if i+1 == len(a.Rows) {
			a.Rows = append(a.Rows, nil)
		}
		both := merge(a.Rows[i][0], a.Rows[i][1])
		a.Rows[i] = append(a.Rows[i][:0], a.Rows[i][2:]...)
		a.Rows[i+1] = append(a.Rows[i+1], both)
	}
	if a.SinceCheck++; a.SinceCheck < checkEvery {
		return false
	}
	a.SinceCheck = 0
	return a.cut()
}

func (a *DriftDetector) stratum(class string) int {
	if a.Strata == nil {
		a.Strata = map[string]int{}
	}
	at, known := a.Strata[class]
	if !known {
		if at = len(a.Strata); at >= maxStrata {
			return maxStrata - 1
		}
		a.Strata[class] = at
	}
	return at
}

// Largest is the largest difference between two parts of the window that the last check found, in multiples of what
// chance allows: at most 1, since beyond it is a change. 0: there were too few rows since the last change.
func (a *DriftDetector) Largest() float64 { return a.largest }

// Len is the number of rows in the window.
func (a *DriftDetector) Len() (n int) {
	for i, row := range a.Rows {
		n += len(row) << i
	}
	return n
}

// Reset empties the window. How rows depend on their neighbours is still known.
func (a *DriftDetector) Reset() {
	a.Blocks.Break()
	*a = DriftDetector{Delta: a.Delta, Blocks: a.Blocks}
}

// Replace continues with the values of another model, which are as high or higher. A change right after that is found
// as soon as without it.
func (a *DriftDetector) Replace() {
	a.Blocks.Break()
	a.Earlier = a.Len()
}

// observe counts a value, and how far it is from the mean of its class before, scaled so that this has the variance of
// the class (recursive residuals: Brown, Durbin and Evans, J. R. Stat. Soc. B 37, 1975).
func (a *DriftDetector) observe(v Sums) {
	a.sum()
	s := &a.totals[v.Stratum]
	if s.Rows > 0 {
		a.Blocks.Add((v.Sum - s.Sum/s.Rows) * math.Sqrt(s.Rows/(s.Rows+1)))
	}
	s.add(v)
}

// sum computes the sums of each stratum, unless they are known.
func (a *DriftDetector) sum() {
	if a.totals == nil {
		a.totals = a.sumsFrom(0)
	}
}

// cut drops what is before the point at which the parts differ most, if they differ by more than chance allows.
func (a *DriftDetector) cut() bool {
	a.sum()
	found := a.search(a.totals, 0, a.Earlier > 0)
	if a.Earlier > 0 {
		if own := a.search(a.sumsFrom(a.Earlier), a.Earlier, false); own.ratio > found.ratio {
			found = own
		}
	}
	if a.largest = found.ratio; found.ratio <= 1 {
		return false
	}
	a.largest = 0 // what follows is compared with itself
	rows := a.Len()
	a.Rows = a.Rows[:found.size+1]
	a.Rows[found.size] = slices.Clone(a.Rows[found.size][found.at+1:])
	a.Earlier = max(a.Earlier-(rows-a.Len()), 0)
	a.totals = nil
	a.Blocks.Break()
	return true
}

// split is the point after a bucket of a size.
type split struct {
	ratio    float64 // how much the parts differ, in multiples of what chance allows; 0 if there is none
	size, at int
}

// search finds the point at which the parts of the rows from one on differ most. all are the sums of these rows.
func (a *DriftDetector) search(all []Sums, from int, onlyFalls bool) (most split) {
	for len(all) > 0 && all[len(all)-1].Rows == 0 { // few streams have maxStrata classes
		all = all[:len(all)-1]
	}
	var memory [maxStrata]float64
	variances := memory[:len(all)]
	rows := setVariances(variances, all)
	effect := a.Blocks.ShortEffect()
	least := minPartValues * effect
	logs := math.Log(2 * math.Log(rows/effect) / cmp.Or(a.Delta, defaultDelta))
	var sums [maxStrata]Sums
	before, count, passed := sums[:len(all)], 0.0, 0
	for i := len(a.Rows) - 1; i >= 0; i-- { // oldest first
		for k, b := range a.Rows[i] {
			if passed += 1 << i; passed-1<<i < from {
				continue
			}
			for _, s := range b {
				before[s.Stratum].add(s)
				count += s.Rows
			}
			if count < least || rows-count < least {
				continue
			}
			difference, spread, weight := compare(all, before, variances)
			if weight < least/2 || onlyFalls && difference < 0 { // few rows are of classes that both parts have
				continue
			}
			inverse := effect / weight
			bound := math.Sqrt(2*inverse*spread*logs) + 2.0/3*inverse*logs
			if ratio := math.Abs(difference) / bound; ratio > most.ratio {
				most = split{ratio, i, k}
			}
		}
	}
	return most
}

// sumsFrom computes the sums of each class in the buckets that begin at a row or later.
func (a *DriftDetector) sumsFrom(from int) []Sums {
	sums, passed := make([]Sums, maxStrata), 0
	for i := len(a.Rows) - 1; i >= 0; i-- {
		for _, b := range a.Rows[i] {
			if passed += 1 << i; passed-1<<i < from {
				continue
			}
			for _, s := range b {
				sums[s.Stratum].add(s)
			}
		}
	}
	return sums
}

// setVariances sets the variance of a value in each class, shrunk to that within classes, and returns the number of
// values.
func setVariances(variances []float64, by []Sums) (rows float64) {
	within := 0.0
	for c, s := range by {
		if s.Rows > 0 {
			variances[c] = max(s.Square-s.Sum/s.Rows*s.Sum, 0)
			within += variances[c]
			rows += s.Rows
		}
	}
	for c, s := range by {
		variances[c] = (variances[c] + priorRows*within/rows) / (s.Rows + priorRows)
	}
	return rows
}

// compare returns the difference between the means before a point and after it, pooled over the classes, the variance
// of a value, and the weight: 1/weight is 1/n0 + 1/n1 if there is one class.
func compare(all, before []Sums, variances []float64) (difference, variance, weight float64) {
	for c, s := range all {
		n0, n1 := before[c].Rows, s.Rows-before[c].Rows
		if n0 == 0 || n1 == 0 {
			continue
		}
		w := n0 * n1 / (n0 + n1)
		difference += w * (before[c].Sum/n0 - (s.Sum-before[c].Sum)/n1)
		variance += w * variances[c]
		weight += w
	}
	return difference / weight, variance / weight, weight
}
