package blend

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
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

// Member has the outputs of a member in one fold of a cross-validation, nil for none: their first Dim columns are used.
type Member struct {
	Vote
	Outputs *frame.OutputPair
	Dim     int
}

// Scratch is memory that folds reuse, one after the other.
type Scratch struct{ train, test, products []float64 }

// Fold is the outputs of members in one fold, side by side: each about its mean, with a total variance of 1.
type Fold struct {
	spans       []span
	train, test *mat.Dense
	products    *mat.SymDense // of the columns of train
	scratch     *Scratch
}

// span is the range of columns of a member.
type span struct {
	Vote
	member, from, to int
}

// Fold joins the outputs of members in a fold, except those that do not vary. The next call overwrites it.
func (s *Scratch) Fold(ctx context.Context, members []Member) (f *Fold, err error) {
	defer fail.Catch(&err)
	f = &Fold{scratch: s}
	var means, sizes []float64 // of columns, and of spans
	width := 0
	for i, m := range members {
		if m.Outputs == nil {
			continue
		}
		mean, variance := spread(m.Outputs.Train, m.Outputs.D, min(m.Dim, m.Outputs.D))
		if !(variance > 0) {
			continue
		}
		f.spans = append(f.spans, span{m.Vote, i, width, width + len(mean)})
		means, sizes, width = append(means, mean...), append(sizes, 1/math.Sqrt(variance)), width+len(mean)
	}
	if width == 0 {
		return f, nil
	}
	side := func(room *[]float64, of func(*frame.OutputPair) []float64) *mat.Dense {
		first := members[f.spans[0].member].Outputs
		rows := len(of(first)) / first.D
		out := mat.NewDense(rows, width, frame.Grown(room, rows*width))
		for k, p := range f.spans {
			y := members[p.member].Outputs
			x := of(y)
			for i := range rows {
				to := out.RawRowView(i)[p.from:p.to]
				for c, v := range x[i*y.D:][:len(to)] {
					to[c] = (v - means[p.from+c]) * sizes[k]
				}
			}
		}
		return out
	}
	f.train = side(&s.train, func(y *frame.OutputPair) []float64 { return y.Train })
	f.test = side(&s.test, func(y *frame.OutputPair) []float64 { return y.Test })
	columns := tile.Rows(f.train)
	f.products = fail.Must(tile.Gram(ctx, columns, columns))
	return f, nil
}

// Outputs returns at most d outputs of a blend of all members but one (-1: of all), computed as [Method] computes them
// from directions; nil if no member's outputs vary.
func (f *Fold) Outputs(ctx context.Context, without, d int) (_ *frame.OutputPair, err error) {
	defer fail.Catch(&err)
	var votes []Vote
	var columns []int
	for _, p := range f.spans {
		if p.member != without {
			votes, columns = append(votes, p.Vote), append(columns, linalg.Range(p.to)[p.from:]...)
		}
	}
	if len(columns) == 0 {
		return nil, nil
	}
	_, width := f.train.Dims()
	weight, of := make([]float64, width), weights(votes)
	for _, p := range f.spans {
		if p.member == without {
			continue
		}
		for c := p.from; c < p.to; c++ {
			weight[c] = of[0]
		}
		of = of[1:]
	}
	products := mat.NewSymDense(len(columns), frame.Grown(&f.scratch.products, len(columns)*len(columns)))
	for k, c := range columns {
		for l, e := range columns[k:] {
			products.SetSym(k, k+l, weight[c]*weight[e]*f.products.At(c, e))
		}
	}
	components := principal(ctx, products, d).Vectors
	_, d = components.Dims()
	rotation := mat.NewDense(width, d, nil)
	for k, c := range columns {
		floats.ScaleTo(rotation.RawRowView(c), weight[c], components.RawRowView(k))
	}
	return &frame.OutputPair{Train: tile.Multiply(ctx, f.train, rotation).RawMatrix().Data,
		Test: tile.Multiply(ctx, f.test, rotation).RawMatrix().Data, D: d}, nil
}

// Similarity is the RV coefficient of the outputs of two members, 1 if they are equal except for rotation and size. It
// is NaN if a member has no outputs. Robert and Escoufier, Applied Statistics 25, 1976.
func (f *Fold) Similarity(x, y int) float64 {
	squares := func(x, y int) (sum float64) {
		for _, p := range f.spans {
			for _, q := range f.spans {
				if p.member != x || q.member != y {
					continue
				}
				for i := p.from; i < p.to; i++ {
					for j := q.from; j < q.to; j++ {
						sum += f.products.At(i, j) * f.products.At(i, j)
					}
				}
			}
		}
		return sum
	}
	return squares(x, y) / math.Sqrt(squares(x, x)*squares(y, y))
}

// spread is the means of the leading dim of d columns of x, and the sum of their variances.
func spread(x []float64, d, dim int) (mean []float64, variance float64) {
	n := len(x) / d
	mean = linalg.Mean(n, dim, func(i int) []float64 { return x[i*d:][:dim] })
	for i := range n {
		for c, v := range x[i*d:][:dim] {
			variance += (v - mean[c]) * (v - mean[c]) / float64(n)
		}
	}
	return mean, variance
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
