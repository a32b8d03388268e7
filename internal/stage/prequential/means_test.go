package prequential

import (
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// classesAt are outputs of n rows of each class, all at its number on the line.
func classesAt(n map[string]int, at map[string]float64) *outputs {
	k := &outputs{numbering: &numbering{}}
	for _, label := range []string{"a", "b", "c"} {
		for range n[label] {
			r := &window.Row{Label: label, Position: window.Position{Seq: uint64(len(k.rows) + 1)}}
			k.rows, k.y = append(k.rows, r), append(k.y, at[label])
		}
	}
	k.numbering.set(k.rows)
	k.setSums(1)
	return k
}

// TestMeansThatCompete: the mean of a class competes from 30 references on, or half of those of the largest class, if
// the model knows the class. The span near the row does not count, and of equal distances the first class wins.
func TestMeansThatCompete(t *testing.T) {
	at := map[string]float64{"a": 0, "b": 10, "c": 20}
	no := math.NaN()
	for _, c := range []struct {
		name  string
		count map[string]int
		near  span
		known map[string]bool
		label string
		y     float64
		want  float64
	}{
		{"its own mean", map[string]int{"a": 40, "b": 40}, span{}, nil, "b", 9, 1},
		{"another mean", map[string]int{"a": 40, "b": 40}, span{}, nil, "b", 4, 0},
		{"a tie, first", map[string]int{"a": 40, "b": 40}, span{}, nil, "a", 5, 1},
		{"a tie, second", map[string]int{"a": 40, "b": 40}, span{}, nil, "b", 5, 0},
		{"29 of 80", map[string]int{"a": 80, "b": 29}, span{}, nil, "b", 10, no},
		{"30 of 80", map[string]int{"a": 80, "b": 30}, span{}, nil, "b", 10, 1},
		{"9 of 20", map[string]int{"a": 20, "b": 9}, span{}, nil, "b", 10, no},
		{"10 of 20", map[string]int{"a": 20, "b": 10}, span{}, nil, "b", 10, 1},
		{"a rare class does not attract", map[string]int{"a": 80, "b": 29}, span{}, nil, "a", 10, 1},
		{"a class does", map[string]int{"a": 80, "b": 30}, span{}, nil, "a", 10, 0},
		{"no reference", map[string]int{"a": 40}, span{}, nil, "b", 10, no},
		{"unknown to the model", map[string]int{"a": 40, "b": 40}, span{}, map[string]bool{"a": true}, "b", 10, no},
		{"known", map[string]int{"a": 40, "b": 40}, span{}, map[string]bool{"a": true, "b": true}, "b", 10, 1},
		{"one near", map[string]int{"a": 80, "b": 30}, span{80, 81}, nil, "b", 10, no},
		{"one of others near", map[string]int{"a": 81, "b": 30}, span{0, 1}, nil, "b", 10, 1},
		{"far beyond all", map[string]int{"a": 40, "b": 40}, span{}, nil, "b", math.Inf(1), 0},
		{"all near", map[string]int{"a": 1, "b": 2}, span{1, 3}, nil, "b", 10, no},
	} {
		right := []float64{7}
		classesAt(c.count, at).nearestMeans(c.near, []window.Row{{Label: c.label}}, []float64{c.y}, right, c.known)
		if right[0] != c.want && !(math.IsNaN(right[0]) && math.IsNaN(c.want)) {
			t.Errorf("%s: %g, want %g", c.name, right[0], c.want)
		}
	}
	// Rows near a row do not move the mean that it is compared with.
	k := classesAt(map[string]int{"a": 40, "b": 40, "c": 0}, at)
	for i := range 20 {
		k.y[40+i] = 1000
	}
	k.setSums(1)
	right := make([]float64, 2)
	k.nearestMeans(span{40, 60}, []window.Row{{Label: "b"}, {Label: "a"}}, []float64{9, 1}, right, nil)
	if !slices.Equal(right, []float64{1, 1}) {
		t.Errorf("without 20 rows that are far away: %v", right)
	}
}

// TestKeepsDistances: a squared distance may change by 1 %, and fewer than half of the rows may lose theirs.
func TestKeepsDistances(t *testing.T) {
	of := func(dim int, squared float64) *model.Model { // the first feature's squared distances are divided by that
		s := math.Sqrt(squared)
		d := &model.Data{M: 2, N: 4, X: []float64{s, 1, s, -1, -s, 1, -s, -1}}
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: "pca", Dim: dim, Scale: model.ScaleStandard})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	along := []float64{0, 0, 1, 0, 3, 0, 4, 0} // three distances in the first feature
	two := []float64{0, 0, 1, 0, 3, 0, 3, 1}
	half := append(slices.Clone(two), 3, 2) // two of four
	for _, c := range []struct {
		squared float64
		x       []float64
		want    bool
	}{
		{1.009, along, true}, {1.012, along, false}, {0.992, along, true}, {0.989, along, false},
		{4, two, false}, {4, half, true}, {4, along[:2], true}, {4, along[:4], false},
	} {
		got, err := KeepsDistances(t.Context(), of(2, 1), of(2, c.squared), c.x, len(c.x)/2)
		if err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	one := of(1, 1)
	for _, other := range []*model.Model{one, of(2, 4)} { // of other outputs no distance can be compared
		if got, err := KeepsDistances(t.Context(), one, other, along, 4); !got || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestShares: the share of the ten nearest references that have the label of a row, or of as many as a class has on
// average, outside the span near the row.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		each  int
		near  span
		label string
		want  float64
	}{
		{12, span{}, "a", 1}, {12, span{}, "b", 0}, {12, span{0, 6}, "a", 0.6}, {12, span{0, 6}, "b", 0.4},
		{12, span{0, 12}, "b", 1}, {3, span{}, "a", 1}, {3, span{0, 2}, "a", 1. / 3}, {1, span{}, "b", 0},
	} {
		k := classesAt(map[string]int{"a": c.each, "b": c.each}, map[string]float64{"a": 0, "b": 10})
		class, shares := make([]string, 1), make([]float64, 1)
		if err := k.nearest(t.Context(), c.near, []window.Row{{Label: c.label}}, []float64{1}, class, shares); err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(shares[0]-c.want) <= 1e-9) || (class[0] == "a") != (c.near.to < c.each) {
			t.Errorf("%+v: class %s, share %g", c, class[0], shares[0])
		}
	}
}
