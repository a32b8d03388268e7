package pencil

import "math"

// sturm finds single eigenvalues of a tridiagonal matrix by bisection: the number of eigenvalues below x is the number
// of negative pivots of the matrix minus x (Givens 1954). A few of them take a fraction of the time of all, by QR.
type sturm struct {
	diag, square []float64 // of the matrix, scaled to at most 1; squares of its off-diagonal, from row 1 on
	exp          int       // of the scale
	zero         bool
}

// together is how many counts are computed side by side: a single one mostly waits for divisions.
const together = 4

// tiny replaces pivots that are closer to zero.
const tiny = 0x1p-500

func newSturm(diag, next []float64) *sturm {
	n, largest := len(diag), 0.0
	for i, v := range diag {
		largest = max(largest, math.Abs(v))
		if i > 0 {
			largest = max(largest, math.Abs(next[i-1]))
		}
	}
	_, exp := math.Frexp(largest)
	s := &sturm{diag: make([]float64, n), square: make([]float64, n), exp: exp, zero: largest == 0}
	for i, v := range diag {
		s.diag[i] = math.Ldexp(v, -exp)
		if i > 0 {
			e := math.Ldexp(next[i-1], -exp)
			s.square[i] = e * e
		}
	}
	return s
}

// below is how many eigenvalues are less than each of x, in the scale of s.
func (s *sturm) below(x [together]float64) [together]int {
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	q0, q1, q2, q3 := 1.0, 1.0, 1.0, 1.0
	var c0, c1, c2, c3 uint64
	square := s.square[:len(s.diag)]
	for i, d := range s.diag {
		e := square[i]
		q0, q1, q2, q3 = d-x0-e/q0, d-x1-e/q1, d-x2-e/q2, d-x3-e/q3
		if math.Abs(q0) < tiny {
			q0 = -tiny
		}
		if math.Abs(q1) < tiny {
			q1 = -tiny
		}
		if math.Abs(q2) < tiny {
			q2 = -tiny
		}
		if math.Abs(q3) < tiny {
			q3 = -tiny
		}
		c0 += math.Float64bits(q0) >> 63
		c1 += math.Float64bits(q1) >> 63
		c2 += math.Float64bits(q2) >> 63
		c3 += math.Float64bits(q3) >> 63
	}
	return [together]int{int(c0), int(c1), int(c2), int(c3)}
}

// values are the eigenvalues at these positions of the ascending order.
func (s *sturm) values(places []int) []float64 {
	out := make([]float64, len(places))
	if s.zero {
		return out
	}
	for from := 0; from < len(places); from += together {
		var at [together]int
		for i := range at {
			at[i] = places[min(from+i, len(places)-1)]
		}
		found := s.bisect(at)
		copy(out[from:], found[:])
	}
	for i := range out {
		out[i] = math.Ldexp(out[i], s.exp)
	}
	return out
}

// bisect narrows an interval for each position until no number inside gives more information, or all are far below
// rounding error. The result for one does not depend on the others.
func (s *sturm) bisect(place [together]int) [together]float64 {
	var low, high, middle [together]float64
	for i := range place {
		low[i], high[i] = -4, 4 // a row's entries add up to 3 at most, so all eigenvalues are inside (Gershgorin)
	}
	for {
		var open [together]bool
		for i := range place {
			middle[i] = low[i] + (high[i]-low[i])/2
			open[i] = high[i]-low[i] > max(2*eps*math.Abs(middle[i]), eps*eps)
		}
		if open == [together]bool{} {
			return middle
		}
		for i, count := range s.below(middle) {
			switch {
			case !open[i]:
			case count > place[i]:
				high[i] = middle[i]
			default:
				low[i] = middle[i]
			}
		}
	}
}

// above is how many eigenvalues are not below v; 0 for a matrix of zeros.
func (s *sturm) above(v float64) int {
	x := math.Ldexp(v, -s.exp)
	return len(s.diag) - s.below([together]float64{x, x, x, x})[0]
}
