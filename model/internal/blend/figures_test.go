package blend

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
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

// TestPrincipalDirections are as many as the rank, also where one column outweighs the others.
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

// TestWhatABlendNeeds: the rows if a member needs them, and the scale unit if a member has it.
func TestWhatABlendNeeds(t *testing.T) {
	for text, want := range map[string]string{
		"lda/standard/1,pca/none/2":                     "",
		"lda/standard/1,pca/minmax/2,mfa/none/1":        "pca/minmax/2",
		"lda/standard/1/landmarks=5,pca/none/2":         "lda/standard/1/landmarks=5/width=1",
		"pca/standard/2,mfa/standard/2/k1=3,pca/rank/2": "mfa/standard/2/k1=3",
		"pca/standard/2,lda/rank/2":                     "lda/rank/2",
		"pca/standard/2,lda/unit/2":                     "lda/unit/2",
	} {
		params := map[string]string{"members": text}
		if got := NeedsRows(params); got != want {
			t.Errorf("%s: %q needs the rows, want %q", text, got, want)
		}
		if got := Of(params).Streaming; got != map[bool]string{true: "moments", false: "window"}[want == ""] {
			t.Errorf("%s learns from %s", text, got)
		}
	}
	if Of(map[string]string{"members": "none"}).Streaming != "window" {
		t.Error("a blend of nothing learns from moments")
	}
	unit := map[string]string{"members": "lda/standard/1,pca/unit/2"}
	want := `member "pca/unit/2" has the scale unit, and the blend standard: give the blend the scale unit, or the ` +
		"member another one"
	if err := CheckScale(unit, model.ScaleStandard); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := CheckScale(unit, model.ScaleUnit); err != nil {
		t.Error(err)
	}
	if err := CheckScale(map[string]string{"members": "lda/standard/1"}, model.ScaleNone); err != nil {
		t.Error(err)
	}
	// classes, columns, outputs
	for _, c := range [][3]int{{3, 50, 20}, {25, 50, 24}, {21, 50, 20}, {22, 50, 21}, {3, 7, 7}} {
		task := &frame.Task{Columns: c[1], Basis: &frame.BasisScatters{Counts: make([]float64, c[0])}}
		if got := Method.Dim(task); got != c[2] {
			t.Errorf("%d classes, %d columns: %d outputs, want %d", c[0], c[1], got, c[2])
		}
	}
	if _, err := parse("lda/none/1/landmarks=5,mfa/none/1/landmarks=6/width=2"); err == nil ||
		!strings.Contains(err.Error(),
			`member "mfa/none/1/landmarks=6/width=2" has 6 landmarks of width 2, another has 5 of width 1; give`) {
		t.Error(err)
	}
}
