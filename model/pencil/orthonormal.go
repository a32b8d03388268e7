package pencil

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Orthonormal is an orthonormal basis (m x rank) of the columns of b (m x r, m >= r): of those whose pivot is above
// cut times the first, or of all for cut = 0; nil if b is zero. Each row is exact relative to its own size, which
// features with very different units need. ctx only limits the goroutines.
func Orthonormal(ctx context.Context, b *mat.Dense, cut float64) *mat.Dense {
	m, r := b.Dims()
	largest := 0.0
	norms := make([]float64, r)
	for i := range m {
		for j, v := range b.RawRowView(i) {
			norms[j] += v * v
		}
	}
	for _, v := range norms {
		largest = max(largest, math.Sqrt(v))
	}
	if r >= gramOrder && evenRows(b) {
		if q := byGram(ctx, b, largest, cut); q != nil {
			return q
		}
	}
	if cut == 0 {
		return reflected(b, -1)
	}
	return reflected(b, cut*largest)
}

// reflected is Orthonormal by reflections, with pivots above least. Rows are in descending size and columns pivoted
// (Cox and Higham 1998).
func reflected(b *mat.Dense, least float64) *mat.Dense {
	m, r := b.Dims()
	size := make([]float64, m)
	order := linalg.Range(m)
	for i := range m {
		for _, v := range b.RawRowView(i) {
			size[i] = max(size[i], math.Abs(v))
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(size[j], size[i]) })
	q := mat.NewDense(m, r, nil)
	for i, at := range order {
		q.SetRow(i, b.RawRowView(at))
	}
	pivot := make([]int, r)
	for j := range pivot {
		pivot[j] = -1 // free
	}
	tau := make([]float64, r)
	work := make([]float64, 1)
	lapack64.Geqp3(q.RawMatrix(), pivot, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Geqp3(q.RawMatrix(), pivot, tau, work, len(work))
	rank := r
	for rank > 0 && math.Abs(q.At(rank-1, rank-1)) <= least {
		rank--
	}
	if rank == 0 {
		return nil
	}
	lapack64.Orgqr(q.RawMatrix(), tau, work, len(work))
	out := mat.NewDense(m, rank, nil)
	for i, at := range order {
		out.SetRow(at, q.RawRowView(i)[:rank])
	}
	return out
}

// gramOrder is the number of columns from which products are faster.
const gramOrder = 256

// evenRows reports whether no row is much smaller than another, except rows of zeros.
func evenRows(b *mat.Dense) bool {
	m, _ := b.Dims()
	low, high := math.Inf(1), 0.0
	for i := range m {
		size := 0.0
		for _, v := range b.RawRowView(i) {
			size = max(size, math.Abs(v))
		}
		if size > 0 {
			low = min(low, size)
		}
		high = max(high, size)
	}
	return high <= 1e3*low && high > 0 // false for NaN
}

// byGram is Orthonormal by products of columns: the factor of those that are well separated gives a basis of their
// span, computed twice (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015); reflections give what the others add. Well
// separated are squares of pivots down to half of the digits of the first: the second factor makes vectors of these
// orthonormal. It returns nil if that is not accurate.
func byGram(ctx context.Context, b *mat.Dense, largest, cut float64) *mat.Dense {
	m, r := b.Dims()
	g := fail.Must(tile.Gram(ctx, tile.Rows(b), tile.Rows(b)))
	pivot, k := pivoted(ctx, g, math.Sqrt(eps)*largest*largest)
	if k == 0 || k < r && cut == 0 {
		return nil
	}
	u := &triangle{n: k, u: make([]float64, k*k)}
	for i := range k {
		copy(u.u[i*k:(i+1)*k], g.RawSymmetric().Data[i*r:])
	}
	across := mat.NewDense(r, m, nil)
	for i := range m {
		row := b.RawRowView(i)
		for j, at := range pivot {
			across.Set(j, i, row[at])
		}
	}
	q := rowsView(across, 0, k)
	u.solveTransposed(ctx, q)
	again := cholesky(ctx, productsOfRows(ctx, q))
	if again == nil {
		return nil
	}
	again.solveTransposed(ctx, q)
	var rest *mat.Dense
	if k < r {
		rest = beyond(ctx, q, rowsView(across, k, r), cut*largest)
	}
	out, extra := mat.NewDense(m, k, nil), 0
	if rest != nil {
		_, extra = rest.Dims()
		out = mat.NewDense(m, k+extra, nil)
		out.Slice(0, m, k, k+extra).(*mat.Dense).Copy(rest)
	}
	out.Slice(0, m, 0, k).(*mat.Dense).Copy(q.T())
	return out
}

// beyond is a basis, as columns, of the parts of rows outside the span of the orthonormal rows q, with pivots above
// least; nil if there are none.
func beyond(ctx context.Context, q, rows *mat.Dense, least float64) *mat.Dense {
	k, m := q.Dims()
	s, _ := rows.Dims()
	for range 2 { // the second time removes rounding errors
		along := mat.NewDense(s, k, nil)
		fail.Check(tile.Add(ctx, tile.Sum{C: along.RawMatrix().Data, Stride: k, Alpha: 1, A: tile.Transposed(rows),
			B: tile.Transposed(q)}))
		fail.Check(tile.Add(ctx, tile.Sum{C: rows.RawMatrix().Data, Stride: m, Alpha: -1, A: tile.Transposed(along),
			B: tile.Rows(q)}))
	}
	var left []int
	for i := range s {
		if blas64.Nrm2(blas64.Vector{N: m, Data: rows.RawRowView(i), Inc: 1}) > least {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return nil
	}
	columns := mat.NewDense(m, len(left), nil)
	for j, i := range left {
		columns.SetCol(j, rows.RawRowView(i))
	}
	return reflected(columns, least)
}
