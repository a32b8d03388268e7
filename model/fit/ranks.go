package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
)

// maxKnots is the most knots that a feature has: between two of them hardly one row in two hundred lies.
const maxKnots = 256

// newRanks are the normal scores of rows of m features. A value's score is the quantile of the standard normal
// distribution at the share of rows below it, half of those that equal it among them.
func newRanks(x []float64, m int) *mapping.Ranks {
	n := len(x) / m
	r := &mapping.Ranks{First: []float64{0}}
	column := make([]float64, n)
	for j := range m {
		for i := range column {
			column[i] = x[i*m+j]
		}
		slices.Sort(column)
		var value, score []float64
		for from := 0; from < n; {
			to := from
			for to < n && column[to] == column[from] {
				to++
			}
			share := float64(from+to) / float64(2*n)
			value, score = append(value, column[from]), append(score, math.Sqrt2*math.Erfinv(2*share-1))
			from = to
		}
		k := min(len(value), maxKnots)
		for i := range k {
			at := i
			if k > 1 {
				at = i * (len(value) - 1) / (k - 1)
			}
			r.Value, r.Score = append(r.Value, value[at]), append(r.Score, score[at])
		}
		r.First = append(r.First, float64(len(r.Value)))
	}
	return r
}

// rankedData are scaled rows as their normal scores.
func rankedData(r *mapping.Ranks, z []float64, p *frame.Rows) *model.Data {
	d := &model.Data{N: p.N, M: p.M, X: make([]float64, len(z)), Y: p.Y, Classes: p.Classes}
	for i := range p.N {
		r.To(d.X[i*p.M:(i+1)*p.M], z[i*p.M:(i+1)*p.M])
	}
	return d
}

// fitRanked fits a linear method to normal scores.
func fitRanked(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	report := &model.Report{}
	p, err := c.prepare(d, report)
	if err != nil {
		return nil, err
	}
	v := view{scale: model.ScaleRank}
	s, err := v.look(ctx, p, nil, model.ScaleStandard, c.Seed)
	if err != nil {
		return nil, err
	}
	behind := c
	behind.Scale = model.ScaleNone
	m, err := Fit(ctx, s.rows.Data, behind)
	if err != nil {
		return nil, err
	}
	a := m.Components()
	if a == nil {
		return nil, fmt.Errorf("method %s is no linear one, and those alone see normal scores; give another scale", m.Method())
	}
	dim := m.Dim()
	w := mat.NewDense(p.M, dim, a)
	for j, v := range m.Scale() {
		row := w.RawRowView(j)
		for c := range row {
			row[c] /= v
		}
	}
	sum := &mapping.Sum{D: dim, Offset: make([]float64, dim)}
	s.add(sum, w, m.Mean())
	content := m.Content()
	content.Features, content.Float64 = featureNames(d), false
	content.Mean, content.Scale, content.Map = s.mean, s.scale, sum
	content.Params["scale"] = string(model.ScaleRank)
	content.Report.Unlabelled, content.Report.Imputed = report.Unlabelled, report.Imputed
	content.Report.Notes = append(report.Notes, content.Report.Notes...)
	return model.New(content)
}
