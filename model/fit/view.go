package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
)

// view is what a linear method sees of rows: features in a scale, normal scores, or what landmarks make of them.
type view struct {
	scale     model.Scale
	landmarks int     // 0: none
	width     float64 // of their kernels
}

// curved tells whether what is linear in a view is not linear in the features.
func (v view) curved() bool { return v.landmarks > 0 || v.scale == model.ScaleRank }

// kind tells what a view makes of features, whatever their scale.
func (v view) kind() string {
	switch {
	case v.landmarks > 0:
		return "landmarks"
	case v.scale == model.ScaleRank:
		return "rank"
	}
	return "features"
}

// seen are rows in a view.
type seen struct {
	base        *frame.Task // those that are learned from, with their statistics
	rows        *frame.Rows // all of them, held out ones too
	mean, scale []float64   // of the features, where the view is curved
	ranks       *mapping.Ranks
	marks       *Landmarks
}

// front is what stands before a fit: a view, and the rows as they come to it. It learned from all of them, so
// cross-validation behind it has one of its own in each fold.
type front struct {
	rows *frame.Rows
	view view
	of   model.Scale // that the view looks at
}

// errConstant says that there is nothing to make landmarks of.
var errConstant = errors.New("no feature varies")

// look shows the rows p as those at the indices train have them; all of them, where these are nil. of is the scale that
// kernels and normal scores look at.
func (v view) look(ctx context.Context, p *frame.Rows, train []int, of model.Scale, seed uint64) (*seen, error) {
	subset := func(p *frame.Rows) *frame.Rows {
		if train == nil {
			return p
		}
		return p.Subset(train)
	}
	s, scaling := &seen{rows: p}, v.scale
	var made *model.Data
	switch {
	case v.landmarks > 0:
		marks, err := drawLandmarks(ctx, subset(p), Config{Landmarks: v.landmarks, Width: v.width, Scale: of, Seed: seed})
		if err != nil {
			return nil, err
		}
		s.marks, s.mean, s.scale = marks, marks.mean, marks.scale
		if made, err = marks.data(ctx, p); err != nil {
			return nil, err
		}
	case v.scale == model.ScaleRank:
		t := &frame.Task{Method: &frame.Method{Name: string(v.scale)}, Scaling: of, Report: &model.Report{}}
		if err := t.Load(ctx, subset(p)); err != nil {
			return nil, err
		}
		s.ranks = newRanks(t.Features(nil), p.M)
		t.Rows = p
		made = rankedData(s.ranks, t.Features(nil), p)
		s.mean, s.scale = t.Stat.Mean, t.Stat.Scale
	}
	if made != nil {
		var err error
		if s.rows, err = frame.Prepare(ctx, made, p.Y != nil, false, &model.Report{}); err != nil {
			return nil, err
		}
		scaling = model.ScaleNone
	}
	s.base = &frame.Task{Method: &scan, Scaling: scaling, Seed: seed, Report: &model.Report{}}
	if p.Y == nil {
		s.base.Method = &frame.Method{Name: Auto, Samples: true}
	}
	return s, s.base.Load(ctx, subset(s.rows))
}

// add puts directions (columns x d) of a curved view, about the mean of what it shows, into a sum.
func (s *seen) add(sum *mapping.Sum, w *mat.Dense, mean []float64) {
	var shift mat.VecDense
	shift.MulVec(w.T(), mat.NewVecDense(len(mean), slices.Clone(mean)))
	for c := range sum.Offset {
		sum.Offset[c] -= shift.AtVec(c)
	}
	if s.ranks != nil {
		sum.Ranks = s.ranks
		sum.Ranked = plus(sum.Ranked, w)
		return
	}
	var coefficients mat.Dense
	coefficients.Mul(s.marks.back, w)
	if len(sum.Kernels) == 0 {
		sum.Kernels = append(sum.Kernels, &mapping.KernelMap{D: sum.D, Rows: s.marks.rows, K: s.marks.kernel})
	}
	sum.Kernels[0].Coefficients = plus(sum.Kernels[0].Coefficients, &coefficients)
}

// plus adds w to row-major numbers, nil for none yet.
func plus(to []float64, w *mat.Dense) []float64 {
	data := mat.DenseCopyOf(w).RawMatrix().Data
	for i, v := range to {
		data[i] += v
	}
	return data
}

// featureNames are those of the data, or x0, x1, ...
func featureNames(d *model.Data) []string {
	if d.Features != nil {
		return slices.Clone(d.Features)
	}
	names := make([]string, d.M)
	for j := range names {
		names[j] = fmt.Sprintf("x%d", j)
	}
	return names
}
