package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
)

// projectRows is how many rows are projected together where a row of the batch cannot be.
const projectRows = 64

// project writes the outputs of a batch. A row that the model cannot place in float32 is a fault of its own, as a
// missing feature is: the others have their outputs. Under NullsImpute what is out of float32's range is imputed first.
func (s *Stage) project(ctx context.Context, live *Live, b *arrowio.Batch) (y []float32, far []arrowio.Fault, err error) {
	rows, d := toRows(b), live.Model.Dim()
	y = s.outputsFor(rows.N * d)
	suspects, err := live.Model.ProjectSuspects(y, rows)
	if err == nil {
		b.FaultsIn(suspects) // before anyone asks for Faults, who would look at every feature of every row
		return y, nil, nil
	}
	var row *model.RowError
	if !errors.As(err, &row) {
		return y, nil, err
	}
	faults := b.Faults()
	for from := 0; from < rows.N; from += projectRows {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		to := min(from+projectRows, rows.N)
		if live.Model.Project(y[from*d:to*d], part(rows, from, to)) == nil {
			continue
		}
		for i := from; i < to; i++ {
			for len(faults) > 0 && faults[0].Row < i {
				faults = faults[1:]
			}
			out := y[i*d : (i+1)*d]
			err := live.Model.Project(out, part(rows, i, i+1))
			if err == nil {
				continue
			}
			clear(out)
			if faulty := len(faults) > 0 && faults[0].Row == i; faulty && s.config.Nulls != NullsImpute {
				continue // told already
			}
			x := make([]float64, rows.M())
			gather(x, b.Features(), i)
			if s.config.Nulls == NullsImpute {
				err = live.Model.Project(out, model.DenseRows(x, 1, len(x)))
			}
			if err == nil {
				continue
			}
			clear(out)
			if !errors.As(err, &row) {
				return nil, nil, err
			}
			feature := furthest(live.Model, x)
			far = append(far, arrowio.Fault{Row: i, Feature: live.Model.Features()[feature],
				What: fmt.Sprintf("%g, so far from the rows of the fit that no float32 holds the output", x[feature])})
		}
	}
	return y, far, nil
}

// part is the rows from to to, exclusive.
func part(rows model.Rows, from, to int) model.Rows {
	out := model.Rows{N: to - from, Blocks: make([]model.Block, len(rows.Blocks))}
	for k, b := range rows.Blocks {
		if b.F64 != nil {
			b.F64 = b.F64[from*b.RowStride:]
		} else {
			b.F32 = b.F32[from*b.RowStride:]
		}
		out.Blocks[k] = b
	}
	return out
}

// furthest is the feature of a row that lies furthest from the mean of the fit, in its scale.
func furthest(m *model.Model, x []float64) (feature int) {
	scaled := make([]float64, len(x))
	if m.ScaledTo(scaled, model.DenseRows(x, 1, len(x))) != nil {
		return 0
	}
	for j, v := range scaled {
		if math.Abs(v) > math.Abs(scaled[feature]) {
			feature = j
		}
	}
	return feature
}
