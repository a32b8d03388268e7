package graph

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/tile"
)

// WeightForm is X'WX (m x m) of symmetric weights, sparse or dense: the sum of W_ij x_i x_j' over all pairs. It takes
// Stored m + n m^2/2 multiply-adds.
func WeightForm(ctx context.Context, x *mat.Dense, w mat.Matrix) (*mat.SymDense, error) {
	wx, err := product(ctx, w, x)
	if err != nil {
		return nil, err
	}
	return tile.Gram(ctx, tile.Rows(x), wx)
}

// DegreeForm is X'DX of a diagonal D: the sum of d_i x_i x_i'.
func DegreeForm(ctx context.Context, x *mat.Dense, d []float64) (*mat.SymDense, error) {
	n, _ := x.Dims()
	if len(d) != n {
		return nil, fmt.Errorf("degree form: %d degrees for %d rows; give one per row", len(d), n)
	}
	o := tile.Rows(x)
	return tile.Gram(ctx, o, &tile.Operand{K: o.K, M: o.M, Row: func(dst []float64, i int) {
		for j, v := range x.RawRowView(i) {
			dst[j] = d[i] * v
		}
	}})
}

// LaplacianForm is X'LX, L = D - W, of symmetric weights, sparse or dense: half the sum of W_ij (x_i - x_j)(x_i - x_j)'
// over all ordered pairs. It does not depend on the centre of the rows, but rows near the origin lose fewer digits.
func LaplacianForm(ctx context.Context, x *mat.Dense, w mat.Matrix) (*mat.SymDense, error) {
	if s, ok := w.(*Matrix); ok {
		if err := checkShape(w, x); err != nil {
			return nil, err
		}
		rows := x.RawMatrix()
		return tile.Gram(ctx, tile.Rows(x), &tile.Operand{K: rows.Rows, M: rows.Cols, Row: func(dst []float64, i int) {
			var roomIndex [192]int
			var roomValue [192]float64 // on the stack, for up to 191 edges
			index, value := s.appendLaplacian(roomIndex[:0], roomValue[:0], i)
			tile.Gather(dst, index, value, rows.Data, rows.Stride)
		}})
	}
	n, _ := x.Dims()
	degree := make([]atomic.Uint64, n) // bits of numbers: a row may be read twice, concurrently
	room, _ := denseRooms.Get().(*[]float64)
	if room == nil {
		room = new([]float64)
	}
	if len(x.RawMatrix().Data) <= maxPooled/8 {
		defer denseRooms.Put(room)
	}
	lx, err := denseProduct(ctx, w, x, room, func(row []float64, i int) {
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		degree[i].Store(math.Float64bits(sum))
	})
	if err != nil {
		return nil, err
	}
	return tile.Gram(ctx, tile.Rows(x), &tile.Operand{K: lx.K, M: lx.M, Row: func(dst []float64, i int) {
		row, d := lx.At(i), math.Float64frombits(degree[i].Load())
		for c, v := range x.RawRowView(i) {
			dst[c] = d*v - row[c]
		}
	}})
}

// FromDS is the linear pencil of the metric framework: maximise tr((A'NA) (A'PA)^-1), N = X'L_D X of dissimilarities D
// and P = X'L_S X of similarities S, both symmetric n x n, sparse or dense, with diagonals ignored. The nonlinear
// pencil is that of their Laplacians.
func FromDS(ctx context.Context, x *mat.Dense, d, s mat.Matrix) (n, p *mat.SymDense, err error) {
	if n, err = LaplacianForm(ctx, x, d); err != nil {
		return nil, nil, fmt.Errorf("dissimilarities: %w", err)
	}
	if p, err = LaplacianForm(ctx, x, s); err != nil {
		return nil, nil, fmt.Errorf("similarities: %w", err)
	}
	return n, p, nil
}

// ReconstructionForm is X'(I-W)'(I-W)X of the weights of Barycentric.
func ReconstructionForm(ctx context.Context, x *mat.Dense, w *Matrix) (*mat.SymDense, error) {
	wx, err := product(ctx, w, x)
	if err != nil {
		return nil, err
	}
	o := &tile.Operand{K: wx.K, M: wx.M, Row: func(dst []float64, i int) {
		wx.Row(dst, i)
		for c, v := range x.RawRowView(i) {
			dst[c] = v - dst[c]
		}
	}}
	return tile.Gram(ctx, o, o)
}

// product is the rows of w x; a dense w is symmetric. Each row of a sparse w is computed where it is packed, and not
// stored.
func product(ctx context.Context, w mat.Matrix, x *mat.Dense) (*tile.Operand, error) {
	s, ok := w.(*Matrix)
	if !ok {
		return denseProduct(ctx, w, x, new([]float64), func([]float64, int) {})
	}
	if err := checkShape(w, x); err != nil {
		return nil, err
	}
	rows := x.RawMatrix()
	return &tile.Operand{K: rows.Rows, M: rows.Cols, Row: func(dst []float64, i int) {
		index, value := s.Row(i)
		tile.Gather(dst, index, value, rows.Data, rows.Stride)
	}}, nil
}

var denseRooms sync.Pool // of *[]float64, for products of LaplacianForm

// denseProduct is product for a dense w, in the given memory if that is enough. It calls read with each row of w,
// concurrently.
func denseProduct(ctx context.Context, w mat.Matrix, x *mat.Dense, room *[]float64,
	read func(row []float64, i int)) (*tile.Operand, error) {
	if err := checkShape(w, x); err != nil {
		return nil, err
	}
	n, m := x.Dims()
	rowTo := func(dst []float64, i int) {
		for j := range dst {
			dst[j] = w.At(i, j)
		}
	}
	switch w := w.(type) {
	case interface{ RowTo([]float64, int) }:
		rowTo = w.RowTo
	case *mat.SymDense:
		rowTo = tile.Symmetric(w).Row
	}
	*room = slices.Grow((*room)[:0], n*m)[:n*m]
	clear(*room)
	out := mat.NewDense(n, m, *room)
	return tile.Rows(out), tile.Add(ctx, tile.Sum{C: out.RawMatrix().Data, Stride: m, Alpha: 1,
		A: &tile.Operand{K: n, M: n, Row: func(dst []float64, i int) {
			rowTo(dst, i)
			read(dst, i)
		}}, B: tile.Rows(x)})
}

func checkShape(w mat.Matrix, x *mat.Dense) error {
	n, _ := x.Dims()
	if r, c := w.Dims(); r != n || c != n {
		return fmt.Errorf("weights are %d x %d for %d rows; give %d x %d", r, c, n, n, n)
	}
	return nil
}
