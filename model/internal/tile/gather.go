package tile

import "fmt"

// Gather sets dst to the sum over p of value[p] times row index[p] of x, whose rows are stride numbers apart: a row of
// a product with a sparse matrix. Each element is summed by one fused multiply-add per row, in order, from zero. It
// panics if x is too short, as for an index out of range.
func Gather(dst []float64, index []int, value, x []float64, stride int) {
	if len(index) == 0 || len(dst) == 0 {
		clear(dst)
		return
	}
	last := (len(x) - len(dst)) / stride
	for _, i := range index {
		if i < 0 || i > last || len(x) < len(dst) { // kernels do not check bounds
			panic(fmt.Sprintf("tile: row %d of %d numbers, %d apart, in %d", i, len(dst), stride, len(x)))
		}
	}
	done := gather(dst, index, value[:len(index)], x, stride)
	if done < len(dst) {
		gatherPortable(dst[done:], index, value, x[done:], stride)
	}
}

func gatherPortable(dst []float64, index []int, value, x []float64, stride int) {
	clear(dst)
	for p, i := range index {
		addScaled(dst, value[p], x[i*stride:])
	}
}
