package profile

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// filled is a window of rows of two features with these labels.
func filled(labels ...string) *window.Window {
	w := window.New(window.Config{Features: 2, Rows: 100_000, Labelled: true})
	for i, label := range labels {
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: label, MessageRows: 1,
			X: []float64{float64(i), math.Sqrt(float64(i))}})
	}
	w.Sift()
	return w
}

// labels repeats a pattern until there are n.
func labels(n int, pattern ...string) (all []string) {
	for len(all) < n {
		all = append(all, pattern...)
	}
	return all[:n]
}

func noPause() {}

func TestAbsentClasses(t *testing.T) {
	p := Of(filled(labels(200, "a", "c")...), noPause)
	seen := []string{"h", "a", "g", "f", "e", "d", "c", "b"}
	all := p.Unusual(Stream{Seen: seen})
	if len(all) != 1 || !strings.Contains(all[0].Text, "6 of 8 classes") ||
		!strings.Contains(all[0].Text, "b, d, e, f, g and 1 more") {
		t.Errorf("%+v", all)
	}
	if seen[0] != "h" {
		t.Error("the list of labels was changed")
	}
	if all := p.Unusual(Stream{Seen: []string{"a", "c"}}); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// A sentence has the beginning of a long label.
func TestLongLabels(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	p := Of(filled(append(labels(100, "a"), long)...), noPause)
	for _, all := range [][]spec.Unusual{p.Unusual(Stream{}), p.Unusual(Stream{Seen: []string{long + "b"}})} {
		if len(all) == 0 || len(all[0].Text) > 200 || !utf8.ValidString(all[0].Text) {
			t.Errorf("%.300v", all)
		}
	}
}

// Few rows, and rows of one class, are not described.
func TestFewRows(t *testing.T) {
	for _, l := range [][]string{nil, {"a"}, labels(99, "a", "a", "a", "b"), labels(5000, "a")} {
		p := Of(filled(l...), noPause)
		if all := p.Unusual(Stream{}); len(all) > 0 || p.HasRuns() {
			t.Errorf("%d rows: %+v", len(l), all)
		}
	}
}

// TestRunsOfRows: a run begins with the first row, also of the empty label, and with each change of the label.
func TestRunsOfRows(t *testing.T) {
	if p := Of(filled("", "", "a", "a", "a", "b"), noPause); p.Runs != 3 || p.RunRows() != 2 || p.Rows != 6 {
		t.Errorf("%d runs of %v rows", p.Runs, p.RunRows())
	}
	w := window.New(window.Config{Features: 2, Rows: 1000, Labelled: true})
	for i := range 250 {
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: "a", X: []float64{7, float64(i)}})
	}
	if p := Of(w, noPause); p.Constant != 1 {
		t.Errorf("%d constant features of 250 rows, all of which are read", p.Constant)
	}
}

// More rows than are described: the newest count, classes of all rows are known, and no row is compared twice.
func TestManyRows(t *testing.T) {
	l := append(labels(500, "old"), labels(20_000, "a", "b")...)
	pauses := 0
	p := Of(filled(l...), func() { pauses++ })
	if p.Rows != 20_000 || p.Classes["old"] != 0 || fmt.Sprint(p.Present) != "[a b old]" || p.Runs != 20_000 {
		t.Errorf("%d rows, %v, %v, %d runs", p.Rows, p.Classes, p.Present, p.Runs)
	}
	if p.Copies > 0 {
		t.Errorf("%d copies of rows that all differ", p.Copies)
	}
	if pauses < 39 || pauses > 78 {
		t.Errorf("%d pauses in %d rows", pauses, p.Rows)
	}
}

// TestConstantFeatureOfManyRows: of many rows a sample is read, which is large enough to judge a feature, and the order
// of the rows in which two features differ does not matter.
func TestConstantFeatureOfManyRows(t *testing.T) {
	w := window.New(window.Config{Features: 200, Rows: 5000, Labelled: true})
	for i := range 3000 {
		x := make([]float64, 200)
		x[0], x[199] = 7, float64(i%1001)
		x[1] = float64(i % 11) // the sample is every eleventh row, and 1001 is 91 times 11
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, Label: "a", MessageRows: 1, X: x})
	}
	w.Sift()
	if p := Of(w, noPause); p.Constant != 199 || p.Copies != 1999 {
		t.Errorf("%d constant features, %d copies", p.Constant, p.Copies)
	}
}

// TestCopiesAreFoundByHash: the features of a row are read for its first description only, a copy may lack features,
// and a row that is labelled again is no copy of those that have its old label.
func TestCopiesAreFoundByHash(t *testing.T) {
	w := window.New(window.Config{Features: 2, Rows: 500, Labelled: true, Classes: 5})
	at := func(i int) window.Position { return window.Position{Seq: uint64(i + 1)} }
	for i := range 200 {
		x := []float64{float64(i), math.NaN()}
		if i < 10 {
			x[0] = 0
		}
		w.Add(window.Row{Position: at(i), Label: "a", MessageRows: 1, X: x})
	}
	if p := Of(w, noPause); p.Copies != 9 {
		t.Errorf("%d copies, want 9", p.Copies)
	}
	w.Relabel(at(4), "b")
	w.All(func(r *window.Row) bool {
		if r.Seq > 10 {
			r.X[0] = 0
		}
		return true
	})
	if p := Of(w, noPause); p.Copies != 8 {
		t.Errorf("%d copies, want 8 without reading features again", p.Copies)
	}
}

func TestFewOutputs(t *testing.T) {
	for _, c := range []struct {
		outputs, classes, features int
		few                        bool
	}{
		{1, 10, 64, true}, {4, 10, 64, true}, {5, 10, 64, false}, {9, 10, 64, false}, {20, 10, 64, false},
		{1, 2, 64, false}, {1, 3, 64, false}, {1, 4, 64, true}, {0, 10, 64, false}, {2, 10, 2, false},
	} {
		if few := hasFewOutputs(c.outputs, c.classes, c.features); few != c.few {
			t.Errorf("%d outputs of %d features for %d classes: few is %v", c.outputs, c.features, c.classes, few)
		}
	}
}

func TestAccuracyDropped(t *testing.T) {
	for _, c := range []struct {
		accuracy, promotion, rows float64
		dropped                   bool
	}{
		{0.6, 0.9, 1000, true}, {0.85, 0.9, 1000, false}, {0.6, 0.9, 199, false}, {0.6, 0, 1000, false},
		{math.NaN(), 0.9, 1000, false}, {0.6, 0.9, math.NaN(), false},
	} {
		if u, dropped := AccuracyDropped(c.accuracy, c.promotion, c.rows); dropped != c.dropped {
			t.Errorf("%v: %v, %s", c, dropped, u.Text)
		}
	}
}
