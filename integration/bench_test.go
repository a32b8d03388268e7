package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/pierrec/lz4/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// docs/evidence/performance.md explains how to run and read these benchmarks. Each compares ours with a baseline (a
// relay, a copy of the message) in the same run, turn by turn, because other load changes ratios less than absolute
// figures.

// shape is a message of n rows x m float32 features, projected to d.
type shape struct {
	n, m, d int
	columns bool           // m columns instead of one fixed-size list
	typ     arrow.DataType // of features; nil: float32
	codec   string         // that the sender compresses bodies with; "": none
	passed  int            // bytes of a binary column in each row that is passed on; 0: no such column
	fit     fit.Config     // of the model; without a method: pca
	factors int            // that the features of the model's rows are made of; 0: they are independent
	goal    float64        // the most processor time, as a multiple of the relay's; 0: 1.3
}

// narrowShapes are of the types that embeddings are stored as; those of float32 are to compare them with.
var narrowShapes = []shape{{n: 256, m: 256, d: 8}, {n: 256, m: 256, d: 8, columns: true},
	{n: 256, m: 256, d: 8, goal: 1.2, typ: arrow.PrimitiveTypes.Int8},
	{n: 256, m: 256, d: 8, goal: 1.2, typ: arrow.PrimitiveTypes.Int8, columns: true},
	{n: 256, m: 256, d: 8, goal: 1.2, typ: arrow.FixedWidthTypes.Float16},
	{n: 256, m: 256, d: 8, goal: 1.2, typ: arrow.FixedWidthTypes.Float16, columns: true}}

var compressedShapes = []shape{{n: 256, m: 256, d: 8, codec: "zstd"}, {n: 256, m: 256, d: 8, codec: "lz4"}}

// mapShapes have models that are not a matrix: 300 landmarks, and what auto makes of features, ranks and landmarks.
// Landmarks of features made of 50 factors have rank 50, as have those of usps.
var mapShapes = []shape{{n: 256, m: 256, d: 8, goal: 3, fit: fit.Config{Method: "lda", Landmarks: 300}},
	{n: 256, m: 256, d: 8, goal: 2, fit: fit.Config{Method: "lda", Landmarks: 300}, factors: 50},
	{n: 256, m: 256, d: 8, goal: 4, fit: fit.Config{Method: fit.Auto, Nonlinear: true}, factors: 50},
	{n: 1, m: 256, d: 8, goal: 3, fit: fit.Config{Method: "lda", Landmarks: 300}},
	{n: 256, m: 256, d: 8, goal: 4, fit: fit.Config{Method: fit.Auto, Nonlinear: true}}}

// smallShapes cost more than a relay by what a message costs, not by what a number does.
var smallShapes = []shape{{n: 1, m: 256, d: 8, goal: 1.5}, {n: 16, m: 256, d: 8, goal: 1.5, columns: true},
	{n: 16, m: 256, d: 8, goal: 1.2, passed: 8 << 10}}

var shapes = []shape{{n: 16, m: 256, d: 8}, {n: 1024, m: 64, d: 8}, {n: 64, m: 1024, d: 8}, {n: 256, m: 784, d: 8},
	{n: 256, m: 784, d: 8, columns: true}, {n: 1024, m: 256, d: 8}}

func (s shape) String() string {
	form := ""
	if s.columns {
		form = "columns"
	}
	if s.typ != nil {
		form = s.typ.String() + form
	}
	if s.factors > 0 {
		form += "correlated"
	}
	switch {
	case s.fit.Landmarks > 0:
		form += "landmarks"
	case s.fit.Nonlinear:
		form += "sum"
	}
	if s.passed > 0 {
		form += "passed"
	}
	return fmt.Sprintf("%dx%d%s%s->%d", s.n, s.m, form, s.codec, s.d)
}

func (s shape) spec() arrowio.Spec { return arrowio.Spec{Features: []string{"x*"}, Label: "label"} }

// messages returns count different messages: features around the centre of one of ten classes, the class as label, and
// an id in each row that is passed on.
func (s shape) messages(b *testing.B, count int) [][]byte {
	b.Helper()
	typ := s.typ
	if typ == nil {
		typ = arrow.PrimitiveTypes.Float32
	}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: arrow.BinaryTypes.String}}
	if s.columns {
		for j := range s.m {
			fields = append(fields, arrow.Field{Name: "x" + strconv.Itoa(j), Type: typ})
		}
	} else {
		fields = append(fields, arrow.Field{Name: "x",
			Type: arrow.FixedSizeListOf(int32(s.m), typ)})
	}
	if s.passed > 0 {
		fields = append(fields, arrow.Field{Name: "document", Type: arrow.BinaryTypes.Binary})
	}
	schema := arrow.NewSchema(fields, nil)
	r := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for range count {
		build := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range s.n {
			class := r.IntN(10)
			build.Field(0).(*array.Int32Builder).Append(int32(i))
			build.Field(1).(*array.StringBuilder).Append("class " + strconv.Itoa(class))
			if !s.columns {
				build.Field(2).(*array.FixedSizeListBuilder).Append(true)
			}
			if s.passed > 0 {
				build.Field(len(fields) - 1).(*array.BinaryBuilder).Append(make([]byte, s.passed))
			}
			for j := range s.m {
				v := float32(r.NormFloat64())
				if j%10 == class {
					v += 2
				}
				if s.codec != "" { // random digits would be stored uncompressed
					v = float32(math.Round(float64(v)*32) / 32)
				}
				to := build.Field(2)
				if s.columns {
					to = build.Field(2 + j)
				} else {
					to = to.(*array.FixedSizeListBuilder).ValueBuilder()
				}
				switch to := to.(type) {
				case *array.Float32Builder:
					to.Append(v)
				case *array.Float16Builder:
					to.Append(float16.New(v))
				case *array.Int8Builder:
					to.Append(int8(20 * v))
				}
			}
		}
		rec := build.NewRecord()
		out = append(out, s.encode(b, rec))
		rec.Release()
		build.Release()
	}
	return out
}

// encode writes a record as a message.
func (s shape) encode(b *testing.B, rec arrow.Record) []byte {
	b.Helper()
	options := map[string]ipc.Option{"zstd": ipc.WithZstd(), "lz4": ipc.WithLZ4()}
	option := options[s.codec]
	if option == nil {
		return must(arrowio.FromRecords(rec.Schema(), rec))(b)
	}
	var body bytes.Buffer
	w := ipc.NewWriter(&body, ipc.WithSchema(rec.Schema()), option)
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		b.Fatal(err)
	}
	return body.Bytes()
}

// model returns a fixed model for the messages. Its cost does not depend on the rows that it is fitted on.
func (s shape) model(b *testing.B, msg []byte) *model.Model {
	b.Helper()
	decoder := must(arrowio.NewDecoder(s.spec()))(b)
	contract := must(decoder.Decode(msg, nil))(b).Contract()
	d := &model.Data{N: 300, M: s.m, Features: contract.Elements()}
	config := s.fit
	if config.Dim = s.d; config.Method == "" {
		config.Method = "pca"
	} else {
		d.N, d.Classes = 900, strings.Split("0123456789", "")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range d.N {
		for j := range d.M {
			shift := 0.0
			if d.Classes != nil && j%10 == i%10 {
				shift = 1
			}
			d.X = append(d.X, shift+r.NormFloat64())
		}
		if row := d.X[i*d.M:]; s.factors > 0 {
			for j := range row { // each feature but the first ones is a sum of three factors
				if j >= s.factors {
					row[j] = row[j%s.factors] + row[(3*j+1)%s.factors] - row[(7*j+2)%s.factors]
				}
			}
		}
		if d.Classes != nil {
			d.Y = append(d.Y, i%10)
		}
	}
	return must(fit.Fit(context.Background(), d, config))(b)
}

// stage is a stage with that model.
func (s shape) stage(b *testing.B, msg []byte) *plugin.Stage {
	b.Helper()
	return must(plugin.New(plugin.Config{Spec: s.spec(), Fixed: s.model(b, msg)}))(b)
}

// The size of one turn on JetStream. It is so large that the growth of the heap at its beginning, for which the system
// needs time, is a small part of it.
const (
	turnBytes    = 480 << 20 // of messages, or at most
	turnMessages = 24576     // messages
	pending      = 1024      // messages in flight
	pullBytes    = 8 << 20   // bytes of one pull, as in the pipeline
)

// course is a filled input stream and the empty output streams.
type course struct {
	b        *testing.B
	nc       *nats.Conn // of the contestants
	js       jetstream.JetStream
	observer jetstream.JetStream // never of the contestants
	last     uint64              // sequence number of the last input
	bytes    float64             // bytes of one input
	turns    int
	metrics  prometheus.Registerer // of the next pipeline; nil: none
	age      float64               // of the newest row learned, in seconds, when the last inputs of a turn were sent
	busy     float64               // share of the cores of the machine that were busy in the measured time; 0: unknown
}

// newCourse fills the input with the messages, in rotation, up to the size of a turn and the most messages.
func newCourse(b *testing.B, url string, msgs [][]byte, storage jetstream.StorageType, most int) *course {
	b.Helper()
	connect := func() *nats.Conn {
		nc := must(nats.Connect(url))(b)
		b.Cleanup(nc.Close)
		return nc
	}
	c := &course{b: b, nc: connect(), bytes: float64(len(msgs[0]))}
	c.js = must(jetstream.New(c.nc, jetstream.WithPublishAsyncMaxPending(2*pending)))(b)
	c.observer = must(jetstream.New(connect(), jetstream.WithPublishAsyncMaxPending(64)))(b)
	ctx := within(b, time.Minute)
	for _, name := range []string{"features", "reduced", "dead"} {
		_ = c.observer.DeleteStream(ctx, name)
		must(c.observer.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"},
			Storage: storage}))(b)
	}
	c.last = uint64(min(most, turnBytes/len(msgs[0])))
	for i := range c.last {
		must(c.observer.PublishAsync("features.bench", msgs[int(i)%len(msgs)], jetstream.WithStallWait(time.Minute)))(b)
	}
	select {
	case <-c.observer.PublishAsyncComplete():
	case <-ctx.Done():
		b.Fatal("the input cannot be filled within a minute")
	}
	return c
}

// turn has the times of one turn for a message: wall-clock time, and processor time of this process.
type turn struct{ seconds, cpu float64 }

// run lets a contestant answer the whole input through a durable consumer and times it, from an eighth of the input,
// when all goroutines are busy, to the last acknowledgement at the server.
func (c *course) run(contestant func(ctx context.Context, durable string) error) turn {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c.turns++
	name := "bench_" + strconv.Itoa(c.turns) // a new name changes the message ids: no output is a duplicate
	durable := "embedd_" + name
	input := must(c.observer.Stream(ctx, "features"))(c.b)
	runtime.GC() // so that no turn collects the garbage of the one before
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	defer stop()
	begin := time.Now()
	go func() { ended <- contestant(running, name) }()
	var from, to struct {
		seq  uint64
		time time.Time
		cpu  float64
	}
	for to.seq < c.last {
		select {
		case err := <-ended:
			c.b.Fatalf("%s ended before its input did: %v", name, err)
		case <-time.After(max(2*time.Millisecond, time.Since(begin)/100)): // a look counts as processor time
		}
		consumer, err := input.Consumer(ctx, durable)
		if err != nil {
			if ctx.Err() != nil {
				c.b.Fatalf("%s has acknowledged %d of %d messages within 2 minutes", name, to.seq, c.last)
			}
			continue
		}
		to.seq, to.time, to.cpu = consumer.CachedInfo().AckFloor.Stream, time.Now(), processorSeconds(c.b)
		if from.seq == 0 && to.seq >= c.last/8 {
			from = to
		}
	}
	stop()
	if err := <-ended; err != nil {
		c.b.Fatalf("%s: %v", name, err)
	}
	if err := input.DeleteConsumer(ctx, durable); err != nil {
		c.b.Fatal(err)
	}
	for stream, want := range map[string]uint64{"reduced": c.last, "dead": 0} {
		s := must(c.observer.Stream(ctx, stream))(c.b)
		if have := s.CachedInfo().State.Msgs; have != want {
			c.b.Fatalf("%s left %d messages in stream %s, want %d", name, have, stream, want)
		}
		if err := s.Purge(ctx); err != nil {
			c.b.Fatal(err)
		}
	}
	if from.seq == to.seq {
		c.b.Fatalf("%s went through %d messages between two looks; a turn must be larger", name, c.last)
	}
	messages := float64(to.seq - from.seq)
	return turn{to.time.Sub(from.time).Seconds() / messages, (to.cpu - from.cpu) / messages}
}

// processorSeconds is the processor time that this process took so far.
func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// pipeline is the engine with one pipeline and a fixed model.
func (c *course) pipeline(stage plugin.Config) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		e, err := stream.New(stream.Options{Conn: c.nc, Registerer: c.metrics,
			Pipelines: []stream.Pipeline{{Name: name, Stream: "features", Subject: "features.bench",
				Output: "reduced.bench", Dead: "dead.bench", Models: stream.Models{None: true}, Stage: stage}}})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}
}

// relay publishes, confirms and acknowledges without processing messages.
func (c *course) relay(body []byte) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		consumer, err := c.js.CreateConsumer(ctx, "features",
			jetstream.ConsumerConfig{Durable: "embedd_" + name, AckPolicy: jetstream.AckExplicitPolicy,
				AckWait: 10 * time.Second, MaxDeliver: -1, MaxAckPending: pending, FilterSubject: "features.bench"})
		if err != nil {
			return err
		}
		return relay(ctx, c.js, consumer, "reduced.bench", body)
	}
}

// relay pulls with the same limits as a pipeline, publishes a constant body with a message id, waits for the
// confirmation, and acknowledges.
func relay(ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer, subject string,
	body []byte) error {
	type sent struct {
		msg    jetstream.Msg
		future jetstream.PubAckFuture
	}
	var failed error
	way := make(chan sent, pending)
	var wg sync.WaitGroup
	wg.Go(func() {
		for s := range way {
			select {
			case <-s.future.Ok():
				_ = s.msg.Ack()
			case failed = <-s.future.Err():
			}
		}
	})
	for ctx.Err() == nil {
		room := max(pullBytes, js.Conn().MaxPayload()+64<<10)
		wait, cancel := context.WithTimeout(ctx, 5*time.Second)
		batch, err := consumer.Fetch(pending, jetstream.FetchMaxBytes(int(room)), jetstream.FetchContext(wait),
			jetstream.FetchHeartbeat(time.Second))
		if err != nil {
			cancel()
			break
		}
		for msg := range batch.Messages() {
			out := &nats.Msg{Subject: subject, Data: body}
			future, err := js.PublishMsgAsync(out, jetstream.WithMsgID(consumer.CachedInfo().Name+"/"+msg.Reply()))
			if err != nil {
				failed = err
				break
			}
			way <- sent{msg, future}
		}
		cancel()
	}
	close(way)
	wg.Wait()
	return failed
}

// BenchmarkPipeline compares the pipeline with a fixed model with a relay of as many bytes, through a server in a
// separate process, in turns. One iteration is one turn of each. It reports medians over the iterations: throughput of
// the pipeline divided by that of the relay (pipeline/relay), processor time of this process for a message divided by
// that of the relay (cpu-pipeline/relay), and messages a second of both. The relay does not
// decompress bodies, so the goal of a compressed shape includes the time of the codec's library (library-us).
func BenchmarkPipeline(b *testing.B) {
	for _, s := range slices.Concat(shapes, smallShapes, narrowShapes, compressedShapes, mapShapes) {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 16)
			fixed := s.model(b, msgs[0])
			c := newCourse(b, startServerProcess(b, "max_payload: 8MB").url, msgs, jetstream.FileStorage, turnMessages)
			contestants := []func(context.Context, string) error{c.pipeline(plugin.Config{Spec: s.spec(), Fixed: fixed}),
				c.relay(s.answer(b, msgs[0]))}
			for _, contestant := range contestants {
				c.run(contestant) // fills caches and grows the heap
			}
			var turns [2][]turn
			for i := 0; b.Loop(); i++ {
				for k := range contestants {
					k = (k + i) % len(contestants) // so that each is first in every other turn
					turns[k] = append(turns[k], c.run(contestants[k]))
				}
			}
			c.report(s, turns, s.decoding(b, msgs))
		})
	}
}

// BenchmarkObjects measures the processor time of a message of one JSON object, answered with an object, divided by
// that of the same row as Arrow (cpu-json/arrow). The two pipelines run in turns, each with a separate server.
func BenchmarkObjects(b *testing.B) {
	s := shape{n: 1, m: 64, d: 8}
	msgs := s.messages(b, 16)
	fixed := s.model(b, msgs[0])
	var objects [][]byte
	for _, msg := range msgs {
		in := must(ipc.NewReader(bytes.NewReader(msg)))(b)
		var object bytes.Buffer
		if err := array.RecordToJSON(must(in.Read())(b), &object); err != nil {
			b.Fatal(err)
		}
		objects = append(objects, object.Bytes())
	}
	contestant := func(msgs [][]byte, format wire.Format) func() turn {
		c := newCourse(b, startServerProcess(b, "").url, msgs, jetstream.FileStorage, turnMessages)
		spec := s.spec()
		spec.Format = format
		run := c.pipeline(plugin.Config{Spec: spec, Fixed: fixed, Output: arrowio.Output{Format: format}})
		c.run(run) // fills caches and grows the heap
		return func() turn { return c.run(run) }
	}
	asJSON, asArrow := contestant(objects, wire.FormatJSON), contestant(msgs, wire.FormatArrow)
	var cpu []float64
	for b.Loop() {
		text, binary := asJSON(), asArrow()
		cpu = append(cpu, text.cpu/binary.cpu)
	}
	b.ReportMetric(median(cpu), "cpu-json/arrow")
	b.ReportMetric(0, "ns/op")
	b.Logf("processor time of an object / its row as Arrow %s", verdict(median(cpu), 1.5, true))
}

// answer is the body of the pipeline's answer to a message.
func (s shape) answer(b *testing.B, msg []byte) []byte {
	b.Helper()
	stage := s.stage(b, msg)
	r := must(stage.Transform(b.Context(), must(stage.Decode(msg))(b)))(b)
	return must(stage.Encode(r, wire.Pair{Key: wire.HeaderSource, Value: "features:1234"}))(b)
}

// decoding measures how many seconds of processor time the codec's library needs to decompress the features of a
// message: the median of 20 turns on all cores, as in the pipeline. The buffer has the spare capacity that makes zstd
// faster.
func (s shape) decoding(b *testing.B, msgs [][]byte) float64 {
	b.Helper()
	if s.codec == "" {
		return 0
	}
	size := 4 * s.n * s.m
	prefix := append(binary.LittleEndian.AppendUint64(nil, uint64(size)), map[string]string{
		"zstd": "\x28\xb5\x2f\xfd", "lz4": "\x04\x22\x4d\x18"}[s.codec]...)
	frames := must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)))(b)
	defer frames.Close()
	decode := func(frame, dst []byte) (length int) {
		if s.codec == "zstd" {
			out, _ := frames.DecodeAll(frame, dst[:0]) // an error of what is behind the frame
			return len(out)
		}
		for at := 7; length < size; { // behind the header: blocks, each after its length
			n := int(binary.LittleEndian.Uint32(frame[at:]))
			block, err := lz4.UncompressBlock(frame[at+4:][:n], dst[length:])
			if err != nil {
				return 0
			}
			length, at = length+block, at+4+n
		}
		return length
	}
	var took []float64
	for range 20 {
		begin, workers := processorSeconds(b), runtime.GOMAXPROCS(0)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				dst := make([]byte, size, size+16)
				for _, msg := range msgs {
					if length := decode(msg[bytes.Index(msg, prefix)+8:], dst); length != size {
						b.Errorf("%d of %d bytes are decoded", length, size)
					}
				}
			})
		}
		all.Wait()
		took = append(took, (processorSeconds(b)-begin)/float64(workers*len(msgs)))
	}
	b.ReportMetric(1e6*median(took), "library-us")
	return median(took)
}

func (c *course) report(s shape, turns [2][]turn, decoding float64) {
	b := c.b
	var rate [2][]float64
	var speed, cpu, relays []float64
	for i, ours := range turns[0] {
		relay := turns[1][i]
		rate[0], rate[1] = append(rate[0], 1/ours.seconds), append(rate[1], 1/relay.seconds)
		speed, cpu = append(speed, relay.seconds/ours.seconds), append(cpu, ours.cpu/relay.cpu)
		relays = append(relays, relay.cpu)
	}
	b.ReportMetric(median(speed), "pipeline/relay")
	b.ReportMetric(median(cpu), "cpu-pipeline/relay")
	b.ReportMetric(median(rate[0]), "pipeline-msg/s")
	b.ReportMetric(median(rate[1]), "relay-msg/s")
	b.ReportMetric(0, "ns/op") // one turn of each is not enough for a verdict
	least := 0.9
	if s.n*s.m < 1<<14 { // a message that takes a few microseconds
		least = 0.8
	}
	most := cmp.Or(s.goal, 1.3)
	b.Logf("processor time of the pipeline / relay %s", verdict(median(cpu), most+decoding/median(relays), true))
	b.Logf("messages a second, pipeline / relay %s", verdict(median(speed), least, false))
}

// verdict formats a ratio, its goal, and whether it holds.
func verdict(ratio, goal float64, most bool) string {
	what, holds := "at least", ratio >= goal
	if most {
		what, holds = "at most", ratio <= goal
	}
	return fmt.Sprintf("%.2f, goal %s %.3g: %s", ratio, what, goal, map[bool]string{true: "holds", false: "missed"}[holds])
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// BenchmarkStage measures one step on one message, in turns with a copy of that message: ns/op and allocations are of
// the step, x-memcpy is its time divided by that of the copy. "all" is the three steps one after the other. Times are
// 10th percentiles.
func BenchmarkStage(b *testing.B) {
	for _, s := range slices.Concat(shapes, smallShapes, narrowShapes, compressedShapes) {
		b.Run(s.String(), func(b *testing.B) {
			msgs := s.messages(b, 4)
			stage := s.stage(b, msgs[0])
			for _, step := range []string{"decode", "transform", "encode", "all"} {
				b.Run(step, func(b *testing.B) { s.step(b, step, stage, msgs) })
			}
		})
	}
}

func (s shape) step(b *testing.B, step string, stage *plugin.Stage, msgs [][]byte) {
	decoded, results := make([]*arrowio.Message, len(msgs)), make([]*plugin.Result, len(msgs))
	decode := func(i int) {
		if decoded[i] != nil {
			decoded[i].Release()
		}
		decoded[i] = must(stage.Decode(msgs[i]))(b)
	}
	transform := func(i int) { results[i] = must(stage.Transform(b.Context(), decoded[i]))(b) }
	encode := func(i int) { must(stage.Encode(results[i]))(b) }
	before, do := func(int) {}, decode
	switch step {
	case "transform": // a new one for each call: a message checks for faults only once
		before, do = decode, transform
	case "encode":
		before, do = func(i int) { decode(i); transform(i) }, encode
	case "all":
		do = func(i int) { decode(i); transform(i); encode(i) }
	}
	dst := make([]byte, len(msgs[0])+64)
	copied := func(i int) { copy(dst, msgs[i]) }
	timed := func(f func(int)) float64 {
		begin := time.Now()
		for i := range msgs {
			f(i)
		}
		return time.Since(begin).Seconds() / float64(len(msgs))
	}
	var ours, scale []float64
	for i := 0; b.Loop(); i++ {
		timed(before)
		ours = append(ours, timed(do))
		scale = append(scale, timed(copied))
	}
	took := undisturbed(ours)
	b.ReportMetric(took*1e9, "ns/op")
	b.ReportMetric(took/undisturbed(scale), "x-memcpy")
	b.ReportMetric(float64(len(msgs[0]))/took/1e6, "MB/s")
	b.ReportMetric(took*1e9/float64(s.n), "ns/row")
	bytes, allocs := allocated(before, do, len(msgs))
	b.ReportMetric(bytes, "B/op")
	b.ReportMetric(allocs, "allocs/op")
}

func undisturbed(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/10] }

// allocated returns what one call of do allocates.
func allocated(before, do func(int), n int) (bytes, count float64) {
	var from, to runtime.MemStats
	for i := range n {
		before(i)
	}
	const rounds = 100 // now and then a collection empties a pool
	runtime.ReadMemStats(&from)
	for range rounds {
		for i := range n {
			do(i)
		}
	}
	runtime.ReadMemStats(&to)
	return float64(to.TotalAlloc-from.TotalAlloc) / float64(rounds*n),
		float64(to.Mallocs-from.Mallocs) / float64(rounds*n)
}

// BenchmarkLearn measures the cost of training with LDA, a method that is fitted from moments, on a full window of
// 20,000 rows: one iteration is 5,000 rows, scored, learned, and all fits that they trigger. It reports medians of the
// processor time of all cores, and the part of it in Learn, which only copies.
func BenchmarkLearn(b *testing.B) {
	const each = 5000
	for _, s := range shapes {
		b.Run(s.String(), func(b *testing.B) {
			stage := must(plugin.New(plugin.Config{Spec: s.spec(), Fit: fit.Config{Method: "lda", Dim: s.d}}))(b)
			defer stage.Close()
			var msgs []*arrowio.Message
			for _, body := range s.messages(b, 16) {
				msgs = append(msgs, must(stage.Decode(body))(b))
			}
			var seq uint64
			var took []float64 // seconds of each call of Learn
			learn := func() float64 {
				begin := processorSeconds(b)
				for rows := 0; rows < each; rows += s.n {
					seq++
					clock := time.Now()
					if err := stage.Learn(msgs[seq%uint64(len(msgs))],
						plugin.Position{Seq: seq, Time: clock}); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(clock).Seconds())
				}
				if err := stage.Wait(within(b, 5*time.Minute)); err != nil {
					b.Fatal(err)
				}
				return processorSeconds(b) - begin
			}
			const filling = 4
			for range filling {
				learn()
			}
			took = nil
			fits := stage.Status().Fits
			var spent []float64
			for b.Loop() {
				spent = append(spent, learn())
			}
			if st := stage.Status(); st.Dropped > 0 || st.Rows < 15000 {
				b.Fatalf("%+v", st)
			}
			slices.Sort(took)
			b.ReportMetric(median(spent)/each*1e6, "us/row")
			b.ReportMetric(float64(stage.Status().Fits-fits)/float64(len(spent)), "fits/5000rows")
			b.ReportMetric(took[len(took)*99/100]*1e3, "learn-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTransformWhileLearning measures one message at a time, decoded, projected and encoded every 2 ms, in turns
// without training and while the same stage fits all the time: the ratios of the medians and of p99.
func BenchmarkTransformWhileLearning(b *testing.B) {
	for _, s := range shapes[:2] {
		b.Run(s.String(), func(b *testing.B) {
			stage := must(plugin.New(plugin.Config{Spec: s.spec(), Fit: fit.Config{Method: "lda", Dim: s.d}}))(b)
			defer stage.Close()
			bodies := s.messages(b, 16)
			var seq uint64
			learn := func() {
				seq++
				m := must(stage.Decode(bodies[seq%uint64(len(bodies))]))(b)
				if err := stage.Learn(m, plugin.Position{Seq: seq, Time: time.Now()}); err != nil {
					b.Fatal(err)
				}
			}
			for range 20000 / s.n {
				learn()
			}
			if err := stage.Wait(within(b, time.Minute)); err != nil {
				b.Fatal(err)
			}
			transform := func() float64 {
				begin := time.Now()
				r := must(stage.Transform(b.Context(), must(stage.Decode(bodies[0]))(b)))(b)
				must(stage.Encode(r))(b)
				return time.Since(begin).Seconds()
			}
			var quiet, busy []float64
			for b.Loop() {
				for range 500 {
					quiet = append(quiet, transform())
					time.Sleep(2 * time.Millisecond)
				}
				stop, ended := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
						for stage.Status().Backlog < 2000 {
							learn()
						}
					}
				}()
				for range 500 {
					busy = append(busy, transform())
					time.Sleep(2 * time.Millisecond)
				}
				close(stop)
				<-ended
				if err := stage.Wait(within(b, time.Minute)); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(quiet)
			slices.Sort(busy)
			p99 := len(quiet) * 99 / 100
			b.ReportMetric(busy[len(busy)/2]/quiet[len(quiet)/2], "x-p50")
			b.ReportMetric(busy[p99]/quiet[p99], "x-p99")
			b.ReportMetric(quiet[p99]*1e3, "quiet-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
