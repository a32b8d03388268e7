package rewrite

import "testing"

// TestLongViews: of 16 views, those of more than 12 bytes that are not null point to data.
func TestLongViews(t *testing.T) {
	views, valid := make([]byte, 16*16), []byte{0b0000_0110, 0b0000_1010}
	for k := range 16 {
		le.PutUint32(views[16*k:], uint32(2*k))
	}
	for k := range 16 {
		size, ok := longView(views, valid, k)
		if want := k == 9 || k == 11; size != 2*k || ok != want {
			t.Errorf("view %d: size %d, long %v", k, size, ok)
		}
		if _, ok := longView(views, nil, k); ok != (k > 6) {
			t.Errorf("view %d without nulls: long %v", k, ok)
		}
	}
}

// TestSizeOfARecord: a data frame counts as 256 bytes, 16 for each node, 8 for each column of views, and 32 for each
// buffer with its bytes. Splits depend on it, so it must not change.
func TestSizeOfARecord(t *testing.T) {
	for _, c := range []struct {
		of   Record
		want int
	}{
		{Record{}, 256}, {Record{Nodes: make([]Node, 3)}, 304}, {Record{Variadic: []int{1, 2}}, 272},
		{Record{Buffers: [][]byte{nil, make([]byte, 5)}}, 325},
		{Record{Nodes: make([]Node, 1), Buffers: [][]byte{make([]byte, 100)}, Variadic: []int{0}}, 412},
	} {
		if got := c.of.size(); got != c.want {
			t.Errorf("%d nodes, %d buffers: %d bytes, want %d", len(c.of.Nodes), len(c.of.Buffers), got, c.want)
		}
	}
}
