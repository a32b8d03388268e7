//go:build !amd64 || purego

package tile

func exponentials(v []float64) { expPortable(v) }

func gather([]float64, []int, []float64, []float64, int) (done int) { return 0 }

func relax(dst []float64, index []int, value, x []float64) bool {
	return relaxPortable(dst, index, value, x)
}

func rankTwo(n int, a []float64, stride int, v, w, x, y []float64) {
	rankTwoPortable(n, a, stride, v, w, x, y)
}

func depth(k int) int { return k }

// multiply sets a block of c, which is zero, to a'b, for the k rows of panels that depth allows.
func multiply(k int, a, b, c []float64) { update(k, a, b, c, panel, 1, b) }

func distances([]float64, []float64, float64, float64) (done int) { return 0 }

func standardise([]float64, []float64, []float64) (done int) { return 0 }

func along([]float64, []float64, int, int, int, []float64, float64) (done int) { return 0 }

func across([]float64, []float64, int, int, int, []float64) (done int) { return 0 }
