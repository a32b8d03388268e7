package fit

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// Criterion is a linear method of the caller: the numerator N and the denominator D of max tr((A'DA)^-1 A'NA),
// computed from weights, patches or dissimilarities of the rows. Package graph has the forms: LaplacianForm,
// WeightForm, DegreeForm, FromDS. Config.Criterion uses it instead of a method of the table; its models
// are served, stored and aligned like any other. Package modeltest checks a criterion.
//
// The default of Dim is 2, and AutoDim is an error. The only parameter is ridge, unless the criterion is Orthonormal:
// auto (by cross-validation; oas for a criterion that is not supervised), oas, or a number; 0 is the rank cut of D
// alone. The same rows in the same order give the same digest if InBasis or PerFeature gives the same matrices.
type Criterion struct {
	Name       string // of the method in the model; it must not be one of the table
	Supervised bool   // rows without a label are left out
	// Orthonormal: min tr(A'DA) with A'A = I, for any symmetric matrix D and without a ridge. Its numerator is
	// ignored and may be nil.
	Orthonormal bool
	// InBasis and PerFeature make the symmetric matrices N and D (D positive semidefinite) of the scaled and centred rows
	// x. One of them is set. y is the class of each row, nil if the criterion is not supervised. x and y must not be kept
	// or changed. The functions may be called again on other rows, by the cross-validation of the ridge, and
	// concurrently. A criterion that is written as a minimum of (P, Q) has N = Q and D = P.
	//
	// InBasis is for criteria that do not depend on the axes, such as those of distances between rows. x is in an
	// orthonormal basis of the space that the rows span, where every column varies, and N and D have the order of its
	// columns.
	InBasis func(ctx context.Context, x BasisRows, y []int) (numerator, denominator *mat.SymDense, err error)
	// PerFeature is for criteria that look at single features. N and D are m x m for m features, and so is the
	// eigenproblem: many features make it slow.
	PerFeature func(ctx context.Context, x FeatureRows, y []int) (numerator, denominator *mat.SymDense, err error)
}

// BasisRows are rows in an orthonormal basis. With fewer rows than features, or with collinear ones, a column is a
// direction that mixes features.
type BasisRows struct{ *mat.Dense }

// FeatureRows are rows with a column for each feature, in the order of the features.
type FeatureRows struct{ *mat.Dense }

// method is the criterion as a method of the table.
func (own *Criterion) method(c Config) (*frame.Method, error) {
	switch {
	case own.Name == "" || (own.InBasis == nil) == (own.PerFeature == nil):
		return nil, fmt.Errorf("criterion: it needs a name and a function that builds it, either InBasis or PerFeature")
	case c.Method != "":
		return nil, fmt.Errorf("criterion %s: the configuration names method %q; leave it empty", own.Name, c.Method)
	case c.Dim == AutoDim:
		return nil, fmt.Errorf("criterion %s: its dim is not chosen by cross-validation; give one", own.Name)
	}
	if _, err := lookup(own.Name); err == nil {
		return nil, fmt.Errorf("criterion %s: a method has this name; give another", own.Name)
	}
	m := &frame.Method{
		Name: own.Name, Supervised: own.Supervised, Map: "linear", Streaming: "window",
	}
	if own.Orthonormal {
		m.Fit = own.fitOrthonormal
	} else {
		m.Params = []frame.Param{frame.RidgeParam("auto",
			"relative ridge of the denominator: auto, oas or a number", true)}
		m.Ridge = &frame.RidgeRule{Scatter: frame.TotalScatter}
		if own.Supervised {
			m.Ridge = &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.1, 1}}
		}
		m.Fit = frame.Maximize(own.build, pencil.Max)
	}
	return m, nil
}

func (own *Criterion) fitOrthonormal(ctx context.Context, t *frame.Task) *frame.Solution {
	r := own.build(ctx, t)
	s := fail.Must(pencil.Solve(ctx, r.D, pencil.Identity(r.D.SymmetricDim()), pencil.Min, t.D))
	return r.Solution(t, s)
}

func (own *Criterion) build(ctx context.Context, t *frame.Task) *frame.Ratio {
	r, columns := &frame.Ratio{}, t.M
	if own.PerFeature != nil {
		x := t.FeatureRows()
		_, columns = x.Dims()
		r.PerFeature = true
		r.N, r.D = fail.Must2(own.PerFeature(ctx, FeatureRows{x}, t.Rows.Y))
	} else {
		r.N, r.D = fail.Must2(own.InBasis(ctx, BasisRows{t.X}, t.Rows.Y))
	}
	if !own.Orthonormal {
		fail.Check(frame.CheckSide("numerator", r.N, columns))
	}
	fail.Check(frame.CheckSide("denominator", r.D, columns))
	return r
}
