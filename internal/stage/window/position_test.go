package window

import (
	"testing"
)

// TestPositionsInOrder: positions are ordered by the creation of their stream, then by message, then by row.
func TestPositionsInOrder(t *testing.T) {
	ordered := []Position{{0, 9, 9}, {1, 0, 9}, {1, 1, 0}, {1, 1, 1}, {1, 2, 0}, {2, 0, 0}}
	for i, p := range ordered {
		for k, q := range ordered {
			if got := p.Compare(q); got < 0 != (i < k) || got > 0 != (i > k) {
				t.Errorf("%+v with %+v: %d", p, q, got)
			}
		}
	}
}
