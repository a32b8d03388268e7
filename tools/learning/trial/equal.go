package trial

import (
	"context"
	"math"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
)

// otherCost is what the features of the other half cost a fixed projection: their share of a squared distance is one
// part of so many.
const otherCost = 1e6

// RunEqual runs a stage on a twin stream whose live model is a fixed projection on the first half of the features, and
// whose candidates, from fits of all classes on, are a fixed projection on the second half: both are equal in
// class-balanced accuracy. Candidates need evidence that they are better, as far from more rows as they are. With
// better, they are projections on both halves.
func RunEqual(ctx context.Context, twin streams.Stream, seed uint64, rows int, better bool) (*Result, error) {
	features, classes, total, err := sizes(twin, seed, rows)
	if err != nil {
		return nil, err
	}
	var hasLive atomic.Bool
	fixed := func(_ context.Context, _ fit.FeatureRows, y []int) (numerator, denominator *mat.SymDense, err error) {
		var of [2]float64 // the costs of the halves
		switch isCandidate := hasLive.Load() && common(y, classes) >= classes; {
		case isCandidate && better:
			of = [2]float64{1, 1}
		case isCandidate:
			of = [2]float64{otherCost, 1}
		default:
			of = [2]float64{1, otherCost}
		}
		numerator, denominator = mat.NewSymDense(features, nil), mat.NewSymDense(features, nil)
		for j := range features {
			cost := of[2*j/features]
			denominator.SetSym(j, j, cost)
			numerator.SetSym(j, j, cost*float64(1+j))
		}
		return numerator, denominator, nil
	}
	return Run(ctx, Config{Stream: twin, Seed: seed, Rows: rows, Every: total,
		Fit: fit.Config{Dim: features, Scale: "none", Params: map[string]string{"ridge": "0"},
			Criterion: &fit.Criterion{Name: "fixed", Supervised: true, PerFeature: fixed}},
		Configure: func(c *plugin.Config) {
			store := c.Store
			c.Store = func(ctx context.Context, r *plugin.Release) (string, error) {
				hasLive.Store(true)
				return store(ctx, r)
			}
			gate := &c.Training.Gate
			gate.MoreRows, gate.NewClass = math.Inf(1), math.Inf(1)
		}})
}

// sizes returns the features of a stream, the classes with at least one row in a hundred, and the rows.
func sizes(s streams.Stream, seed uint64, rows int) (features, classes, total int, err error) {
	source, err := s.Open(rows, seed)
	if err != nil {
		return 0, 0, 0, err
	}
	total = source.Rows()
	counts := map[int]int{}
	for range total / streams.BatchRows {
		d := source.Next()
		features = d.M
		for _, y := range d.Y {
			counts[y]++
		}
	}
	labelled := total - counts[streams.NoLabel]
	delete(counts, streams.NoLabel)
	for _, n := range counts {
		if 100*n >= labelled {
			classes++
		}
	}
	return features, classes, total, nil
}

// common is how many of some classes have a quarter of a fair share of the rows. Wrong labels name classes before they
// come.
func common(y []int, classes int) (n int) {
	counts := map[int]int{}
	for _, c := range y {
		counts[c]++
	}
	for _, rows := range counts {
		if 4*rows*classes >= len(y) {
			n++
		}
	}
	return n
}
