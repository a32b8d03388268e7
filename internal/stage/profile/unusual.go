package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// Stream is what is known of a stream besides the rows of its window.
type Stream struct {
	Seen    []string // classes that the stream has had lately
	Outputs int      // of the live model; 0: there is none to judge
}

const (
	minCopies    = 0.2   // share of copies that is unusual
	minImbalance = 50    // times as many rows of the largest class as of the smallest
	minTails     = 0.005 // share of rows in the far tail of a feature
	minConstant  = 0.5   // share of constant features
	maxNamed     = 5     // classes that a sentence names
	maxLabel     = 40    // bytes of a label in a sentence
)

// LabelsSuspect is for a stream on whose newest rows no model beats chance.
var LabelsSuspect = spec.Unusual{Kind: spec.UnusualLabels, Text: "labels contradict every model: none beats " +
	"chance on the newest rows, so none goes live; check the source of the labels"}

const (
	minScored = 200 // effective rows
	maxDrop   = 0.1 // of accuracy, as in the alert EmbeddAccuracyDropped
)

// AccuracyDropped is for a live model whose accuracy on the newest rows is far below that of its promotion, and reports
// whether that is so. Without an accuracy at promotion, as of a first model, it is not, nor while it is unknown for how
// many independent rows these count (NaN): copies and runs move an accuracy by chance.
func AccuracyDropped(accuracy, promotion, rows float64) (u spec.Unusual, dropped bool) {
	u = spec.Unusual{Kind: spec.UnusualAccuracy, Text: fmt.Sprintf("the live model is right on %.1f %% of the newest "+
		"labelled rows, and was on %.1f %% when it was promoted: the stream or its labels have changed", 100*accuracy,
		100*promotion)}
	return u, rows >= minScored && accuracy < promotion-maxDrop
}

const (
	minArrived  = 1000 // rows
	maxLabelled = 0.05 // share of them that is few
)

// FewLabels is for a stream of which few rows have a label, and reports whether that is so.
func FewLabels(rows int, share float64) (u spec.Unusual, few bool) {
	u = spec.Unusual{Kind: spec.UnusualFewLabels, Text: fmt.Sprintf("%.2g %% of %d rows have a label: only these are "+
		"learned, so a change is found late", 100*share, rows)}
	return u, rows >= minArrived && share > 0 && share < maxLabelled
}

// Unusual lists what is unusual about a stream, in the order of spec.UnusualKinds.
func (p *Profile) Unusual(s Stream) (all []spec.Unusual) {
	add := func(kind spec.UnusualKind, format string, args ...any) {
		all = append(all, spec.Unusual{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	absent := p.Absent(s.Seen)
	if classes := len(p.Present) + len(absent); hasFewOutputs(s.Outputs, classes, p.Features) {
		add(spec.UnusualOutputs, "the model has few outputs for its classes, %d for %d, so that classes overlap: raise "+
			"model.dim and run `embedd model reset`, which begins an epoch with other coordinates", s.Outputs, classes)
	}
	if p.Rows < minRows {
		return all
	}
	if len(absent) > 0 {
		add(spec.UnusualAbsent, "%d of %d classes have no rows in the window: %s", len(absent),
			len(p.Present)+len(absent), listed(absent))
	}
	switch {
	case p.HasRuns() && p.Runs == len(p.Classes):
		add(spec.UnusualSorted, "rows are sorted by their label: %d classes, one after the other; if they come from a file, "+
			"publish it with --shuffle", p.Runs)
	case p.HasRuns():
		add(spec.UnusualRuns, "labels come in runs of %.3g rows on average, so held-out rows of all classes judge models",
			p.RunRows())
	default:
		if small, few, large, many := p.extremes(); many >= minImbalance*few {
			add(spec.UnusualImbalance, "classes are imbalanced: %q has %d rows in the window, %q has %d",
				shortened(large), many, shortened(small), few)
		}
	}
	if share := float64(p.Copies) / float64(p.Rows); share >= minCopies {
		add(spec.UnusualCopies, "%.0f %% of the rows are copies of others in the window; they add no information",
			100*share)
	}
	if p.Tails >= minTails {
		add(spec.UnusualTails, "features have heavy tails: %.2g %% of the rows are more than %d times as far from a median "+
			"as nine in ten rows; send the logarithm of such features", 100*p.Tails, window.FarTail)
	}
	if p.Features > 1 && float64(p.Constant) >= minConstant*float64(p.Features) {
		add(spec.UnusualConstant, "%d of %d features have the same value in nearly all rows: leave out those that mean "+
			"nothing", p.Constant, p.Features)
	}
	return all
}

// hasFewOutputs reports whether a number of outputs is less than half of the directions in which classes differ. A
// model with as many outputs as features loses nothing.
func hasFewOutputs(outputs, classes, features int) bool {
	return outputs > 0 && outputs < features && 2*outputs < classes-1
}

// Absent returns, in order, those of the labels that have no row in the window.
func (p *Profile) Absent(labels []string) (absent []string) {
	for _, label := range labels {
		if _, there := slices.BinarySearch(p.Present, label); !there {
			absent = append(absent, label)
		}
	}
	slices.Sort(absent)
	return absent
}

// extremes returns the smallest and the largest class, with their rows.
func (p *Profile) extremes() (small string, few int, large string, many int) {
	few = p.Rows + 1
	for _, label := range p.Present {
		n := p.Classes[label]
		if n > 0 && n < few {
			small, few = label, n
		}
		if n > many {
			large, many = label, n
		}
	}
	return small, few, large, many
}

// shortened is a label, or the beginning of a long one.
func shortened(label string) string {
	if len(label) <= maxLabel {
		return label
	}
	return strings.ToValidUTF8(label[:maxLabel], "") + "..."
}

// listed names the first of some classes.
func listed(labels []string) string {
	var names []string
	for _, label := range labels[:min(len(labels), maxNamed)] {
		names = append(names, shortened(label))
	}
	text := strings.Join(names, ", ")
	if more := len(labels) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
