package linalg

import (
	"unsafe"

	"gonum.org/v1/gonum/blas/gonum"
)

// BLAS is a fixed implementation instead of the one in the blas32 registry: what a host registers there must not
// change a row's bits.
var BLAS gonum.Implementation

// Lane is the padding of a float32 row, so that gonum's dot product has no remainder.
const Lane = 16

// Pad is the length of a row of n numbers, padded to whole lanes.
func Pad(n int) int { return (n + Lane - 1) / Lane * Lane }

// DistanceBound is a lower bound of squared distances by |q|^2 + |r|^2 - 2 q.r with the product in float32, for rows
// that are centred at one point (a large mean would swamp the differences) and scaled to at most 1 (nothing overflows).
type DistanceBound struct {
	relative, absolute float64 // bounds of the error of a product
}

// NewDistanceBound is the bound for rows of stride padded numbers. The error of a dot product of n terms rounded to
// float32 is at most (n + 2) u |q||r| to first order (Higham 2002, eq. 3.5), u = 2^-24, plus the smallest float32 for
// each term that underflows.
func NewDistanceBound(stride int) DistanceBound {
	return DistanceBound{relative: float64(stride+8) * 0x1p-24, absolute: float64(stride+8) * 0x1p-126}
}

// Below is a lower bound of the squared distance of two rows with Euclidean norms a and b and this product.
func (d DistanceBound) Below(a, b float64, product float32) float64 {
	// 1e-12 covers the errors of the norms, of the difference from the mean, and of this line.
	off := 2*(d.relative*a*b+d.absolute) + 1e-12*(a+b)*(a+b)
	return (a-b)*(a-b) + 2*(a*b-float64(product)) - off
}

// Aligned returns n zeros that start on a cache line.
func Aligned(n int) []float32 {
	const line = 64
	buf := make([]float32, n+line/4)
	skip := (line - int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))%line)) % line / 4
	return buf[skip : skip+n : skip+n]
}
