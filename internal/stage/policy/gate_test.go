package policy

import "testing"

// TestHasNewClass: a class is new to the live model if it has half of a fair share of about as many rows as the live
// model has, so that rare labels do not make promotion easier.
func TestHasNewClass(t *testing.T) {
	known := []string{"c0", "c1", "c2"}
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
		{"no further class", 300, 0, false},
	} {
		classes, counts := known, []int{100, 100, 100}
		if c.fourth > 0 {
			classes, counts = append([]string{"a new one"}, known...), append([]int{c.fourth}, counts...)
		}
		if got := HasNewClass(c.rows, classes, counts, 300, known); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
