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

func rowPortable(k int, x, table, dst []float64) {
	var sum [panel]float64
	for l, v := range x[:k] {
		row := table[l*panel:][:panel]
		if emulated {
			for j, w := range row {
				sum[j] += v * w
			}
			continue
		}
		for j, w := range row {
			sum[j] = math.FMA(v, w, sum[j])
		}
	}
	copy(dst, sum[:])
}

func updatePortable(k int, a, b, c []float64, stride int, alpha float64) {
	for i := range blockRows {
		var sum [panel]float64
		for l := range k {
			v, row := a[l*panel+i], b[l*panel:][:panel]
			if emulated {
				for j, w := range row {
					sum[j] += v * w
				}
				continue
			}
			for j, w := range row {
				sum[j] = math.FMA(v, w, sum[j])
			}
		}
		for j, v := range sum {
			c[i*stride+j] = math.FMA(alpha, v, c[i*stride+j])
		}
	}
}
