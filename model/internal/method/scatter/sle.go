package scatter

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// sle: min (X L X', X X') with the signed weights W = s s' of two groups, or
// W = 2 sum_c e_c e_c' - 1 1' of C classes, and L = n I - W, so that
//
//	X L X' = n M - K,  K = 2 sum_c m_c m_c' - m m',  M = X X', m_c = class sums, m = sum_c m_c
//
// and lambda = n - kappa for the eigenvalues kappa of (K, M). K has rank at most C (1 for two centred groups, where the
// direction is Fisher's), so all other directions share lambda = n: they are ordered by variance, the largest a'Ma/a'a
// first. No ridge: the literal form with a rank cut, A'M A = I. Gong, Tao, Yang and Fu, AAAI 2014.
var SLE = frame.Method{
	Name: "sle", Title: "signed Laplacian embedding",
	Paper:      "Gong, Tao, Yang and Fu, Signed Laplacian embedding for supervised dimension reduction, AAAI 2014",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []frame.Param{frame.OriginParam("mean")},
	Dim: func(t *frame.Task) int {
		if t.Basis.Classes() == 2 {
			return 1
		}
		return frame.ClassDirections(t)
	},
	Fit: fitSLE,
}

// uncentred gives M = X X' and the class sums m_c (columns) about the task's
// origin; with augment the constant feature is the last.
func uncentred(t *frame.Task) (*mat.SymDense, *mat.Dense) {
	m, k := t.M, t.Basis.Classes()
	size := m
	if t.Params["origin"] == "augment" {
		size++
	}
	moment, sums := mat.NewSymDense(size, nil), mat.NewDense(size, k, nil)
	for i := range m {
		for j := i; j < m; j++ {
			moment.SetSym(i, j, t.Basis.N*t.Basis.Total.At(i, j))
		}
	}
	for c, n := range t.Basis.Counts {
		for j, v := range t.Basis.Means.RawRowView(c) {
			sums.Set(j, c, n*v)
		}
	}
	switch t.Params["origin"] {
	case "augment":
		moment.SetSym(m, m, t.Basis.N)
		sums.SetRow(m, t.Basis.Counts)
	case "none":
		v := t.Origin()
		moment.SymRankOne(moment, t.Basis.N, mat.NewVecDense(m, v))
		for c, n := range t.Basis.Counts {
			for j := range m {
				sums.Set(j, c, sums.At(j, c)+n*v[j])
			}
		}
	}
	return moment, sums
}

func fitSLE(ctx context.Context, t *frame.Task) *frame.Solution {
	moment, sums := uncentred(t)
	q := fail.Must(pencil.Cut(moment))
	k := t.Basis.Classes()
	j, minus := mat.NewSymDense(k, nil), mat.NewSymDense(k, nil)
	for a := range k {
		for b := a; b < k; b++ {
			j.SetSym(a, b, -1)
		}
		j.SetSym(a, a, 1)
	}
	minus.ScaleSym(-1, j)
	// kappa > 0 (lambda < n) comes first, kappa < 0 last; the second exists only where the rows are not centred.
	first := signed(ctx, sums, j, q, t.Basis.N)
	last := signed(ctx, sums, minus, q, t.Basis.N)
	shifts := k == 2 && moment.SymmetricDim() > t.M // the constant feature is no direction of two classes
	if shifts && len(first.Values) > 0 && t.Basis.N*math.Pow(first.Vectors.At(t.M, 0), 2) > 1-1e-9 {
		first = &pencil.Solution{Gap: math.Inf(1)} // their means are equal: it is the constant feature alone
	}
	informative := len(first.Values)
	columns := mat.NewDense(moment.SymmetricDim(), t.D, nil)
	values := make([]float64, t.D)
	at := 0
	put := func(v mat.Vector, lambda float64) {
		if at < t.D {
			columns.SetCol(at, mat.Col(nil, 0, v))
			values[at] = lambda
			at++
		}
	}
	for i, kappa := range first.Values {
		put(first.Vectors.ColView(i), t.Basis.N-kappa)
	}
	sol := &pencil.Solution{Gap: first.Gap, Ties: first.Ties, Rank: q.Rank(),
		Residual: max(first.Residual, last.Residual)}
	if at < t.D {
		tied, given := q.Rank()-informative-len(last.Values), last.Vectors
		if shifts { // it is tied with directions of features, and its output would be constant
			given = mat.NewDense(t.M+1, 1, nil)
			given.Set(t.M, 0, 1)
			tied--
		}
		rest, err := leastNorm(ctx, moment, first.Vectors, given, min(tied, t.D-at))
		if rank, ok := errors.AsType[*pencil.RankError](err); ok {
			panic(fail.With(&pencil.RankError{Asked: t.D, Max: at + rank.Max}))
		}
		fail.Check(err)
		if rest != nil {
			_, c := rest.Dims()
			for i := range c {
				put(rest.ColView(i), t.Basis.N)
			}
			sol.Residual = max(sol.Residual, tiedResidual(q, sums, j, rest, t.Basis.N))
		}
		sol.Ties = append(sol.Ties, [2]int{informative, at})
		for i := len(last.Values) - 1; i >= 0; i-- {
			put(last.Vectors.ColView(i), t.Basis.N+last.Values[i])
		}
		t.Report.Note(fmt.Sprintf("SLE decides %d of %d columns; the others are directions of most variance", informative,
			t.D))
	}
	if at < t.D {
		panic(fail.With(&pencil.RankError{Asked: t.D, Max: at}))
	}
	sol.Values = values
	sol.Vectors = mat.DenseCopyOf(columns.Slice(0, t.M, 0, t.D)) // a constant feature only shifts outputs
	pencil.FixSigns(sol.Vectors)
	return t.Solved(sol, informative)
}

// signed solves (U J U', M) for the eigenvalues above 1e-9 n; smaller ones are rounding errors of the tied ones.
func signed(ctx context.Context, u *mat.Dense, j mat.Symmetric, q *pencil.Metric, n float64) *pencil.Solution {
	s, err := pencil.SolveLow(ctx, u, j, q, 0)
	if _, ok := errors.AsType[*pencil.RankError](err); ok {
		return &pencil.Solution{Gap: math.Inf(1)}
	}
	fail.Check(err)
	k := 0
	for k < len(s.Values) && s.Values[k] > 1e-9*n {
		k++
	}
	s.Values = s.Values[:k]
	if k == 0 {
		return &pencil.Solution{Gap: math.Inf(1)}
	}
	s.Vectors = mat.DenseCopyOf(s.Vectors.Slice(0, q.Columns(), 0, k))
	return s
}

// leastNorm returns the c columns a with a'Ma = 1, M-orthogonal to the given ones, of least norm: the leading
// eigenvectors of P M P, P the projection away from M times those, divided by the square root of their eigenvalue.
func leastNorm(ctx context.Context, m *mat.SymDense, first, last *mat.Dense, c int) (*mat.Dense, error) {
	if c < 1 {
		return nil, nil
	}
	n := m.SymmetricDim()
	var basis []*mat.VecDense // of M times the given columns, orthonormal
	for _, a := range []*mat.Dense{first, last} {
		if a == nil {
			continue
		}
		_, k := a.Dims()
		for i := range k {
			b := mat.NewVecDense(n, nil)
			b.MulVec(m, a.ColView(i))
			for range 2 { // the second time removes rounding errors
				for _, e := range basis {
					b.AddScaledVec(b, -mat.Dot(e, b), e)
				}
				b.ScaleVec(1/mat.Norm(b, 2), b)
			}
			basis = append(basis, b)
		}
	}
	p := mat.DenseCopyOf(m)
	if len(basis) > 0 {
		// P M P = M - H Q' - Q H', H = M Q - Q (Q'M Q)/2.
		q := mat.NewDense(n, len(basis), nil)
		for i, b := range basis {
			q.SetCol(i, mat.Col(nil, 0, b))
		}
		var h, inner, half, t mat.Dense
		h.Mul(m, q)
		inner.Mul(q.T(), &h)
		half.Mul(q, &inner)
		half.Scale(0.5, &half)
		h.Sub(&h, &half)
		t.Mul(&h, q.T())
		p.Sub(p, &t)
		p.Sub(p, t.T())
	}
	s, err := pencil.Solve(ctx, linalg.Symmetric(p), pencil.Identity(n), pencil.Max, c)
	if err != nil {
		return nil, err
	}
	for i, l := range s.Values {
		linalg.ScaleColumn(s.Vectors, i, 1/math.Sqrt(l))
	}
	return s.Vectors, nil
}

// tiedResidual is max |Z'K a| / n over columns that should have kappa = 0.
func tiedResidual(q *pencil.Metric, u *mat.Dense, j mat.Symmetric, a *mat.Dense, n float64) float64 {
	var ua, jua, ka mat.Dense
	ua.Mul(u.T(), a)
	jua.Mul(j, &ua)
	ka.Mul(u, &jua)
	w := q.Whiten(&ka)
	_, c := w.Dims()
	worst := 0.0
	for i := range c {
		worst = max(worst, mat.Norm(w.ColView(i), 2)/n)
	}
	return worst
}
