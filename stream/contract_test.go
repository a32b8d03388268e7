package stream_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/internal/lease"
)

// The schema of a pipeline is a contract that is stored once. What an input becomes must depend on nothing that a
// process saw before (Invariant 13).

// shape is a way to write rows as a message. The first is what most messages look like.
type shape struct {
	name  string
	write func(testing.TB, rows) []byte
}

// The features of the tests are a list x of four numbers and a number z.
var shapes = []shape{
	{"good", func(t testing.TB, r rows) []byte { return arrowMessage(t, r.columns()...) }},
	{"integer features", func(t testing.TB, r rows) []byte {
		c := r.columns()
		x := make([][]int64, len(r.x))
		for i, row := range r.x {
			for _, v := range row {
				x[i] = append(x[i], int64(v))
			}
		}
		c[2], c[3] = column{"x", x}, column{"z", slices.Repeat([]int64{1}, len(r.x))}
		return arrowMessage(t, c...)
	}},
	{"other column order", func(t testing.TB, r rows) []byte {
		c := r.columns()
		slices.Reverse(c)
		return arrowMessage(t, c...)
	}},
	{"integer labels", func(t testing.TB, r rows) []byte {
		c := r.columns()
		c[0] = column{"label", slices.Repeat([]int64{7}, len(r.x))}
		return arrowMessage(t, c...)
	}},
	{"integer keys", func(t testing.TB, r rows) []byte {
		c := r.columns()
		keys := make([]int64, len(r.x))
		for i := range keys {
			keys[i] = int64(i)
		}
		c[1] = column{"key", keys}
		return arrowMessage(t, c...)
	}},
	{"an extra column", func(t testing.TB, r rows) []byte {
		return arrowMessage(t, append(r.columns(), column{"extra", r.key})...)
	}},
	{"a missing column", func(t testing.TB, r rows) []byte { return arrowMessage(t, r.columns()[:3]...) }},
	{"another list length", func(t testing.TB, r rows) []byte {
		c := r.columns()
		for i := range r.x {
			r.x[i] = append(slices.Clone(r.x[i]), 1)
		}
		c[2] = column{"x", r.x}
		return arrowMessage(t, c...)
	}},
}

// answered are the shapes whose messages fit the contract of the good ones.
var answered = []string{"good", "integer features", "other column order", "integer labels", "integer keys",
	"an extra column"}

func (r rows) columns() []column {
	return []column{{"label", r.label}, {"key", r.key}, {"x", r.x}, {"z", slices.Repeat([]float32{1}, len(r.x))}}
}

func shapeOf(t testing.TB, name string) shape {
	t.Helper()
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no shape %q", name)
	}
	return shapes[i]
}

// contractPipeline has features that a first message can get wrong.
func contractPipeline(name string) stream.Pipeline {
	p := basicPipeline()
	p.Name, p.Lease = name, lease.MinTTL
	p.Stream, p.Subject = "in"+name, "in"+name+".x"
	p.Output, p.Dead = "out"+name+".x", "out"+name+".dead"
	p.Stage.Spec = arrowio.Spec{Features: []string{"x", "z"}, Label: "label", Key: "key"}
	p.Stage.Training.Every = plugin.Every{Rows: 100}
	// The first model of a schema stays, so that another one shows that the pipeline was opened again.
	p.Stage.Training.Gate = plugin.Gate{Evidence: 1000, MoreRows: math.Inf(1), NewClass: math.Inf(1)}
	return p
}

// makeStreams makes the streams of a contract pipeline.
func makeStreams(s *natstest.Server, p stream.Pipeline) {
	for _, name := range []string{"in" + p.Name, "out" + p.Name} {
		s.Stream(jetstream.StreamConfig{Name: name, Storage: jetstream.MemoryStorage})
	}
}

// outcomes are the answers of each input: "out", or the code of a dead letter.
func outcomes(s *natstest.Server, p stream.Pipeline) map[int][]string {
	s.Helper()
	all := map[int][]string{}
	for _, m := range s.Messages("out" + p.Name) {
		_, number, _ := strings.Cut(m.Header.Get(wire.HeaderSource), ":")
		seq, err := strconv.Atoi(number)
		if err != nil {
			s.Fatal(err)
		}
		if part := m.Header.Get(wire.HeaderPart); part != "" && !strings.HasPrefix(part, "1/") {
			continue
		}
		what := "out"
		if m.Subject == p.Dead {
			what = m.Header.Get(wire.HeaderCode)
		}
		all[seq] = append(all[seq], what)
	}
	return all
}

// awaitOutcomes waits until each of n inputs has an answer and the consumer has acknowledged them.
func awaitOutcomes(s *natstest.Server, p stream.Pipeline, n int) map[int][]string {
	s.Helper()
	natstest.Await(s, fmt.Sprintf("%d inputs of %s are acknowledged", n, p.Name), func() bool {
		c, err := s.JS.Consumer(s.Context(), p.Stream, "embedd_"+p.Name)
		return err == nil && c.CachedInfo().AckFloor.Stream >= uint64(n)
	})
	return outcomes(s, p)
}

// wantOutcomes compares the answers with those wanted, by sequence number.
func wantOutcomes(t testing.TB, have map[int][]string, want map[int]string) {
	t.Helper()
	wrong := map[string]int{}
	for seq, w := range want {
		if got := strings.Join(have[seq], " and "); got != w {
			wrong[fmt.Sprintf("%q, want %q", got, w)]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%d inputs became %s", wrong[text], text)
	}
}

// shapeHeader names the shape of an input.
const shapeHeader = "X-Shape"

// publishShapes stores one message of each named shape, five rows each.
func publishShapes(s *natstest.Server, p stream.Pipeline, names ...string) {
	s.Helper()
	for i, name := range names {
		body := shapeOf(s, name).write(s, drawRows(uint64(i), 5, 4))
		s.Publish(&nats.Msg{Subject: p.Subject, Header: nats.Header{shapeHeader: {name}}, Data: body})
	}
}

func good(n int) []string { return slices.Repeat([]string{"good"}, n) }

// TestOddMessageAfterRestart: with a live model one odd message at the head of the backlog changes nothing for those
// behind it, however many replicas there are.
func TestOddMessageAfterRestart(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for i, odd := range []string{"integer features", "integer labels", "integer keys", "another list length"} {
		for _, replicas := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d replicas", odd, replicas), func(t *testing.T) {
				s := s.For(t)
				p := contractPipeline(fmt.Sprintf("p%d-%d", i, replicas))
				p.Lease = 0
				makeStreams(s, p)
				r := startReplica(t, s.Connect(), p)
				publishShapes(s, p, good(30)...)
				awaitOutcomes(s, p, 30)
				if err := r.Stop(); err != nil {
					t.Fatal(err)
				}
				publishShapes(s, p, append([]string{odd}, good(100)...)...)
				for range replicas {
					startReplica(t, s.Connect(), p)
				}
				want := map[int]string{31: "out"}
				if !slices.Contains(answered, odd) {
					want[31] = string(wire.SchemaChanged)
				}
				for seq := range 130 {
					if seq+1 != 31 {
						want[seq+1] = "out"
					}
				}
				want[131] = "out"
				wantOutcomes(t, awaitOutcomes(s, p, 131), want)
			})
		}
	}
}

// TestNoSecondAnswer: inputs that have an output keep it alone, also where the consumer is deleted and an odd message
// is read first after the restart.
func TestNoSecondAnswer(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, append(append(good(10), "integer features"), good(90)...)...)
	before := awaitOutcomes(s, p, 101)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteConsumer(t.Context(), p.Stream, "embedd_p"); err != nil {
		t.Fatal(err)
	}
	in, err := s.JS.Stream(t.Context(), p.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(11)); err != nil { // the odd one is the first now
		t.Fatal(err)
	}
	startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(1)...)
	after := awaitOutcomes(s, p, 102)
	want := map[int]string{}
	for seq := range 102 {
		want[seq+1] = "out"
	}
	wantOutcomes(t, before, map[int]string{1: "out", 11: "out", 101: "out"})
	wantOutcomes(t, after, want)
}

// TestOddFirstMessage: a new pipeline answers by the contract of most messages; one odd first message is a dead letter.
func TestOddFirstMessage(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for i, odd := range []string{"another list length", "integer features", "integer labels", "integer keys"} {
		t.Run(odd, func(t *testing.T) {
			s := s.For(t)
			p := contractPipeline(fmt.Sprintf("p%d", i))
			makeStreams(s, p)
			startReplica(t, s.Connect(), p)
			publishShapes(s, p, append([]string{odd}, good(100)...)...)
			want := map[int]string{1: "out"}
			if !slices.Contains(answered, odd) {
				want[1] = string(wire.SchemaChanged)
			}
			for seq := range 100 {
				want[seq+2] = "out"
			}
			wantOutcomes(t, awaitOutcomes(s, p, 101), want)
		})
	}
}

// TestRequestFixesNoSchema: a request to transform a message leaves the schema as it was, before the first model and
// after a restart.
func TestRequestFixesNoSchema(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	request := func(odd string) {
		t.Helper()
		body := shapeOf(t, odd).write(t, drawRows(1, 2, 4))
		natstest.Await(t, "the service answers", func() bool {
			_, err := s.JS.Conn().RequestWithContext(t.Context(), stream.ServiceSubject("p", "transform"), body)
			return err == nil
		})
	}
	r := startReplica(t, s.Connect(), p)
	request("another list length")
	request("integer labels")
	publishShapes(s, p, good(30)...)
	want := map[int]string{}
	for seq := range 30 {
		want[seq+1] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, 30), want)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	startReplica(t, s.Connect(), p)
	request("integer features")
	request("integer keys")
	publishShapes(s, p, good(30)...)
	for seq := range 60 {
		want[seq+1] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, 60), want)
}
