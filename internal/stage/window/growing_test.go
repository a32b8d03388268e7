package window

import (
	"testing"
	"time"
)

// TestIsGrowing: a window grows until it is full or half as old as rows may be. Rows that a cut has kept do not age it.
func TestIsGrowing(t *testing.T) {
	c := Config{Features: 1, Rows: 40, Classes: 2, Labelled: true, Age: 100 * time.Second}
	for _, test := range []struct {
		name             string
		rows, every, cut int
		want             bool
	}{
		{"young", 20, 1, 0, true}, {"old", 20, 3, 0, false}, {"full", 40, 1, 0, false}, {"cut", 30, 4, 20, true},
		{"old after a cut", 30, 3, 5, false},
	} {
		w := New(c)
		for i := range test.rows {
			label := "before"
			if i+1 >= test.cut {
				label = "after"
			}
			w.Add(Row{Position: Position{Seq: uint64(i + 1)}, Time: int64(i*test.every) * int64(time.Second), Label: label,
				X: []float64{1}})
		}
		if test.cut > 0 {
			w.Cut(Position{Seq: uint64(test.cut)})
		}
		if test.cut > 0 && w.Classes() != 2 {
			t.Fatal("the cut has kept no rows")
		}
		if got := w.IsGrowing(); got != test.want {
			t.Errorf("%s: growing %v", test.name, got)
		}
	}
}
