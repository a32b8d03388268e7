package model

import "github.com/embedd/embedd/model/internal/linalg"

// fixedOrder computes products of centred rows, each summed in a fixed order, so that their bits are the same with
// every instruction set. What a model stores comes from them, because its digest must not depend on where it was made:
// the rotation of an aligned model, and the window of a map of views, whose rows must have distance 0 when they are
// projected again.
//
// A dot product runs over tables with fixed length and alignment, because the order in which gonum's Sdot sums depends
// on the alignment of its second argument, and that of Sgemm on the size of the batch.
type fixedOrder struct {
	width, stride int
	w             []float32 // width x stride, aligned
	offset        []float32 // width
}

// fixOrder makes the tables of a projection that sums its products in a fixed order.
func (k *projection) fixOrder() {
	s := &fixedOrder{width: k.width, stride: linalg.Pad(k.m), offset: make([]float32, k.width)}
	s.w = linalg.Aligned(s.width * s.stride)
	for c := range s.width {
		s.offset[c] = float32(k.offset[c])
		for j, v := range k.w64[c*k.m : (c+1)*k.m] {
			s.w[c*s.stride+j] = float32(v)
		}
	}
	k.fixedOrder, k.centred = s, true
}

// multiply writes the products of n rows of z to y and reports whether all of them are finite.
func (s *fixedOrder) multiply(y, z []float32, n int) (finite bool) {
	for c := range s.width {
		w := s.w[c*s.stride : (c+1)*s.stride]
		for r := range n {
			row := z[r*s.stride : (r+1)*s.stride]
			y[r*s.width+c] = linalg.BLAS.Sdot(s.stride, row, 1, w, 1) + s.offset[c]
		}
	}
	return allFinite(y[:n*s.width])
}
