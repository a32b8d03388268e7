package tile

import "fmt"

// Lanes divides the order of a matrix of RankTwo.
const Lanes = 8

// RankTwo subtracts v w' + w v' from a symmetric matrix A of order n, a multiple of eight, and sets y to A x for the
// result: one step of a reduction to tridiagonal form (Golub and Van Loan 2013, section 8.3) that reads half of A
// once. Rows of A are n numbers apart and hold what is right of the diagonal; the eight by eight blocks on the
// diagonal are complete. v, w and x are zero below from: blocks before it are not accessed, nor is y there.
//
// y is summed in an order that does not depend on the machine (except amd64 processors without FMA).
func RankTwo(a []float64, n, from int, v, w, x, y []float64) {
	if n%Lanes != 0 || from < 0 || from > n || len(a) < n*n || min(len(v), len(w), len(x), len(y)) < n {
		panic(fmt.Sprintf("tile: a matrix of order %d, a multiple of %d, needs %d numbers and vectors of %d; it has %d, and "+
			"vectors of %d, %d, %d and %d", n, Lanes, n*n, n, len(a), len(v), len(w), len(x), len(y)))
	}
	from = from / Lanes * Lanes
	clear(y[from:n])
	for i := from; i < n; i += Lanes {
		rankTwo(n-i, a[i*n+i:], n, v[i:n], w[i:n], x[i:n], y[i:n])
	}
}

func rankTwoPortable(n int, a []float64, stride int, v, w, x, y []float64) {
	for r := range Lanes {
		vr, wr, xr := v[r], w[r], x[r]
		var sum [Lanes]float64
		row := a[r*stride : r*stride+n]
		for j := 0; j < n; j += Lanes {
			for l := range Lanes {
				e := fma(-wr, v[j+l], fma(-vr, w[j+l], row[j+l]))
				row[j+l] = e
				sum[l] = fma(x[j+l], e, sum[l])
				if j > 0 {
					y[j+l] = fma(xr, e, y[j+l])
				}
			}
		}
		for half := Lanes / 2; half > 0; half /= 2 {
			for l := range half {
				sum[l] += sum[l+half]
			}
		}
		y[r] += sum[0]
	}
}
