package tile

import (
	"context"

	"gonum.org/v1/gonum/mat"
)

// Symmetric is the operand of a symmetric matrix given by its upper triangle.
func Symmetric(s *mat.SymDense) *Operand {
	r := s.RawSymmetric()
	return &Operand{K: r.N, M: r.N, Row: func(dst []float64, k int) {
		for i := range k {
			dst[i] = r.Data[i*r.Stride+k]
		}
		copy(dst[k:], r.Data[k*r.Stride+k:k*r.Stride+r.N])
	}}
}

// Multiply is A B, on as many cores as ctx allows.
func Multiply(ctx context.Context, a, b *mat.Dense) *mat.Dense {
	x, y := a.RawMatrix(), b.RawMatrix()
	out := mat.NewDense(x.Rows, y.Cols, nil)
	if err := Add(ctx, Sum{C: out.RawMatrix().Data, Stride: y.Cols, Alpha: 1,
		A: Columns(x.Data, x.Cols, x.Rows, x.Stride), B: Dense(y.Data, y.Rows, y.Cols, y.Stride)}); err != nil {
		panic(err) // can only be a bug here
	}
	return out
}

// Times is S A, on as many cores as ctx allows.
func Times(ctx context.Context, s *mat.SymDense, a *mat.Dense) *mat.Dense {
	r := a.RawMatrix()
	out := mat.NewDense(r.Rows, r.Cols, nil)
	if err := Add(ctx, Sum{C: out.RawMatrix().Data, Stride: r.Cols, Alpha: 1, A: Symmetric(s),
		B: Dense(r.Data, r.Rows, r.Cols, r.Stride)}); err != nil {
		panic(err) // like a gonum product with mismatched shapes
	}
	return out
}
