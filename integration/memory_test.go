package integration

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// resident is the most memory that a process had, 0 where the system does not tell.
func resident(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n << 10
}

// manyFeatures is n labelled rows of m features.
func manyFeatures(t testing.TB, n, m int) []byte {
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(m), arrow.PrimitiveTypes.Float32)
	labels := make([]string, n)
	for i := range n {
		labels[i] = fmt.Sprint(i % 2)
		b.Append(true)
		for j := range m {
			b.ValueBuilder().(*array.Float32Builder).Append(float32((i*31+j*17)%101 + i%2*(j%3)))
		}
	}
	return columnsOf(t, n, 0, column{"pixels", b.NewArray()}, texts("label", labels...))
}

// TestSmallMessagesLargeInMemory: messages of some kilobytes that would come to gigabytes, as parts of an output or as
// matrices of a fit, are refused or handled in little memory, by a daemon that answers what comes behind them.
func TestSmallMessagesLargeInMemory(t *testing.T) {
	g := digits(t)
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), `
shares:
  input: {stream: FEATURES, subject: features.shares}
  schema: {features: [pixels], label: label}
  model: {file: `+packedModel(t, "lda", 3)+`}
many:
  input: {stream: FEATURES, subject: features.many}
  schema: {features: [pixels], label: label}
  model: {method: lda, dim: 2}
  training: {every: {rows: 200}}
wide:
  input: {stream: FEATURES, subject: features.wide}
  schema: {features: [pixels], label: label}
  model: {method: lda, dim: 1}
  training: {every: {rows: 8}}
  limits: {features: 65536}`))
	sharing, large := sharing(t), manyFeatures(t, 4, 30_000)
	for range 5 {
		c.send("features.shares", sharing)
		c.send("features.many", large)
		c.send("features.wide", large)
	}
	c.send("features.shares", g.message(t, 0, 4, true))
	for from := 0; from < 800; from += 100 {
		c.send("features.many", g.message(t, from, from+100, true))
	}
	for _, pipeline := range []string{"shares", "many", "wide"} {
		c.settled("FEATURES", pipeline, 2*time.Minute)
	}
	codes, out := map[string]int{}, map[string]int{}
	for _, letter := range c.read("DEAD") {
		codes[letter.subject+" "+letter.header.Get(wire.HeaderCode)]++
	}
	for _, msg := range c.read("REDUCED") {
		out[msg.subject]++
	}
	// Learning refuses them first, for their number; then the others have fixed how many features there are.
	if !strings.Contains(d.log.String(), "limits.features") {
		t.Error("the log does not name limits.features")
	}
	want := map[string]int{"dead.shares too_large": 5, "dead.many feature_count": 5}
	if !maps.Equal(codes, want) {
		t.Errorf("dead letters %v, want %v", codes, want)
	}
	want = map[string]int{"reduced.shares": 1, "reduced.many": 8, "reduced.wide": 5}
	if !maps.Equal(out, want) {
		t.Errorf("outputs %v, want %v", out, want)
	}
	if most := resident(d.cmd.Process.Pid); most > 1<<30 {
		t.Errorf("the daemon had %d MiB", most>>20)
	} else {
		t.Logf("the daemon had %d MiB at most", most>>20)
	}
	d.stop()
}
