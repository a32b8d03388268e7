package fit

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/moments"
)

// TestPad: padded outputs are uncorrelated with those of the criterion and with each other over the rows, have variance
// one, and do not change those of the criterion; from rows and from moments.
func TestPad(t *testing.T) {
	d := synthetic(3, 400, 12, 4)
	s := moments.New(12, false)
	if err := s.Add(t.Context(), d.X, d.Y, nil); err != nil {
		t.Fatal(err)
	}
	rows := func(c Config) (*model.Model, error) { return Fit(context.Background(), d, c) }
	statistics := func(c Config) (*model.Model, error) {
		return FitMoments(context.Background(), s, nil, d.Classes, c)
	}
	for name, fit := range map[string]func(Config) (*model.Model, error){"rows": rows, "moments": statistics} {
		lda, err := fit(Config{Method: "lda"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := fit(Config{Method: "lda", Dim: 7, Pad: true})
		if err != nil {
			t.Fatal(err)
		}
		if m.Dim() != 7 || m.InformativeRank() != 3 {
			t.Fatalf("%s: %d outputs, %d of them informative; want 7 and 3", name, m.Dim(), m.InformativeRank())
		}
		y := make([]float32, d.N*7)
		if err := m.Project(y, model.DenseRows(d.X, d.N, d.M)); err != nil {
			t.Fatal(err)
		}
		cov := mat.NewDense(7, 7, nil)
		for i := range d.N {
			for a := range 7 {
				for b := range 7 {
					cov.Set(a, b, cov.At(a, b)+float64(y[i*7+a])*float64(y[i*7+b])/float64(d.N))
				}
			}
		}
		for a := 3; a < 7; a++ {
			for b := range 7 {
				want := 0.0
				if a == b {
					want = 1
				}
				if !(math.Abs(cov.At(a, b)-want) <= 1e-4*math.Sqrt(cov.At(b, b))) {
					t.Errorf("%s: outputs %d and %d have covariance %g, want %g", name, a, b, cov.At(a, b), want)
				}
			}
		}
		for j := range d.M {
			for k := range 3 {
				if a, b := m.Components()[j*7+k], lda.Components()[j*3+k]; !(math.Abs(a-b) <= 1e-9) {
					t.Fatalf("%s: feature %d of output %d is %g, and %g without padding", name, j, k, a, b)
				}
			}
		}
	}
	var bound *model.DimError
	if _, err := Fit(context.Background(), d, Config{Method: "lda", Dim: 13, Pad: true}); !errors.As(err, &bound) {
		t.Errorf("13 outputs of 12 features: %v", err)
	}
	if _, err := Fit(context.Background(), d, Config{Method: "lda", Dim: 7}); !errors.As(err, &bound) ||
		bound.Max != 3 {
		t.Errorf("without padding: %v", err)
	}
}
