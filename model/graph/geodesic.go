package graph

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Geodesics are the lengths of the shortest paths between all rows of a graph whose weights are lengths (see Length),
// n x n. A graph of several components is a *DisconnectedError; connect its lists first.
func Geodesics(ctx context.Context, lengths *Matrix) (*mat.SymDense, error) {
	return GeodesicsIn(ctx, lengths, make([]float64, lengths.rows*lengths.rows))
}

// GeodesicsIn is Geodesics in the given memory, n x n numbers. It leaves the lower triangle as it is.
func GeodesicsIn(ctx context.Context, lengths *Matrix, room []float64) (*mat.SymDense, error) {
	n := lengths.rows
	if n != lengths.cols {
		return nil, fmt.Errorf("geodesics: %d x %d lengths; give a square matrix", n, lengths.cols)
	}
	for i := range n {
		index, value := lengths.Row(i)
		for p, v := range value {
			if !(v >= 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("geodesics: edge (%d, %d) has length %g; lengths are finite and not negative", i,
					index[p], v)
			}
		}
	}
	if part := joined(n, lengths.Row); parts(part) > 1 {
		return nil, disconnected(part)
	}
	out := mat.NewSymDense(n, room)
	raw := out.RawSymmetric()
	// The sum along a path depends on the end it starts at. The row of the lower end counts, so that the result is
	// symmetric.
	to := make([]int32, len(lengths.index))
	for p, j := range lengths.index {
		to[p] = int32(j)
	}
	return out, parallel.NewPool(func(p *parallel.Pool) {
		s, dist := linalg.NewPaths(lengths.start, to, lengths.value), make([]float64, n)
		for i, _, ok := p.Next(); ok; i, _, ok = p.Next() {
			s.From(dist, []int{i}, []float64{0})
			copy(raw.Data[i*raw.Stride+i:i*raw.Stride+n], dist[i:])
		}
	}).Run(ctx, parallel.Workers(ctx), n, 1)
}
