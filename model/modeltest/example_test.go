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

// A method of one's own is checked in one line.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestScatter(t *testing.T)
		modeltest.Run(t, fit.Config{Criterion: &scatter})
	}
}

func TestScatter(t *testing.T) {
	modeltest.Run(t, fit.Config{Criterion: &scatter})
}
