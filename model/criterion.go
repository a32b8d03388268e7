package model

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// Criterion is a linear method of one's own: the numerator N and the denominator
// D of max tr((A'DA)^-1 A'NA), from weights, patches or dissimilarities of the
// rows. Package graph has the forms: LaplacianForm, WeightForm, DegreeForm,
// AlignLinear, FromDS. The model it gives is served, stored and aligned as any
// other.
type Criterion struct {
	Name       string // of the method in the model; none of the table's
	Supervised bool   // rows without label are left out
	// Build makes the symmetric m x m matrices N and D (D positive semidefinite)
	// of the rows x, n x m: scaled, centred, and in a basis where every column
	// varies. y is the class of each row, nil where the criterion is not
	// supervised. It keeps neither x nor y and changes neither. It may be called
	// again, on other rows, by the cross-validation of the ridge. A criterion that
	// is written as a minimum of (P, Q) has N = Q and D = P.
	Build func(ctx context.Context, x *mat.Dense, y []int) (numerator, denominator *mat.SymDense, err error)
}

// Fit fits the criterion to rows. c.Method is empty; c.Dim is 2 where it is 0,
// and not AutoDim. The one parameter is ridge: auto (by cross-validation; oas for
// a criterion that is not supervised), oas, or a number; 0 is the rank cut of D
// alone. The same rows in the same order give the same digest where Build gives
// the same matrices.
func (own Criterion) Fit(ctx context.Context, d *Data, c Config) (*Model, error) {
	m, params, err := own.method(c)
	if err != nil {
		return nil, err
	}
	return fitMethod(ctx, m, params, d, c)
}

func (own Criterion) method(c Config) (*Method, map[string]string, error) {
	switch {
	case own.Name == "" || own.Build == nil:
		return nil, nil, fmt.Errorf("criterion: it needs a name and a function that builds it")
	case c.Method != "":
		return nil, nil, fmt.Errorf("criterion %s: the configuration names method %q; leave it empty", own.Name, c.Method)
	case c.Dim == AutoDim:
		return nil, nil, fmt.Errorf("criterion %s: its dim is not chosen by cross-validation; give one", own.Name)
	}
	if _, err := lookup(own.Name); err == nil {
		return nil, nil, fmt.Errorf("criterion %s: a method has this name; give another", own.Name)
	}
	rule := &ridgeRule{of: totalScatter}
	if own.Supervised {
		rule = &ridgeRule{of: withinScatter, grid: []float64{oasRidge, 0.1, 1}}
	}
	m := &Method{
		Name: own.Name, Supervised: own.Supervised, Map: "linear", Streaming: "window",
		Params:  []Param{ridgeParam("auto", "relative ridge of the denominator: auto, oas or a number", true)},
		dim:     twoColumns,
		bound:   everyColumn,
		ridge:   rule,
		samples: true,
		fit:     maximize(own.build, pencil.Max),
	}
	if err := c.check(); err != nil {
		return nil, nil, fmt.Errorf("criterion %s: %w", own.Name, err)
	}
	params, err := m.resolve(c.Params)
	return m, params, err
}

// build holds what Build gives to its contract.
func (own Criterion) build(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
	if n, d, err = own.Build(ctx, t.x, t.rows.y); err != nil {
		return nil, nil, err
	}
	for _, side := range []struct {
		name string
		of   *mat.SymDense
	}{{"numerator", n}, {"denominator", d}} {
		switch {
		case side.of == nil:
			return nil, nil, fmt.Errorf("there is no %s", side.name)
		case side.of.SymmetricDim() != t.m:
			return nil, nil, fmt.Errorf("the %s has order %d; it must be %d, the columns of the rows", side.name, side.of.SymmetricDim(), t.m)
		case !isFinite(mat.Norm(side.of, 1)):
			return nil, nil, fmt.Errorf("the %s is not finite", side.name)
		}
	}
	return n, d, nil
}
