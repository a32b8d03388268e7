package stage

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// The soak of docs/evidence/performance.md: go test ./internal/stage -run Memory -soak.rows 300000 -soak.features 784
// -timeout 1h -v
var (
	soakRows     = flag.Int("soak.rows", 16_000, "labelled rows of TestMemory")
	soakFeatures = flag.Int("soak.features", 48, "features of TestMemory")
	soakMarks    = flag.Int("soak.landmarks", 0, "landmarks of TestMemory")
)

// TestMemory sends rows of which one in 200 has a rare class, with a limit that the window reaches: the heap stays
// within the limit and a constant number of matrices of m x m, and Learn copies and returns.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has other bounds")
	}
	rows, m := *soakRows, *soakFeatures
	bound := int64(16) << 20
	if m > 64 {
		bound = 128 << 20
	}
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: "lda", Dim: 7, Landmarks: *soakMarks},
		Training: spec.Training{Window: spec.Window{Rows: 1 << 20, Bytes: bound}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(51, 52))
	columns := int64(max(m, *soakMarks))
	constant := int64(4<<20) + 40*8*columns*columns
	before := heap()
	var most int64
	var slowest time.Duration
	for sent, seq := 0, uint64(1); sent < rows; seq++ {
		rec := rareRecord(r, 256, m)
		msg, err := s.FromRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := s.Learn(msg, spec.Position{Seq: seq}); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begin))
		rec.Release()
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sent += 256; seq%20 == 0 {
			most = max(most, heap()-before)
		}
	}
	st := s.Status()
	t.Logf("%d rows of %d features, bound %d MiB: window of %d rows, %d bytes; heap at most %.1f MiB; slowest Learn "+
		"%v; %d fits",
		rows, m, bound>>20, st.Rows, st.Bytes, float64(most)/(1<<20), slowest, st.Fits)
	if st.Dropped > 0 || st.Bytes > bound || st.Bytes < bound/2 {
		t.Errorf("the window does not reach its bound: %+v", st)
	}
	if most > bound+constant {
		t.Errorf("heap grew by %.1f MiB, with a bound of %d and a constant of %.1f", float64(most)/(1<<20), bound>>20,
			float64(constant)/(1<<20))
	}
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// rareRecord is n rows of m features of eight classes, the last of them rare.
func rareRecord(r *rand.Rand, n, m int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for range n {
		c := r.IntN(7)
		if r.IntN(200) == 0 {
			c = 7
		}
		list.Append(true)
		for j := range m {
			v := r.NormFloat64()
			if j%8 == c {
				v++
			}
			list.ValueBuilder().(*array.Float32Builder).Append(float32(v))
		}
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("c", c))
	}
	return b.NewRecord()
}
