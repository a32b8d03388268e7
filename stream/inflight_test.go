package stream

import (
	"bytes"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/needs"
)

// bulky is a small message of one row that needs the given number of bytes after decompression.
func bulky(n int) []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32)},
		{Name: "note", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	x := b.Field(0).(*array.FixedSizeListBuilder)
	x.Append(true)
	x.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{1, 2, 3, 4}, nil)
	b.Field(1).(*array.StringBuilder).Append(strings.Repeat(" ", n))
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithZstd())
	_ = w.Write(rec)
	_ = w.Close()
	return out.Bytes()
}

// TestInFlightIsCountedUnpacked: messages of a kilobyte that need most of a megabyte decoded wait for a full output.
// The in-flight limit applies to the decoded size.
//
// What is allocated while a collection runs counts as live in it, which on a busy machine is much. So what is held is
// the least that three readings find.
func TestInFlightIsCountedUnpacked(t *testing.T) {
	s := newSite(t)
	out := jetstream.StreamConfig{Name: "out", Subjects: []string{"out.>"}, MaxMsgs: 1,
		Discard: jetstream.DiscardNew}
	if _, err := s.js.UpdateStream(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	const n, unpacked, most = 120, 900 << 10, 8 << 20
	body := bulky(unpacked)
	t.Logf("%d bytes decode to %d", len(body), unpacked)
	for range n {
		s.store("in.x", body)
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		return int64(live[0].Value.Uint64())
	}
	before, highest := heap(), int64(0)
	p := answerer(t)
	p.InFlight = most
	s.engine(s.url(), p)
	s.until("inputs wait for the output, which is full", func() bool {
		c, err := s.js.Consumer(t.Context(), "in", needs.ConsumerName("p", ""))
		return err == nil && c.CachedInfo().NumAckPending > 1 && s.state("out").Msgs == 1
	})
	for range 10 {
		highest = max(highest, min(heap(), heap(), heap())-before)
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("while the output is full %d MiB are held, of %d for all", highest>>20, n*unpacked>>20)
	if highest > 4*most {
		t.Errorf("%d MiB are held with an in-flight limit of %d", highest>>20, most>>20)
	}
	out.MaxMsgs = -1
	if _, err := s.js.UpdateStream(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	s.acknowledged("p")
	s.once(n)
}
