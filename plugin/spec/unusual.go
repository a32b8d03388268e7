package spec

// Unusual is something unusual about a stream, as its newest labelled rows show it.
type Unusual struct {
	Kind UnusualKind `json:"kind"`
	Text string      `json:"text"` // a sentence, with what to do about it
}

// UnusualKind is a kind of what is unusual about a stream.
type UnusualKind string

// The kinds of what is unusual.
const (
	UnusualFewLabels UnusualKind = "few_labels"        // few rows have a label
	UnusualLabels    UnusualKind = "labels_suspect"    // no model beats chance
	UnusualAccuracy  UnusualKind = "accuracy_dropped"  // the live model is less accurate than when it was promoted
	UnusualOutputs   UnusualKind = "few_outputs"       // the live model has few outputs for so many classes
	UnusualAbsent    UnusualKind = "absent_classes"    // classes of the stream that have no rows in the window
	UnusualSorted    UnusualKind = "sorted"            // rows are sorted by their label
	UnusualRuns      UnusualKind = "runs"              // labels come in runs
	UnusualImbalance UnusualKind = "imbalance"         // some classes have far fewer rows than others
	UnusualCopies    UnusualKind = "copies"            // many rows are copies of others
	UnusualTails     UnusualKind = "heavy_tails"       // some values are far from all others
	UnusualConstant  UnusualKind = "constant_features" // most features hardly vary
)

// IsInaccurate reports whether the live model is at chance, or less accurate than it was.
func (k UnusualKind) IsInaccurate() bool { return k == UnusualLabels || k == UnusualAccuracy }

// UnusualKinds are all kinds, in the order in which they are reported.
var UnusualKinds = []UnusualKind{UnusualFewLabels, UnusualLabels, UnusualAccuracy, UnusualOutputs, UnusualAbsent,
	UnusualSorted, UnusualRuns, UnusualImbalance, UnusualCopies, UnusualTails, UnusualConstant}
