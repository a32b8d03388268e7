package pencil

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestWithoutResidual: a solution without its residual is otherwise the same.
func TestWithoutResidual(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	x := mat.NewDense(30, 12, nil)
	for i := range 30 {
		for j := range 12 {
			x.Set(i, j, r.NormFloat64())
		}
	}
	s := mat.NewSymDense(12, nil)
	s.SymOuterK(1, x.T())
	with, err := Solve(t.Context(), s, Identity(12), Max, 3)
	if err != nil || !(with.Residual > 0) {
		t.Fatalf("residual %v, %v", with, err)
	}
	without, err := Solve(WithoutResidual(t.Context()), s, Identity(12), Max, 3)
	if err != nil || without.Residual != 0 || !mat.Equal(with.Vectors, without.Vectors) {
		t.Errorf("residual %g, %v", without.Residual, err)
	}
}
