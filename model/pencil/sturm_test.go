package pencil

import (
	"math"
	"testing"
)

// TestCountsAtAValue: an eigenvalue at the bound counts as below it, in each of the four places; above counts the
// others.
func TestCountsAtAValue(t *testing.T) {
	s := newSturm([]float64{1, 2, 3}, []float64{0, 0})
	if got := s.below([together]float64{0.25, 0.5, 0.75, 0.2}); got != [together]int{1, 2, 3, 0} {
		t.Errorf("%v are below", got)
	}
	if got := s.below([together]float64{0.2, 0.75, 0.5, 0.25}); got != [together]int{0, 3, 2, 1} {
		t.Errorf("%v are below", got)
	}
	for v, want := range map[float64]int{0.9: 3, 1: 2, 2: 1, 2.5: 1, 3: 0} {
		if got := s.above(v); got != want {
			t.Errorf("%d are above %g", got, v)
		}
	}
	if got := s.values([]int{2, 0, 1, 1, 0}); len(got) != 5 || !(math.Abs(got[0]-3) <= 1e-15) ||
		!(math.Abs(got[1]-1) <= 1e-15) || !(math.Abs(got[3]-2) <= 1e-15) || !(math.Abs(got[4]-1) <= 1e-15) {
		t.Errorf("values %v", got)
	}
}
