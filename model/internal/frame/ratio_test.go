package frame

import (
	"errors"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/pencil"
)

// TestDenominatorOfRounding: a denominator without a factor counts as zero where its trace is rounding error of the
// rows, and as singular where it is more.
func TestDenominatorOfRounding(t *testing.T) {
	for share, zero := range map[float64]bool{2e-12: false, 5e-13: true} {
		task := &Task{Basis: &BasisScatters{N: 30, Total: mat.NewSymDense(2, []float64{3, 0, 0, 1})}, Columns: 2,
			Units: &Units{Mean: make([]float64, 2)}, Report: &model.Report{}}
		d := mat.NewSymDense(2, []float64{share * 30 * 4, 0, 0, 0})
		err := func() (err error) {
			defer fail.Catch(&err)
			Denominator(task, d)
			return nil
		}()
		if err == nil || strings.Contains(err.Error(), "is zero") != zero || errors.Is(err, pencil.ErrNotDefinite) == zero {
			t.Errorf("a share of %g: %v", share, err)
		}
	}
}
