package frame

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// Flat is the share of the variance below which what tangent spaces leave over is
// rounding.
const Flat = 1e-9

// TooFlat is the error of a denominator of tangent spaces that explain all: near
// each row the rows have t.d dimensions or fewer, and the criterion does not tell
// outputs apart. Its bound is the largest number of dimensions that leave
// something over. build makes the denominator, and says whether it is nothing.
func (t *Task) TooFlat(build func(*Task) (*mat.SymDense, bool, error)) error {
	for q := t.D - 1; q > 0; q-- {
		lower := *t
		lower.D, lower.Report = q, &model.Report{}
		_, explained, err := build(&lower)
		if err != nil {
			return err
		}
		if !explained {
			return &model.DimError{Asked: t.D, Max: q,
				What: t.Explain("%d: tangent spaces of more dimensions explain all there is, as the rows have no more near any of them", q)}
		}
	}
	return fmt.Errorf("tangent spaces of 1 dimension explain all there is (n=%g, m=%d): the rows lie on lines; a larger k reaches further", t.Stat.N, len(t.Stat.Mean))
}
