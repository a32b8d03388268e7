package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/plugin/spec"
)

// TestUnusualFrom: each property of a stream is unusual from its limit on.
func TestUnusualFrom(t *testing.T) {
	usual := func(change func(p *Profile)) Profile {
		p := Profile{Rows: 10_000, Classes: map[string]int{"a": 5000, "b": 5000}, Present: []string{"a", "b"}, Runs: 5000,
			Features: 100}
		change(&p)
		return p
	}
	imbalanced := func(p *Profile, a, b int) {
		p.Rows, p.Runs, p.Classes = a+b, 2*b, map[string]int{"a": a, "b": b}
	}
	for _, c := range []struct {
		name   string
		change func(p *Profile)
		want   []spec.UnusualKind
	}{
		{"nothing", func(*Profile) {}, nil},
		{"copies below", func(p *Profile) { p.Copies = 1999 }, nil},
		{"copies", func(p *Profile) { p.Copies = 2000 }, []spec.UnusualKind{spec.UnusualCopies}},
		{"imbalance below", func(p *Profile) { imbalanced(p, 50*100-1, 100) }, nil},
		{"imbalance", func(p *Profile) { imbalanced(p, 50*100, 100) },
			[]spec.UnusualKind{spec.UnusualImbalance}},
		{"tails below", func(p *Profile) { p.Tails = 0.0049 }, nil},
		{"tails", func(p *Profile) { p.Tails = 0.005 }, []spec.UnusualKind{spec.UnusualTails}},
		{"constant below", func(p *Profile) { p.Constant = 49 }, nil},
		{"constant", func(p *Profile) { p.Constant = 50 }, []spec.UnusualKind{spec.UnusualConstant}},
		{"one constant feature", func(p *Profile) { p.Features, p.Constant = 1, 1 }, nil},
		{"99 rows", func(p *Profile) { p.Rows, p.Copies = 99, 99 }, nil},
		{"100 rows", func(p *Profile) { p.Rows, p.Runs, p.Copies = 100, 90, 99 }, []spec.UnusualKind{spec.UnusualCopies}},
	} {
		p := usual(c.change)
		var got []spec.UnusualKind
		for _, u := range p.Unusual(Stream{}) {
			got = append(got, u.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRunsAreFarFromChance: labels come in runs if a tenth of the rows that would have another label by chance repeat
// the label before, and if that is six standard errors.
func TestRunsAreFarFromChance(t *testing.T) {
	for _, c := range []struct {
		rows, runs int // of two classes alike, so that chance is one half
		want       bool
	}{
		{100_000, 45_000, false}, {100_000, 44_900, true}, // 0.55
		{100, 20, false}, {100, 19, true}, // 0.5 + 6 * 0.05
		{99, 2, false}, {10_000, 0, false},
	} {
		p := Profile{Rows: c.rows, Runs: c.runs, Classes: map[string]int{"a": c.rows / 2, "b": c.rows - c.rows/2}}
		if p.HasRuns() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// TestConstantFeatures: a feature is constant if 99 % of at least 100 values are within 1e-5 of their median.
func TestConstantFeatures(t *testing.T) {
	for _, c := range []struct {
		rows, others int
		by           float64
		want         bool
	}{
		{99, 0, 0, false}, {100, 0, 0, true}, {1000, 10, 1, true}, {1000, 11, 1, false}, {1000, 500, 0.9e-5, true},
		{1000, 500, 1.1e-5, false},
	} {
		values := slices.Repeat([]float64{-8}, c.rows)
		for i := range c.others {
			values[i] *= 1 - c.by
		}
		if got := isConstant(values); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestFewLabels: labels are few below 5 % of at least 1,000 rows, unless there are none.
func TestFewLabels(t *testing.T) {
	for _, c := range []struct {
		rows  int
		share float64
		want  bool
	}{{1000, 0.049, true}, {1000, 0.05, false}, {999, 0.049, false}, {1000, 0, false}} {
		if _, few := FewLabels(c.rows, c.share); few != c.want {
			t.Errorf("%+v: %v", c, few)
		}
	}
}

// TestSentencesAreShort: a sentence has at most five classes, and 40 bytes of a label.
func TestSentencesAreShort(t *testing.T) {
	for n, want := range map[int]string{39: "", 40: "", 41: "..."} {
		label := strings.Repeat("x", n)
		if got := shortened(label); got != label[:min(n, 40)]+want {
			t.Errorf("%d bytes become %q", n, got)
		}
	}
	if got := listed([]string{"a", "b", "c", "d", "e"}); got != "a, b, c, d, e" {
		t.Errorf("five classes: %s", got)
	}
	if got := listed([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Errorf("seven classes: %s", got)
	}
}
