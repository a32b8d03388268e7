package tile

import "fmt"

// RelaxWidth is how many paths Relax shortens side by side.
const RelaxWidth = 32

// Relax lowers each number of dst to value[p] plus that of row index[p] of x, for every p, and reports whether one
// changed: dst has the lengths of paths from RelaxWidth rows to one row of a graph, and x those to all rows. It panics
// if x is too short, as for an index out of range.
func Relax(dst []float64, index []int, value, x []float64) bool {
	if len(index) == 0 {
		return false
	}
	dst, value = dst[:RelaxWidth], value[:len(index)]
	for _, i := range index {
		if i < 0 || i >= len(x)/RelaxWidth { // kernels do not check bounds
			panic(fmt.Sprintf("tile: row %d of %d", i, len(x)/RelaxWidth))
		}
	}
	return relax(dst, index, value, x)
}

func relaxPortable(dst []float64, index []int, value, x []float64) (changed bool) {
	for p, i := range index {
		edge := value[p]
		for c, v := range x[i*RelaxWidth:][:RelaxWidth] {
			if v += edge; v < dst[c] {
				dst[c], changed = v, true
			}
		}
	}
	return changed
}
