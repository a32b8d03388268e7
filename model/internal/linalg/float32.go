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

// DistanceBound bounds squared distances |q|^2 + |r|^2 - 2 q.r from below, with the product in float32, for rows that
// are centred at one point (a large mean would swamp the differences) and scaled so that nothing overflows. The error
// is at most Relative times the sum of the squared norms, plus Absolute.
type DistanceBound struct{ Relative, Absolute float64 }

// NewDistanceBound is the bound for rows of n numbers. With u = 2^-24, a dot product of n terms in float32 is off by at
// most (n + 2) u |q||r| to first order (Higham 2002, eq. 3.5), plus the smallest float32 for each term that underflows;
// n + 16 leaves room. 2^-20 is added since the bounds are compared in float32, and 2^-50 for each term since the
// distance in float64 is rounded too.
func NewDistanceBound(n int) DistanceBound {
	k := float64(n)
	return DistanceBound{Relative: (k+16)*0x1p-24 + 0x1p-20 + k*0x1p-50, Absolute: 2 * (k + 16) * 0x1p-126}
}

// Below is a lower bound of the squared distance of rows with squared norms a and b and this product.
func (d DistanceBound) Below(a, b float64, product float32) float64 {
	return a + b - 2*float64(product) - d.Relative*(a+b) - d.Absolute
}

// Half is what a row with this squared norm adds to the smallest product of a pair at distance 0.
func (d DistanceBound) Half(norm float64) float64 { return norm * (1 - d.Relative) / 2 }

// Lowest is Half of one row of a pair at a squared distance of at most limit: the product is at least the sum of it and
// Half of the other row.
func (d DistanceBound) Lowest(norm, limit float64) float64 {
	return d.Half(norm) - d.Absolute/2 - limit/2
}

// Aligned returns n zeros that start on a cache line.
func Aligned(n int) []float32 { return AlignedIn(new([]float32), n) }

// AlignedIn is n numbers of the buffer that start on a cache line. It replaces a buffer that is too short.
func AlignedIn[T float32 | float64](buffer *[]T, n int) []T {
	const line = 64 // bytes of a cache line
	size := int(unsafe.Sizeof(*new(T)))
	if len(*buffer) < n+line/size {
		*buffer = make([]T, n+line/size)
	}
	skip := (line - int(uintptr(unsafe.Pointer(unsafe.SliceData(*buffer)))%line)) % line / size
	return (*buffer)[skip : skip+n : skip+n]
}
