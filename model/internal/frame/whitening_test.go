package frame

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
)

// TestWhiteningEndsWithItsContext, before it factors anything.
func TestWhiteningEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, whiten := range map[string]func(){
		"leading": func() { fail.Must(Whitening(ctx, &Task{}, 1)) },
		"all":     func() { FullWhitening(ctx, &Task{}, 1) },
	} {
		if err := failure(whiten); !errors.Is(err, context.Canceled) {
			t.Errorf("%s columns: %v", name, err)
		}
	}
}

// TestFullWhitening checks that six axes whiten the within-class scatter with its ridge. Two are solved for, and four
// complete the basis.
func TestFullWhitening(t *testing.T) {
	const m, count = 6, 2
	within := mat.NewSymDense(m, nil)
	for i := range m {
		within.SetSym(i, i, float64(i+1))
		if i > 0 {
			within.SetSym(i-1, i, 0.5)
		}
	}
	means := mat.NewDense(3, m, nil)
	for c, row := range [][]float64{{3, 0, 1, 0, 0, 0}, {-3, 1, 0, 0, 0, 0}, {0, -1, -1, 0, 0, 0}} {
		means.SetRow(c, row)
	}
	task := &Task{M: m, Columns: m, Ridge: 0.25, Report: &model.Report{},
		Basis: &BasisScatters{N: 30, Counts: []float64{10, 10, 10}, Means: means, Within: within}}
	all, lead := FullWhitening(t.Context(), task, count), fail.Must(Whitening(t.Context(), task, count))
	if rows, columns := all.Vectors.Dims(); rows != m || columns != m || len(all.Values) != count {
		t.Fatalf("%d x %d vectors with %d values", rows, columns, len(all.Values))
	}
	if !mat.Equal(all.Vectors.Slice(0, m, 0, count), lead.Vectors) {
		t.Errorf("the first vectors are %v, not %v", mat.Formatted(all.Vectors), mat.Formatted(lead.Vectors))
	}
	ridged := mat.NewDense(m, m, nil)
	ridged.Copy(within)
	for i := range m {
		ridged.Set(i, i, ridged.At(i, i)+0.25*mat.Trace(within)/m)
	}
	var white mat.Dense
	white.Product(all.Vectors.T(), ridged, all.Vectors)
	for i := range m {
		white.Set(i, i, white.At(i, i)-1)
	}
	if e := mat.Norm(&white, math.Inf(1)); !(e <= 1e-12) {
		t.Errorf("the vectors whiten the scatter up to %g", e)
	}
}

func failure(f func()) (err error) {
	defer fail.Catch(&err)
	f()
	return nil
}
