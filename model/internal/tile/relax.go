package tile

import "fmt"

// RelaxWidth is how many paths Relax shortens side by side.
const RelaxWidth = 32

// Relax shortens paths from RelaxWidth sources to one row of a graph. dst has their lengths, and row i of x has the
// lengths of the paths to row i. Edge p, of length value[p], is to row index[p]. A length in dst becomes that of the
// path through an edge if this is shorter. Relax reports whether a length changed. It panics if x has no row index[p].
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
