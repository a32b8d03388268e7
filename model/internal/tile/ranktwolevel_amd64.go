//go:build amd64 && !purego

package tile

func rankTwo(n int, a []float64, stride int, v, w, x, y []float64) {
	switch level {
	case avx512:
		rankTwoAVX512(n, &a[0], stride, &v[0], &w[0], &x[0], &y[0])
	case avx2:
		rankTwoAVX2(n, &a[0], stride, &v[0], &w[0], &x[0], &y[0])
	default:
		rankTwoPortable(n, a, stride, v, w, x, y)
	}
}
