package frame

import (
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// Training is rows of the task with their embedding, of d numbers each; nil
// for all rows.
func (t *Task) Training(rows []int, embedding []float64, d int) mapping.Training {
	return mapping.Training{D: d, Rows: t.Features(rows), Embedding: embedding}
}

// Features are rows of the task, n x m, nil for all: scaled as the projection
// scales them, so that one that comes back has distance 0, exactly. They have
// all features, where t.x may be in a basis of its own.
func (t *Task) Features(rows []int) []float64 {
	if rows == nil {
		rows = linalg.Range(t.Rows.N)
	}
	d := t.Rows.Data
	raw := model.DenseRows(d.X, d.N, d.M)
	out := make([]float64, len(rows)*d.M)
	for i, r := range rows {
		raw.Scaled(out[i*d.M:(i+1)*d.M], t.Rows.Index[r], t.Stat.Mean, t.Stat.Scale, t.Scaling == model.ScaleUnit)
	}
	return out
}
