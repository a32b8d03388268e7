package fit

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/moments"
)

// TestPad: padded outputs are uncorrelated with those of the criterion and with each other over the rows, have variance
// one, and do not change those of the criterion; from rows and from moments.
func TestPad(t *testing.T) {
	d := synthetic(3, 400, 12, 4)
	s := moments.New(12, false)
	if err := s.Add(t.Context(), d.X, d.Y); err != nil {
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

// TestOutputs: outputs without a direction are zero, those with one are what they are without the others, and an
// aligned model keeps its zeros; from rows, from moments, and for a kernel map.
func TestOutputs(t *testing.T) {
	d := synthetic(3, 400, 12, 4)
	s := moments.New(12, false)
	if err := s.Add(t.Context(), d.X, d.Y); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		Config
		directions int
	}{
		{Config{Method: "lda"}, 3}, {Config{Method: "lda", Dim: 6}, 3}, {Config{Method: "pairacc", Dim: 5}, 5},
		{Config{Method: "lda", Landmarks: 50}, 3}, {Config{Method: "ksmpa"}, 2},
	} {
		c.Outputs = 10
		fitted := map[string]*model.Model{}
		var err error
		if fitted["rows"], err = Fit(t.Context(), d, c.Config); err != nil {
			t.Fatal(err)
		}
		if c.Method == "lda" && c.Landmarks == 0 {
			if fitted["moments"], err = FitMoments(t.Context(), s, nil, d.Classes, c.Config); err != nil {
				t.Fatal(err)
			}
		}
		half := d.Subset(linalg.Range(200))
		other, err := Fit(t.Context(), half, c.Config)
		if err != nil {
			t.Fatal(err)
		}
		if fitted["aligned"], _, err = model.Align(t.Context(), other, fitted["rows"],
			model.DenseRows(d.X, d.N, d.M), model.AlignRigid); err != nil {
			t.Fatal(err)
		}
		for name, m := range fitted {
			if m.Dim() != 10 {
				t.Fatalf("%s of %+v: %d outputs", name, c.Config, m.Dim())
			}
			y := make([]float32, d.N*10)
			if err := m.Project(y, model.DenseRows(d.X, d.N, d.M)); err != nil {
				t.Fatal(err)
			}
			for i, v := range y {
				if c.directions > 0 && i%10 >= c.directions && v != 0 || math.IsNaN(float64(v)) {
					t.Fatalf("%s of %+v: output %d of a row is %g", name, c.Config, i%10, v)
				}
			}
		}
	}
	if err := (Config{Method: "lda", Dim: 5, Outputs: 4}).Validate(); err == nil {
		t.Error("a dimension above the number of outputs is no error")
	}
}
