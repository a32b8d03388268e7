package tile

import (
	"math"
	"runtime"

	"golang.org/x/sys/cpu"
)

// portable is the level of the kernels that run on every machine; better ones are above it.
const portable = 0

// emulated reports whether math.FMA is computed in software here, at fifty times the cost.
var emulated = runtime.GOARCH == "amd64" && !cpu.X86.HasFMA

// fma is x y + z, rounded once except where that is emulated. The compiler inlines it, and math.FMA is one instruction.
func fma(x, y, z float64) float64 {
	if runtime.GOARCH == "amd64" && emulated { // elsewhere the compiler removes the branch
		return x*y + z
	}
	return math.FMA(x, y, z)
}

// addScaled adds v times a row to dst. It decides once for all numbers how to multiply.
func addScaled(dst []float64, v float64, row []float64) {
	row = row[:len(dst)]
	if emulated {
		for j, w := range row {
			dst[j] += v * w
		}
		return
	}
	for j, w := range row {
		dst[j] = math.FMA(v, w, dst[j])
	}
}

func rowPortable(k int, x, table, dst []float64) {
	var sum [panel]float64
	for l, v := range x[:k] {
		addScaled(sum[:], v, table[l*panel:])
	}
	copy(dst, sum[:])
}

func updatePortable(k int, a, b, c []float64, stride int, alpha float64) {
	for i := range blockRows {
		var sum [panel]float64
		for l := range k {
			addScaled(sum[:], a[l*panel+i], b[l*panel:])
		}
		for j, v := range sum {
			c[i*stride+j] = math.FMA(alpha, v, c[i*stride+j])
		}
	}
}
