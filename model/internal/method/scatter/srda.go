package scatter

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// srda: a_k = (S_t + rho I)^-1 (1/n) X y_k for C-1 responses y_k, the class indicators made orthogonal to 1 and to each
// other (of unit variance here), then A <- A R with R the eigenvectors of A'S_t A, descending, so that fewer than C-1
// columns do not depend on the order of the classes. It is a linear solve instead of an eigenproblem. Cai, He and Han,
// IEEE TKDE 20, 2008.
var SRDA = frame.Method{
	Name: "srda", Title: "spectral regression discriminant analysis",
	Paper:      "Cai, He and Han, SRDA: an efficient algorithm for large-scale discriminant analysis, IEEE TKDE 20, 2008",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []frame.Param{frame.RidgeParam("auto",
		"relative ridge of the total scatter: auto (cross-validation), oas, or a number", true)},
	Dim:   frame.ClassDirections,
	Bound: frame.DiscriminantBound,
	Ridge: &frame.RidgeRule{Scatter: frame.TotalScatter, Grid: []float64{0.1, 1}},
	Fit:   fitSRDA,
}

func fitSRDA(ctx context.Context, t *frame.Task) *frame.Solution {
	var q *pencil.Metric
	if t.Ridge == 0 {
		q = fail.Must(pencil.Cut(t.Basis.Total))
	} else {
		q = frame.RidgeMetric(t, t.Basis.Total)
	}
	// (1/n) X y_k = G b_k: G = [sqrt(n_c/n) (mu_c - mu)], b_k a basis of the
	// complement of (sqrt(n_c/n)), which is the constant response.
	k := t.Basis.Classes()
	one := make([]float64, k)
	for c, n := range t.Basis.Counts {
		one[c] = math.Sqrt(n / t.Basis.N)
	}
	var rhs mat.Dense
	rhs.Mul(t.Basis.BetweenFactor(), linalg.Complement(one))
	a := q.Solve(&rhs)

	var sa, inner mat.Dense
	sa.Mul(t.Basis.Total, a)
	inner.Mul(a.T(), &sa)
	s := fail.Must(pencil.Solve(ctx, linalg.Symmetric(&inner), pencil.Identity(k-1), pencil.Max, 0))
	if t.D > s.Rank {
		panic(fail.With(&pencil.RankError{Asked: t.D, Max: s.Rank}))
	}
	rotated := mat.NewDense(t.M, s.Rank, nil)
	rotated.Mul(a, s.Vectors)
	// Responses that are fitted exactly (fewer rows than features, no ridge) share one eigenvalue.
	ties := s.Ties
	s.Ties = nil
	for _, tie := range ties {
		if tie[0] < t.D {
			s.Ties = append(s.Ties, tie)
		}
		tied := rotated.Slice(0, t.M, tie[0], min(tie[1], s.Rank)).(*mat.Dense)
		r := fail.Must(pencil.LeastNorm(mat.DenseCopyOf(tied)))
		var unique mat.Dense
		unique.Mul(tied, r)
		tied.Copy(&unique)
	}
	s.Vectors = mat.DenseCopyOf(rotated.Slice(0, t.M, 0, t.D))
	s.Values = s.Values[:t.D]

	// The residual is that of the normal equations, not of the eigenproblem above.
	var left mat.Dense
	left.Scale(q.Rho(), a)
	left.Add(&left, &sa)
	left.Sub(&left, &rhs)
	s.Residual = mat.Norm(&left, 2) / mat.Norm(&rhs, 2)
	return t.Solved(s, s.Rank)
}
