package frame

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// WhiteSpace is T, at most count columns (0: all), and its eigenvalues. The
// share of S_w in the numerator orders the columns past the class means.
func (t *Task) WhiteSpace(ctx context.Context, count int) (*pencil.Solution, error) {
	q, err := t.RidgeMetric(t.Stat.Within)
	if err != nil {
		return nil, err
	}
	n := mat.NewSymDense(t.M, nil)
	n.ScaleSym(1e-3, t.Stat.Within)
	n.SymRankK(n, 1, t.Stat.BetweenFactor())
	return pencil.Solve(ctx, n, q, pencil.Max, count)
}

// Leading is the k leading eigenvectors, of zero eigenvalues too.
func Leading(ctx context.Context, s *mat.SymDense, k int) (*mat.Dense, error) {
	n := s.SymmetricDim()
	minus := mat.NewSymDense(n, nil)
	minus.ScaleSym(-1, s)
	sol, err := pencil.Solve(ctx, minus, pencil.Identity(n), pencil.Min, k)
	if err != nil {
		return nil, err
	}
	return sol.Vectors, nil
}

// Principal turns A to the principal axes of its outputs, most variance first;
// distances stay.
func (t *Task) Principal(ctx context.Context, a *mat.Dense) (*mat.Dense, error) {
	var sa, v mat.Dense
	sa.Mul(t.Stat.Total, a)
	v.Mul(a.T(), &sa)
	_, d := a.Dims()
	r, err := Leading(ctx, linalg.Symmetric(&v), d)
	if err != nil {
		return nil, err
	}
	out := mat.NewDense(t.M, d, nil)
	out.Mul(a, r)
	return out, nil
}
