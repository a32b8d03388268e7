package frame

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// Flat is the share of the variance below which what tangent spaces do not explain is rounding error.
const Flat = 1e-9

// FlatError is the error of a denominator of tangent spaces that explain everything: near each row the rows have D
// dimensions or fewer, and the criterion cannot distinguish outputs. Its bound is the largest dimension that leaves
// something unexplained. build makes the denominator, and reports whether it is zero.
func FlatError(t *Task, build func(*Task) (*mat.SymDense, bool)) error {
	for q := t.D - 1; q > 0; q-- {
		lower := *t
		lower.D, lower.Report = q, &model.Report{}
		if _, explained := build(&lower); !explained {
			return &model.DimError{Asked: t.D, Max: q,
				What: t.Explain("%d: tangent spaces of more dimensions explain all of the variance, because near each row "+
					"the rows have no more", q)}
		}
	}
	return fmt.Errorf("tangent spaces of 1 dimension explain all of the variance (n=%g, m=%d): the rows are on lines; "+
		"give a larger k", t.Basis.N, len(t.Units.Mean))
}
