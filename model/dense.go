package model

import "gonum.org/v1/gonum/mat"

// FromDense is the view of a matrix of gonum whose rows are rows, without a copy.
func FromDense(x *mat.Dense) Rows {
	raw := x.RawMatrix()
	return Rows{N: raw.Rows, Blocks: []Block{{F64: raw.Data, Cols: raw.Cols, RowStride: raw.Stride, ColStride: 1}}}
}

// ToDense copies the outputs of Project, of dim numbers each, into a matrix of gonum. Without outputs it is empty. It
// panics if y does not consist of rows of dim numbers.
func ToDense(y []float32, dim int) *mat.Dense {
	if len(y) == 0 {
		return &mat.Dense{}
	}
	wide := make([]float64, len(y))
	for i, v := range y {
		wide[i] = float64(v)
	}
	return mat.NewDense(len(y)/dim, dim, wide)
}
