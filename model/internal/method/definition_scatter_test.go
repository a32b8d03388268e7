package method_test

import (
	"gonum.org/v1/gonum/mat"
)

// classCounts are the numbers of rows of each class.
func classCounts(y []int, classes int) []float64 {
	n := make([]float64, classes)
	for _, c := range y {
		n[c]++
	}
	return n
}

// classMeans are the class means, a row for each class.
func classMeans(x *mat.Dense, y []int, classes int) *mat.Dense {
	_, m := x.Dims()
	means, n := mat.NewDense(classes, m, nil), classCounts(y, classes)
	for i, c := range y {
		for j := range m {
			means.Set(c, j, means.At(c, j)+x.At(i, j)/n[c])
		}
	}
	return means
}

// scatters are S_t, S_w and S_b of rows about zero, divided by their number.
func scatters(x *mat.Dense, y []int, classes int) (total, within, between *mat.SymDense) {
	n, m := x.Dims()
	total, within, between = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	means := classMeans(x, y, classes)
	for i, c := range y {
		away := mat.NewVecDense(m, nil)
		away.SubVec(x.RowView(i), means.RowView(c))
		total.SymRankOne(total, 1/float64(n), x.RowView(i))
		within.SymRankOne(within, 1/float64(n), away)
		between.SymRankOne(between, 1/float64(n), means.RowView(c))
	}
	return total, within, between
}

// sumOfSquares is the sum of x x'.
func sumOfSquares(x *mat.Dense) *mat.SymDense {
	s := new(mat.SymDense)
	s.SymOuterK(1, x.T())
	return s
}

// combine is the sum of a s and b u.
func combine(a float64, s *mat.SymDense, b float64, u *mat.SymDense) *mat.SymDense {
	out, other := new(mat.SymDense), new(mat.SymDense)
	out.ScaleSym(a, s)
	other.ScaleSym(b, u)
	out.AddSym(out, other)
	return out
}
