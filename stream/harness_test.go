package stream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// The tests in this file's package use the exported API alone, so that they hold whatever the inside looks like.

// basicPipeline reads in.x and answers on out.x; a first model is due after few rows.
func basicPipeline() stream.Pipeline {
	return stream.Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "dead.x",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
			Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
}

// replica is an engine that runs on a separate connection.
type replica struct {
	*stream.Engine
	Conn    *nats.Conn
	Metrics *prometheus.Registry
	Log     *logBuffer

	t      testing.TB
	opened chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// startReplica runs pipelines over a connection until the replica is stopped, or the test ends. It returns when they
// are open.
func startReplica(t testing.TB, nc *nats.Conn, pipelines ...stream.Pipeline) *replica {
	t.Helper()
	r := newReplica(t, nc, pipelines...)
	r.Start()
	return r
}

// newReplica makes a replica that does not run yet.
func newReplica(t testing.TB, nc *nats.Conn, pipelines ...stream.Pipeline) *replica {
	t.Helper()
	return newReplicaOf(t, stream.Options{Conn: nc, Pipelines: pipelines})
}

// newReplicaOf makes a replica with options; metrics, log and waiting are set.
func newReplicaOf(t testing.TB, o stream.Options) *replica {
	t.Helper()
	r := &replica{Conn: o.Conn, Metrics: prometheus.NewRegistry(), Log: &logBuffer{}, t: t, opened: make(chan struct{}),
		done: make(chan struct{})}
	o.Registerer, o.Wait, o.Logger = r.Metrics, natstest.Timeout, slog.New(slog.NewTextHandler(r.Log, nil))
	o.Opened = func() { close(r.opened) }
	var err error
	if r.Engine, err = stream.New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// Start runs the engine, and returns when its pipelines are open.
func (r *replica) Start() {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			report, _ := json.Marshal(r.pipeline().Report())
			t.Logf("status %s\nlog:\n%s", report, r.Log)
		}
		cancel()
		<-r.done
	})
	select {
	case <-r.opened:
	case <-r.done:
		t.Fatalf("the engine does not start: %v\n%s", r.err, r.Log)
	}
}

// Stop ends the engine in an orderly way and returns what Run returned.
func (r *replica) Stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// Kill ends the engine like a crash, as seen by the server: its connection is closed first.
func (r *replica) Kill() {
	r.Conn.Close()
	r.cancel()
	<-r.done
}

// pipeline is the status of the first pipeline.
func (r *replica) pipeline() stream.Status {
	if all := r.Status(); len(all) > 0 {
		return all[0]
	}
	return stream.Status{}
}

// live is the version of the model that answers; "" before the first.
func (r *replica) live() string {
	if l := r.pipeline().Stage.Live; l != nil {
		return l.Version
	}
	return ""
}

// counter is the sum of a metric over the series that have these labels, written NAME=VALUE.
func (r *replica) counter(name string, labels ...string) (sum float64) {
	r.t.Helper()
	families, err := r.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetName()+"="+l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && has[l]
			}
			if all {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// logBuffer keeps what an engine logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// has reports whether one line of the log has all the words.
func (b *logBuffer) has(words ...string) bool {
	for line := range strings.Lines(b.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// column is a column of an Arrow message: of strings, numbers, booleans, or lists of numbers of one length.
type column struct {
	name   string
	values any
}

// null is a missing value in a column of strings.
const null = "\x00"

// arrowMessage writes an Arrow IPC stream with one record batch.
func arrowMessage(t testing.TB, columns ...column) []byte {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range columns {
		a := arrowArray(t, c.values)
		fields = append(fields, arrow.Field{Name: c.name, Type: a.DataType()})
		arrays = append(arrays, a)
	}
	schema := arrow.NewSchema(fields, nil)
	record := array.NewRecord(schema, arrays, int64(arrays[0].Len()))
	defer record.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func arrowArray(t testing.TB, values any) arrow.Array {
	t.Helper()
	mem := memory.DefaultAllocator
	switch v := values.(type) {
	case []string:
		b := array.NewStringBuilder(mem)
		for _, one := range v {
			if one == null {
				b.AppendNull()
			} else {
				b.Append(one)
			}
		}
		return b.NewArray()
	case []int64:
		b := array.NewInt64Builder(mem)
		b.AppendValues(v, nil)
		return b.NewArray()
	case []float32:
		b := array.NewFloat32Builder(mem)
		b.AppendValues(v, nil)
		return b.NewArray()
	case []float64:
		b := array.NewFloat64Builder(mem)
		b.AppendValues(v, nil)
		return b.NewArray()
	case []bool:
		b := array.NewBooleanBuilder(mem)
		b.AppendValues(v, nil)
		return b.NewArray()
	case [][]float32:
		b := array.NewFixedSizeListBuilder(mem, int32(len(v[0])), arrow.PrimitiveTypes.Float32)
		for _, row := range v {
			b.Append(true)
			b.ValueBuilder().(*array.Float32Builder).AppendValues(row, nil)
		}
		return b.NewArray()
	case [][]float64:
		b := array.NewFixedSizeListBuilder(mem, int32(len(v[0])), arrow.PrimitiveTypes.Float64)
		for _, row := range v {
			b.Append(true)
			b.ValueBuilder().(*array.Float64Builder).AppendValues(row, nil)
		}
		return b.NewArray()
	case [][]int64:
		b := array.NewFixedSizeListBuilder(mem, int32(len(v[0])), arrow.PrimitiveTypes.Int64)
		for _, row := range v {
			b.Append(true)
			b.ValueBuilder().(*array.Int64Builder).AppendValues(row, nil)
		}
		return b.NewArray()
	}
	t.Fatalf("no Arrow array of %T", values)
	return nil
}

// rows are labelled rows of three classes, drawn from a seed, with a key for each.
type rows struct {
	x     [][]float32
	label []string
	key   []string
}

func drawRows(seed uint64, n, features int) (r rows) {
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		class := random.IntN(3)
		x := make([]float32, features)
		for j := range x {
			x[j] = float32(random.NormFloat64())
		}
		x[class] += 6
		r.x = append(r.x, x)
		r.label = append(r.label, []string{"a", "b", "c"}[class])
		r.key = append(r.key, fmt.Sprintf("k%d-%d", seed, i))
	}
	return r
}

// message is the rows as a message with the columns label, key and x.
func (r rows) message(t testing.TB) []byte {
	return arrowMessage(t, column{"label", r.label}, column{"key", r.key}, column{"x", r.x})
}

// dataOf is the rows as a fit takes them.
func dataOf(r rows) *model.Data {
	d := &model.Data{N: len(r.x), M: len(r.x[0]), Classes: []string{"a", "b", "c"}}
	for j := range d.M {
		d.Features = append(d.Features, fmt.Sprintf("x[%d]", j))
	}
	for i, x := range r.x {
		for _, v := range x {
			d.X = append(d.X, float64(v))
		}
		d.Y = append(d.Y, int(r.label[i][0]-'a'))
	}
	return d
}

// fixedModel is a model of four features.
func fixedModel(t testing.TB) *model.Model {
	t.Helper()
	m, err := fit.Fit(t.Context(), dataOf(drawRows(99, 60, 4)), fit.Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
