package model

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestModelsLeaveNothing: a stage that makes a model every second, and projects with each, leaves no scratch memory of
// old models for the garbage collector.
func TestModelsLeaveNothing(t *testing.T) {
	rows, columns := make([]float32, 64*40), Rows{N: 64}
	for i := range rows {
		rows[i] = float32(i % 7)
	}
	for j := range 40 {
		columns.Blocks = append(columns.Blocks, Block{F32: rows[j*64:], Cols: 1, RowStride: 1, ColStride: 64})
	}
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections only happen when the test calls them
	before := heap()
	dst := make([]float32, 64*32)
	const models = 100
	for range models {
		m := randomLinear(t, 40, 32, 0, 1)
		if err := m.Project(dst, columns); err != nil {
			t.Fatal(err)
		}
	}
	if more := int64(heap()) - int64(before); more > 8<<20 {
		t.Errorf("%d models of 40 features left %d KiB behind", models, more>>10)
	}
}
