package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// Conversion is an affine map from outputs of an earlier epoch to outputs of the epoch that a model begins: row vector
// y becomes y Matrix + Shift. A reader that stored outputs converts them with it instead of requesting them again.
type Conversion struct {
	FromEpoch uint64      `json:"from_epoch"`
	Matrix    [][]float64 `json:"matrix"` // a row for each old output, a column for each new one
	Shift     []float64   `json:"shift"`
	// Residual is |Y1 - (Y0 Matrix + Shift)| / |Y1 - mean| on the rows that the map was fitted on: 0 is exact, and with
	// 1 the mean of the new outputs would be as close.
	Residual float64 `json:"residual"`
}

// MaxConverted is the maximum number of outputs of models that have a Conversion: its size grows with the square.
const MaxConverted = 256

// conversionRidge is added to the variance of each old output, relative to their mean variance, so that outputs which
// do not vary on the rows have no weight.
const conversionRidge = 1e-9

// FitConversion returns the least-squares map from the outputs of one model to the outputs of another on some rows; nil
// if a model has more than MaxConverted outputs, or the rows do not determine the map.
func FitConversion(ctx context.Context, from, to *Model, rows Rows) (_ *Conversion, err error) {
	defer parallel.Recover(&err, "conversion")
	if err := cmp.Or(from.exists("from"), to.exists("to")); err != nil {
		return nil, fmt.Errorf("conversion: %w", err)
	}
	d0, d1 := from.Dim(), to.Dim()
	if max(d0, d1) > MaxConverted || rows.N <= d0 {
		return nil, nil
	}
	y0, err := outputs(ctx, from, rows, d0)
	if err != nil {
		return nil, fmt.Errorf("conversion: %w", err)
	}
	y1, err := outputs(ctx, to, rows, d1)
	if err != nil {
		return nil, fmt.Errorf("conversion: %w", err)
	}
	c0, c1 := centred(y0), centred(y1)
	var gram, cross, matrix mat.Dense
	gram.Mul(c0.T(), c0)
	cross.Mul(c0.T(), c1)
	for j := range d0 {
		gram.Set(j, j, gram.At(j, j)+conversionRidge*mat.Trace(&gram)/float64(d0))
	}
	var factor mat.Cholesky
	if !factor.Factorize(mat.NewSymDense(d0, gram.RawMatrix().Data)) {
		return nil, nil
	}
	if err := factor.SolveTo(&matrix, &cross); err != nil {
		return nil, nil // nearly singular: no map
	}
	c := &Conversion{Shift: make([]float64, d1)}
	for i := range d0 {
		c.Matrix = append(c.Matrix, slices.Clone(matrix.RawRowView(i)))
	}
	var fitted mat.Dense
	fitted.Mul(y0, &matrix)
	for j := range d1 {
		c.Shift[j] = (mat.Sum(y1.ColView(j)) - mat.Sum(fitted.ColView(j))) / float64(rows.N)
	}
	fitted.Mul(c0, &matrix)
	fitted.Sub(c1, &fitted)
	if spread := mat.Norm(c1, 2); spread > 0 {
		c.Residual = mat.Norm(&fitted, 2) / spread
	}
	if !c.isFinite() {
		return nil, nil
	}
	return c, nil
}

// Apply converts outputs, row after row.
func (c *Conversion) Apply(y []float64) []float64 {
	d0, d1 := len(c.Matrix), len(c.Shift)
	out := make([]float64, 0, len(y)/max(d0, 1)*d1)
	for ; len(y) >= d0 && d0 > 0; y = y[d0:] {
		row := slices.Clone(c.Shift)
		for i, weights := range c.Matrix {
			for j, w := range weights {
				row[j] += y[i] * w
			}
		}
		out = append(out, row...)
	}
	return out
}

// check is an error unless the map leads to the given number of outputs.
func (c *Conversion) check(dim int) error {
	if len(c.Matrix) == 0 || len(c.Shift) != dim ||
		slices.ContainsFunc(c.Matrix, func(row []float64) bool { return len(row) != dim }) {
		return fmt.Errorf("the map from epoch %d does not lead to the %d outputs of the model", c.FromEpoch, dim)
	}
	return nil
}

func (c *Conversion) isFinite() bool {
	isBad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	return !isBad(c.Residual) && !slices.ContainsFunc(c.Shift, isBad) &&
		!slices.ContainsFunc(c.Matrix, func(row []float64) bool { return slices.ContainsFunc(row, isBad) })
}
