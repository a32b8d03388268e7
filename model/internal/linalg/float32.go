package linalg

import (
	"unsafe"

	"gonum.org/v1/gonum/blas/gonum"
)

// BLAS is named, not taken from the blas32 registry: what a host registers
// there must not change a row's bits.
var BLAS gonum.Implementation

// Lane is the padding of a row in float32: gonum's dot has no tail then.
const Lane = 16

// Aligned returns n zeros that start on a cache line.
func Aligned(n int) []float32 {
	const line = 64
	buf := make([]float32, n+line/4)
	skip := (line - int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))%line)) % line / 4
	return buf[skip : skip+n : skip+n]
}
