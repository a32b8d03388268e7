package plugin

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testFeatures = 6

// row is a row to send: a class "" is a null label.
type row struct {
	x     []float32
	class string
}

// clouds makes n rows of k classes, one unit of noise around corners that are far apart.
func clouds(r *rand.Rand, n, k int) []row {
	rows := make([]row, n)
	for i := range rows {
		c := i % k
		x := make([]float32, testFeatures)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		x[c%testFeatures] += 6
		rows[i] = row{x, fmt.Sprintf("c%d", c)}
	}
	return rows
}

func encoded(t testing.TB, rows []row) []byte {
	t.Helper()
	rec := recordOf(memory.DefaultAllocator, rows)
	defer rec.Release()
	body, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func recordOf(mem memory.Allocator, rows []row) arrow.Record {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(testFeatures, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for _, r := range rows {
		list.Append(true)
		list.ValueBuilder().(*array.Float32Builder).AppendValues(r.x, nil)
		if r.class == "" {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(r.class)
		}
	}
	return b.NewRecord()
}

func newStage(t testing.TB, change func(*Config)) *Stage {
	t.Helper()
	c := Config{
		Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: "lda", Dim: 2},
		Training: Training{Every: Every{Rows: 100}, Window: Window{Rows: 1000}},
	}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func decode(t testing.TB, s *Stage, rows []row) *arrowio.Message {
	t.Helper()
	m, err := s.Decode(encoded(t, rows))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// teach sends rows in messages of 20, numbered from first, and waits for the fits that they make due.
func teach(t testing.TB, s *Stage, first uint64, rows []row) {
	t.Helper()
	for i := 0; i < len(rows); i += 20 {
		at := Position{Seq: first, Time: time.Unix(int64(first), 0)}
		if err := s.Learn(decode(t, s, rows[i:min(i+20, len(rows))]), at); err != nil {
			t.Fatal(err)
		}
		first++
		settle(t, s)
	}
}

func settle(t testing.TB, s *Stage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestLearnsAndTransforms(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(1, 2)), 120, 3)
	if _, err := s.Transform(t.Context(), decode(t, s, rows[:5])); !errors.Is(err, ErrNoModel) {
		t.Fatalf("before the first model: %v", err)
	}
	teach(t, s, 1, rows[:80])
	if s.Live() != nil {
		t.Fatal("a model after 80 of 100 rows")
	}
	if st := s.Status(); st.Rows != 80 || st.Needed != 100 {
		t.Fatalf("status says %d of %d", st.Rows, st.Needed)
	}
	teach(t, s, 5, rows[80:])
	live := s.Live()
	if live == nil || live.Epoch != 1 || live.Version != live.Model.Digest()[:16] || live.Seen != 5 {
		t.Fatalf("live is %+v", live)
	}
	m := decode(t, s, rows)
	r, err := s.Transform(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	// A row's bits do not depend on its batch.
	for i, row := range rows {
		one, err := s.Transform(t.Context(), decode(t, s, []testRow{row}))
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range one.Reduced.Y[0] {
			if math.Float32bits(v) != math.Float32bits(r.Reduced.Y[0][i*2+j]) {
				t.Fatalf("row %d output %d: %g alone, %g in a batch", i, j, v, r.Reduced.Y[0][i*2+j])
			}
		}
	}
	body, err := s.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{wire.HeaderModel, live.Version, wire.HeaderEpoch, "embedding"} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("the output does not say %q", want)
		}
	}
}

type testRow = row

func TestNulls(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(3, 4)), 120, 3)
	bad := clouds(rand.New(rand.NewPCG(5, 6)), 4, 3)
	bad[1].x[2] = float32(math.NaN())
	bad[3].x[0] = float32(math.Inf(-1))
	for _, nulls := range []Nulls{NullsReject, NullsSkip, NullsImpute} {
		t.Run(string(nulls), func(t *testing.T) {
			s := newStage(t, func(c *Config) { c.Nulls = nulls })
			teach(t, s, 1, rows)
			r, err := s.Transform(t.Context(), decode(t, s, bad))
			if err != nil {
				t.Fatal(err)
			}
			switch nulls {
			case NullsReject:
				if fmt.Sprint(r.Rejected) != "[[1 3]]" || fmt.Sprint(r.Reduced.Drop) != "[[1 3]]" || r.Skipped != 0 {
					t.Errorf("rejected %v, dropped %v, skipped %d", r.Rejected, r.Reduced.Drop, r.Skipped)
				}
				if f := r.Faults[1]; f.Row != 3 || f.What != "-Inf" || !strings.Contains(f.Feature, "x[0]") {
					t.Errorf("fault %+v", f)
				}
			case NullsSkip:
				if r.Rejected != nil || fmt.Sprint(r.Reduced.Drop) != "[[1 3]]" || r.Skipped != 2 {
					t.Errorf("rejected %v, dropped %v, skipped %d", r.Rejected, r.Reduced.Drop, r.Skipped)
				}
			case NullsImpute:
				if r.Rejected != nil || r.Reduced.Drop != nil {
					t.Errorf("rejected %v, dropped %v", r.Rejected, r.Reduced.Drop)
				}
				for _, v := range r.Reduced.Y[0] {
					if v != v || math.IsInf(float64(v), 0) {
						t.Errorf("output %v", r.Reduced.Y[0])
					}
				}
			}
			before := s.Status().Rows
			teach(t, s, 100, bad)
			want := map[Nulls]int{NullsReject: 2, NullsSkip: 2, NullsImpute: 4}[nulls]
			if got := s.Status().Rows - before; got != want {
				t.Errorf("%d rows entered the window, want %d", got, want)
			}
		})
	}
}

// TestWorseModelStays breaks the labels for as many rows as three windows hold: candidates from then on are worse and
// must not go live (Invariant 8), though every figure that the stage can measure says that the live model is as bad.
func TestWorseModelStays(t *testing.T) {
	var promoted []Outcome
	s := newStage(t, func(c *Config) {
		c.Observe = func(o Outcome) { promoted = append(promoted, o) }
	})
	r := rand.New(rand.NewPCG(7, 8))
	teach(t, s, 1, clouds(r, 1000, 3))
	good, fits := s.Live(), s.Status().Fits
	if good == nil {
		t.Fatal("no model")
	}
	broken := clouds(r, 3000, 3)
	for i := range broken {
		broken[i].class = fmt.Sprintf("c%d", r.IntN(3))
	}
	teach(t, s, 100, broken)
	if st := s.Status(); st.Fits < fits+5 || st.Alarms == 0 || st.Accuracy > 0.45 {
		t.Errorf("the test shows nothing: %+v", st)
	}
	if s.Live() != good {
		t.Errorf("after labels that mean nothing %s is live: %s", s.Live().Version, promoted[len(promoted)-1].Reason)
	}
	teach(t, s, 1000, clouds(r, 1000, 3))
	if st := s.Status(); st.Accuracy < 0.95 {
		t.Errorf("after labels that mean something again: %+v", st)
	}
}

// TestChange turns the features: the window is cut, and a model of the new world goes live soon, in a new epoch, for
// methods that learn from moments, for those that need the rows, and for auto.
func TestChange(t *testing.T) {
	for _, method := range []string{"lda", "lfda", fit.Auto} {
		t.Run(method, func(t *testing.T) {
			s := newStage(t, func(c *Config) { c.Fit.Method = method })
			r := rand.New(rand.NewPCG(7, 9))
			teach(t, s, 1, clouds(r, 1000, 4))
			before := s.Live()
			turned := clouds(r, 500, 4)
			for i := range turned {
				x := turned[i].x
				turned[i].x = append(append([]float32{}, x[2:]...), x[:2]...)
				turned[i].x[4] *= -1
			}
			teach(t, s, 100, turned)
			st := s.Status()
			if st.Alarms == 0 || st.Rows > 520 || st.Live.Epoch == before.Epoch || st.Accuracy < 0.8 {
				t.Errorf("after a turn: %+v, live %+v", st, st.Live)
			}
			if st.Live.Model.Dim() != before.Model.Dim() {
				t.Errorf("%d outputs became %d", before.Model.Dim(), st.Live.Model.Dim())
			}
		})
	}
}

// TestWidth: classes that go and come change outputs in value, never in number.
func TestWidth(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Fit.Dim = 0; c.Training.Window.Rows = 300 })
	r := rand.New(rand.NewPCG(7, 10))
	teach(t, s, 1, clouds(r, 400, 4))
	first := s.Live()
	if first.Model.Dim() != 3 {
		t.Fatalf("%d outputs of 4 classes", first.Model.Dim())
	}
	for i, classes := range []int{2, 6, 3} {
		rows := clouds(r, 900, classes)
		for k := range rows {
			rows[k].x[k%3] *= float32(i + 2) // another world each time
		}
		teach(t, s, uint64(1000*(i+1)), rows)
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		settle(t, s)
		if st := s.Status(); st.Live.Model.Dim() != 3 || strings.Contains(st.Note, "exceeds") {
			t.Errorf("%d classes: %d outputs: %s", classes, st.Live.Model.Dim(), st.Note)
		}
	}
	wide := newStage(t, func(c *Config) { c.Fit.Dim = 5 })
	teach(t, wide, 1, clouds(r, 400, 3))
	if l := wide.Live(); l == nil || l.Model.Dim() != 5 {
		t.Errorf("5 outputs of 3 classes: %+v: %s", l, wide.Status().Note)
	}
}

// TestCoordinatesStay refits on more of the same data: within an epoch the outputs stay where they were.
func TestCoordinatesStay(t *testing.T) {
	s := newStage(t, nil)
	r := rand.New(rand.NewPCG(9, 10))
	teach(t, s, 1, clouds(r, 200, 3))
	probe := decode(t, s, clouds(r, 50, 3))
	before, err := s.Transform(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Live()
	teach(t, s, 100, clouds(r, 2500, 3))
	after, err := s.Transform(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	if after.Live == first {
		t.Fatal("no model was promoted")
	}
	if after.Live.Epoch != before.Live.Epoch {
		t.Skipf("epoch rose to %d: not comparable, and said so", after.Live.Epoch)
	}
	var diff, size float64
	for i, v := range after.Reduced.Y[0] {
		d := float64(v - before.Reduced.Y[0][i])
		diff += d * d
		size += float64(v) * float64(v)
	}
	if r := math.Sqrt(diff / size); r > 0.45 {
		t.Errorf("outputs moved by %.2f of their size within one epoch", r)
	}
}

// watched is a stage whose releases and checkpoints are kept as a store would.
type watched struct {
	*Stage
	live      *Live
	decisions []string
}

func watch(t *testing.T, change func(*Config)) *watched {
	w := &watched{}
	w.Stage = newStage(t, func(c *Config) {
		change(c)
		if c.Resume != nil {
			w.live = c.Resume
		}
		c.Store = func(_ context.Context, r *Release) (string, error) {
			origin := r.Model
			if w.live != nil && !r.NewEpoch {
				origin = w.live.Origin
			}
			w.live = &Live{Model: r.Model, Version: r.Model.Digest()[:16], Epoch: r.Epoch, Seen: r.Last,
				Bootstrap: r.Bootstrap, State: r.State, Origin: origin}
			w.decisions = append(w.decisions, fmt.Sprint(r.Model.Digest()[:8], " ", r.Epoch, " ", r.Rows, " ", r.Why))
			return w.live.Version, nil
		}
		c.Checkpoint = func(_ context.Context, state []byte) error {
			if len(state) > 64<<10 {
				t.Errorf("a checkpoint of %d bytes", len(state))
			}
			w.live.State = state
			return nil
		}
	})
	return w
}

var restarts = flag.Int("restarts", 8, "restarts at random points of TestReproducible")

// TestReproducible: same rows, order, configuration and seed, same digests and decisions; also after a restart at any
// point that reads the window again (Invariant 7).
func TestReproducible(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(11, 12)), 4000, 3)
	for i := range rows { // overlapping classes, whose place changes in the middle
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > 2000 {
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	for _, balance := range []Balance{BalanceNone, BalanceClass} {
		for _, method := range []string{"lda", "pca", "sle", "lfda", fit.Auto} {
			if testing.Short() && (method == "sle" || balance == BalanceNone) {
				continue // their way is that of the others
			}
			t.Run(string(balance)+"/"+method, func(t *testing.T) {
				change := func(c *Config) {
					c.Training.Window = Window{Rows: 1500, Balance: balance}
					c.Training.Every.Rows = 500
					c.Fit.Method = method
				}
				a, b := watch(t, change), watch(t, change)
				teach(t, a.Stage, 1, rows)
				teach(t, b.Stage, 1, rows)
				if fmt.Sprint(a.decisions) != fmt.Sprint(b.decisions) || len(a.decisions) == 0 {
					t.Fatalf("decisions\n%v\nand\n%v", a.decisions, b.decisions)
				}
				stops := []int{600, 1020, 1980, 2060, 3000}
				random := rand.New(rand.NewPCG(uint64(len(method)), uint64(len(balance))))
				for range *restarts / 8 {
					stops = append(stops, 320+20*random.IntN(180))
				}
				for _, stop := range stops {
					c := watch(t, change)
					teach(t, c.Stage, 1, rows[:stop])
					_, first := ReadFrom(c.live.State)
					d := watch(t, func(x *Config) { change(x); x.Resume = c.live })
					d.decisions = c.decisions
					teach(t, d.Stage, first, rows[(first-1)*20:])
					if x, y := a.Status().Rows, d.Status().Rows; x != y {
						t.Errorf("stopped after %d: %d rows in the window after a restart, %d without", stop, y, x)
					}
					if x, y := strings.Join(a.decisions, "\n"), strings.Join(d.decisions, "\n"); x != y {
						t.Errorf("stopped after %d: without\n%s\nwith\n%s", stop, x, y)
					}
				}
			})
		}
	}
}

func TestBootstrap(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Until = UntilPCA; c.Training.Every.Rows = 60 })
	r := rand.New(rand.NewPCG(13, 14))
	unlabelled := clouds(r, 60, 3)
	for i := range unlabelled {
		unlabelled[i].class = ""
	}
	teach(t, s, 1, unlabelled)
	live := s.Live()
	if live == nil || !live.Bootstrap || live.Model.Method() != "pca" {
		t.Fatalf("after 60 unlabelled rows live is %+v", live)
	}
	teach(t, s, 10, clouds(r, 60, 3))
	if l := s.Live(); l.Bootstrap || l.Model.Method() != "lda" || l.Epoch != 2 {
		t.Errorf("after 60 labelled rows live is %s, epoch %d", l.Model.Method(), l.Epoch)
	}
}

func TestUnsupervisedWithoutLabels(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Spec.Label = ""; c.Fit.Method = "pca" })
	teach(t, s, 1, clouds(rand.New(rand.NewPCG(15, 16)), 240, 3))
	if l := s.Live(); l == nil || l.Model.Method() != "pca" || len(l.Model.Classes()) != 0 {
		t.Fatalf("live is %+v", l)
	}
}

// What auto found at the first fit stays: the dimension always, the method while no other is better by more than the
// noise.
func TestAutoStays(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Fit = fit.Config{Method: fit.Auto, Dim: fit.AutoDim} })
	r := rand.New(rand.NewPCG(31, 32))
	teach(t, s, 1, clouds(r, 120, 4))
	first := s.Live()
	if first == nil || first.Model.Params()["auto"] != "method and dim" || first.Model.Method() == fit.Auto {
		t.Fatalf("live is %+v: %s", first, s.Status().Note)
	}
	for i := range 3 {
		rows := clouds(r, 600, 6) // more classes, and another place each time
		for k := range rows {
			rows[k].x[(k+i)%6] += 9
		}
		teach(t, s, uint64(100*(i+1)), rows)
	}
	last := s.Live()
	if s.Status().Fits < 3 || last.Version == first.Version {
		t.Fatalf("%d fits, version %s then %s: %+v", s.Status().Fits, first.Version, last.Version, s.Status())
	}
	if n := s.learner.trainer.policy.Chosen; n < 400 {
		t.Errorf("auto chose from %d rows, and not again from more", n)
	}
	if last.Model.Dim() != first.Model.Dim() {
		t.Errorf("dim %d became %d", first.Model.Dim(), last.Model.Dim())
	}
	if last.Model.Method() != first.Model.Method() {
		t.Errorf("%s became %s on rows that both tell apart", first.Model.Method(), last.Model.Method())
	}
}

func TestAutoWithoutLabelsIsPCA(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Spec.Label = ""; c.Fit = fit.Config{Method: fit.Auto, Dim: fit.AutoDim} })
	teach(t, s, 1, clouds(rand.New(rand.NewPCG(33, 34)), 120, 3))
	if l := s.Live(); l == nil || l.Model.Method() != "pca" || l.Model.Dim() != 2 {
		t.Fatalf("live is %+v: %s", l, s.Status().Note)
	}
}

func TestPeriod(t *testing.T) {
	s := newStage(t, func(c *Config) {
		c.Training.Every = Every{Rows: 1000,
			Period: 50 * time.Millisecond}
		c.Fit.Dim = 1
	})
	rows := clouds(rand.New(rand.NewPCG(17, 18)), 8, 2)
	if err := s.Learn(decode(t, s, rows), Position{Seq: 1, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	// 4 + 4 rows and then silence: the period still brings a model.
	select {
	case <-s.Ready():
	case <-time.After(20 * time.Second):
		t.Fatalf("no model: %+v", s.Status())
	}
}

func TestFixed(t *testing.T) {
	a := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(19, 20)), 120, 3)
	teach(t, a, 1, rows)
	fixed := newStage(t, func(c *Config) { *c = Config{Spec: c.Spec, Fixed: a.Live().Model} })
	if fixed.Learns() {
		t.Error("a stage with a fixed model learns")
	}
	x, err := a.Transform(t.Context(), decode(t, a, rows))
	if err != nil {
		t.Fatal(err)
	}
	y, err := fixed.Transform(t.Context(), decode(t, fixed, rows))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range x.Reduced.Y[0] {
		if math.Float32bits(v) != math.Float32bits(y.Reduced.Y[0][i]) {
			t.Fatalf("output %d differs: %g, %g", i, v, y.Reduced.Y[0][i])
		}
	}
}

var swaps = flag.Int("swaps", 200, "swaps of TestSwapUnderLoad")

// TestSwapUnderLoad transforms from many goroutines while models are swapped; run it with -race (Invariants 3 and 4).
func TestSwapUnderLoad(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(21, 22)), 900, 3)
	teach(t, s, 1, rows[:100])
	a := s.Live()
	teach(t, s, 10, rows[100:300])
	other, err := fit.Fit(t.Context(), dataOf(rows[300:]), fit.Config{Method: "lda", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &Live{Model: other, Version: other.Digest()[:16], Epoch: 2}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				m, err := s.Decode(encoded(t, rows[:30]))
				if err != nil {
					t.Error(err)
					return
				}
				r, err := s.Transform(t.Context(), m)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Encode(r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	before := heap()
	for i := range *swaps {
		if err := s.Adopt([]*Live{a, b}[i%2], false); err != nil {
			t.Fatal(err)
		}
		teach(t, s, uint64(100+i), rows[300+i%600:301+i%600])
		if s.Live() != []*Live{a, b}[i%2] {
			t.Fatalf("swap %d: live is %s", i, s.Live().Version)
		}
	}
	close(stop)
	wg.Wait()
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d swaps left %d bytes", *swaps, grown)
	}
}

// dataOf is rows as a fit takes them.
func dataOf(rows []row) *model.Data {
	d := &model.Data{N: len(rows), M: testFeatures}
	for _, r := range rows {
		for _, v := range r.x {
			d.X = append(d.X, float64(v))
		}
		c := slices.Index(d.Classes, r.class)
		if c < 0 {
			c, d.Classes = len(d.Classes), append(d.Classes, r.class)
		}
		d.Y = append(d.Y, c)
	}
	for j := range testFeatures {
		d.Features = append(d.Features, fmt.Sprintf("x[%d]", j))
	}
	return d
}

// TestAdopt: a pinned model stays whatever speaks against it, one of other features or outputs is refused, and an
// adopted one is where learning goes on from.
func TestAdopt(t *testing.T) {
	s := newStage(t, nil)
	r := rand.New(rand.NewPCG(21, 23))
	teach(t, s, 1, clouds(r, 1000, 3))
	good := s.Live()
	noise := clouds(r, 300, 3)
	for i := range noise {
		noise[i].class = fmt.Sprintf("c%d", r.IntN(3))
	}
	bad, err := fit.Fit(t.Context(), dataOf(noise), fit.Config{Method: "lda", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		method string
		dim    int
		rename bool
	}{{"lda", 1, false}, {"lda", 2, true}} {
		d := dataOf(noise)
		if x.rename {
			d.Features[0] = "other"
		}
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: x.method, Dim: x.dim})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Adopt(&Live{Model: m, Version: "v"}, true); err == nil {
			t.Errorf("%+v was adopted", x)
		}
	}
	if err := s.Adopt(&Live{Model: bad, Version: "bad", Epoch: 9}, true); err != nil {
		t.Fatal(err)
	}
	teach(t, s, 100, clouds(r, 1000, 3))
	if st := s.Status(); st.Live.Version != "bad" || !st.Pinned {
		t.Errorf("pinned, and live is %+v", st.Live)
	}
	if err := s.Adopt(&Live{Model: bad, Version: "bad", Epoch: 9}, false); err != nil {
		t.Fatal(err)
	}
	teach(t, s, 200, clouds(r, 1000, 3))
	if st := s.Status(); st.Live.Version == "bad" || st.Pinned || st.Accuracy < 0.9 {
		t.Errorf("after unpinning: %+v, live %+v", st, st.Live)
	}
	s.Close()
	if err := s.Adopt(good, false); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestClassLimit(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Classes = 3 })
	teach(t, s, 1, clouds(rand.New(rand.NewPCG(23, 24)), 50, 5))
	if st := s.Status(); st.Classes != 3 || st.Rows < 20 || st.Overfull < 15 {
		t.Errorf("%d classes, %d rows in the window", st.Classes, st.Rows)
	}
}

// TestClosed: learning ends with Close and says so; the live model goes on.
func TestClosed(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(27, 28)), 120, 3)
	teach(t, s, 1, rows)
	m := decode(t, s, rows[:5])
	s.Close()
	if err := s.Learn(m, Position{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Learn says %v", err)
	}
	if err := s.Wait(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait says %v", err)
	}
	if _, err := s.Transform(t.Context(), m); err != nil {
		t.Errorf("Transform says %v", err)
	}
}

// TestResumeWithOtherFeatures: the codes of arrowio come through the stage's own words.
func TestResumeWithOtherFeatures(t *testing.T) {
	s := newStage(t, nil)
	teach(t, s, 1, clouds(rand.New(rand.NewPCG(29, 30)), 120, 3))
	_, err := New(Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Pinned: []string{"other"}},
		Resume: s.Live()})
	if !errors.Is(err, wire.SchemaChanged) {
		t.Errorf("resuming with other features: %v", err)
	}
}

func TestRefit(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Training.Every = Every{Rows: 1000} })
	r := rand.New(rand.NewPCG(35, 36))
	wantFew := func(figures string) {
		t.Helper()
		if err := s.Refit(); !errors.Is(err, ErrFewRows) || !strings.Contains(err.Error(), figures) {
			t.Errorf("want %q, got %v", figures, err)
		}
	}
	wantFew("0 labelled rows of 0 classes")
	teach(t, s, 1, clouds(r, 3, 2))
	wantFew("3 labelled rows of 2 classes")
	teach(t, s, 2, clouds(r, 40, 3))
	if s.Live() != nil {
		t.Fatal("the policy did not wait; the test shows nothing")
	}
	for fits := 1; fits <= 2; fits++ { // the second time without a new row
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		settle(t, s)
		if st := s.Status(); st.Live == nil || st.Fits != fits {
			t.Errorf("after refit %d: %+v", fits, st)
		}
	}
	fixed := newStage(t, func(c *Config) { *c = Config{Spec: c.Spec, Fixed: s.Live().Model} })
	if err := fixed.Refit(); !errors.Is(err, ErrFixed) {
		t.Errorf("with a fixed model: %v", err)
	}
	s.Close()
	if err := s.Refit(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRefitWhileFitting: what is asked for during a fit follows it, once.
func TestRefitWhileFitting(t *testing.T) {
	began, release := make(chan struct{}, 3), make(chan struct{})
	s := newStage(t, func(c *Config) {
		c.Store = func(_ context.Context, r *Release) (string, error) {
			began <- struct{}{}
			<-release
			return r.Model.Digest(), nil
		}
	})
	rows := clouds(rand.New(rand.NewPCG(37, 38)), 100, 3)
	if err := s.Learn(decode(t, s, rows), Position{}); err != nil {
		t.Fatal(err)
	}
	<-began
	before := s.Status().Fits
	for range 3 {
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	settle(t, s)
	if n := s.Status().Fits - before; n != 1 {
		t.Errorf("%d fits, want one for all that asked", n)
	}
}

// TestRecords: a record learns and transforms as its wire form does, bit for bit, and every reference is given back.
func TestRecords(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	byWire, byRecord := newStage(t, nil), newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(39, 40)), 120, 3)
	rows[4].class = ""
	rows[7].x[2] = float32(math.NaN())
	whole := recordOf(mem, rows)
	for i := range 6 {
		at := Position{Seq: uint64(i + 1), Time: time.Unix(int64(i), 0)}
		if err := byWire.Learn(decode(t, byWire, rows[20*i:20*i+20]), at); err != nil {
			t.Fatal(err)
		}
		part := whole.NewSlice(int64(20*i), int64(20*i+20))
		m, err := byRecord.FromRecord(part)
		if err != nil {
			t.Fatal(err)
		}
		if err := byRecord.Learn(m, at); err != nil {
			t.Fatal(err)
		}
		part.Release()
		settle(t, byWire)
		settle(t, byRecord)
	}
	if x, y := byWire.Live().Model.Digest(), byRecord.Live().Model.Digest(); x != y {
		t.Fatalf("digest %.16s of messages, %.16s of records", x, y)
	}
	want, err := byWire.Transform(t.Context(), decode(t, byWire, rows[3:20]))
	if err != nil {
		t.Fatal(err)
	}
	part := whole.NewSlice(3, 20)
	whole.Release()
	m, err := byRecord.FromRecord(part)
	if err != nil {
		t.Fatal(err)
	}
	got, err := byRecord.Transform(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range want.Reduced.Y[0] {
		if math.Float32bits(v) != math.Float32bits(got.Reduced.Y[0][i]) {
			t.Fatalf("output %d is %g, not %g", i, got.Reduced.Y[0][i], v)
		}
	}
	if x, y := fmt.Sprint(want.Faults, want.Rejected), fmt.Sprint(got.Faults, got.Rejected); x != y {
		t.Errorf("rejected %s, not %s", y, x)
	}
	out, err := byRecord.Record(got, wire.Pair{Key: "more", Value: "said"})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Release()
	part.Release()
	if out.NumRows() != 16 || out.ColumnName(0) != "label" || !out.Column(0).IsNull(1) ||
		out.ColumnName(1) != "embedding" {
		t.Errorf("the record is %v", out)
	}
	meta := out.Schema().Metadata()
	for key, value := range map[string]string{wire.HeaderModel: byRecord.Live().Version, "more": "said"} {
		if v, _ := meta.GetValue(key); v != value {
			t.Errorf("%s is %q, not %q", key, v, value)
		}
	}
}

// TestTransformStops: a message of many batches is given up between two of them.
func TestTransformStops(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(41, 42)), 120, 3)
	teach(t, s, 1, rows)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Transform(ctx, decode(t, s, rows)); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

func TestStoreFailureKeepsTheLiveModel(t *testing.T) {
	fail := errors.New("disk full")
	s := newStage(t, func(c *Config) {
		c.Store = func(context.Context, *Release) (string, error) { return "", fail }
	})
	teach(t, s, 1, clouds(rand.New(rand.NewPCG(25, 26)), 100, 3))
	if s.Live() != nil {
		t.Error("a model that was not stored is live")
	}
	if st := s.Status(); !strings.Contains(st.Note, "disk full") {
		t.Errorf("status says %q", st.Note)
	}
}

// TestPanicEndsTheFitAlone: in the fitting goroutine (lda) and beside its pool (sle-ovr). The live model answers on,
// and the next fit is as any.
func TestPanicEndsTheFitAlone(t *testing.T) {
	for method, phase := range map[string]string{"lda": "fit", "sle-ovr": "views"} {
		var broken atomic.Bool
		var fits []Outcome
		var log bytes.Buffer
		s := newStage(t, func(c *Config) {
			c.Fit.Method = method
			c.Fit.Progress = func(p string, _ float64) {
				if p == phase && broken.Load() {
					panic("out of luck")
				}
			}
			c.Training.Holdout = 0.2
			c.Observe = func(f Outcome) { fits = append(fits, f) }
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		rows := clouds(rand.New(rand.NewPCG(31, 32)), 300, 3)
		teach(t, s, 1, rows[:100])
		live := s.Live()
		broken.Store(true)
		teach(t, s, 6, rows[100:200])
		if len(fits) != 2 || live == nil || s.Live() != live {
			t.Fatalf("%s: %d fits, live is %+v", method, len(fits), s.Live())
		}
		var p *model.Panic
		if err := fits[1].Err; !errors.As(err, &p) || !strings.Contains(err.Error(), method+": panicked: out of luck") {
			t.Errorf("%s: the fit says %v", method, err)
		}
		if text := log.String(); !strings.Contains(text, "out of luck") ||
			!strings.Contains(text, "TestPanicEndsTheFitAlone") {
			t.Errorf("%s: the log does not show where it was: %s", method, text)
		}
		if _, err := s.Transform(t.Context(), decode(t, s, rows)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		broken.Store(false)
		teach(t, s, 11, rows[200:])
		before := s.Status().Fits
		teach(t, s, 20, rows)
		failed := slices.ContainsFunc(fits[2:], func(o Outcome) bool { return o.Err != nil })
		if failed || s.Status().Fits == before {
			t.Errorf("%s: fits go on failing: %+v", method, fits[2:])
		}
	}
}

func TestConfigRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`nulls "drop" is not one of`:        func(c *Config) { c.Nulls = "drop" },
		`no label column is named`:          func(c *Config) { c.Spec.Label, c.Fit.Method = "", "lda" },
		`holdout 0.9 is not in`:             func(c *Config) { c.Training.Holdout = 0.9 },
		`a window of 3 rows is too small`:   func(c *Config) { c.Training.Window.Rows = 3 },
		`align "spin" is not one of`:        func(c *Config) { c.Training.Align = "spin" },
		`nosuch`:                            func(c *Config) { c.Fit.Method = "nosuch" },
		`window balance "some" is not one`:  func(c *Config) { c.Training.Window.Balance = "some" },
		`until ready "whenever" is not one`: func(c *Config) { c.Until = "whenever" },
	} {
		c := Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}}
		change(&c)
		if s, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			if s != nil {
				s.Close()
			}
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
