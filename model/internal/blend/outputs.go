package blend

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// Vote identifies members with nearly the same outputs: they share the method and the kind of preprocessing.
type Vote struct{ Method, Kind string }

// weights are the factors for outputs of variance 1 that give the members of each vote that variance together.
func weights(votes []Vote) []float64 {
	count, out := map[Vote]float64{}, make([]float64, len(votes))
	for _, v := range votes {
		count[v]++
	}
	for i, v := range votes {
		out[i] = 1 / math.Sqrt(count[v])
	}
	return out
}

// Member has the outputs of a member in one fold of a cross-validation: their first Dim columns are used.
type Member struct {
	Vote
	Outputs *frame.OutputPair
	Dim     int
}

// Scratch is memory that calls of Outputs reuse, one after the other.
type Scratch struct{ train, test []float64 }

// Outputs are the outputs of a blend of the members, d at most, as [Method] makes them of directions; nil if no
// member's outputs vary.
func (s *Scratch) Outputs(ctx context.Context, members []Member, d int) (_ *frame.OutputPair, err error) {
	defer fail.Catch(&err)
	var varying []Member
	var votes []Vote
	var means [][]float64
	var sizes []float64
	width := 0
	for _, m := range members {
		m.Dim = min(m.Dim, m.Outputs.D)
		mean, variance := spread(m.Outputs.Train, m.Outputs.D, m.Dim)
		if !(variance > 0) {
			continue
		}
		varying, votes, means = append(varying, m), append(votes, m.Vote), append(means, mean)
		sizes, width = append(sizes, 1/math.Sqrt(variance)), width+m.Dim
	}
	if width == 0 {
		return nil, nil
	}
	weight := weights(votes)
	side := func(room *[]float64, rows int, of func(*frame.OutputPair) []float64) *mat.Dense {
		*room = slices.Grow((*room)[:0], rows*width)[:rows*width]
		at := 0
		for k, m := range varying {
			x := of(m.Outputs)
			for i := range rows {
				for c, v := range x[i*m.Outputs.D:][:m.Dim] {
					(*room)[i*width+at+c] = (v - means[k][c]) * sizes[k] * weight[k]
				}
			}
			at += m.Dim
		}
		return mat.NewDense(rows, width, *room)
	}
	first := varying[0].Outputs
	a := side(&s.train, len(first.Train)/first.D, func(y *frame.OutputPair) []float64 { return y.Train })
	b := side(&s.test, len(first.Test)/first.D, func(y *frame.OutputPair) []float64 { return y.Test })
	components := principal(ctx, products(a), d)
	var train, test mat.Dense
	train.Mul(a, components.Vectors)
	test.Mul(b, components.Vectors)
	return &frame.OutputPair{Train: train.RawMatrix().Data, Test: test.RawMatrix().Data,
		D: train.RawMatrix().Cols}, nil
}

// spread is the means of the leading dim of d columns of x, and the sum of their variances.
func spread(x []float64, d, dim int) (mean []float64, variance float64) {
	n := len(x) / d
	mean = make([]float64, dim)
	for c := range mean {
		for i := range n {
			mean[c] += x[i*d+c]
		}
		mean[c] /= float64(n)
		for i := range n {
			v := x[i*d+c] - mean[c]
			variance += v * v / float64(n)
		}
	}
	return mean, variance
}

// products is A'A.
func products(a *mat.Dense) *mat.SymDense {
	const together = 32 // rows that are read at a time, which stay in a cache
	n, width := a.Dims()
	out := mat.NewSymDense(width, nil)
	for from := 0; from < n; from += together {
		out.SymRankK(out, 1, a.Slice(from, min(from+together, n), 0, width).T())
	}
	return out
}

// sideBySide joins matrices with the same number of rows into one of width columns.
func sideBySide(all []*mat.Dense, width int) *mat.Dense {
	n, _ := all[0].Dims()
	out, at := mat.NewDense(n, width, nil), 0
	for _, a := range all {
		_, d := a.Dims()
		out.Slice(0, n, at, at+d).(*mat.Dense).Copy(a)
		at += d
	}
	return out
}

// principal are the d leading eigenvectors of a covariance, or as many as its rank: that of the correlations, or of the
// covariance itself, which is lower where one column outweighs the others by more than float64 resolves.
func principal(ctx context.Context, covariance *mat.SymDense, d int) *pencil.Solution {
	rank := fail.Must(pencil.Rank(ctx, covariance))
	q := pencil.Identity(covariance.SymmetricDim())
	s, err := pencil.Solve(ctx, covariance, q, pencil.Max, min(d, rank))
	if fewer, ok := errors.AsType[*pencil.RankError](err); ok && fewer.Max > 0 {
		return fail.Must(pencil.Solve(ctx, covariance, q, pencil.Max, fewer.Max))
	}
	fail.Check(err)
	return s
}
