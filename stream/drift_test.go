package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go/jetstream"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/stream/registry"
)

// fitting counts the fits of replicas: the concurrent ones, all, and their processor time.
type fitting struct {
	mu             sync.Mutex
	now, most, all int
	took           time.Duration
}

// criterion is discriminant analysis as a custom criterion, so that each of its fits can be observed.
func (f *fitting) criterion() *fit.Criterion {
	return &fit.Criterion{Name: "seen", Supervised: true, InBasis: func(_ context.Context, x fit.BasisRows, y []int) (
		between, total *mat.SymDense, err error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		begin := threadTime()
		f.mu.Lock()
		f.now++
		f.all++
		f.most = max(f.most, f.now)
		f.mu.Unlock()
		n, m := x.Dims()
		sums, count := map[int][]float64{}, map[int]float64{}
		for i := range n {
			if sums[y[i]] == nil {
				sums[y[i]] = make([]float64, m)
			}
			count[y[i]]++
			for j := range m {
				sums[y[i]][j] += x.At(i, j)
			}
		}
		between, total = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
		for c := range len(sums) {
			if sum := mat.NewVecDense(m, sums[c]); count[c] > 0 {
				between.SymRankOne(between, 1/count[c], sum)
			}
		}
		total.SymOuterK(1, x.T())
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now--
		f.took += threadTime() - begin
		return between, total, nil
	}}
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(1, &u); err != nil { // RUSAGE_THREAD
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// drifting is a message of rows whose classes differ in two features, which are different ones in each concept.
func drifting(r *rand.Rand, concept int) []byte {
	const rows, features = 8, 32
	schema := arrow.NewSchema([]arrow.Field{{Name: "label", Type: arrow.BinaryTypes.String},
		{Name: "x", Type: arrow.FixedSizeListOf(features, arrow.PrimitiveTypes.Float32)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	x := b.Field(1).(*array.FixedSizeListBuilder)
	for range rows {
		class := r.IntN(3)
		b.Field(0).(*array.StringBuilder).Append([]string{"a", "b", "c"}[class])
		v := make([]float32, features)
		for j := range v {
			v[j] = float32(r.NormFloat64())
		}
		v[2*concept%features] += float32(4 * (class % 2))
		v[(2*concept+1)%features] += float32(4 * (class / 2))
		x.Append(true)
		x.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	_ = w.Write(rec)
	_ = w.Close()
	return out.Bytes()
}

// flip is a change of what is live.
type flip struct {
	at      time.Time
	version string
	epoch   int
}

// TestDriftOfFour: four replicas read a stream whose concept changes repeatedly, and one replica of another pipeline
// reads the same stream. Two of the four never fit concurrently, and their fits take together what those of the single
// one take; every promoted model answers at every replica; a second after a change none of them answers with the model
// or the epoch before.
func TestDriftOfFour(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, EMBEDD_SOAK=10m for so long")
	}
	long := 3 * time.Minute
	if d, err := time.ParseDuration(os.Getenv("EMBEDD_SOAK")); err == nil {
		long = d
	}
	s := newSite(t)
	pipeline := func(name string, f *fitting) Pipeline {
		p := holdingPipeline()
		p.Name, p.Output, p.Dead, p.Lease = name, "out."+name, "out.dead", time.Minute // no replica dies here
		p.Stage.Fit = fit.Config{Criterion: f.criterion(), Dim: 2}
		p.Stage.Training.Every.Rows = 400
		return p
	}
	four, one := &fitting{}, &fitting{}
	var logs []*lines
	var replicas []*runner
	for range 4 {
		l := &lines{}
		s.log = slog.New(slog.NewTextHandler(l, nil))
		logs, replicas = append(logs, l), append(replicas, s.replica(pipeline("p", four)))
	}
	s.log = nil
	alone := s.replica(pipeline("one", one))
	s.until("all are open", func() bool {
		for _, r := range append(replicas, alone) {
			if len(r.Status()) == 0 {
				return false
			}
		}
		return true
	})
	var flips []flip
	kv, err := s.js.KeyValue(t.Context(), registry.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	pointers, err := kv.Watch(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for e := range pointers.Updates() {
			var p registry.Pointer
			if e == nil || json.Unmarshal(e.Value(), &p) != nil || p.Live == "" {
				continue
			}
			if n := len(flips); n == 0 || flips[n-1].version != p.Live {
				flips = append(flips, flip{e.Created(), p.Live, p.Find(p.Live).Epoch})
			}
		}
	}()
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Now()
	for tick := time.Tick(10 * time.Millisecond); time.Since(begin) < long; {
		<-tick
		s.store("in.x", drifting(r, int(time.Since(begin)/(15*time.Second))))
		s.sent++
	}
	s.acknowledged("p")
	s.acknowledged("one")
	idle := func(r *runner) bool { g := r.Status()[0].Stage; return !g.Fitting && g.Backlog == 0 }
	s.until("what was sent is learned", func() bool {
		for _, r := range append(replicas, alone) {
			if !idle(r) {
				return false
			}
		}
		return true
	})
	time.Sleep(2 * time.Second) // what was promoted last
	_ = pointers.Stop()
	<-seen

	if len(flips) < 3 || flips[len(flips)-1].epoch == flips[0].epoch {
		t.Errorf("the concept changes and the models do not: %+v", flips)
	}
	for i, l := range logs {
		for _, f := range flips {
			if l.with("version="+f.version+" ") == nil {
				t.Errorf("replica %d never had %s", i, f.version)
			}
		}
	}
	before, late, old, lateOld := s.behind(flips)
	fits := 0
	for _, r := range replicas {
		fits += r.Status()[0].Stage.Fits
	}
	ratio := four.took.Seconds() / one.took.Seconds()
	t.Logf("%d messages, %d changes of the model, epochs %d to %d; outputs of a model before after a change %d, a "+
		"second after it %d; of an epoch before %d, a second after it %d",
		s.sent, len(flips), flips[0].epoch, flips[len(flips)-1].epoch, before, late, old, lateOld)
	turns := 0
	for _, l := range logs {
		turns += len(l.with("this replica is the trainer now"))
	}
	t.Logf("four replicas: %d fits, %d at a time, %.2f s of processor time, %d turns to learn; one: %d fits, %.2f s; "+
		"ratio %.3f",
		four.all, four.most, four.took.Seconds(), turns, one.all, one.took.Seconds(), ratio)
	if four.most > 1 {
		t.Errorf("%d replicas fitted at a time", four.most)
	}
	if ratio > 1.1 {
		t.Errorf("fits of four replicas take %.2f of those of one", ratio)
	}
	if late > 0 || lateOld > 0 {
		t.Errorf("a second after a change %d outputs are of the model before, %d of the epoch before", late, lateOld)
	}
}

// behind counts outputs of pipeline p that are of the model before, although the live model had changed.
func (s *site) behind(flips []flip) (before, late, old, lateOld int) {
	s.Helper()
	c, err := s.js.OrderedConsumer(s.Context(), "out", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"out.p"},
		HeadersOnly: true})
	if err != nil {
		s.Fatal(err)
	}
	msgs, err := c.Messages()
	if err != nil {
		s.Fatal(err)
	}
	defer msgs.Stop()
	at := map[string]int{}
	for i, f := range flips {
		at[f.version] = i
	}
	for range s.sent {
		msg, err := msgs.Next()
		if err != nil {
			s.Fatal(err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			s.Fatal(err)
		}
		i, ok := at[msg.Headers().Get(wire.HeaderModel)]
		if !ok {
			s.Fatalf("an output of model %s, which never was live", msg.Headers().Get(wire.HeaderModel))
		}
		if i+1 < len(flips) && meta.Timestamp.After(flips[i+1].at) {
			before++
			if meta.Timestamp.After(flips[i+1].at.Add(time.Second)) {
				late++
			}
		}
		for _, f := range flips[i+1:] {
			if f.epoch != flips[i].epoch && fmt.Sprint(flips[i].epoch) == msg.Headers().Get(wire.HeaderEpoch) {
				if meta.Timestamp.After(f.at) {
					old++
				}
				if meta.Timestamp.After(f.at.Add(time.Second)) {
					lateOld++
				}
				break
			}
		}
	}
	return before, late, old, lateOld
}
