package method_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// reconstructions are the weights, of sum 1, by which its k nearest rows reconstruct each row best, with reg times
// the trace added to the diagonal of each Gram matrix. If that is zero, all rows are equal and so are the weights.
func reconstructions(t testing.TB, x *mat.Dense, k int, reg float64) pairGraph {
	t.Helper()
	n, m := x.Dims()
	g := newGraph(n)
	for i := range n {
		near := nearest(x, i, k, func(int) bool { return true })
		away := mat.NewDense(len(near), m, nil)
		for a, j := range near {
			for c := range m {
				away.Set(a, c, x.At(i, c)-x.At(j, c))
			}
		}
		var gram mat.Dense
		gram.Mul(away, away.T())
		ridge := reg * mat.Trace(&gram)
		if ridge == 0 {
			ridge = 1
		}
		ones := mat.NewVecDense(len(near), nil)
		for a := range near {
			gram.Set(a, a, gram.At(a, a)+ridge)
			ones.SetVec(a, 1)
		}
		var w mat.VecDense
		if err := w.SolveVec(&gram, ones); err != nil {
			t.Fatal(err)
		}
		sum := mat.Sum(&w)
		for a, j := range near {
			g[i][j] = w.AtVec(a) / sum
		}
	}
	return g
}

// localScaling is exp(-d^2/(s_i s_j)) of two rows of a class, where s is the distance of a row to its k-th nearest of
// the class, at least 1e-3 of the median of the class.
func localScaling(x *mat.Dense, y []int, classes, k int) func(i, j int) float64 {
	reach, own := make([]float64, len(y)), make([][]float64, classes)
	for i, c := range y {
		if near := nearest(x, i, k, func(j int) bool { return y[j] == c }); len(near) > 0 {
			reach[i] = math.Sqrt(distance2(x, i, near[len(near)-1]))
		}
		own[c] = append(own[c], reach[i])
	}
	for c := range own {
		slices.Sort(own[c])
	}
	width := func(i int) float64 { return math.Max(reach[i], 1e-3*own[y[i]][len(own[y[i]])/2]) }
	return func(i, j int) float64 { return math.Exp(-distance2(x, i, j) / (width(i) * width(j))) }
}

// tangent is the space of the leading dim directions of rows about their mean, m x dim or fewer where they span less.
// It is not unique if the next direction has as much variance as the last.
func tangent(t testing.TB, x *mat.Dense, rows []int, dim int) (space *mat.Dense, unique bool) {
	t.Helper()
	_, m := x.Dims()
	mean := mat.NewVecDense(m, nil)
	for _, r := range rows {
		mean.AddScaledVec(mean, 1/float64(len(rows)), x.RowView(r))
	}
	away := mat.NewDense(len(rows), m, nil)
	for a, r := range rows {
		for c := range m {
			away.Set(a, c, x.At(r, c)-mean.AtVec(c))
		}
	}
	var svd mat.SVD
	if !svd.Factorize(away, mat.SVDThin) {
		t.Fatal("no singular values")
	}
	values := svd.Values(nil)
	kept := 0
	for kept < min(dim, len(values)) && values[kept] > 1e-9*values[0] {
		kept++
	}
	var v mat.Dense
	svd.VTo(&v)
	if kept == 0 {
		return &mat.Dense{}, true
	}
	unique = kept == len(values) || values[kept] < (1-1e-9)*values[kept-1]
	return mat.DenseCopyOf(v.Slice(0, m, 0, kept)), unique
}
