package plugin

import (
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// TestAppeared: a class counts as new to the live model when it has half of a fair share of a suffix that is about as
// long, so that labels which are seen now and then make no candidate easier to promote.
func TestAppeared(t *testing.T) {
	live, err := fit.Fit(t.Context(), dataOf(clouds(rand.New(rand.NewPCG(1, 2)), 300, 3)), fit.Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	known := live.Classes()
	for _, c := range []struct {
		name   string
		rows   int
		fourth int // rows of a class that is new
		want   bool
	}{
		{"a full share", 400, 100, true},
		{"half of one", 400, 50, true},
		{"less", 400, 49, false},
		{"far fewer rows than the live model has", 140, 35, false},
		{"no class more", 300, 0, false},
	} {
		s := &window.Suffix{Rows: c.rows, Classes: known, Counts: []int{100, 100, 100}}
		if c.fourth > 0 {
			s.Classes, s.Counts = append([]string{"a new one"}, known...), append([]int{c.fourth}, s.Counts...)
		}
		if got := appeared(s, live); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
