package score

import (
	"cmp"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// linearRidge is added to the variance of each column, as a share of it.
const linearRidge = 1e-3

// Linear is the class of each query row according to a least-squares classifier: the largest of linear functions, one
// per class, fitted to 1 for reference rows of the class and 0 for others; ties to the lower class. Rows are row-major
// with dim numbers, all finite; refY are classes below the given number.
func Linear(ref []float64, refY []int, query []float64, dim, classes int) ([]int, error) {
	n := len(refY)
	if dim < 1 || n < 1 || len(ref) != n*dim || len(query)%dim != 0 {
		return nil, fmt.Errorf("linear classifier: %d references of %d numbers and queries of %d numbers are not rows of %d",
			n, len(ref), len(query), dim)
	}
	for i, y := range refY {
		if y < 0 || y >= classes {
			return nil, fmt.Errorf("linear classifier: reference %d has class %d of %d", i, y, classes)
		}
	}
	queries := len(query) / dim
	if queries == 0 {
		return nil, nil
	}
	x, q := mat.NewDense(n, dim, nil), mat.NewDense(queries, dim, nil)
	x.Copy(mat.NewDense(n, dim, ref))
	q.Copy(mat.NewDense(queries, dim, query))
	for c := range dim {
		mean := mat.Sum(x.ColView(c)) / float64(n)
		for i := range n {
			x.Set(i, c, x.At(i, c)-mean)
		}
		size := cmp.Or(mat.Norm(x.ColView(c), 2), 1) // a column that does not vary has no weight
		for i := range n {                           // columns with very different units would make the products singular
			x.Set(i, c, x.At(i, c)/size)
		}
		for i := range queries {
			q.Set(i, c, (q.At(i, c)-mean)/size)
		}
	}
	want, share := mat.NewDense(n, classes, nil), make([]float64, classes)
	for i, y := range refY {
		want.Set(i, y, 1)
		share[y] += 1 / float64(n)
	}
	products := mat.NewSymDense(dim, nil)
	products.SymOuterK(1, x.T())
	for c := range dim {
		products.SetSym(c, c, products.At(c, c)+linearRidge)
	}
	var factor mat.Cholesky
	if !factor.Factorize(products) {
		return nil, fmt.Errorf("linear classifier: the products of %d columns are not positive definite", dim)
	}
	var moments, w, y mat.Dense
	moments.Mul(x.T(), want)
	if err := factor.SolveTo(&w, &moments); err != nil {
		return nil, fmt.Errorf("linear classifier: %w", err)
	}
	y.Mul(q, &w)
	class := make([]int, queries)
	for i := range class {
		row := y.RawRowView(i)
		floats.Add(row, share)
		class[i] = floats.MaxIdx(row)
	}
	return class, nil
}
