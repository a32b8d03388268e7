package scatter

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// TestSignedLeavesOutRoundingErrors: of 1,000 rows, eigenvalues above 1e-6 are solutions.
func TestSignedLeavesOutRoundingErrors(t *testing.T) {
	u := mat.NewDiagDense(3, []float64{1, 1, 1})
	j := mat.NewDiagDense(3, []float64{1, 2e-6, 0.5e-6})
	if s := signed(t.Context(), mat.DenseCopyOf(u), j, pencil.Identity(3), 1000); len(s.Values) != 2 {
		t.Errorf("the eigenvalues are %v", s.Values)
	}
}
