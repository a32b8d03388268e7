package dataset

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// labelRuns finds out whether the rows of a file are sorted by their label, from their labels in order.
type labelRuns struct {
	rows, runs int // labelled ones
	last       string
	seen       map[string]bool
	returned   bool // a label came again after another one
}

// minSortedRows is the mean number of rows of a class from which on a file counts as sorted.
const minSortedRows = 20

// add adds the label of the next row.
func (r *labelRuns) add(label string) {
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	if r.runs == 0 || label != r.last {
		r.returned = r.returned || r.seen[label]
		r.seen[label] = true
		r.runs, r.last = r.runs+1, label
	}
	r.rows++
}

// areSorted reports whether the rows added are sorted by their label: classes come one after the other, each once.
func (r *labelRuns) areSorted() bool {
	return r.runs > 1 && !r.returned && r.rows >= minSortedRows*r.runs
}

// isSorted reports whether the rows are sorted by their label.
func (r *Rows) isSorted() bool {
	var runs labelRuns
	for _, class := range r.Y {
		if class >= 0 {
			runs.add(r.Classes[class])
		}
	}
	return runs.areSorted()
}

// SortedNote finds out whether the rows that a verb publishes are sorted by their label.
type SortedNote struct {
	Name, Label string // of the file and its label column; without a label there is no note
	runs        labelRuns
}

// See reads the labels of the next rows.
func (s *SortedNote) See(rec arrow.Record) {
	at := rec.Schema().FieldIndices(s.Label)
	if s.runs.returned || s.Label == "" || len(at) == 0 {
		return
	}
	labels := rec.Column(at[0])
	for i := range int(rec.NumRows()) {
		if !labels.IsNull(i) {
			s.runs.add(labels.ValueStr(i))
		}
	}
}

// Print prints a note if the rows are sorted, and forgets them. Call it after the last row.
func (s *SortedNote) Print(e *cli.Env) {
	e.NoteIf(s.runs.areSorted(), "%s: rows are sorted by %q: a pipeline learns one class after the other, and the "+
		"newest rows of its window are of one class; publish the file with --shuffle", s.Name, s.Label)
	s.runs = labelRuns{returned: true}
}
