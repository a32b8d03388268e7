package evidence

import (
	"cmp"
	"math"
)

// DriftDetector is ADWIN: it keeps the longest run of newest values in [0, 1] whose mean did not change. It forgets the
// older part as soon as two parts differ by more than chance allows.
//
// Bifet and Gavaldà, Learning from time-changing data with adaptive windowing, SDM 2007, with their bound for large
// windows, the variance of the window, and 5 buckets per size. It checks every 8 values, theirs every 32. Theirs drops
// the oldest bucket until the parts agree; this one cuts at once where they differ most, so that it keeps what came
// after the change.
type DriftDetector struct {
	Delta      float64    `json:"delta"`  // probability of a false alarm per check; 0: 0.0005
	Rows       [][]Bucket `json:"rows"`   // Rows[i] holds buckets of 2^i values, newest last
	SinceCheck int        `json:"waits"`  // values since the last check
	Alarms     int        `json:"alarms"` // changes found so far
}

// Bucket is the sum of consecutive values, and of their squares.
type Bucket struct {
	Sum    float64 `json:"s"`
	Square float64 `json:"q"`
}

const (
	maxBuckets    = 5
	checkEvery    = 8
	minPartValues = 16 // values that a part needs
)

// Add adds a value in [0, 1] and reports whether the mean has changed. The window then holds what came after the
// change.
func (a *DriftDetector) Add(v float64) bool {
	if len(a.Rows) == 0 {
		a.Rows = append(a.Rows, nil)
	}
	a.Rows[0] = append(a.Rows[0], Bucket{v, v * v})
	for i := 0; i < len(a.Rows) && len(a.Rows[i]) > maxBuckets; i++ {
		if i+1 == len(a.Rows) {
			a.Rows = append(a.Rows, nil)
		}
		p, q := a.Rows[i][0], a.Rows[i][1]
		a.Rows[i] = append(a.Rows[i][:0], a.Rows[i][2:]...)
		a.Rows[i+1] = append(a.Rows[i+1], Bucket{p.Sum + q.Sum, p.Square + q.Square})
	}
	if a.SinceCheck++; a.SinceCheck < checkEvery {
		return false
	}
	a.SinceCheck = 0
	if !a.cut() {
		return false
	}
	a.Alarms++
	return true
}

// Len is the number of values in the window.
func (a *DriftDetector) Len() (n int) {
	for i, row := range a.Rows {
		n += len(row) << i
	}
	return n
}

// Reset empties the window.
func (a *DriftDetector) Reset() { *a = DriftDetector{Delta: a.Delta, Alarms: a.Alarms} }

func (a *DriftDetector) total() (n, sum, square float64) {
	for i, row := range a.Rows {
		for _, b := range row {
			n += float64(int(1) << i)
			sum += b.Sum
			square += b.Square
		}
	}
	return n, sum, square
}

// cut drops what is before the point at which the parts differ most, if they differ by more than chance allows.
func (a *DriftDetector) cut() bool {
	n, sum, square := a.total()
	delta := cmp.Or(a.Delta, 0.0005)
	variance := max(square/n-sum/n*sum/n, 0)
	logs := math.Log(2 * math.Log(max(n, 3)) / delta)
	n0, s0, most := 0.0, 0.0, 1.0
	size, at := -1, 0                       // the border is after bucket at of this size
	for i := len(a.Rows) - 1; i >= 0; i-- { // oldest first
		for k, b := range a.Rows[i] {
			n0 += float64(int(1) << i)
			s0 += b.Sum
			n1 := n - n0
			if n0 < minPartValues || n1 < minPartValues {
				continue
			}
			inverse := 1/n0 + 1/n1
			bound := math.Sqrt(2*inverse*variance*logs) + 2.0/3*inverse*logs
			if ratio := math.Abs(s0/n0-(sum-s0)/n1) / bound; ratio > most {
				most, size, at = ratio, i, k
			}
		}
	}
	if size < 0 {
		return false
	}
	a.Rows = a.Rows[:size+1]
	a.Rows[size] = append([]Bucket(nil), a.Rows[size][at+1:]...)
	return true
}
