package graph

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// Matrix is a sparse matrix in compressed rows: weights, Laplacians, sums of patches. It is immutable. It is a gonum
// matrix, and an operator that an eigensolver can apply to a block of vectors.
type Matrix struct {
	rows, cols int
	start      []int // of row i; rows+1 of them
	index      []int // columns, ascending in a row
	value      []float64
}

// Dims, At and T make it a mat.Matrix.
func (a *Matrix) Dims() (rows, cols int) { return a.rows, a.cols }

// At is the entry (i, j), 0 if it is not stored. It searches in the row.
func (a *Matrix) At(i, j int) float64 {
	index, value := a.Row(i)
	if p, ok := slices.BinarySearch(index, j); ok {
		return value[p]
	}
	return 0
}

// T is the transpose, a view.
func (a *Matrix) T() mat.Matrix { return mat.Transpose{Matrix: a} }

// Order is the number of rows.
func (a *Matrix) Order() int { return a.rows }

// Stored is the number of stored entries, including zeros.
func (a *Matrix) Stored() int { return len(a.index) }

// Row is the columns and values of row i, columns ascending. The slices are shared; do not change them.
func (a *Matrix) Row(i int) (index []int, value []float64) {
	from, to := a.start[i], a.start[i+1]
	return a.index[from:to:to], a.value[from:to:to]
}

// Apply sets dst to the product of the matrix and x, cols x b; dst is rows x b and not x itself. Like a gonum product
// it panics if the shapes do not match. It takes Stored b multiply-adds, on as many cores as ctx allows; the end of
// ctx does not stop it.
func (a *Matrix) Apply(ctx context.Context, dst, x *mat.Dense) {
	r := x.RawMatrix()
	workers := parallel.WorkersFor(ctx, float64(len(a.index)*r.Cols))
	pool := parallel.NewPool(func(p *parallel.Pool) {
		for from, to, ok := p.Next(); ok; from, to, ok = p.Next() {
			for i := from; i < to; i++ {
				index, value := a.Row(i)
				tile.Gather(dst.RawRowView(i), index, value, r.Data, r.Stride)
			}
		}
	})
	if err := pool.Run(context.WithoutCancel(ctx), workers, a.rows, max(1, a.rows/(8*workers))); err != nil {
		panic(err)
	}
}

// Scale is diag(s) A diag(s).
func (a *Matrix) Scale(s []float64) *Matrix {
	out := *a
	out.value = slices.Clone(a.value)
	for i := range a.rows {
		for p := a.start[i]; p < a.start[i+1]; p++ {
			out.value[p] *= s[i] * s[a.index[p]]
		}
	}
	return &out
}

// Degrees are the sums of the rows, including self loops: the diagonal of D.
func (a *Matrix) Degrees() []float64 {
	d := make([]float64, a.rows)
	for i := range d {
		_, value := a.Row(i)
		for _, v := range value {
			d[i] += v
		}
	}
	return d
}

// Laplacian is L = D - W of symmetric weights. Self loops cancel.
func (a *Matrix) Laplacian() *Matrix {
	most := len(a.index) + a.rows
	out := &Matrix{rows: a.rows, cols: a.cols, start: make([]int, a.rows+1), index: make([]int, 0, most),
		value: make([]float64, 0, most)}
	for i := range a.rows {
		out.index, out.value = a.appendLaplacian(out.index, out.value, i)
		out.start[i+1] = len(out.index)
	}
	return out
}

// appendLaplacian appends row i of the Laplacian.
func (a *Matrix) appendLaplacian(toIndex []int, toValue []float64, i int) ([]int, []float64) {
	index, value := a.Row(i)
	sum, diagonal := 0.0, -1
	for p, j := range index {
		if j >= i && diagonal < 0 {
			diagonal = len(toIndex)
			toIndex, toValue = append(toIndex, i), append(toValue, 0)
		}
		if j != i {
			sum += value[p]
			toIndex, toValue = append(toIndex, j), append(toValue, 0-value[p]) // not minus zero
		}
	}
	if diagonal < 0 {
		diagonal = len(toIndex)
		toIndex, toValue = append(toIndex, i), append(toValue, 0)
	}
	toValue[diagonal] = sum
	return toIndex, toValue
}

// transposed returns the transpose; a does not change.
func (a *Matrix) transposed() *Matrix {
	out := &Matrix{}
	a.transposeTo(out)
	return out
}

// transposeTo sets out to the transpose, in its memory if that is enough.
func (a *Matrix) transposeTo(out *Matrix) {
	out.rows, out.cols = a.cols, a.rows
	out.resize(len(a.index))
	clear(out.start)
	for _, j := range a.index {
		out.start[j+1]++
	}
	for j := range a.cols {
		out.start[j+1] += out.start[j]
	}
	// start[j] is where the next entry of row j goes, and at last where row j+1 begins.
	for i := range a.rows { // ascending, so that columns of the result ascend
		for p := a.start[i]; p < a.start[i+1]; p++ {
			at := &out.start[a.index[p]]
			out.index[*at], out.value[*at] = i, a.value[p]
			*at++
		}
	}
	copy(out.start[1:], out.start)
	out.start[0] = 0
}

// resize makes room for entries, with undefined values.
func (a *Matrix) resize(entries int) {
	a.start = slices.Grow(a.start[:0], a.rows+1)[:a.rows+1]
	a.index, a.value = slices.Grow(a.index[:0], entries)[:entries], slices.Grow(a.value[:0], entries)[:entries]
}

// entry is one term of a sparse sum.
type entry struct {
	i, j int32
	v    float64
}

// assemble sums entries into a symmetric matrix of order n: each is both (i, j) and (j, i). Terms of one entry are
// summed in the given order.
func assemble(n int, entries []entry) *Matrix {
	a := &Matrix{rows: n, cols: n, start: make([]int, n+1)}
	for _, e := range entries {
		a.start[e.i+1]++
		if e.i != e.j {
			a.start[e.j+1]++
		}
	}
	for i := range n {
		a.start[i+1] += a.start[i]
	}
	index, value := make([]int, a.start[n]), make([]float64, a.start[n])
	next := slices.Clone(a.start)
	put := func(i, j int32, v float64) {
		index[next[i]], value[next[i]] = int(j), v
		next[i]++
	}
	for _, e := range entries {
		put(e.i, e.j, e.v)
		if e.i != e.j {
			put(e.j, e.i, e.v)
		}
	}
	// Sum the row densely; its touched columns, sorted, are its entries.
	sum, seen := make([]float64, n), make([]bool, n)
	kept := 0
	for i := range n {
		from, to := a.start[i], a.start[i+1]
		a.start[i] = kept
		var touched []int
		for p := from; p < to; p++ {
			j := index[p]
			if !seen[j] {
				seen[j] = true
				touched = append(touched, j)
			}
			sum[j] += value[p]
		}
		slices.Sort(touched)
		for _, j := range touched { // at most as many as were read
			index[kept], value[kept] = j, sum[j]
			sum[j], seen[j] = 0, false
			kept++
		}
	}
	a.start[n] = kept
	a.index, a.value = index[:kept:kept], value[:kept:kept]
	return a
}

// FromDense keeps the entries of a square matrix whose magnitude is above cut. It must be symmetric: only the upper
// triangle is read.
func FromDense(w mat.Matrix, cut float64) (*Matrix, error) {
	n, c := w.Dims()
	if n != c {
		return nil, fmt.Errorf("weights are %d x %d; give a square matrix", n, c)
	}
	var entries []entry
	for i := range n {
		for j := i; j < n; j++ {
			if v := w.At(i, j); v > cut || v < -cut {
				entries = append(entries, entry{int32(i), int32(j), v})
			}
		}
	}
	return assemble(n, entries), nil
}
