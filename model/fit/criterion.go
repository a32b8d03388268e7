package fit

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// Criterion is a linear method of one's own: the numerator N and the denominator
// D of max tr((A'DA)^-1 A'NA), from weights, patches or dissimilarities of the
// rows. Package graph has the forms: LaplacianForm, WeightForm, DegreeForm,
// AlignLinear, FromDS. Config.Own takes it in the place of a method; the model it
// gives is served, stored and aligned as any other. Package modeltest has the
// checks of a method.
//
// Dim is 2 where the configuration leaves it open, and not AutoDim. The one
// parameter is ridge, where the criterion is not Orthonormal: auto (by
// cross-validation; oas for a criterion that is not supervised), oas, or a
// number; 0 is the rank cut of D alone. The same rows in the same order give the
// same digest where Build gives the same matrices.
//
// graph.Embedding has both sides of a graph embedding under a constraint; with
// orthonormal columns it is Orthonormal here too.
type Criterion struct {
	Name       string // of the method in the model; none of the table's
	Supervised bool   // rows without label are left out
	// Orthonormal: min tr(A'DA) with A'A = I, D any symmetric matrix, no ridge; the
	// numerator that Build gives is not looked at, nil will do.
	Orthonormal bool
	// Build makes the symmetric m x m matrices N and D (D positive semidefinite)
	// of the rows x, n x m: scaled, centred, and in a basis where every column
	// varies. y is the class of each row, nil where the criterion is not
	// supervised. It keeps neither x nor y and changes neither. It may be called
	// again, on other rows, by the cross-validation of the ridge, and by fits that
	// run at the same time. A criterion that
	// is written as a minimum of (P, Q) has N = Q and D = P.
	Build func(ctx context.Context, x *mat.Dense, y []int) (numerator, denominator *mat.SymDense, err error)
}

// method is the entry that the criterion would have in the table.
func (own *Criterion) method(c Config) (*frame.Method, error) {
	switch {
	case own.Name == "" || own.Build == nil:
		return nil, fmt.Errorf("criterion: it needs a name and a function that builds it")
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
		Dim:     frame.TwoColumns,
		Bound:   frame.EveryColumn,
		Samples: true,
	}
	if own.Orthonormal {
		m.Fit = own.fitOrthonormal
	} else {
		m.Params = []frame.Param{frame.RidgeParam("auto",
			"relative ridge of the denominator: auto, oas or a number", true)}
		m.Ridge = &frame.RidgeRule{Scatter: frame.TotalScatter}
		if own.Supervised {
			m.Ridge = &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{frame.OASRidge, 0.1, 1}}
		}
		m.Fit = frame.Maximize(own.build, pencil.Max)
	}
	return m, nil
}

func (own *Criterion) fitOrthonormal(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	_, d, err := own.Build(ctx, t.X, t.Rows.Y)
	if err == nil {
		err = t.CheckSide("denominator", d)
	}
	if err != nil {
		return nil, err
	}
	s, err := pencil.Solve(ctx, d, pencil.Identity(t.M), pencil.Min, t.D)
	if err != nil {
		return nil, err
	}
	return t.Solved(s, s.Rank), nil
}

func (own *Criterion) build(ctx context.Context, t *frame.Task) (n, d *mat.SymDense, err error) {
	if n, d, err = own.Build(ctx, t.X, t.Rows.Y); err != nil {
		return nil, nil, err
	}
	if err := t.CheckSide("numerator", n); err != nil {
		return nil, nil, err
	}
	return n, d, t.CheckSide("denominator", d)
}
