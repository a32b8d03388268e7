package window

import (
	"testing"
)

// TestBack: the n-th newest row of a window of several blocks is found in each, and the oldest if there are fewer.
func TestBack(t *testing.T) {
	const rows = 3000
	w := New(Config{Features: 1, Rows: rows})
	w.blockList.border = 1 << 55 // a block of about 512 rows
	for i := range rows {
		w.Add(Row{Position: Position{Seq: uint64(i + 1)}, X: []float64{float64(i % 7)}})
	}
	if n := len(w.blockList.blocks); n < 3 || w.Len() != rows {
		t.Fatalf("%d rows in %d blocks", w.Len(), n)
	}
	for n := range rows + 3 {
		want := uint64(min(max(rows-n+1, 1), rows))
		if got := w.blockList.Back(n); got.Seq != want {
			t.Fatalf("row %d from the end is %d, want %d", n, got.Seq, want)
		}
	}
	for _, seq := range []uint64{1, 2, 1500, rows} {
		if r := w.At(Position{Seq: seq}); r == nil || r.Seq != seq {
			t.Errorf("row %d is %+v", seq, r)
		}
	}
	if w.At(Position{Seq: rows + 1}) != nil || w.At(Position{}) != nil || w.At(Position{Seq: 5, Row: 1}) != nil {
		t.Error("a row that is not there is found")
	}
	seen := 0
	w.All(func(r *Row) bool { seen++; return r.Seq < 1234 })
	if seen != 1234 {
		t.Errorf("%d rows until the last one that is wanted", seen)
	}
}
