package method_test

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/method"
)

// unitDependent lists the methods whose result depends on the unit of the features: a parameter of theirs has that
// unit (the cost of a support vector machine, the weight gamma of tangent vectors), or they add a constant feature.
var unitDependent = []string{"dawge", "ltsimr", "mpda", "mp-ltsimr", "pmpda", "sle-ovr"}

// TestUnitOfTheFeatures: the outputs of all features times a factor are the same but for their scale, whatever the
// factor. Methods whose parameters have a unit need features that are scaled.
func TestUnitOfTheFeatures(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	var third []int
	for i := 0; i < d.N; i += 3 {
		third = append(third, i)
	}
	d = d.Subset(third)
	for _, of := range method.Table {
		for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleNone} {
			c := fit.Config{Method: of.Name, Dim: 2, Seed: 1, Scale: scale}
			depends, apart := scale == model.ScaleNone && slices.Contains(unitDependent, of.Name), 0.0
			want := outputsOf(t, d, c)
			for _, factor := range []float64{1e-3, 1e9} {
				other := *d
				other.X = slices.Clone(d.X)
				for i := range other.X {
					other.X[i] *= factor
				}
				off := differ(want, outputsOf(t, &other, c))
				if apart = max(apart, off); !depends && !(off <= 1e-6) {
					t.Errorf("%s, scale %s: the outputs of features times %g are %.2g apart", of.Name, scale, factor, off)
				}
			}
			if depends && !(apart >= 1e-3) {
				t.Errorf("%s, scale %s: the outputs do not depend on the unit", of.Name, scale)
			}
		}
	}
}

// outputsOf are the outputs of the rows of a fit.
func outputsOf(t *testing.T, d *model.Data, c fit.Config) *mat.Dense {
	t.Helper()
	m, err := fit.Fit(t.Context(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	y, out := make([]float32, d.N*m.Dim()), mat.NewDense(d.N, m.Dim(), nil)
	if err := m.Project(y, model.DenseRows(d.X, d.N, d.M)); err != nil {
		t.Fatal(err)
	}
	out.Apply(func(i, j int, _ float64) float64 { return float64(y[i*m.Dim()+j]) }, out)
	return out
}

// differ is the largest of 1 - r^2, where r are the correlations of the columns.
func differ(a, b *mat.Dense) float64 {
	n, d := a.Dims()
	worst := 0.0
	for c := range d {
		u, v := mat.Col(nil, c, a), mat.Col(nil, c, b)
		mu, mv := mat.Sum(mat.NewVecDense(n, u))/float64(n), mat.Sum(mat.NewVecDense(n, v))/float64(n)
		var uu, vv, uv float64
		for i := range n {
			uu += (u[i] - mu) * (u[i] - mu)
			vv += (v[i] - mv) * (v[i] - mv)
			uv += (u[i] - mu) * (v[i] - mv)
		}
		worst = max(worst, 1-uv/uu*(uv/vv))
	}
	return worst
}
