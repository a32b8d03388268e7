package stage

import (
	"math"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// rowPosition is the position of row i of a message.
func rowPosition(p spec.Position, i int) window.Position {
	q := window.Position{Seq: p.Seq, Row: i}
	if !p.Created.IsZero() {
		q.Created = p.Created.UnixNano()
	}
	return q
}

// rowOverhead is the memory of a queued row besides its features.
const rowOverhead = 176

// eventOf copies the rows of a message that are learned from. Rows with a missing feature are among them only if they
// are transformed too. Rows without a label are copied if unlabelled is set.
func eventOf(c *spec.Config, m *arrowio.Message, at spec.Position, features int, unlabelled bool) *trainer.Event {
	e, i := &trainer.Event{}, 0
	for _, batch := range m.Batches() {
		if width(batch) != features {
			i += batch.Rows() // lists whose length no row has shown
			continue
		}
		faults := batch.Faults()
		for k := range batch.Rows() {
			faulty := len(faults) > 0 && faults[0].Row == k
			if faulty {
				faults = faults[1:]
			}
			position := rowPosition(at, i)
			i++
			if faulty && c.Nulls != spec.NullsImpute {
				continue
			}
			label, ok := "", true
			if c.Spec.Label != "" {
				label, ok = batch.Label(k)
			}
			if !ok && !unlabelled {
				continue
			}
			x := make([]float64, features)
			copyRow(x, batch.Features(), k)
			if !ok {
				e.Unlabelled = append(e.Unlabelled, x)
				continue
			}
			e.Rows = append(e.Rows, window.Row{Position: position, Time: at.Time.UnixNano(), Label: label,
				Source: sourceOf(c, batch, k, at), X: x})
		}
	}
	return e
}

// width is the number of features of a batch.
func width(b *arrowio.Batch) (m int) {
	for _, block := range b.Features() {
		m += block.Cols
	}
	return m
}

// sourceOf is the source of a row for quotas.
func sourceOf(c *spec.Config, b *arrowio.Batch, row int, at spec.Position) string {
	if c.Training.Quota.By == spec.QuotaKey {
		key, _ := b.Key(row)
		return key
	}
	return at.Source
}

// copyRow copies the features of row i. Numbers that exceed float32 are missing.
func copyRow(dst []float64, blocks []arrowio.Block, i int) {
	for _, b := range blocks {
		at := i * b.RowStride
		if b.F32 != nil {
			for j := range b.Cols {
				dst[j] = float64(b.F32[at+j*b.ColStride])
			}
		} else {
			for j := range b.Cols {
				v := b.F64[at+j*b.ColStride]
				if !arrowio.FitsFloat32(v) {
					v = math.NaN()
				}
				dst[j] = v
			}
		}
		dst = dst[b.Cols:]
	}
}
