package modeltest_test

import (
	"context"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/modeltest"
)

// scatter is the criterion of principal components: all rows against the identity.
var scatter = fit.Criterion{Name: "scatter", InBasis: scatters}

func scatters(_ context.Context, x fit.BasisRows, _ []int) (n, d *mat.SymDense, err error) {
	_, m := x.Dims()
	n, d = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	n.SymOuterK(1, x.T())
	for j := range m {
		d.SetSym(j, j, 1)
	}
	return n, d, nil
}

// definition is the criterion again, as its formula says: sum x x' over the rows, and the identity.
func definition(_ testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	c := &modeltest.Criterion{Form: modeltest.Ratio, N: mat.NewSymDense(m, nil), D: mat.NewSymDense(m, nil)}
	for j := range m {
		c.D.SetSym(j, j, 1)
		for k := j; k < m; k++ {
			for i := range n {
				c.N.SetSym(j, k, c.N.At(j, k)+p.X.At(i, j)*p.X.At(i, k))
			}
		}
	}
	return c
}

// A custom method is checked in one line, against its formula in a second form.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestScatter(t *testing.T)
		modeltest.Run(t, fit.Config{Criterion: &scatter}, definition)
	}
}

func TestScatter(t *testing.T) {
	modeltest.Run(t, fit.Config{Criterion: &scatter}, definition)
}
