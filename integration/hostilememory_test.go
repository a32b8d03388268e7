package integration

import (
	"bytes"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// zeros is a compressed message of n rows of m features, all zero, which is small and expands to 4nm bytes.
func zeros(t testing.TB, n, m int) []byte {
	t.Helper()
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(m), arrow.PrimitiveTypes.Float32)
	for range n {
		b.Append(true)
		for range m {
			b.ValueBuilder().(*array.Float32Builder).Append(0)
		}
	}
	x := b.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "pixels", Type: x.DataType()}}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithZstd())
	if err := w.Write(array.NewRecord(schema, []arrow.Array{x}, int64(n))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestMemoryOfSmallWindow: 32 small messages that expand to the size limit take less than 800 MiB. The heap goal grows
// with the rows in the window, not with its capacity; with the capacity it takes 1.2 GB. It is 454 MiB on two idle
// cores, and more under load, when more messages are decoded before a collection.
func TestMemoryOfSmallWindow(t *testing.T) {
	t.Parallel()
	g := digits(t)
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), `
many:
  input: {stream: FEATURES, subject: features.many}
  schema: {features: [pixels], label: label}
  model: {method: lda, dim: 2}
  output: {keep: [pad]}
  training: {every: {rows: 200}}`))
	for from := 0; from < 400; from += 100 {
		c.send("features.many", g.message(t, from, from+100, true))
	}
	c.settled("FEATURES", "many")
	begin := resident(d.cmd.Process.Pid)
	for _, body := range [][]byte{zeros(t, 100_000, 64), zeros(t, 60_000, 64), bomb(t, 200, 64, 240<<10),
		bomb(t, 2000, 64, 30<<10)} {
		t.Logf("%d bytes", len(body))
		for range 8 {
			c.send("features.many", body)
		}
	}
	c.settled("FEATURES", "many")
	most := resident(d.cmd.Process.Pid) - begin
	t.Logf("%d MiB at the start, %d MiB more; %d outputs, %d dead letters", begin>>20, most>>20, c.count("REDUCED"),
		c.count("DEAD"))
	if most > 800<<20 {
		t.Errorf("%d MiB more than at the start", most>>20)
	}
	d.stop()
}
