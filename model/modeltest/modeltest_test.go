package modeltest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/modeltest"
)

// faulty are criteria that break one promise each, and the subtest that detects it.
var faulty = map[string]struct {
	own   fit.Criterion
	found string
}{
	"drawn": {own: another(func(n *mat.SymDense, call int) error {
		n.SetSym(0, 0, n.At(0, 0)*(1+float64(call)/10))
		return nil
	}), found: "tall"},
	"panics": {own: another(func(n *mat.SymDense, _ int) error {
		if n.SymmetricDim() == 1 {
			panic("one feature")
		}
		return nil
	}), found: "one_feature"},
	"fails": {own: another(func(n *mat.SymDense, _ int) error {
		if n.SymmetricDim() > 6 {
			return os.ErrInvalid
		}
		return nil
	}), found: "wide"},
}

// another is scatter with a fault, which receives the number of its calls.
func another(fault func(n *mat.SymDense, call int) error) fit.Criterion {
	calls := 0
	return fit.Criterion{Name: "faulty",
		InBasis: func(ctx context.Context, x fit.BasisRows, y []int) (n, d *mat.SymDense, err error) {
			if n, d, err = scatter.InBasis(ctx, x, y); err == nil {
				calls++
				err = fault(n, calls)
			}
			return n, d, err
		}}
}

// TestRunFindsFaults runs the suite in a separate process, which has to fail in that subtest.
func TestRunFindsFaults(t *testing.T) {
	if name := os.Getenv("MODELTEST_FAULT"); name != "" {
		own := faulty[name].own
		modeltest.Run(t, fit.Config{Criterion: &own}, definition)
		return
	}
	for name, c := range faulty {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunFindsFaults$")
		cmd.Env = append(os.Environ(), "MODELTEST_FAULT="+name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: TestRunFindsFaults/"+c.found+" ") {
			t.Errorf("%s: want a failure of %s, got %v\n%s", name, c.found, err, out)
		}
	}
}
