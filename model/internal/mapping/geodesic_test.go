package mapping

import (
	"testing"
)

// TestPathsThatAreKept: paths between all rows are kept if they take at most 64 MiB.
func TestPathsThatAreKept(t *testing.T) {
	for n, want := range map[int]bool{2896: true, 2897: false} {
		e := &Geodesic{Training: Training{1, make([]float64, n), make([]float64, n)}, K: 1}
		made, err := e.Extension(1)
		if err != nil || (made.(*geodesicExtension).known != nil) != want {
			t.Errorf("%d rows: %v", n, err)
		}
	}
}
