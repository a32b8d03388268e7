package preprocess

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// maxDropped is how much of the dot products of landmarks compress may drop, in root mean square, as a share of their
// mean squared length, with kernels of the width 1 or more. A kernel depends on a row through such products times its
// width. docs/methods.md has the accuracy on real data.
const maxDropped = 0.0125

// compress projects the landmarks onto their leading singular vectors, as few as maxDropped allows, so that rows are
// compared with them in a space of this rank. distance is the median of their squared distances. The landmarks are
// returned unchanged if the rank saves little, or if their mean squared length exceeds distance.
func compress(ctx context.Context, rows []float64, m int, distance, width float64) []float64 {
	n := len(rows) / m
	limit := mapping.MaxRank(n, m)
	if limit == 0 {
		return rows
	}
	z := mat.NewDense(n, m, rows)
	weighed, ok := weigh(z)
	if !ok {
		return rows
	}
	side := tile.Transposed(weighed)
	if m < n {
		side = tile.Rows(weighed) // has the same squares of singular values besides 0
	}
	gram := fail.Must(tile.Gram(ctx, side, side))
	all := mat.Trace(gram)
	if all > float64(n)*distance { // about a half of it, unless outliers moved the mean away from the other rows
		return rows
	}
	order := gram.SymmetricDim()
	largest, err := pencil.Solve(ctx, gram, pencil.Identity(order), pencil.Max, limit)
	if short, ok := errors.AsType[*pencil.RankError](err); ok {
		largest, err = pencil.Solve(ctx, gram, pencil.Identity(order), pencil.Max, short.Max)
	}
	fail.Check(err)
	norm, most := mat.Norm(gram, 2), maxDropped*all/max(1, width)
	dropped, rank := norm*norm, 0 // sum of the squares of the other eigenvalues
	for ; !(dropped <= most*most); rank++ {
		if rank == len(largest.Values) {
			return rows
		}
		dropped -= largest.Values[rank] * largest.Values[rank]
	}
	leading := mat.DenseCopyOf(largest.Vectors.Slice(0, order, 0, rank))
	axes := leading // singular vectors
	if m >= n {
		axes = tile.Multiply(ctx, mat.DenseCopyOf(weighed.T()), leading)
		for k, v := range largest.Values[:rank] {
			column := axes.Slice(0, m, k, k+1).(*mat.Dense)
			column.Scale(1/math.Sqrt(v), column)
		}
	}
	return tile.Multiply(ctx, tile.Multiply(ctx, z, axes), mat.DenseCopyOf(axes.T())).RawMatrix().Data
}

// weigh makes rows above the median size as long as it, so that an outlier does not make all others negligible. It
// reports whether float64 can square all sizes, and the dot products of rows of the median size.
func weigh(z *mat.Dense) (*mat.Dense, bool) {
	n, _ := z.Dims()
	weighed, sizes := mat.DenseCopyOf(z), make([]float64, n)
	for i := range sizes {
		if sizes[i] = mat.Norm(z.RowView(i), 2); !(sizes[i] < 1e150) {
			return nil, false
		}
	}
	median := linalg.Median(slices.Clone(sizes))
	if !(median > 1e-70 && median < 1e70) {
		return nil, false
	}
	for i, size := range sizes {
		if size > median {
			floats.Scale(median/size, weighed.RawRowView(i))
		}
	}
	return weighed, true
}
