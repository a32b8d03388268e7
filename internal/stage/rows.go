package stage

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

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

// excluded returns the faults of a batch whose rows are neither transformed nor learned from: all faults, or with
// imputed features those of rows that cannot be read.
func excluded(c *spec.Config, b *arrowio.Batch) []arrowio.Fault {
	faults := b.Faults()
	if c.Nulls != spec.NullsImpute {
		return faults
	}
	return slices.DeleteFunc(slices.Clone(faults), func(f arrowio.Fault) bool { return f.Code == "" })
}

// usableRow is a row of a message without a fault.
type usableRow struct {
	*arrowio.Batch
	row     int // of the batch
	at      window.Position
	label   string
	isKnown bool // the row has a label, or needs none
}

// usable yields the rows of a message without a fault, in their order. Those with a missing feature are among them only
// if they are transformed too. It leaves out batches of other numbers of features than given, which are lists whose
// length no row has shown; 0: none.
func usable(c *spec.Config, m *arrowio.Message, at spec.Position, features int) iter.Seq[usableRow] {
	return func(yield func(usableRow) bool) {
		i := 0
		for _, b := range m.Batches() {
			if features > 0 && width(b) != features {
				i += b.Rows()
				continue
			}
			faults := excluded(c, b)
			for k := range b.Rows() {
				r := usableRow{Batch: b, row: k, at: rowPosition(at, i), isKnown: true}
				i++
				if len(faults) > 0 && faults[0].Row == k {
					faults = faults[1:]
					continue
				}
				if c.Spec.Label != "" {
					r.label, r.isKnown = b.Label(k)
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// rowOverhead is the memory of a queued row besides its features.
const rowOverhead = 176

// eventOf copies the rows of a message that are learned from. Rows without a label are copied if unlabelled is set.
func eventOf(c *spec.Config, m *arrowio.Message, at spec.Position, features int, unlabelled bool) *trainer.Event {
	e := &trainer.Event{}
	for r := range usable(c, m, at, features) {
		if !r.isKnown && !unlabelled {
			continue
		}
		x := make([]float64, features)
		copyRow(x, r.Features(), r.row)
		if !r.isKnown {
			e.Unlabelled = append(e.Unlabelled, x)
			continue
		}
		e.Rows = append(e.Rows, window.Row{Position: r.at, Time: at.Time.UnixNano(), Label: r.label,
			Source: sourceOf(c, r.Batch, r.row, at), X: x, MessageRows: m.Rows()})
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

// copyRow copies the features of row i. Those that are not finite, or exceed float32, become NaN: they are missing.
func copyRow(dst []float64, blocks []arrowio.Block, i int) {
	for _, b := range blocks {
		for j := range b.Cols {
			v := b.At(i, j)
			if !arrowio.FitsFloat32(v) {
				v = math.NaN()
			}
			dst[j] = v
		}
		dst = dst[b.Cols:]
	}
}

// intake counts the rows that arrived to be learned from, and why some were not.
type intake struct {
	rows       int
	unlabelled int            // without a label, and without a fault
	faulty     int            // with a missing feature, if such rows are not learned from
	features   map[string]int // rows with a fault, by their first faulty feature
}

// maxNamed bounds the features whose faults are counted by name.
const maxNamed = 64

// count counts a message; learned is the number of its rows that are learned from.
func (in *intake) count(m *arrowio.Message, c *spec.Config, learned int) {
	faulty := in.faulty
	for _, b := range m.Batches() {
		in.rows += b.Rows()
		for _, f := range excluded(c, b) {
			in.faulty++
			if in.features == nil {
				in.features = map[string]int{}
			}
			if _, named := in.features[f.Feature]; named || len(in.features) < maxNamed {
				in.features[f.Feature]++
			}
		}
	}
	if c.Spec.Label != "" && c.Labels == nil {
		in.unlabelled += m.Rows() - (in.faulty - faulty) - learned
	}
}

// hint says why there is no first model yet, if the reason is not that rows are few, and the fix.
func (in *intake) hint(s spec.Status, label string) string {
	switch {
	case in.rows == 0 || s.Live != nil && !s.Live.IsProvisional():
		return ""
	case label != "" && in.unlabelled > 0 && in.unlabelled+in.faulty == in.rows:
		return fmt.Sprintf("none of %d rows has a label: check that column %q is filled, or use method pca", in.rows, label)
	case in.faulty == in.rows:
		return fmt.Sprintf("all of %d rows have a missing or infinite feature, %s: correct it, remove it from "+
			"schema.features, or set schema.nulls to impute", in.rows, in.worst())
	case s.Rows > 0 && label != "" && s.Classes == 1:
		return fmt.Sprintf("all %d labelled rows are of one class: send rows of another, or check that column %q "+
			"holds classes", s.Rows, label)
	case s.Rows > s.Needed && label != "" && s.Classes > s.Rows/2:
		return fmt.Sprintf("%d labelled rows have %d labels: check that column %q holds classes, and not a different "+
			"number for each row", s.Rows, s.Classes, label)
	case s.Rows >= s.Needed && s.Rows-s.RareClassRows < s.Needed:
		return fmt.Sprintf("%d of %d labelled rows have labels that occur only a few times, and are not fitted until "+
			"more arrive: send more rows of each class, or check that column %q holds classes", s.RareClassRows, s.Rows, label)
	case s.Rows >= s.Needed && s.Note == "":
		return fmt.Sprintf("classes are still appearing (%d now), or labels come in runs: the first model waits for up to "+
			"%d rows, since each class that comes later costs a change of models", s.Classes, 4*s.Needed)
	case in.faulty > in.rows/2:
		return fmt.Sprintf("%d of %d rows have a missing or infinite feature, most often %s", in.faulty, in.rows, in.worst())
	}
	return ""
}

// worst names the feature that is missing most often, and in how many rows.
func (in *intake) worst() string {
	names := slices.Sorted(maps.Keys(in.features))
	most := slices.MaxFunc(names, func(a, b string) int { return in.features[a] - in.features[b] })
	return fmt.Sprintf("%q in %d", most, in.features[most])
}
