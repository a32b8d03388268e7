package plugin

import (
	"math"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin/window"
)

// lesson is what waits to be learned: the rows of one message, or a wish of the host.
type lesson struct {
	rows   []window.Row // with a label, where labels are learned from
	fixes  []fix        // to rows that were learned before
	other  [][]float64  // rows without a label, for the PCA that serves until a first model exists
	refit  bool         // the host asks for candidates now
	adopt  *Live        // a model that the host chose
	pinned bool         // with adopt: no other replaces it
	bytes  int64        // in memory

	summary *window.Summary // of a block, in the place of its rows

	standby *bool // the host has the stage fit, or not

	by     []window.Position // where rows got their labels, in the stream of these; nil: they carry them
	labels window.Position   // the newest label that was read
	waits  window.Position   // the oldest row that waits for a label that comes apart from it; zero: none
}

// rowOverhead is what a waiting row takes beside its features.
const rowOverhead = 176

// lessonOf copies out of a message what is learned from it. Rows with a missing feature are learned from where they
// are projected too.
func (c *Config) lessonOf(m *arrowio.Message, at Position, features int, unlabelled bool) *lesson {
	l, i := &lesson{}, 0
	for _, batch := range m.Batches() {
		if width(batch) != features {
			i += batch.Rows() // lists of which no row has said how long they are
			continue
		}
		faults := batch.Faults()
		for k := range batch.Rows() {
			faulty := len(faults) > 0 && faults[0].Row == k
			if faulty {
				faults = faults[1:]
			}
			place := at.row(i)
			i++
			if faulty && c.Nulls != NullsImpute {
				continue // the hot path gives no output for it either
			}
			label, ok := "", true
			if c.Spec.Label != "" {
				label, ok = batch.Label(k)
			}
			if !ok && !unlabelled {
				continue
			}
			x := make([]float64, features)
			gather(x, batch.Features(), k)
			if !ok {
				l.other = append(l.other, x)
				continue
			}
			l.rows = append(l.rows, window.Row{Position: place, Time: at.Time.UnixNano(), Label: label,
				Source: c.sourceOf(batch, k, at), X: x})
		}
	}
	return l
}

// width is the number of features of a batch.
func width(b *arrowio.Batch) (m int) {
	for _, block := range b.Features() {
		m += block.Cols
	}
	return m
}

// sourceOf says who sent a row, as quotas count.
func (c *Config) sourceOf(b *arrowio.Batch, row int, at Position) string {
	if c.Training.Quota.By == QuotaKey {
		key, _ := b.Key(row)
		return key
	}
	return at.Source
}

// gather copies row i of blocks that stand side by side. What is out of float32's range is missing.
func gather(dst []float64, blocks []arrowio.Block, i int) {
	for _, b := range blocks {
		at := i * b.RowStride
		if b.F32 != nil {
			for j := range b.Cols {
				dst[j] = float64(b.F32[at+j*b.ColStride])
			}
		} else {
			for j := range b.Cols {
				v := b.F64[at+j*b.ColStride]
				if !arrowio.Held(v) {
					v = math.NaN()
				}
				dst[j] = v
			}
		}
		dst = dst[b.Cols:]
	}
}

func finite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
