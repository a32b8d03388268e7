package linalg

import (
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Range is the numbers from 0 to d-1.
func Range(d int) []int {
	c := make([]int, d)
	for i := range c {
		c[i] = i
	}
	return c
}

// Mean is the mean of n rows of m numbers, summed in their order.
func Mean(n, m int, row func(i int) []float64) []float64 {
	mean := make([]float64, m)
	isExact := n&(n-1) == 0 // a power of two: the product with its inverse has the bits of the quotient
	for i := range n {
		if isExact {
			floats.AddScaled(mean, 1/float64(n), row(i))
			continue
		}
		for j, v := range row(i) {
			mean[j] += v / float64(n)
		}
	}
	return mean
}

// Median is the median of v, which it reorders.
func Median(v []float64) float64 {
	upper := Select(v, len(v)/2)
	if len(v)%2 == 1 {
		return upper
	}
	return (slices.Max(v[:len(v)/2]) + upper) / 2
}

// Select returns the value that v would have at k if it were sorted. It reorders v: no value before k is larger.
func Select[T float32 | float64](v []T, k int) T {
	all, at := v, k
	for rounds := 2 * bits.Len(uint(len(v))); len(v) > 12 && rounds > 0; rounds-- {
		a, b, c := v[0], v[len(v)/2], v[len(v)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := 0, len(v)-1
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for pivot < v[j] {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch { // the values between j and i equal the pivot
		case k <= j:
			v = v[:j+1]
		case k >= i:
			v, k = v[i:], k-i
		default:
			return all[at]
		}
	}
	slices.Sort(v) // few are left, or the pivots were bad
	return all[at]
}

// Tied reports whether two eigenvalues of a problem of order k share an eigenspace: only rounding errors separate them.
func Tied(a, b float64, k int, largest float64) bool {
	return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))+1e-14*float64(k)*largest
}

// Ties are the runs [from, to) of two or more neighbouring values that are tied, of those that begin among the first d.
func Ties(values []float64, d int, tied func(a, b float64) bool) (runs [][2]int) {
	for from, to := 0, 0; from < d; from = to {
		for to = from + 1; to < len(values) && tied(values[to-1], values[to]); {
			to++
		}
		if to-from > 1 {
			runs = append(runs, [2]int{from, to})
		}
	}
	return runs
}

// SquaredDistance is |a - b|^2, in four partial sums whose order depends only on the length.
func SquaredDistance(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	j := 0
	for ; j+4 <= len(a); j += 4 {
		d0, d1, d2, d3 := a[j]-b[j], a[j+1]-b[j+1], a[j+2]-b[j+2], a[j+3]-b[j+3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; j < len(a); j++ {
		s0 += (a[j] - b[j]) * (a[j] - b[j])
	}
	return (s0 + s1) + (s2 + s3)
}

// Dot is a'b, summed as in SquaredDistance.
func Dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	j := 0
	for ; j+4 <= len(a); j += 4 {
		s0 += a[j] * b[j]
		s1 += a[j+1] * b[j+1]
		s2 += a[j+2] * b[j+2]
		s3 += a[j+3] * b[j+3]
	}
	for ; j < len(a); j++ {
		s0 += a[j] * b[j]
	}
	return (s0 + s1) + (s2 + s3)
}

// RowNorm is the Euclidean norm of the present values of x; 1 for a row without nonzero values, which division then
// does not change.
func RowNorm(x []float64) float64 {
	var sum, largest float64
	for _, v := range x {
		if IsFinite(v) {
			sum += v * v
			largest = max(largest, math.Abs(v))
		}
	}
	if largest == 0 {
		return 1
	}
	if sum > 1e-290 && sum < 1e300 {
		return math.Sqrt(sum)
	}
	sum = 0 // the squares exceed float64: compute them relative to the largest
	for _, v := range x {
		if IsFinite(v) {
			sum += (v / largest) * (v / largest)
		}
	}
	return min(largest*math.Sqrt(sum), math.MaxFloat64)
}

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// AllFinite reports whether x has neither NaN nor an infinity.
func AllFinite(x []float64) bool {
	var a, b, c, d float64 // 0, or NaN after the first value that is not finite
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+0*x[0], b+0*x[1], c+0*x[2], d+0*x[3]
	}
	for _, v := range x {
		a += 0 * v
	}
	return a+b+c+d == 0
}

// Sets numbers the sets that joins make of n members, in the order of their first ones.
func Sets(n int, joins func(join func(i, j int))) []int {
	parent := Range(n)
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	joins(func(i, j int) {
		// The root is the first member, which gives the order of the numbers.
		i, j = find(i), find(j)
		parent[max(i, j)] = min(i, j)
	})
	out, count := make([]int, n), 0
	for i := range n {
		if r := find(i); r == i {
			out[i] = count
			count++
		} else {
			out[i] = out[r]
		}
	}
	return out
}
