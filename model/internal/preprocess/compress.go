package preprocess

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// maxDropped is how much of the dot products of landmarks compress may drop, in root mean square, as a share of their
// mean squared length, with kernels of the width 1 or more. A kernel depends on a row through such products times its
// width. docs/methods.md has the accuracy on real data.
const maxDropped = 0.0125

// compress projects the landmarks onto their leading singular vectors, as few as maxDropped allows, so that rows are
// compared with them in a space of this rank. distance is the median of their squared distances. The landmarks are
// returned unchanged if the rank saves little, or if their mean squared length exceeds distance.
func compress(rows []float64, m int, distance, width float64) []float64 {
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
	var gram mat.SymDense
	side := mat.Matrix(weighed)
	if m < n {
		side = weighed.T() // has the same squares of singular values besides 0
	}
	gram.SymOuterK(1, side)
	var eig mat.EigenSym
	if !eig.Factorize(&gram, true) {
		panic(fail.With(fmt.Errorf("the dot products of %d landmarks have no eigenvectors", n)))
	}
	values, all := eig.Values(nil), 0.0
	for _, v := range values {
		all += v
	}
	if all > float64(n)*distance { // about a half of it, unless outliers moved the mean away from the other rows
		return rows
	}
	dropped, sum, most := 0, 0.0, maxDropped*all/max(1, width)
	for _, v := range values[:len(values)-1] {
		if sum += v * v; !(sum <= most*most) {
			break
		}
		dropped++
	}
	if len(values)-dropped > limit {
		return rows
	}
	var u, axes, at, out mat.Dense // axes are singular vectors
	eig.VectorsTo(&u)
	leading := u.Slice(0, len(values), dropped, len(values))
	if m < n {
		axes.CloneFrom(leading.T())
	} else {
		axes.Mul(leading.T(), weighed)
		for k, v := range values[dropped:] {
			floats.Scale(1/math.Sqrt(v), axes.RawRowView(k))
		}
	}
	at.Mul(z, axes.T())
	out.Mul(&at, &axes)
	return out.RawMatrix().Data
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
	median := linalg.Median(slices.Sorted(slices.Values(sizes)))
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
