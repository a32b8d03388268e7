package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// maxKnots is the most knots that a feature has.
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
		var value, share []float64
		for from := 0; from < n; {
			to := from
			for to < n && column[to] == column[from] {
				to++
			}
			value, share = append(value, column[from]), append(share, float64(from+to)/float64(2*n))
			from = to
		}
		for _, at := range knots(share) {
			r.Value, r.Score = append(r.Value, value[at]), append(r.Score, math.Sqrt2*math.Erfinv(2*share[at]-1))
		}
		r.First = append(r.First, float64(len(r.Value)))
	}
	return r
}

// knots chooses among the distinct values of a feature, of which each stands at a share of the rows. What is between two
// knots lies on a line, so the shares of the rows there must be near each other: knots are spaced by rows and not by
// values, and a value that many rows have is one, with those beside it. Between two knots with values between them is
// less than one row in a hundred.
func knots(share []float64) []int {
	if len(share) <= maxKnots {
		return linalg.Range(len(share))
	}
	// The least step that needs no more knots. Two steps pass over more than it, so 2/maxKnots would be enough.
	for step := 1.0 / maxKnots; ; step *= 1.02 {
		at := []int{0}
		for next := 1; next < len(share); next++ {
			if from := at[len(at)-1]; next == len(share)-1 || share[next+1]-share[from] > step {
				at = append(at, next)
			}
		}
		if len(at) <= maxKnots {
			return at
		}
	}
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
	p, err := c.prepare(ctx, d, report)
	if err != nil {
		return nil, err
	}
	v := view{scale: model.ScaleRank}
	s, err := v.look(ctx, p, nil, model.ScaleStandard, c.Seed)
	if err != nil {
		return nil, err
	}
	behind := c
	behind.Scale, behind.front = model.ScaleNone, &front{p, v, model.ScaleStandard}
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
