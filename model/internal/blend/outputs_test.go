package blend

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
)

// TestOutputsByHand: members of variance 1 side by side, those of one vote with that variance together, about the means
// of the training rows. A member that does not vary is left out.
func TestOutputsByHand(t *testing.T) {
	if got := weights([]Vote{{"a", "x"}, {"a", "y"}, {"a", "x"}}); !slices.Equal(got, []float64{1 / math.Sqrt(2), 1,
		1 / math.Sqrt(2)}) {
		t.Errorf("weights %v", got)
	}
	if mean, variance := spread([]float64{1, 5, 9, 3, 7, 9}, 3, 2); !slices.Equal(mean, []float64{2, 6}) || variance != 2 {
		t.Errorf("mean %v, variance %g", mean, variance)
	}
	of := func(train, test []float64, d int) *frame.OutputPair {
		return &frame.OutputPair{Train: train, Test: test, D: d}
	}
	outputs := func(members []Member, d int) (*frame.OutputPair, error) {
		f, err := new(Scratch).Fold(t.Context(), members)
		if err != nil {
			return nil, err
		}
		return f.Outputs(t.Context(), -1, d)
	}
	wide := of([]float64{0, 9, 4, 9, 8, 9}, []float64{10, 3}, 2) // the second column is not used
	flat := of([]float64{7, 7, 7}, []float64{7}, 1)
	for what, c := range map[string]struct {
		members []Member
		d       int
		want    []float64 // train, test
	}{
		// The variance is 32/3: outputs are (x - 4) / sqrt(32/3), the sign is that of the first axis.
		"one": {[]Member{{Vote{"a", "x"}, wide, 1}}, 1, []float64{-4, 0, 4, 6}},
		"one that varies": {[]Member{{Vote{"b", "x"}, flat, 5}, {Vote{"a", "x"}, wide, 1}}, 3,
			[]float64{-4, 0, 4, 6}},
		"twice, in one vote": {[]Member{{Vote{"a", "x"}, wide, 1}, {Vote{"a", "x"}, wide, 1}}, 2,
			[]float64{-4, 0, 4, 6}},
	} {
		y, err := outputs(c.members, c.d)
		if err != nil || y.D != 1 || len(y.Train) != 3 || len(y.Test) != 1 {
			t.Fatalf("%s: %+v, %v", what, y, err)
		}
		for i, v := range append(slices.Clone(y.Train), y.Test...) {
			if !(math.Abs(v-c.want[i]/math.Sqrt(32./3)) <= 1e-12) {
				t.Errorf("%s: output %d is %g", what, i, v)
			}
		}
	}
	if y, err := outputs([]Member{{Vote{"b", "x"}, flat, 1}}, 1); y != nil || err != nil {
		t.Errorf("of members that do not vary: %v, %v", y, err)
	}
	// Two votes count as one each.
	y, err := outputs([]Member{{Vote{"a", "x"}, wide, 1}, {Vote{"b", "x"}, wide, 1}}, 2)
	if err != nil || !(math.Abs(y.Train[0]+4*math.Sqrt2/math.Sqrt(32./3)) <= 1e-12) {
		t.Errorf("two votes: %v, %v", y, err)
	}
	a, b := mat.NewDense(2, 1, []float64{1, 2}), mat.NewDense(2, 2, []float64{3, 4, 5, 6})
	if got := sideBySide([]*mat.Dense{a, b}, 3); !mat.Equal(got, mat.NewDense(2, 3, []float64{1, 3, 4, 2, 5, 6})) {
		t.Errorf("side by side: %v", mat.Formatted(got))
	}
}

// TestPrincipalDirections: there are as many directions as the rank, also where one column outweighs the others.
func TestPrincipalDirections(t *testing.T) {
	for _, c := range []struct {
		diagonal []float64
		d, want  int
	}{{[]float64{3, 2, 1}, 2, 2}, {[]float64{3, 2, 0}, 3, 2}, {[]float64{1, 1e-30, 1e-31}, 3, 1},
		{[]float64{5, 4}, 9, 2}} {
		s := mat.NewSymDense(len(c.diagonal), nil)
		for i, v := range c.diagonal {
			s.SetSym(i, i, v)
		}
		sol := principal(t.Context(), s, c.d)
		if _, d := sol.Vectors.Dims(); d != c.want || sol.Values[0] != slices.Max(c.diagonal) {
			t.Errorf("%v: %d directions, want %d", c.diagonal, d, c.want)
		}
	}
}

// TestSimilarity: the RV coefficient is 1 for a rotation, the squared correlation of single columns, and NaN for a
// member without outputs.
func TestSimilarity(t *testing.T) {
	var members []Member
	for _, y := range [][]float64{
		{0, 0, 4, 2, 1, 5, 3, 3}, {5, 5, 7, 9, 10, 6, 8, 8}, // the second is 5 + (y, x), by row
		{1, 2, 4, 5}, {1, 4, 2, 5},
	} {
		members = append(members, Member{Vote{"a", "x"}, &frame.OutputPair{Train: y, Test: y, D: len(y) / 4}, len(y) / 4})
	}
	f, err := new(Scratch).Fold(t.Context(), append(members, Member{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y int
		want float64
	}{{0, 1, 1}, {2, 2, 1}, {2, 3, 0.36}, {3, 2, 0.36}} { // deviations (-2, -1, 1, 2) and (-2, 1, -1, 2): (6 / 10)^2
		if got := f.Similarity(c.x, c.y); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("members %d and %d: %g, want %g", c.x, c.y, got, c.want)
		}
	}
	if got := f.Similarity(0, 4); !math.IsNaN(got) {
		t.Errorf("without outputs: %g", got)
	}
}
