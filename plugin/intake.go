package plugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/embedd/embedd/arrowio"
)

// intake counts the rows that came to be learned from, and why rows were not.
type intake struct {
	rows       int
	unlabelled int            // without a label, and without a fault
	faulty     int            // with a missing feature, where such rows are not learned from
	features   map[string]int // rows with a fault, by the first faulty feature; of at most maxNamed features
}

// maxNamed bounds the features whose faults are counted by name.
const maxNamed = 64

// count takes one message, of which so many rows are learned from.
func (in *intake) count(m *arrowio.Message, c *Config, learned int) {
	faulty := in.faulty
	for _, b := range m.Batches() {
		in.rows += b.Rows()
		if c.Nulls == NullsImpute {
			continue
		}
		for _, f := range b.Faults() {
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

// hint says what keeps a first model from being fitted, where it is not that rows are still few; s is the status of the
// window. It names the cause and what to do.
func (in *intake) hint(s Status, label string) string {
	switch {
	case in.rows == 0 || s.Live != nil && !s.Live.Bootstrap:
		return ""
	case label != "" && in.unlabelled > 0 && in.unlabelled+in.faulty == in.rows:
		return fmt.Sprintf("none of %d rows has a label: check that column %q is filled, or take method pca",
			in.rows, label)
	case in.faulty == in.rows:
		return fmt.Sprintf("all of %d rows have a missing or infinite feature, %s: mend it, leave it out of schema.features, or set schema.nulls to impute",
			in.rows, in.worst())
	case s.Rows > 0 && label != "" && s.Classes == 1:
		return fmt.Sprintf("all %d labelled rows are of one class: send rows of another, or check that column %q holds classes",
			s.Rows, label)
	case s.Rows > s.Needed && label != "" && s.Classes > s.Rows/2:
		return fmt.Sprintf("%d labelled rows have %d labels: check that column %q holds classes, and not a number of its own for each row",
			s.Rows, s.Classes, label)
	case s.Rows >= s.Needed && s.Rows-s.Sparse < s.Needed:
		return fmt.Sprintf("%d of %d labelled rows are of labels that came a few times, and wait until more of them come: send more rows of each class, or check that column %q holds classes",
			s.Sparse, s.Rows, label)
	case s.Rows >= s.Needed && s.Note == "":
		return fmt.Sprintf("classes are still appearing, %d so far: the first model waits for up to %d rows, since the outputs stay as many as it has",
			s.Classes, 4*s.Needed)
	case in.faulty > in.rows/2:
		return fmt.Sprintf("%d of %d rows have a missing or infinite feature, most often %s", in.faulty, in.rows,
			in.worst())
	}
	return ""
}

// worst names the feature that is missing most often, and in how many rows.
func (in *intake) worst() string {
	names := slices.Sorted(maps.Keys(in.features))
	most := slices.MaxFunc(names, func(a, b string) int { return in.features[a] - in.features[b] })
	return fmt.Sprintf("%q in %d", most, in.features[most])
}
