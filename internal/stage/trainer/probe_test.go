package trainer

import (
	"slices"
	"testing"

	"github.com/embedd/embedd/model/fit"
)

// TestProbeModels: a window probe has a discriminant of each suffix, the longest first, also behind landmarks.
func TestProbeModels(t *testing.T) {
	for _, landmarks := range []int{0, 20} {
		l, _, _ := logged(t, fit.Config{Method: "lfda", Dim: 2, Landmarks: landmarks})
		if l.probe == nil {
			t.Fatal("no probe")
		}
		l.probe.members = nil
		for _, size := range []int{250, 0, 125, 250} {
			l.probe.fit(t.Context(), size)
		}
		if got := l.probe.state().Sizes; !slices.Equal(got, []int{0, 250, 125}) {
			t.Errorf("%d landmarks: discriminants of %v rows", landmarks, got)
		}
		for _, m := range l.probe.members {
			if m.Method() != "lda" || m.M() != 2 {
				t.Errorf("%d landmarks: a %s of %d features", landmarks, m.Method(), m.M())
			}
		}
	}
	if compareSizes(0, 250) <= 0 || compareSizes(250, 0) >= 0 || compareSizes(250, 500) >= 0 || compareSizes(0, 0) != 0 {
		t.Error("the whole window is not the longest suffix")
	}
}
