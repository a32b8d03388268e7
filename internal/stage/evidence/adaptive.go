package evidence

import "math"

// Adaptive is the window of ADWIN: the longest run of newest values in [0, 1] whose mean did not change. It forgets
// the older part as soon as two parts of it differ by more than chance allows.
//
// Bifet and Gavaldà, Learning from time-changing data with adaptive windowing, SDM 2007; the bound is theirs for large
// windows, with the variance of the window, and the histogram theirs with 5 buckets of a size. It looks every 8 values,
// as their implementation does every 32, and where theirs drops the oldest bucket until the parts agree, it cuts at
// once where they differ most: what is left is what came after the change.
type Adaptive struct {
	Delta  float64    `json:"delta"`  // probability of a false alarm at one look; 0: 0.0005
	Rows   [][]Bucket `json:"rows"`   // Rows[i] holds buckets of 2^i values, newest last
	Waits  int        `json:"waits"`  // values since the last look
	Alarms int        `json:"alarms"` // changes found so far
}

// Bucket is the sum of some neighbouring values, and of their squares.
type Bucket struct {
	Sum    float64 `json:"s"`
	Square float64 `json:"q"`
}

const (
	buckets  = 5
	lookEach = 8
	minPart  = 16 // values that a part needs to be compared
)

// Add takes a value in [0, 1] and tells whether the mean has changed. Then the window holds what came after.
func (a *Adaptive) Add(v float64) bool {
	if len(a.Rows) == 0 {
		a.Rows = append(a.Rows, nil)
	}
	a.Rows[0] = append(a.Rows[0], Bucket{v, v * v})
	for i := 0; i < len(a.Rows) && len(a.Rows[i]) > buckets; i++ {
		if i+1 == len(a.Rows) {
			a.Rows = append(a.Rows, nil)
		}
		p, q := a.Rows[i][0], a.Rows[i][1]
		a.Rows[i] = append(a.Rows[i][:0], a.Rows[i][2:]...)
		a.Rows[i+1] = append(a.Rows[i+1], Bucket{p.Sum + q.Sum, p.Square + q.Square})
	}
	if a.Waits++; a.Waits < lookEach {
		return false
	}
	a.Waits = 0
	if !a.cut() {
		return false
	}
	a.Alarms++
	return true
}

// Len is the number of values in the window.
func (a *Adaptive) Len() (n int) {
	for i, row := range a.Rows {
		n += len(row) << i
	}
	return n
}

// Mean is that of the window.
func (a *Adaptive) Mean() float64 {
	n, sum, _ := a.total()
	if n == 0 {
		return 0
	}
	return sum / n
}

// Reset empties the window.
func (a *Adaptive) Reset() { *a = Adaptive{Delta: a.Delta, Alarms: a.Alarms} }

func (a *Adaptive) total() (n, sum, square float64) {
	for i, row := range a.Rows {
		for _, b := range row {
			n += float64(int(1) << i)
			sum += b.Sum
			square += b.Square
		}
	}
	return n, sum, square
}

// cut drops what is before the border at which the parts differ most, where they differ by more than chance allows.
func (a *Adaptive) cut() bool {
	n, sum, square := a.total()
	delta := a.Delta
	if delta == 0 {
		delta = 0.0005
	}
	variance := max(square/n-sum/n*sum/n, 0)
	logs := math.Log(2 * math.Log(max(n, 3)) / delta)
	n0, s0, most := 0.0, 0.0, 1.0
	size, at := -1, 0                       // the border is after bucket at of this size
	for i := len(a.Rows) - 1; i >= 0; i-- { // oldest first
		for k, b := range a.Rows[i] {
			n0 += float64(int(1) << i)
			s0 += b.Sum
			n1 := n - n0
			if n0 < minPart || n1 < minPart {
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
