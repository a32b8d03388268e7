package model

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/embedd/embedd/model/internal/mapping"
)

// TestFloat64FromRange: a mean, a scale, a folded weight or an offset outside of 1e-30 to 1e30 is projected in float64.
func TestFloat64FromRange(t *testing.T) {
	for _, c := range []struct {
		mean, scale, weight, offset float64
		want                        bool
	}{
		{1, 1, 1, 0, false}, {0, 1, 0, 0, false},
		{0.9e30, 1, 1, 0, false}, {-1.1e30, 1, 1, 0, true},
		{0, 1.1e-30, 1e-29, 0, false}, {0, 0.9e-30, 1e-29, 0, true},
		{0, 0.9e30, 1e29, 0, false}, {0, 1.1e30, 1e29, 0, true},
		{0, 1, 0.9e30, 0, false}, {0, 1, -1.1e30, 0, true},
		{0, 1, 1.1e-30, 0, false}, {0, 1, 0.9e-30, 0, true},
		{0, 10, 9e30, 0, false}, {0, 0.1, 9e30, 0, true},
		{0, 1, 1, 0.9e30, false}, {0, 1, 1, -1.1e30, true},
		{0, 1, 0, 1.1e-30, false}, {0, 1, 0, 0.9e-30, true},
	} {
		view := &mapping.Views{D: 1, Offset: []float64{c.offset}, Components: []float64{c.weight}}
		if k := newProducts([]float64{c.mean}, []float64{c.scale}, false, false, view); k.exact != c.want {
			t.Errorf("%+v: %v", c, k.exact)
		}
	}
}

// TestConversionWeighsOutputsByVariance: an output whose variance is 1e-9 of the mean variance has half of its weight.
// The weight of an output with a smaller variance tends to 0.
func TestConversionWeighsOutputsByVariance(t *testing.T) {
	const n = 64
	x := make([]float64, 0, 2*n)
	for i := range n {
		x = append(x, float64(1-i%2*2), float64(1-i/2%2*2)) // of variance 1, uncorrelated
	}
	for _, c := range []struct{ variance, want float64 }{{2, 1}, {5e-10, 0.5}, {5e-9, 10. / 11}, {5e-11, 1. / 11}} {
		s := math.Sqrt(c.variance)
		from := withMapping(t, 2, &mapping.Linear{D: 2, Components: []float64{1, 0, 0, s}})
		to := withMapping(t, 2, &mapping.Linear{D: 2, Components: []float64{1, 0, 0, 1}})
		got, err := FitConversion(t.Context(), from, to, DenseRows(x, n, 2))
		if err != nil || !(math.Abs(got.Matrix[1][1]*s-c.want) <= 1e-5) || !(math.Abs(got.Matrix[0][0]-1) <= 1e-5) {
			t.Errorf("variance %g: %+v, %v; want %g", c.variance, got, err, c.want)
		}
		lost := (1 - c.want) / math.Sqrt2 // of two outputs of the same spread
		if !(math.Abs(got.Residual-lost) <= 1e-5) {
			t.Errorf("variance %g: residual %g, want %g", c.variance, got.Residual, lost)
		}
	}
}

// TestShiftAlongSmallComponents: outputs are shifted along components of at least 1e-10 of the largest.
func TestShiftAlongSmallComponents(t *testing.T) {
	for _, c := range []struct {
		component float64
		want      bool
	}{{1, true}, {2e-10, true}, {0.5e-10, false}} {
		m := withMapping(t, 2, &mapping.Linear{D: 2, Components: []float64{1, 0, 0, c.component}})
		m.fitted.Scale = []float64{3, 1}
		got, err := m.shifted([]float64{2, c.component})
		if err != nil || !(math.Abs(got.fitted.Mean[0]+6) <= 1e-9) || (math.Abs(got.fitted.Mean[1]+1) <= 1e-6) != c.want {
			t.Errorf("%+v: mean %v, %v", c, got.fitted.Mean, err)
		}
	}
}

// counted is a source of zeros that counts what is read.
type counted struct{ n int64 }

func (c *counted) Read(p []byte) (int, error) {
	clear(p)
	c.n += int64(len(p))
	return len(p), nil
}

// TestReadStopsAtItsLimit: no more than one byte above the limit is read.
func TestReadStopsAtItsLimit(t *testing.T) {
	for _, limit := range []int64{1, 1000, 1 << 20} {
		var endless counted
		_, err := ReadLimit(&endless, limit)
		want := fmt.Sprintf("model file: more than %d bytes; raise the limit if the model should be this large", limit)
		if err == nil || err.Error() != want || endless.n != limit+1 {
			t.Errorf("%d bytes were read: %v", endless.n, err)
		}
		if _, err = ReadLimit(io.LimitReader(&endless, limit), limit); err == nil || err.Error() == want {
			t.Errorf("a file of the limit's size: %v", err)
		}
	}
}

// checked counts how often a context is checked.
type checked struct {
	context.Context
	checks int
}

func (c *checked) Err() error { c.checks++; return nil }

// TestProjectionYields: a projection of many rows checks its context for each thousand, and no more often.
func TestProjectionYields(t *testing.T) {
	const rows = 20 * 1024
	m := withMapping(t, 2, &mapping.Linear{D: 2, Components: []float64{1, 0, 0, 1}})
	ctx := &checked{Context: Limit(t.Context(), 1)}
	x := make([]float64, rows*m.M())
	if err := m.ProjectContext(ctx, make([]float32, rows*m.Dim()), DenseRows(x, rows, m.M())); err != nil {
		t.Fatal(err)
	}
	if ctx.checks < 20 || ctx.checks > 30 {
		t.Errorf("%d checks", ctx.checks)
	}
}
