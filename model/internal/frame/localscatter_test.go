package frame

import (
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestClassesAreHeldByBoundedNumbersOfRows: each class once and in order; a larger class is alone.
func TestClassesAreHeldByBoundedNumbersOfRows(t *testing.T) {
	const all = 16384
	counts := []float64{3, all - 3, 1, all + 5, 7, 8, all / 2, all / 2}
	var ends []int
	for from := 0; from < len(counts); from = ends[len(ends)-1] {
		ends = append(ends, chunkEnd(counts, from))
	}
	if want := []int{2, 3, 4, 7, 8}; !slices.Equal(ends, want) {
		t.Errorf("classes up to %v are together, not %v", ends, want)
	}
}

// TestPairsAreHeldSomeRowsAtATime: a class of n rows takes the memory of 256 n pairs, not of n^2.
func TestPairsAreHeldSomeRowsAtATime(t *testing.T) {
	const n = 1500
	var before, after runtime.MemStats
	dst, x, scale := make([]float64, n), make([]float64, n), slices.Repeat([]float64{1}, n)
	runtime.ReadMemStats(&before)
	addPull(t.Context(), dst, x, scale)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 6<<20 {
		t.Errorf("%d rows took %d bytes", n, took)
	}
}

// TestScaleOfCopies: the scale of a row that is most of its class is the distance to a row that is no copy, if there
// are at most about 56 copies, and 0 otherwise.
func TestScaleOfCopies(t *testing.T) {
	for copies, want := range map[int]bool{10: true, 50: true, 60: false} {
		n := copies + 40
		x := mat.NewDense(n, 1, nil)
		for i := range 40 {
			x.Set(i, 0, float64(i+1))
		}
		task := &Task{X: x, M: 1, Rows: &Rows{N: n, M: 1, Y: make([]int, n), Classes: []string{"a"}}}
		if got := localScale(t.Context(), task, 7)[n-1]; !(got >= 0) || (got > 0) != want {
			t.Errorf("the scale of %d copies is %g", copies, got)
		}
	}
}
