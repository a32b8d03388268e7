//go:build amd64 && !purego

package tile

import "testing"

// TestPanelsFitTheFirstCache: with AVX2 two panels take more than half of a first-level cache of 32 KB.
func TestPanelsFitTheFirstCache(t *testing.T) {
	defer func(l int) { level = l }(level)
	level = avx2
	if size := 2 * 8 * panel * depth(10_000); size > 32<<10 || size < 16<<10 {
		t.Errorf("%d bytes", size)
	}
}
