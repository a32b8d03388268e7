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
// WeightForm, DegreeForm, AlignLinear, FromDS. Config.Criterion uses it instead of a method of the table; its models
// are served, stored and aligned like any other. Package modeltest checks a criterion.
//
// The default of Dim is 2, and AutoDim is an error. The only parameter is ridge, unless the criterion is Orthonormal:
// auto (by cross-validation; oas for a criterion that is not supervised), oas, or a number; 0 is the rank cut of D
// alone. The same rows in the same order give the same digest if Build gives the same matrices.
//
// graph.Embedding has both sides of a graph embedding under a constraint; with orthonormal columns it is Orthonormal
// here too.
type Criterion struct {
	Name       string // of the method in the model; it must not be one of the table
	Supervised bool   // rows without a label are left out
	// Orthonormal: min tr(A'DA) with A'A = I, for any symmetric matrix D and without a ridge. The numerator that Build
	// returns is ignored and may be nil.
	Orthonormal bool
	// Build makes the symmetric m x m matrices N and D (D positive semidefinite) of the rows x, n x m: scaled, centred,
	// and in a basis where every column varies. y is the class of each row, nil if the criterion is not supervised. Build
	// must not keep or change x and y. It may be called again on other rows, by the cross-validation of the ridge, and
	// concurrently. A criterion that is written as a minimum of (P, Q) has N = Q and D = P.
	Build func(ctx context.Context, x *mat.Dense, y []int) (numerator, denominator *mat.SymDense, err error)
}

// method is the criterion as a method of the table.
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

func (own *Criterion) fitOrthonormal(ctx context.Context, t *frame.Task) *frame.Solution {
	_, d := fail.Must2(own.Build(ctx, t.X, t.Rows.Y))
	fail.Check(frame.CheckSide(t, "denominator", d))
	s := fail.Must(pencil.Solve(ctx, d, pencil.Identity(t.M), pencil.Min, t.D))
	return t.Solved(s, s.Rank)
}

func (own *Criterion) build(ctx context.Context, t *frame.Task) (n, d *mat.SymDense) {
	n, d = fail.Must2(own.Build(ctx, t.X, t.Rows.Y))
	fail.Check(frame.CheckSide(t, "numerator", n))
	fail.Check(frame.CheckSide(t, "denominator", d))
	return n, d
}
