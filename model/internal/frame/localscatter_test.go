package frame

import (
	"slices"
	"testing"
)

// TestClassesAreHeldByBoundedNumbersOfRows: each class once and in order; a larger class is alone.
func TestClassesAreHeldByBoundedNumbersOfRows(t *testing.T) {
	const all = scatterRows
	counts := []float64{3, all - 3, 1, all + 5, 7, 8, all / 2, all / 2}
	var ends []int
	for from := 0; from < len(counts); from = ends[len(ends)-1] {
		ends = append(ends, chunkEnd(counts, from))
	}
	if want := []int{2, 3, 4, 7, 8}; !slices.Equal(ends, want) {
		t.Errorf("classes up to %v are together, not %v", ends, want)
	}
}
