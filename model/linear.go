package model

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// maxCancellation is the cancellation up to which float32 products keep an
// output within about 1e-5 of its standard deviation: the worst row is off by
// 2^-24 times it, times 2 to 17 as measured on thirteen fits of real data.
const maxCancellation = 16

// linear is y = ((x - mean)/scale) · A.
type linear struct {
	d          int
	components []float64 // A, m x d row-major
}

func (l *linear) kind() string { return "linear" }
func (l *linear) dim() int     { return l.d }

func (l *linear) check(m, _ int) error {
	if l.d > m { // also keeps m*d from overflowing
		return fmt.Errorf("%d outputs of %d features; a linear map has at most as many outputs as features", l.d, m)
	}
	if len(l.components) != m*l.d {
		return fmt.Errorf("%d numbers in components, %d x %d are needed", len(l.components), m, l.d)
	}
	return nil
}

func (l *linear) arrays() []array {
	return []array{{"components", []int{len(l.components) / l.d, l.d}, l.components}}
}

func rebuildLinear(arrays []array) (mapping, error) {
	if len(arrays) != 1 || arrays[0].name != "components" || len(arrays[0].shape) != 2 {
		return nil, fmt.Errorf("a linear map has the array components (m x d) and no other")
	}
	return &linear{arrays[0].shape[1], arrays[0].data}, nil
}

func (l *linear) weights() (int, []float64, []float64) {
	return l.d, transpose(l.components, l.d), nil
}

func (l *linear) finish(dst, y []float32) int {
	copy(dst, y)
	return -1
}

// transpose turns n x d row-major data into d x n.
func transpose(a []float64, d int) []float64 {
	n := len(a) / d
	t := make([]float64, len(a))
	for i := range n {
		for j := range d {
			t[j*n+i] = a[i*d+j]
		}
	}
	return t
}

// cancellation is how much larger the terms of an output are than the output,
// at the worst of the columns a (m x d): sqrt(sum_j a_j^2 S_jj / a'Sa), S the
// scatter of the scaled features. Nearly collinear features make it large. S
// is given as it is, or by its columns basis (m x r) and the scatter in them.
func cancellation(a *mat.Dense, s *mat.SymDense, basis *mat.Dense) float64 {
	m, d := a.Dims()
	variance := make([]float64, m)
	within := a
	if basis == nil {
		for j := range variance {
			variance[j] = s.At(j, j)
		}
	} else {
		var bs, reduced mat.Dense
		bs.Mul(basis, s)
		for j := range variance {
			variance[j] = mat.Dot(bs.RowView(j), basis.RowView(j))
		}
		reduced.Mul(basis.T(), a)
		within = &reduced
	}
	worst := 1.0
	for c := range d {
		terms := 0.0
		for j, v := range variance {
			terms += a.At(j, c) * a.At(j, c) * v
		}
		if out := mat.Inner(within.ColView(c), s, within.ColView(c)); out > 0 {
			worst = max(worst, math.Sqrt(terms/out))
		}
	}
	return worst
}
