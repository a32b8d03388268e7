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

// Rows is the operand of the rows of a.
func Rows(a *mat.Dense) *Operand {
	r := a.RawMatrix()
	return Dense(r.Data, r.Rows, r.Cols, r.Stride)
}

// Transposed is the operand whose rows are the columns of a.
func Transposed(a *mat.Dense) *Operand {
	r := a.RawMatrix()
	return Columns(r.Data, r.Cols, r.Rows, r.Stride)
}

// Gram is A'B if that is symmetric: its upper triangle is computed.
func Gram(ctx context.Context, a, b *Operand) (*mat.SymDense, error) {
	out := mat.NewSymDense(a.M, nil)
	return out, Add(ctx, Sum{C: out.RawSymmetric().Data, Stride: a.M, Alpha: 1, A: a, B: b, Upper: true})
}

// product is A'B. It panics like a gonum product with mismatched shapes.
func product(ctx context.Context, a, b *Operand) *mat.Dense {
	out := mat.NewDense(a.M, b.M, nil)
	if err := Add(ctx, Sum{C: out.RawMatrix().Data, Stride: b.M, Alpha: 1, A: a, B: b}); err != nil {
		panic(err)
	}
	return out
}

// Multiply is A B, on as many cores as ctx allows.
func Multiply(ctx context.Context, a, b *mat.Dense) *mat.Dense {
	return product(ctx, Transposed(a), Rows(b))
}

// Times is S A, on as many cores as ctx allows.
func Times(ctx context.Context, s *mat.SymDense, a *mat.Dense) *mat.Dense {
	return product(ctx, Symmetric(s), Rows(a))
}
