// Package bound checks in fuzz targets that handling untrusted bytes stays within a bound of memory and time.
package bound

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// Hang is how long one input may take, on a machine that has much else to do.
const Hang = time.Minute

// Check fails if f allocates more than the given number of bytes, freed ones included, or does not end. It counts the
// whole process, so one f runs at a time.
func Check(t testing.TB, most uint64, f func()) {
	t.Helper()
	watch := time.AfterFunc(Hang, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("an input takes over %v:\n%s", Hang, stacks[:runtime.Stack(stacks, true)]))
	})
	defer watch.Stop()
	before := allocated()
	f()
	if spent := allocated() - before; spent > most {
		t.Errorf("%d bytes were allocated, and the bound is %d", spent, most)
	}
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
