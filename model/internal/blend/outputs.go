package blend

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
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

// Outputs are the outputs of a blend of the members, d at most, as [Method] makes them of directions; nil if no
// member's outputs vary.
func Outputs(ctx context.Context, members []Member, d int) (_ *frame.OutputPair, err error) {
	defer fail.Catch(&err)
	var side, query []*mat.Dense
	var votes []Vote
	width := 0
	for _, m := range members {
		y := m.Outputs
		dim := min(m.Dim, y.D)
		train := mat.DenseCopyOf(mat.NewDense(len(y.Train)/y.D, y.D, y.Train).Slice(0, len(y.Train)/y.D, 0, dim))
		test := mat.DenseCopyOf(mat.NewDense(len(y.Test)/y.D, y.D, y.Test).Slice(0, len(y.Test)/y.D, 0, dim))
		n, _ := train.Dims()
		variance := 0.0
		for c := range dim {
			mean := mat.Sum(train.ColView(c)) / float64(n)
			for i := range n {
				v := train.At(i, c) - mean
				train.Set(i, c, v)
				variance += v * v / float64(n)
			}
			for i := range test.RawMatrix().Rows {
				test.Set(i, c, test.At(i, c)-mean)
			}
		}
		if !(variance > 0) {
			continue
		}
		train.Scale(1/math.Sqrt(variance), train)
		test.Scale(1/math.Sqrt(variance), test)
		side, query, width = append(side, train), append(query, test), width+dim
		votes = append(votes, m.Vote)
	}
	if width == 0 {
		return nil, nil
	}
	for i, weight := range weights(votes) {
		side[i].Scale(weight, side[i])
		query[i].Scale(weight, query[i])
	}
	a, b := sideBySide(side, width), sideBySide(query, width)
	var products mat.Dense
	products.Mul(a.T(), a)
	components := principal(ctx, linalg.Symmetric(&products), d)
	var train, test mat.Dense
	train.Mul(a, components.Vectors)
	test.Mul(b, components.Vectors)
	return &frame.OutputPair{Train: train.RawMatrix().Data, Test: test.RawMatrix().Data,
		D: train.RawMatrix().Cols}, nil
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
