package moments

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestZeroFeatures: a feature is zero if it is 0 in all rows; a sum of 0 is not enough.
func TestZeroFeatures(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		y    []int
		want bool // of feature 1
	}{
		{[]float64{1, 0, 2, 0}, nil, true}, {[]float64{1, 0, 2, 0}, []int{0, 1}, true}, {[]float64{1, 3, 2, -3}, nil, false},
		{[]float64{1, 3, 2, -3}, []int{0, 0}, false}, {[]float64{1, 1, 2, 1}, nil, false},
		{[]float64{1, 3, 2, -3}, []int{0, 1}, false}, {[]float64{1, 0, 1, 0, 2, 5}, []int{0, 0, -1}, false},
	} {
		for _, perClass := range []bool{false, true} {
			if s := setOf(t, perClass, c.x, c.y); s.IsZero(1) != c.want || s.IsZero(0) {
				t.Errorf("%v of classes %v: %v", c.x, c.y, s.IsZero(1))
			}
		}
	}
	if !New(2, false).IsZero(0) {
		t.Error("no rows have a feature that is not 0")
	}
	for what, s := range map[string]*Set{
		"shift": {m: 1, shift: []float64{1}}, "sum of all": {m: 1, shift: []float64{0}, labelled: []float64{1}},
		"sum":           {m: 1, shift: []float64{0}, sum: [][]float64{nil, {1}}},
		"second moment": {m: 1, shift: []float64{0}, second: []*mat.SymDense{nil, mat.NewSymDense(1, []float64{1})}},
	} {
		if s.IsZero(0) {
			t.Errorf("a feature with a %s of 1 is 0", what)
		}
	}
}

// TestMagnitudes: each number of a set has a bound, which it may reach, for rows of two and of at most 10.
func TestMagnitudes(t *testing.T) {
	weight := []float64{1, 2}
	second := func(v float64) []*mat.SymDense {
		return []*mat.SymDense{nil, mat.NewSymDense(2, []float64{0, 0, 0, v})}
	}
	for _, c := range []struct {
		set  *Set
		want string
	}{
		{&Set{m: 2, weight: weight, sum: [][]float64{{0, 40}, {-80, 80}}}, ""},
		{&Set{m: 2, weight: weight, sum: [][]float64{{0, 41}, nil}},
			"the sum of a slot has 41 at feature 1, which no rows of at most 10 have"},
		{&Set{m: 2, weight: weight, sum: [][]float64{nil, {-81, 0}}}, "the sum of a slot has -81 at feature 0"},
		{&Set{m: 2, weight: weight, sum: [][]float64{nil, {math.NaN(), 0}}}, "the sum of a slot has NaN"},
		{&Set{m: 2, shift: []float64{20, -20}}, ""},
		{&Set{m: 2, shift: []float64{20, -21}}, "the shift has -21 at feature 1"},
		{&Set{m: 2, weight: weight, sum: make([][]float64, 2), labelled: []float64{120, 0}}, ""},
		{&Set{m: 2, weight: weight, sum: make([][]float64, 2), labelled: []float64{121, 0}},
			"the sum of all has 121 at feature 0"},
		{&Set{m: 2, weight: weight, sum: make([][]float64, 2), second: second(4800)}, ""},
		{&Set{m: 2, weight: weight, sum: make([][]float64, 2), second: second(4801)},
			"the second moment has 4801 at feature 0"},
		{&Set{m: 2, shift: []float64{99, 98}}, "the shift has 99 at feature 0"}, // the first one
	} {
		err := c.set.CheckMagnitude(10)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), "moments: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestRefusedSets: bytes that no rows can produce are an error.
func TestRefusedSets(t *testing.T) {
	one := mat.NewSymDense(1, []float64{1})
	valid := func() *Set {
		return &Set{m: 1, shift: []float64{0}, weight: []float64{1, 2}, sum: [][]float64{{1}, {2}}, labelled: []float64{2},
			second: []*mat.SymDense{one, one}}
	}
	for _, c := range []struct {
		change func(s *Set)
		want   string
	}{
		{func(*Set) {}, ""},
		{func(s *Set) { s.weight[1] = -1 }, "slot 1 has weight -1; it must be >= 0"},
		{func(s *Set) { s.weight[1], s.sum[1] = 0, nil }, ""},
		{func(s *Set) { s.sum[1] = nil }, "slot 1 has weight 2 and no sums"},
		{func(s *Set) { s.labelled = nil }, "slot 1 has weight 2 and no sums"},
		{func(s *Set) { s.labelled, s.perClass = nil, true }, ""},
		{func(s *Set) { s.second[0] = nil }, "slot 0 has weight 1 and no sums"},
		{func(s *Set) { s.second = s.second[:1] }, "slot 1 has weight 2 and no sums"},
		{func(s *Set) { s.second = append(s.second, one) }, "3 second moments for 2 slots"},
		{func(s *Set) { s.weight, s.sum = append(s.weight, 1), append(s.sum, []float64{3}) }, ""},
		{func(s *Set) {
			s.weight, s.sum, s.second = append(s.weight, 1), append(s.sum, []float64{3}), append(s.second, one)
		}, "3 second moments for 3 slots"},
		{func(s *Set) {
			s.weight, s.sum, s.second = append(s.weight, 1), append(s.sum, []float64{3}), append(s.second, one)
			s.perClass = true
		}, ""},
		{func(s *Set) { s.sum[0][0] = math.Inf(1) }, "a number of a set is +Inf"},
		{func(s *Set) { s.shift[0] = math.NaN() }, "a number of a set is NaN"},
		{func(s *Set) { s.second[1] = mat.NewSymDense(1, []float64{math.NaN()}) }, "a number of a set is NaN"},
	} {
		s := valid()
		c.change(s)
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var again Set
		err = again.UnmarshalBinary(b)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), "moments: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err != nil {
			continue
		}
		if twice, err := again.AppendBinary(nil); err != nil || !slices.Equal(twice, b) {
			t.Errorf("other bytes are written, %v", err)
		}
		for n := range len(b) { // of every shorter length
			if err := new(Set).UnmarshalBinary(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are a set", n, len(b))
			}
		}
		if err := new(Set).UnmarshalBinary(append(b, 7, 7)); err == nil || err.Error() != "moments: 2 bytes follow a set" {
			t.Errorf("two bytes more: %v", err)
		}
	}
	flags := binary.LittleEndian.AppendUint32(nil, 1)
	if err := new(Set).UnmarshalBinary(append(flags, 0, 2)); err == nil ||
		err.Error() != "moments: a flag is 2 and not 0 or 1" {
		t.Errorf("a flag of 2: %v", err)
	}
	if err := new(Set).UnmarshalBinary(append(flags, 1, 0)); err != nil {
		t.Errorf("a set without rows: %v", err)
	}
}

// TestWrongArguments: counts, shifts and fills that the set cannot have.
func TestWrongArguments(t *testing.T) {
	s, filled := New(2, false), New(2, false)
	if err := s.Add(t.Context(), []float64{0, 1, 0, 2}, []int{0, 1}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(-2); n != 0 {
		t.Errorf("class -2 has %g rows", n)
	}
	for want, err := range map[string]error{
		"moments: no rows": func() error { _, err := New(0, false).Summary(false); return err }(),
		"moments: the shift of feature 1 is NaN, not finite": filled.SetShift([]float64{1, math.NaN()}),
		"moments: 0 values for 1 features":                   filled.MergeFilled(s, []int{0}, nil),
		"moments: value 1 for feature 2 of 2":                filled.MergeFilled(s, []int{2}, []float64{1}),
		"moments: value 1 for feature -1 of 2":               filled.MergeFilled(s, []int{-1}, []float64{1}),
		"moments: value +Inf for feature 0 of 2":             filled.MergeFilled(s, []int{0}, []float64{math.Inf(1)}),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if filled.Classes() != 0 {
		t.Error("a merge that failed changed the set")
	}
}
