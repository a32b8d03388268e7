package frame

import (
	"context"
	"errors"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// Whitening is the whitening T of the within-class scatter, with at most count columns (0: all), and its eigenvalues.
// The share of S_w in the numerator orders the columns past those of the class means.
func Whitening(ctx context.Context, t *Task, count int) (*pencil.Solution, error) {
	n, q := whiteningPencil(ctx, t)
	return pencil.Solve(ctx, n, q, pencil.Max, count)
}

func whiteningPencil(ctx context.Context, t *Task) (n *mat.SymDense, q *pencil.Metric) {
	fail.Check(ctx.Err())
	q = RidgeMetric(t, t.Basis.Within)
	n = mat.NewSymDense(t.M, nil)
	n.ScaleSym(1e-3, t.Basis.Within)
	n.SymRankK(n, 1, t.Basis.BetweenFactor())
	return n, q
}

// FullWhitening is Whitening with all columns: the leading count columns are the same, the others complete them in an
// unspecified way. Use it in a search that does not depend on the axes.
func FullWhitening(ctx context.Context, t *Task, count int) *pencil.Solution {
	n, q := whiteningPencil(ctx, t)
	s, err := pencil.Solve(ctx, n, q, pencil.Max, count)
	if _, ok := errors.AsType[*pencil.RankError](err); ok || err == nil && s.Rank < t.M {
		return fail.Must(pencil.Solve(ctx, n, q, pencil.Max, 0)) // the columns that there are
	}
	fail.Check(err)
	lead := tile.Times(ctx, t.Basis.Within, s.Vectors)
	for i := range t.M {
		floats.AddScaled(lead.RawRowView(i), q.Rho(), s.Vectors.RawRowView(i))
	}
	var qr mat.QR
	qr.Factorize(q.Whiten(lead))
	var basis mat.Dense
	qr.QTo(&basis)
	all := q.Unwhiten(&basis)
	all.Slice(0, t.M, 0, count).(*mat.Dense).Copy(s.Vectors)
	s.Vectors = all
	return s
}

// Leading is the k leading eigenvectors, including those of zero eigenvalues.
func Leading(ctx context.Context, s *mat.SymDense, k int) *mat.Dense {
	n := s.SymmetricDim()
	minus := mat.NewSymDense(n, nil)
	minus.ScaleSym(-1, s)
	return fail.Must(pencil.Solve(ctx, minus, pencil.Identity(n), pencil.Min, k)).Vectors
}

// Principal rotates A to the principal axes of its outputs, most variance first. Distances stay the same.
func Principal(ctx context.Context, t *Task, a *mat.Dense) *mat.Dense {
	_, d := a.Dims()
	r := Leading(ctx, linalg.Congruence(t.Basis.Total, a), d)
	out := mat.NewDense(t.M, d, nil)
	out.Mul(a, r)
	return out
}
