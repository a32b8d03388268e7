package tile

import "gonum.org/v1/gonum/mat"

// Thin is how many vectors a thin product processes side by side: a matrix larger than a cache is read once for all of
// them.
const Thin = 8

// Along adds alpha A X to dst: A is n rows of k numbers that are stride apart, X has k rows of Thin numbers, dst n.
// Each element is summed by one fused multiply-add per number of A, in order, from zero, and then added to dst.
func Along(dst, a []float64, n, k, stride int, x []float64, alpha float64) {
	if n == 0 || k == 0 {
		return
	}
	dst, a, x = dst[:n*Thin], a[:(n-1)*stride+k], x[:k*Thin]
	for i := along(dst, a, n, k, stride, x, alpha); i < n; i++ {
		var sum [Thin]float64
		for l, v := range a[i*stride:][:k] {
			for c, w := range x[l*Thin:][:Thin] {
				sum[c] = fma(v, w, sum[c])
			}
		}
		for c, v := range sum {
			dst[i*Thin+c] = fma(alpha, v, dst[i*Thin+c])
		}
	}
}

// Across adds A'X to dst: A is n rows of k numbers that are stride apart, X has n rows of Thin numbers, dst k. Each
// element takes one fused multiply-add per row of A, in order.
func Across(dst, a []float64, n, k, stride int, x []float64) {
	if n == 0 || k == 0 {
		return
	}
	dst, a, x = dst[:k*Thin], a[:(n-1)*stride+k], x[:n*Thin]
	for i := across(dst, a, n, k, stride, x); i < n; i++ {
		for l, v := range a[i*stride:][:k] {
			row := dst[l*Thin:][:Thin]
			for c, w := range x[i*Thin:][:Thin] {
				row[c] = fma(v, w, row[c])
			}
		}
	}
}

// Product is A X, for an X with few columns, on one core.
func Product(a, x *mat.Dense) *mat.Dense {
	n, k := a.Dims()
	return thinProduct(x, n, k, func(dst, side []float64) {
		r := a.RawMatrix()
		Along(dst, r.Data, n, k, r.Stride, side, 1)
	})
}

// CrossProduct is A'X, for an X with few columns, on one core.
func CrossProduct(a, x *mat.Dense) *mat.Dense {
	n, k := a.Dims()
	return thinProduct(x, k, n, func(dst, side []float64) {
		r := a.RawMatrix()
		Across(dst, r.Data, n, k, r.Stride, side)
	})
}

// thinProduct computes a product with rows rows, Thin columns of x at a time.
func thinProduct(x *mat.Dense, rows, inner int, multiply func(dst, side []float64)) *mat.Dense {
	r, d := x.Dims()
	if r != inner {
		panic(mat.ErrShape)
	}
	out := mat.NewDense(rows, d, nil)
	for from := 0; from < d; from += Thin {
		width := min(Thin, d-from)
		side, dst := make([]float64, inner*Thin), make([]float64, rows*Thin)
		for i := range inner {
			copy(side[i*Thin:][:width], x.RawRowView(i)[from:])
		}
		multiply(dst, side)
		for i := range rows {
			copy(out.RawRowView(i)[from:][:width], dst[i*Thin:])
		}
	}
	return out
}
