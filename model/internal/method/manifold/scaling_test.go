package manifold

import (
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// TestScalingIsSpread: 256 rows are squared in four units of work and multiplied in eight, on any number of cores, and
// the vectors of a unit fit into a first-level cache.
func TestScalingIsSpread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	before := parallel.Started()
	NewScaling(t.Context(), mat.NewSymDense(256, nil))
	if n := parallel.Started() - before; n != 3+7 {
		t.Errorf("%d goroutines besides the caller's, want 10", n)
	}
	if size := 8 * scalingSpan * tile.Thin; size > 32<<10 {
		t.Errorf("the vectors of a unit take %d bytes", size)
	}
}
