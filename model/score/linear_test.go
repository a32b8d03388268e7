package score

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The classes are those of the normal equations with a column of ones, whatever the mean of the rows and the units
// of columns; a column that does not vary takes no part.
func TestLinear(t *testing.T) {
	const n, queries, dim, classes = 60, 400, 4, 3
	r := rand.New(rand.NewPCG(1, 2))
	ref, query, y := make([]float64, n*dim), make([]float64, queries*dim), make([]int, n)
	for i := range ref {
		y[i/dim] = i / dim % classes
		ref[i] = r.NormFloat64() + float64(y[i/dim]*(i%dim))
	}
	for i := range query {
		query[i] = 3 * r.NormFloat64()
	}
	for i := range n {
		ref[i*dim+2] = 5
		ref[i*dim+3] = ref[i*dim] + 0.05*ref[i*dim+3] // the ridge decides how much a small difference weighs
	}
	for i := range queries {
		query[i*dim+3] = query[i*dim] + 0.05*query[i*dim+3]
	}
	got, err := Linear(ref, y, query, dim, classes)
	if err != nil {
		t.Fatal(err)
	}
	x, want := mat.NewDense(n, dim, nil), mat.NewDense(n, classes, nil) // the constant column is that of the ones
	q := mat.NewDense(queries, dim, nil)
	x.Copy(mat.NewDense(n, dim, ref))
	q.Copy(mat.NewDense(queries, dim, query))
	for i := range n {
		x.Set(i, 2, 1)
		want.Set(i, y[i], 1)
	}
	for i := range queries {
		q.Set(i, 2, 1)
	}
	var products, moments, w, scores mat.Dense
	products.Mul(x.T(), x)
	for _, c := range []int{0, 1, 3} {
		mean := mat.Sum(x.ColView(c)) / n
		products.Set(c, c, products.At(c, c)+1e-3*(products.At(c, c)-n*mean*mean))
	}
	moments.Mul(x.T(), want)
	if err := w.Solve(&products, &moments); err != nil {
		t.Fatal(err)
	}
	scores.Mul(q, &w)
	for i := range queries {
		row := scores.RawRowView(i)
		if row[got[i]] != slices.Max(row) {
			t.Errorf("row %d is of class %d, its scores are %v", i, got[i], row)
		}
	}
	for i := range ref {
		ref[i] += 1e3
	}
	for i := range query {
		query[i] += 1e3
	}
	if again, err := Linear(ref, y, query, dim, classes); err != nil || !slices.Equal(again, got) {
		t.Errorf("far from zero the classes are others, %v", err)
	}
	unit := []float64{1e-9, 1e12, 1, 1e-160}
	for i := range ref {
		ref[i] = (ref[i] - 1e3) * unit[i%dim]
	}
	for i := range query {
		query[i] = (query[i] - 1e3) * unit[i%dim]
	}
	if again, err := Linear(ref, y, query, dim, classes); err != nil || !slices.Equal(again, got) {
		t.Errorf("in other units the classes are others, %v", err)
	}
}

// TestTiedClasses: of classes with equal scores the lower one is taken.
func TestTiedClasses(t *testing.T) {
	for _, y := range [][]int{{0, 1}, {1, 0}} {
		if got, err := Linear([]float64{-1, 1}, y, []float64{0}, 1, 2); err != nil || got[0] != 0 {
			t.Errorf("between rows of the classes %v: %v, %v", y, got, err)
		}
	}
}
