package method_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// kernelMatrix is the matrix of a kernel of rows: gauss exp(-d^2/w) for the median w of the squared distances,
// polynomial (x'y/m + 1)^2, cosine, 0 for a row of zeros, or x'y.
func kernelMatrix(x *mat.Dense, name string) *mat.SymDense {
	n, m := x.Dims()
	var squared []float64
	for i := range n {
		for j := range i {
			squared = append(squared, distance2(x, i, j))
		}
	}
	slices.Sort(squared)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			a, b := x.RowView(i), x.RowView(j)
			v := mat.Dot(a, b)
			switch name {
			case "gauss":
				v = math.Exp(-distance2(x, i, j) / median(squared))
			case "polynomial":
				v = (v/float64(m) + 1) * (v/float64(m) + 1)
			case "cosine":
				if v != 0 {
					v /= mat.Norm(a, 2) * mat.Norm(b, 2)
				}
			}
			k.SetSym(i, j, v)
		}
	}
	return k
}

// median is that of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// eigen are the eigenvalues of a matrix, ascending, and its eigenvectors.
func eigen(t testing.TB, s *mat.SymDense) (values []float64, vectors *mat.Dense) {
	t.Helper()
	var e mat.EigenSym
	if !e.Factorize(s, true) {
		t.Fatal("no eigenvalues")
	}
	vectors = &mat.Dense{}
	e.VectorsTo(vectors)
	return e.Values(nil), vectors
}
