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
