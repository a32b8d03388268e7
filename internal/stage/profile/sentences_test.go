package profile

import (
	"testing"

	"github.com/embedd/embedd/plugin/spec"
)

// TestSentences: each sentence about a stream has its figures.
func TestSentences(t *testing.T) {
	two := map[string]int{"a": 6000, "b": 100}
	for _, c := range []struct {
		of   Profile
		seen []string
		dim  int
		want []string
	}{
		{Profile{Rows: 6100, Classes: two, Present: []string{"a", "b"}, Runs: 3000, Features: 9}, nil, 0,
			[]string{"classes are imbalanced: \"a\" has 6000 rows in the window, \"b\" has 100"}},
		{Profile{Rows: 1000, Classes: map[string]int{"a": 500, "b": 500}, Present: []string{"a", "b"}, Runs: 2, Features: 9},
			nil, 0, []string{"rows are sorted by their label: 2 classes, one after the other; if they come from a file, " +
				"publish it with --shuffle"}},
		{Profile{Rows: 1000, Classes: map[string]int{"a": 500, "b": 500}, Present: []string{"a", "b"}, Runs: 80, Features: 9},
			nil, 0, []string{"labels come in runs of 12.5 rows on average, so held-out rows of all classes judge models"}},
		{Profile{Rows: 1000, Classes: map[string]int{"a": 500, "b": 500}, Present: []string{"a", "b"}, Runs: 500, Features: 9,
			Copies: 251, Tails: 0.0123, Constant: 5}, []string{"d", "a", "c"}, 0, []string{
			"2 of 4 classes have no rows in the window: c, d",
			"25 % of the rows are copies of others in the window; they add no information",
			"features have heavy tails: 1.2 % of the rows are more than 30 times as far from a median as nine in ten rows; " +
				"send the logarithm of such features",
			"5 of 9 features have the same value in nearly all rows: leave out those that mean nothing"}},
		{Profile{Rows: 10, Present: []string{"a", "b", "c", "d", "e", "f"}, Features: 9}, []string{"a"}, 2, []string{
			"the model has few outputs for its classes, 2 for 6, so that classes overlap: raise model.dim and run `embedd " +
				"model reset`, which begins an epoch with other coordinates"}},
		{Profile{Rows: 10, Present: []string{"a", "b", "c", "d", "e"}, Features: 9}, nil, 2, nil},
		{Profile{Rows: 10, Present: []string{"a", "b", "c", "d", "e", "f"}, Features: 2}, nil, 2, nil},
	} {
		got := c.of.Unusual(Stream{Seen: c.seen, Outputs: c.dim})
		if len(got) != len(c.want) {
			t.Errorf("%q, want %q", got, c.want)
			continue
		}
		for k, u := range got {
			if u.Text != c.want[k] {
				t.Errorf("%q, want %q", u.Text, c.want[k])
			}
		}
	}
	u, dropped := AccuracyDropped(0.7, 0.81, 200)
	if want := "the live model is right on 70.0 % of the newest labelled rows, and was on 81.0 % when it was promoted: " +
		"the stream or its labels have changed"; u.Text != want || u.Kind != spec.UnusualAccuracy || !dropped {
		t.Errorf("%+v, %v", u, dropped)
	}
	for _, c := range [][3]float64{{0.7, 0.81, 199}, {0.72, 0.81, 200}, {0.7, 0, 200}} {
		if _, dropped := AccuracyDropped(c[0], c[1], c[2]); dropped {
			t.Errorf("%v: the accuracy dropped", c)
		}
	}
	u, few := FewLabels(2000, 0.0123)
	if want := "1.2 % of 2000 rows have a label: only these are learned, so a change is found late"; u.Text != want ||
		!few || u.Kind != spec.UnusualFewLabels {
		t.Errorf("%+v, %v", u, few)
	}
}
