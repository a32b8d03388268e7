package tile

import "math"

// Thin is how many vectors a thin product takes, side by side: a matrix that is larger than a cache is read once for
// all of them.
const Thin = 8

// Along adds alpha A X to dst: A is n rows of k numbers that are stride apart, X has k rows of Thin numbers, dst n. Each
// element is summed by a fused multiply-add a number of A, in order, from zero, and then added to what is there.
func Along(dst, a []float64, n, k, stride int, x []float64, alpha float64) {
	if n == 0 || k == 0 {
		return
	}
	dst, a, x = dst[:n*Thin], a[:(n-1)*stride+k], x[:k*Thin]
	for i := along(dst, a, n, k, stride, x, alpha); i < n; i++ {
		var sum [Thin]float64
		for l, v := range a[i*stride:][:k] {
			for c, w := range x[l*Thin:][:Thin] {
				sum[c] = multiplyAdd(v, w, sum[c])
			}
		}
		for c, v := range sum {
			dst[i*Thin+c] = multiplyAdd(alpha, v, dst[i*Thin+c])
		}
	}
}

// Across adds A'X to dst: A is n rows of k numbers that are stride apart, X has n rows of Thin numbers, dst k. Each
// element takes a fused multiply-add a row of A, in order.
func Across(dst, a []float64, n, k, stride int, x []float64) {
	if n == 0 || k == 0 {
		return
	}
	dst, a, x = dst[:k*Thin], a[:(n-1)*stride+k], x[:n*Thin]
	for i := across(dst, a, n, k, stride, x); i < n; i++ {
		for l, v := range a[i*stride:][:k] {
			row := dst[l*Thin:][:Thin]
			for c, w := range x[i*Thin:][:Thin] {
				row[c] = multiplyAdd(v, w, row[c])
			}
		}
	}
}

func multiplyAdd(x, y, z float64) float64 {
	if emulated {
		return x*y + z
	}
	return math.FMA(x, y, z)
}
