package prequential

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
)

// Model is a model with its outputs for the reference rows, and its agreement with recent labels.
type Model struct {
	*model.Model
	Agreement   policy.Agreement
	Sensitivity policy.Sensitivity
	FittedAt    int // rows that had been scored when it was fitted

	classes map[string]bool // that it was fitted on
	known   outputs         // of references
}

// New returns a model that has not scored a row.
func New(m *model.Model) *Model {
	v := &Model{Model: m, classes: map[string]bool{}}
	for _, class := range m.Classes() {
		v.classes[class] = true
	}
	return v
}

// Scores are what a model predicts for some rows.
type Scores struct {
	Right []float64 // by row, in [0, 1]: how right the model is
	// Shares are, by row, the share of its nearest references that have its label. They differ less between two models
	// than Right, but vary so much less that a tenth of the rows shows a difference.
	Shares []float64
	// Means are, by row, how right the nearest class mean in the same outputs is, among the classes that the model was
	// fitted on; NaN for other rows, and for a class with few references.
	NearestMean []float64
	Class       []string // predicted by row, "" without labels
}

func newScores(n int) Scores {
	v := make([]float64, 3*n)
	return Scores{v[:n:n], v[n : 2*n : 2*n], v[2*n:], make([]string, n)}
}

// IsFair reports whether the model has learned no row of the run that a row belongs to.
func (v *Model) IsFair(r evidence.Row) bool { return r.RunStart >= v.FittedAt }

// Count adds scores to the model's agreement with the labels, and to its evidence that it beats chance.
func (v *Model) Count(s Scores, rows []window.Row, described []evidence.Row, labels *evidence.LabelSequence) {
	for i, right := range s.Right {
		if v.IsFair(described[i]) {
			v.Sensitivity.Add(right, labels.Share(s.Class[i]), described[i])
		}
		v.Agreement.Add(right, rows[i].Label, s.Class[i])
	}
}

// Score scores rows that the model has not seen; x has their features, row after row. With labels, a model is right if
// the nearest reference outside the neighbourhood of the row has its label; without, it is as right as the share of the
// row's variance that the outputs keep. A model is wrong about a row that it cannot project.
func (v *Model) Score(ctx context.Context, refs *References, rows []window.Row, x []float64, labelled bool) Scores {
	out, err := v.scoreAll(ctx, refs, rows, x, labelled)
	if err == nil {
		return out
	}
	// One outlier fails the whole call: score each row separately.
	out = newScores(len(rows))
	m := v.M()
	for i := range rows {
		if one, err := v.scoreAll(ctx, refs, rows[i:i+1], x[i*m:(i+1)*m], labelled); err == nil {
			out.Right[i], out.Shares[i], out.NearestMean[i] = one.Right[0], one.Shares[0], one.NearestMean[0]
			out.Class[i] = one.Class[0]
		}
	}
	return out
}

func (v *Model) scoreAll(ctx context.Context, refs *References, rows []window.Row, x []float64,
	labelled bool) (Scores, error) {
	if !labelled {
		return v.keptVariance(ctx, x, len(rows))
	}
	if v.Map() == "views" {
		return v.classify(ctx, x, rows)
	}
	y, err := refs.rowOutputs.project(ctx, v.Model, x, len(rows))
	if err != nil {
		return Scores{}, err
	}
	k, d := v.outputs(ctx, refs), v.Dim()
	out := newScores(len(rows))
	for i := 0; i < len(rows); {
		// Rows next to each other have the same neighbourhood.
		near, n := nearOf(k.rows, &rows[i]), 1
		for i+n < len(rows) && nearOf(k.rows, &rows[i+n]) == near {
			n++
		}
		part := rows[i : i+n]
		if err := k.nearest(ctx, near, part, y[i*d:(i+n)*d], out.Class[i:i+n], out.Shares[i:i+n]); err != nil {
			return Scores{}, err
		}
		k.nearestMeans(near, part, y[i*d:(i+n)*d], out.NearestMean[i:i+n], v.classes)
		i += n
	}
	for i := range rows {
		if out.Class[i] == rows[i].Label {
			out.Right[i] = 1
		}
	}
	return out, nil
}

// errNoReference is the error of a model that can project no reference.
var errNoReference = errors.New("no reference can be projected")

// classify scores a model that predicts classes itself.
func (v *Model) classify(ctx context.Context, x []float64, rows []window.Row) (Scores, error) {
	class := make([]int, len(rows))
	if err := v.ProjectClasses(ctx, make([]float32, len(rows)*v.Dim()), class,
		model.DenseRows(x, len(rows), v.M())); err != nil {
		return Scores{}, err
	}
	out := newScores(len(rows))
	names := v.Classes()
	for i, c := range class {
		out.Class[i] = names[c]
		if names[c] == rows[i].Label {
			out.Right[i] = 1
		}
	}
	out.NearestMean, out.Shares = out.Right, out.Right
	return out, nil
}

// keptVariance is |y|^2 / |x|^2 of each row, with x scaled as in the fit. For orthonormal components it is the share of
// the row's variance that they keep.
func (v *Model) keptVariance(ctx context.Context, x []float64, n int) (Scores, error) {
	m, d := v.M(), v.Dim()
	y, err := project(ctx, v.Model, x, n)
	if err != nil {
		return Scores{}, err
	}
	out, scaled := newScores(n), make([]float64, m)
	for i := range n {
		if err := v.ScaledTo(scaled, model.DenseRows(x[i*m:(i+1)*m], 1, m)); err != nil {
			return Scores{}, err
		}
		all, kept := squaredNorm(scaled), squaredNorm(y[i*d:(i+1)*d])
		out.Right[i] = 1
		if all > 0 {
			out.Right[i] = min(kept/all, 1)
		}
		if math.IsInf(all, 0) || math.IsNaN(out.Right[i]) {
			return Scores{}, errOverflow
		}
	}
	out.NearestMean, out.Shares = out.Right, out.Right
	return out, nil
}

// errOverflow is the error of a row whose squared norm exceeds float64.
var errOverflow = errors.New("the squared norm of a row exceeds float64")

func squaredNorm(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// project returns the outputs of n rows as float64.
func project(ctx context.Context, m *model.Model, x []float64, n int) ([]float64, error) {
	return new(projector).project(ctx, m, x, n)
}

// projector projects rows to memory that it keeps.
type projector struct {
	narrow []float32
	y      []float64
}

// project returns the outputs of n rows as float64. The next call overwrites them.
func (p *projector) project(ctx context.Context, m *model.Model, x []float64, n int) ([]float64, error) {
	size := n * m.Dim()
	p.narrow, p.y = slices.Grow(p.narrow[:0], size)[:size], slices.Grow(p.y[:0], size)[:size]
	if err := m.ProjectContext(ctx, p.narrow, model.DenseRows(x, n, m.M())); err != nil {
		return nil, err
	}
	for i, f := range p.narrow {
		p.y[i] = float64(f)
	}
	return p.y, nil
}
