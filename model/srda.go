package model

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// srda: a_k = (S_t + rho I)^-1 (1/n) X y_k for C-1 responses y_k, the class
// indicators made orthogonal to 1 and to each other (of unit variance here),
// then A <- A R with R the eigenvectors of A'S_t A, descending, so that fewer
// than C-1 columns do not depend on the order of the classes. A linear solve in
// place of an eigenproblem. Cai, He and Han, IEEE TKDE 20, 2008.
var srda = Method{
	Name: "srda", Title: "spectral regression discriminant analysis",
	Paper:      "Cai, He and Han, SRDA: an efficient algorithm for large-scale discriminant analysis, IEEE TKDE 20, 2008",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []Param{ridgeParam("auto", "relative ridge of the total scatter: auto (cross-validation), oas, or a number", true)},
	dim:    classDirections,
	bound:  discriminantBound,
	ridge:  &ridgeRule{of: totalScatter, grid: []float64{oasRidge, 0.1, 1}},
	fit:    fitSRDA,
}

func fitSRDA(_ context.Context, t *task) (*solution, error) {
	var q *pencil.Metric
	var err error
	if t.ridge == 0 {
		q, err = pencil.Cut(t.stat.total)
	} else {
		q, err = t.ridgeMetric(t.stat.total)
	}
	if err != nil {
		return nil, err
	}
	// (1/n) X y_k = G b_k: G = [sqrt(n_c/n) (mu_c - mu)], b_k a basis of the
	// complement of (sqrt(n_c/n)), which is the constant response.
	k := t.stat.classes()
	one := make([]float64, k)
	for c, n := range t.stat.counts {
		one[c] = math.Sqrt(n / t.stat.n)
	}
	var rhs mat.Dense
	rhs.Mul(t.stat.betweenFactor(), complement(one))
	a := q.Solve(&rhs)

	var sa, inner mat.Dense
	sa.Mul(t.stat.total, a)
	inner.Mul(a.T(), &sa)
	s, err := pencil.Solve(symmetric(&inner), pencil.Identity(k-1), pencil.Max, 0)
	if err != nil {
		return nil, err
	}
	if t.d > s.Rank {
		return nil, &pencil.RankError{Asked: t.d, Max: s.Rank}
	}
	turned := mat.NewDense(t.m, s.Rank, nil)
	turned.Mul(a, s.Vectors)
	// Responses that are met exactly (rows fewer than features, no ridge) share
	// one eigenvalue.
	ties := s.Ties
	s.Ties = nil
	for _, tie := range ties {
		if tie[0] < t.d {
			s.Ties = append(s.Ties, tie)
		}
		tied := turned.Slice(0, t.m, tie[0], min(tie[1], s.Rank)).(*mat.Dense)
		r, err := pencil.LeastNorm(mat.DenseCopyOf(tied))
		if err != nil {
			return nil, err
		}
		var settled mat.Dense
		settled.Mul(tied, r)
		tied.Copy(&settled)
	}
	s.Vectors = mat.DenseCopyOf(turned.Slice(0, t.m, 0, t.d))
	s.Values = s.Values[:t.d]

	// Residual of the normal equations, which the eigenproblem above is not.
	var left mat.Dense
	left.Scale(q.Rho(), a)
	left.Add(&left, &sa)
	left.Sub(&left, &rhs)
	s.Residual = mat.Norm(&left, 2) / mat.Norm(&rhs, 2)
	return t.solved(s, s.Rank), nil
}

// complement is an orthonormal basis (k x k-1) of the vectors orthogonal to the
// unit vector u: the last columns of the Householder reflection that takes the
// first axis to it.
func complement(u []float64) *mat.Dense {
	k := len(u)
	w := append([]float64(nil), u...)
	sign := 1.0
	if w[0] < 0 {
		sign = -1
	}
	w[0] += sign
	norm := 0.0
	for _, v := range w {
		norm += v * v
	}
	b := mat.NewDense(k, k-1, nil)
	for i := range k {
		for j := 1; j < k; j++ {
			v := -2 * w[i] * w[j] / norm
			if i == j {
				v++
			}
			b.Set(i, j-1, v)
		}
	}
	return b
}

func symmetric(a *mat.Dense) *mat.SymDense {
	n, _ := a.Dims()
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, (a.At(i, j)+a.At(j, i))/2)
		}
	}
	return s
}
