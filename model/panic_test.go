package model

import (
	"slices"
	"testing"
)

// TestPanicOfAProjectionIsAnErrorOfTheCall: rows whose memory is shorter than declared pass the check. The next call of
// the same model succeeds.
func TestPanicOfAProjectionIsAnErrorOfTheCall(t *testing.T) {
	mo := randomLinear(t, 64, 8, 1, 1)
	const n = 8192
	x, _ := rowsOf(mo, n)
	rows := rowMajor(x, n, 64)
	want := project(t, mo, rows)
	for _, short := range []int{n - 1, 1} {
		y := make([]float32, n*8)
		err := mo.projection.project(t.Context(), y, nil, rowMajor(slices.Clip(x[:short*64]), n, 64))
		panicked(t, "short rows", err, "project: panicked: ")
		panicked(t, "few classes", mo.ProjectClasses(t.Context(), y, make([]int, short), rows), "project: panicked: ")
		if err := mo.Project(y, rows); err != nil || !sameBits(y, want) {
			t.Errorf("after a panic: %v, the same bits: %t", err, sameBits(y, want))
		}
	}
}
