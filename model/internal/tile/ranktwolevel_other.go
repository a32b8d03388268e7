//go:build !amd64 || purego

package tile

func rankTwo(n int, a []float64, stride int, v, w, x, y []float64) {
	rankTwoPortable(n, a, stride, v, w, x, y)
}
