package graph

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Barycentric is the weights, of sum 1, that best reconstruct each query row from its neighbours among the rows of ref
// (Roweis and Saul 2000): a sparse query x ref matrix. The Gram matrix G of the differences is regularised to G + reg
// tr(G) I; 1e-3 is usual. A row that equals all its neighbours weights them equally. For weights among the same rows,
// ref and query are the same.
func Barycentric(ctx context.Context, ref, query *mat.Dense, nb *Neighbors, reg float64) (*Matrix, error) {
	refN, m := ref.Dims()
	n, qm := query.Dims()
	switch {
	case qm != m || nb.Len() != n:
		return nil, fmt.Errorf("reconstruction: lists of %d rows, %d queries of %d and references of %d columns",
			nb.Len(), n, qm, m)
	case !(reg >= 0) || math.IsInf(reg, 0):
		return nil, fmt.Errorf("reconstruction: regulariser %g is not a finite number >= 0", reg)
	}
	for i := range n {
		if index, _ := nb.Row(i); len(index) == 0 {
			return nil, fmt.Errorf("reconstruction: row %d has no neighbours; give at least 2 rows", i)
		}
	}
	a := &Matrix{rows: n, cols: refN, start: nb.start, index: nb.index, value: make([]float64, len(nb.index))}
	failed := make([]bool, n)
	err := parallel.Each(ctx, n, func(i int) {
		index, _ := nb.Row(i)
		failed[i] = !barycenter(a.value[a.start[i]:a.start[i+1]], ref, query.RawRowView(i), index, reg)
	})
	if err != nil {
		return nil, err
	}
	if i := slices.Index(failed, true); i >= 0 {
		index, _ := nb.Row(i)
		return nil, fmt.Errorf("reconstruction: the differences of row %d to its %d neighbours are dependent; "+
			"give a regulariser above %g", i, len(index), reg)
	}
	return a.transposed().transposed(), nil // columns ascend
}

func barycenter(w []float64, ref *mat.Dense, x []float64, index []int, reg float64) bool {
	k := len(index)
	z := mat.NewDense(k, len(x), nil)
	for p, j := range index {
		row := z.RawRowView(p)
		for c, v := range ref.RawRowView(j) {
			row[c] = v - x[c]
		}
	}
	g := outer(z)
	trace := mat.Trace(g)
	if trace == 0 {
		for p := range w {
			w[p] = 1 / float64(k)
		}
		return true
	}
	ones := mat.NewVecDense(k, nil)
	for p := range k {
		for q := p; q < k; q++ {
			g.SetSym(p, q, g.At(p, q)/trace)
		}
		g.SetSym(p, p, g.At(p, p)+reg)
		ones.SetVec(p, 1)
	}
	var c mat.Cholesky
	if !c.Factorize(g) {
		return false
	}
	v := mat.NewVecDense(k, w)
	if err := c.SolveVecTo(v, ones); err != nil {
		return false
	}
	sum := mat.Sum(v)
	if !(sum > 0) || math.IsInf(sum, 0) {
		return false
	}
	v.ScaleVec(1/sum, v)
	return true
}

// outer is z z'.
func outer(z *mat.Dense) *mat.SymDense {
	k, m := z.Dims()
	g := mat.NewSymDense(k, nil)
	for p := range k {
		for q := p; q < k; q++ {
			g.SetSym(p, q, linalg.BLAS.Ddot(m, z.RawRowView(p), 1, z.RawRowView(q), 1))
		}
	}
	return g
}

// Tangent is the principal component analysis of a patch of k rows: the thin decomposition Basis diag(Singular)
// Coordinates' of the centred rows, in columns, cut to its dimension. The matrices are empty if Dim is 0, as for equal
// rows.
type Tangent struct {
	Rows        []int // of the patch, not copied
	Mean        []float64
	Singular    []float64  // descending, all above the numeric rank cut
	Basis       *mat.Dense // m x Dim, orthonormal columns: the tangent space
	Coordinates *mat.Dense // k x Dim, orthonormal columns that sum to 0
}

// Dim is the number of columns of Basis; 0 if all rows are equal.
func (t *Tangent) Dim() int { return len(t.Singular) }

// Dimension chooses how many of the variances, descending and positive, span the tangent space.
type Dimension func(variance []float64) int

// FixedDim takes d directions, or as many as the rows have.
func FixedDim(d int) Dimension {
	return func(variance []float64) int { return min(d, len(variance)) }
}

// EnergyDim takes the fewest directions that have this share of the variance, at least one.
func EnergyDim(share float64) Dimension {
	return func(variance []float64) int {
		total, sum := 0.0, 0.0
		for _, v := range variance {
			total += v
		}
		for i, v := range variance {
			if sum += v; sum >= share*total {
				return i + 1
			}
		}
		return len(variance)
	}
}

// Tangents are the tangent spaces of patches of rows. Directions below the numerical rank of a patch never count.
func Tangents(ctx context.Context, x *mat.Dense, patches [][]int, dim Dimension) ([]*Tangent, error) {
	return tangents(ctx, x, patches, dim, true)
}

// TangentCoordinates are Tangents with an empty Basis, at a third of the cost: enough for alignment.
func TangentCoordinates(ctx context.Context, x *mat.Dense, patches [][]int, dim Dimension) ([]*Tangent, error) {
	return tangents(ctx, x, patches, dim, false)
}

func tangents(ctx context.Context, x *mat.Dense, patches [][]int, dim Dimension, basis bool) ([]*Tangent, error) {
	n, m := x.Dims()
	out := make([]*Tangent, len(patches))
	for i, rows := range patches {
		for _, j := range rows {
			if j < 0 || j >= n {
				return nil, fmt.Errorf("tangents: patch %d holds row %d of %d", i, j, n)
			}
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("tangents: patch %d has no rows", i)
		}
	}
	err := parallel.Each(ctx, len(patches), func(i int) { out[i] = tangent(x, m, patches[i], dim, basis) })
	if err != nil {
		return nil, err
	}
	if i := slices.Index(out, nil); i >= 0 {
		return nil, fmt.Errorf("tangents: the decomposition of patch %d did not converge, or its rows are not finite", i)
	}
	return out, nil
}

// tangent decomposes the smaller of the two Gram matrices of the centred rows; nil if that fails.
func tangent(x *mat.Dense, m int, rows []int, dim Dimension, basis bool) *Tangent {
	k := len(rows)
	t := &Tangent{Rows: rows, Mean: make([]float64, m), Basis: new(mat.Dense), Coordinates: new(mat.Dense)}
	for _, i := range rows {
		floats.Add(t.Mean, x.RawRowView(i))
	}
	for c := range t.Mean {
		t.Mean[c] /= float64(k)
	}
	y, largest, offset := mat.NewDense(k, m, nil), 0.0, 0.0
	for p, i := range rows {
		row := y.RawRowView(p)
		for c, v := range x.RawRowView(i) {
			row[c] = v - t.Mean[c]
			largest, offset = max(largest, math.Abs(row[c])), max(offset, math.Abs(v))
		}
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return nil
	}
	// The rounding error of the mean of equal rows is not a direction.
	if largest <= 2*float64(k)*0x1p-52*offset {
		return t
	}
	scale := 1.0 // keeps squares in range
	if largest < 0x1p-200 || largest > 0x1p200 {
		scale = largest
		y.Scale(1/scale, y)
	}
	var g *mat.SymDense
	if k <= m {
		g = outer(y)
	} else {
		g = outer(mat.DenseCopyOf(y.T()))
	}
	var eig mat.EigenSym
	if !eig.Factorize(g, true) {
		return nil
	}
	up := eig.Values(nil)
	order := len(up)
	var variance []float64
	for i := order - 1; i >= 0 && up[i] > 4*float64(max(k, m))*0x1p-52*up[order-1]; i-- {
		variance = append(variance, up[i])
	}
	d := min(dim(variance), len(variance))
	if d < 1 {
		return t
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	v := mat.NewDense(order, d, nil)
	for i := range order {
		for c := range d {
			v.Set(i, c, vectors.At(i, order-1-c))
		}
	}
	// The other side follows by a product, which is not quite orthonormal for small directions.
	if k <= m {
		t.Coordinates = v
	} else {
		t.Coordinates.Mul(y, v)
	}
	orthonormal(t.Coordinates, true)
	if basis {
		if t.Basis = v; k <= m {
			t.Basis = new(mat.Dense)
			t.Basis.Mul(y.T(), v)
		}
		orthonormal(t.Basis, false)
	}
	for c := range d {
		t.Singular = append(t.Singular, math.Sqrt(variance[c])*scale)
	}
	return t
}

// orthonormal makes the columns of a orthonormal in their order, after removing their means if centre is set. Twice is
// enough (Kahan and Parlett).
func orthonormal(a *mat.Dense, centre bool) {
	n, d := a.Dims()
	column := make([][]float64, d)
	for c := range d {
		column[c] = mat.Col(nil, c, a)
		for range 2 {
			if centre {
				mean := 0.0
				for _, v := range column[c] {
					mean += v / float64(n)
				}
				for i := range column[c] {
					column[c][i] -= mean
				}
			}
			for e := range c {
				linalg.BLAS.Daxpy(n, -linalg.BLAS.Ddot(n, column[e], 1, column[c], 1), column[e], 1, column[c], 1)
			}
			linalg.BLAS.Dscal(n, 1/linalg.BLAS.Dnrm2(n, column[c], 1), column[c], 1)
		}
		a.SetCol(c, column[c])
	}
}
