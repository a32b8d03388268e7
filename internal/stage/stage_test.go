package stage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestMain lets the heap grow to five times what is in use: tests allocate much and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

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

func encodeRows(t testing.TB, rows []row) []byte {
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
	features := testFeatures
	if len(rows) > 0 {
		features = len(rows[0].x)
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(int32(features), arrow.PrimitiveTypes.Float32)},
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

func newStage(t testing.TB, change func(*spec.Config)) *Stage {
	t.Helper()
	c := spec.Config{
		Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: "lda", Dim: 2},
		Training: spec.Training{Every: spec.Every{Rows: 100}, Window: spec.Window{Rows: 1000}},
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

// contractOf is the contract of the rows that recordOf makes.
func testContract(t testing.TB) *arrowio.Contract {
	t.Helper()
	c, err := arrowio.NewContract(featureNames(), "label", "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func decode(t testing.TB, s *Stage, rows []row) *arrowio.Message {
	t.Helper()
	m, err := s.Decode(encodeRows(t, rows))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// learnRows sends rows in messages of 20, numbered from first, and waits for the fits that become due.
func learnRows(t testing.TB, s *Stage, first uint64, rows []row) {
	t.Helper()
	for i := 0; i < len(rows); i += 20 {
		at := spec.Position{Seq: first, Time: time.Unix(int64(first), 0), Source: "in.a"}
		if err := s.Learn(decode(t, s, rows[i:min(i+20, len(rows))]), at); err != nil {
			t.Fatal(err)
		}
		first++
		waitIdle(t, s)
	}
}

// inspect returns the parts of the trainer of a stage whose worker is idle.
func inspect(s *Stage) trainer.Parts { return trainer.Inspect(s.learner.trainer) }

func waitIdle(t testing.TB, s *Stage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestLearnsAndTransforms(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(1, 2)), 120, 3)
	if _, err := s.Transform(t.Context(), decode(t, s, rows[:5])); !errors.Is(err, spec.ErrNoModel) {
		t.Fatalf("before the first model: %v", err)
	}
	learnRows(t, s, 1, rows[:80])
	if s.Live() != nil {
		t.Fatal("a model after 80 of 100 rows")
	}
	if st := s.Status(); st.Rows != 80 || st.Needed != 100 {
		t.Fatalf("status says %d of %d", st.Rows, st.Needed)
	}
	learnRows(t, s, 5, rows[80:])
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
	for _, nulls := range []spec.Nulls{spec.NullsReject, spec.NullsSkip, spec.NullsImpute} {
		t.Run(string(nulls), func(t *testing.T) {
			s := newStage(t, func(c *spec.Config) { c.Nulls = nulls })
			learnRows(t, s, 1, rows)
			r, err := s.Transform(t.Context(), decode(t, s, bad))
			if err != nil {
				t.Fatal(err)
			}
			switch nulls {
			case spec.NullsReject:
				if fmt.Sprint(r.Rejected) != "[[1 3]]" || fmt.Sprint(r.Reduced.Drop) != "[[1 3]]" || r.Skipped != 0 {
					t.Errorf("rejected %v, dropped %v, skipped %d", r.Rejected, r.Reduced.Drop, r.Skipped)
				}
				if f := r.Faults[1]; f.Row != 3 || f.What != "-Inf" || !strings.Contains(f.Feature, "x[0]") {
					t.Errorf("fault %+v", f)
				}
			case spec.NullsSkip:
				if r.Rejected != nil || fmt.Sprint(r.Reduced.Drop) != "[[1 3]]" || r.Skipped != 2 {
					t.Errorf("rejected %v, dropped %v, skipped %d", r.Rejected, r.Reduced.Drop, r.Skipped)
				}
			case spec.NullsImpute:
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
			learnRows(t, s, 100, bad)
			want := map[spec.Nulls]int{spec.NullsReject: 2, spec.NullsSkip: 2, spec.NullsImpute: 4}[nulls]
			if got := s.Status().Rows - before; got != want {
				t.Errorf("%d rows entered the window, want %d", got, want)
			}
		})
	}
}

// TestOutOfRange: a feature or an output that exceeds float32 is a fault of its row alone.
func TestOutOfRange(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(3, 4)), 200, 3)
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] /= 1000 // a unit of the outputs is a small part of a feature
		}
	}
	for _, c := range []struct {
		name   string
		value  float64
		type_  arrow.DataType
		row    int
		learns bool // it is a fault before anything is projected
	}{
		{"float64 beyond float32", -1e160, arrow.PrimitiveTypes.Float64, 70, false},
		{"float64 that is an output too far", 3e38, arrow.PrimitiveTypes.Float64, 64, true},
		{"float32 that is an output too far", 3e38, arrow.PrimitiveTypes.Float32, 0, true},
	} {
		for _, nulls := range []spec.Nulls{spec.NullsReject, spec.NullsSkip, spec.NullsImpute} {
			t.Run(c.name+"/"+string(nulls), func(t *testing.T) {
				s := newStage(t, func(c *spec.Config) { c.Nulls = nulls })
				send := func(change bool) *arrowio.Message {
					b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
						{Name: "x", Type: arrow.FixedSizeListOf(testFeatures, c.type_)},
						{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
					defer b.Release()
					list := b.Field(0).(*array.FixedSizeListBuilder)
					for i, row := range rows {
						list.Append(true)
						for j, v := range row.x {
							x := float64(v)
							if change && i == c.row && j == 2 {
								x = c.value
							}
							switch values := list.ValueBuilder().(type) {
							case *array.Float64Builder:
								values.Append(x)
							case *array.Float32Builder:
								values.Append(float32(x))
							}
						}
						b.Field(1).(*array.StringBuilder).Append(row.class)
					}
					m, err := s.FromRecord(b.NewRecord())
					if err != nil {
						t.Fatal(err)
					}
					return m
				}
				for seq := range uint64(3) {
					if err := s.Learn(send(false), spec.Position{Seq: seq + 1}); err != nil {
						t.Fatal(err)
					}
					waitIdle(t, s)
				}
				want, err := s.Transform(t.Context(), send(false))
				if err != nil {
					t.Fatal(err)
				}
				m := send(true)
				r, err := s.Transform(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				dim := r.Live.Model.Dim()
				for i, v := range r.Reduced.Y[0] {
					if i/dim != c.row && math.Float32bits(v) != math.Float32bits(want.Reduced.Y[0][i]) {
						t.Fatalf("output %d of a sound row is %g, not %g", i, v, want.Reduced.Y[0][i])
					}
				}
				imputed := nulls == spec.NullsImpute && math.Abs(c.value) > math.MaxFloat32
				switch {
				case imputed:
					if r.Reduced.Drop != nil || r.RejectedRows() != 0 {
						t.Errorf("dropped %v", r.Reduced.Drop)
					}
				case nulls == spec.NullsSkip:
					if r.Skipped != 1 || r.RejectedRows() != 0 || fmt.Sprint(r.Reduced.Drop) != fmt.Sprintf("[[%d]]", c.row) {
						t.Errorf("skipped %d, dropped %v", r.Skipped, r.Reduced.Drop)
					}
				default:
					if r.RejectedRows() != 1 {
						t.Fatalf("%d rows rejected", r.RejectedRows())
					}
					f := r.Faults[0]
					if f.Row != c.row || f.Feature != "x[2]" || !strings.Contains(f.What, "float32") ||
						!strings.Contains(f.What, fmt.Sprintf("%g", c.value)) && !strings.Contains(f.What, "e+38") {
						t.Errorf("fault %+v", f)
					}
				}
				before := s.Status()
				if err := s.Learn(m, spec.Position{Seq: 100}); err != nil {
					t.Fatal(err)
				}
				waitIdle(t, s)
				faulty := s.Status().Incomplete - before.Incomplete
				if want := !c.learns && nulls != spec.NullsImpute; (faulty == 1) != want {
					t.Errorf("%d rows are not learned from", faulty)
				}
			})
		}
	}
}

// TestImputedBeyondFloat32: a finite feature beyond float32 is replaced by the mean only if an output would exceed
// float32.
func TestImputedBeyondFloat32(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Nulls = spec.NullsImpute })
	rows := clouds(rand.New(rand.NewPCG(21, 22)), 120, 3)
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] *= 1000 // the output of a feature of 1e39 fits float32
		}
	}
	learnRows(t, s, 1, rows)
	outputs := func(value float64) []float32 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
			{Name: "x", Type: arrow.FixedSizeListOf(testFeatures, arrow.PrimitiveTypes.Float64)},
			{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
		defer b.Release()
		list := b.Field(0).(*array.FixedSizeListBuilder)
		list.Append(true)
		for _, v := range rows[0].x[1:] {
			list.ValueBuilder().(*array.Float64Builder).Append(float64(v))
		}
		list.ValueBuilder().(*array.Float64Builder).Append(value)
		b.Field(1).AppendNull()
		m, err := s.FromRecord(b.NewRecord())
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Transform(t.Context(), m)
		if err != nil || r.RejectedRows() > 0 {
			t.Fatalf("%g: %d rejected, %v", value, r.RejectedRows(), err)
		}
		return r.Reduced.Y[0]
	}
	mean, near, far := outputs(math.NaN()), outputs(1e39), outputs(1e160)
	if slices.Equal(near, mean) || !slices.Equal(far, mean) {
		t.Errorf("the outputs of NaN, 1e39 and 1e160 are %v, %v and %v", mean, near, far)
	}
}

func TestFixed(t *testing.T) {
	a := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(19, 20)), 120, 3)
	learnRows(t, a, 1, rows)
	fixed := newStage(t, func(c *spec.Config) { *c = spec.Config{Spec: c.Spec, Fixed: a.Live().Model} })
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
	msg := encodeRows(t, rows)
	want := len(msg) + y.Reduced.Message.Bytes() + 4*len(y.Reduced.Y[0])
	var e arrowio.Envelope
	fixed.Open(&e, msg)
	if got := fixed.Expanded(&e); got != want {
		t.Errorf("the message has %d bytes, and %d were predicted", want, got)
	}
}

var swaps = flag.Int("swaps", 200, "swaps of TestSwapUnderLoad")

// TestSwapUnderLoad transforms from many goroutines while models are swapped; run it with -race (Invariants 3 and 4).
func TestSwapUnderLoad(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(21, 22)), 900, 3)
	learnRows(t, s, 1, rows[:100])
	a := s.Live()
	learnRows(t, s, 10, rows[100:300])
	other, err := fit.Fit(t.Context(), dataOf(rows[300:]), fit.Config{Method: "lda", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &spec.Live{Model: other, Version: other.Digest()[:16], Epoch: 2}
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
				m, err := s.Decode(encodeRows(t, rows[:30]))
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
		if err := s.Adopt([]*spec.Live{a, b}[i%2], false); err != nil {
			t.Fatal(err)
		}
		learnRows(t, s, uint64(100+i), rows[300+i%600:301+i%600])
		if s.Live() != []*spec.Live{a, b}[i%2] {
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
	d := &model.Data{N: len(rows), M: len(rows[0].x)}
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
	for j := range d.M {
		d.Features = append(d.Features, fmt.Sprintf("x[%d]", j))
	}
	return d
}

// TestClosed: after Close learning returns ErrClosed, and the live model still transforms messages.
func TestClosed(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(27, 28)), 120, 3)
	learnRows(t, s, 1, rows)
	m := decode(t, s, rows[:5])
	s.Close()
	if err := s.Learn(m, spec.Position{}); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("Learn says %v", err)
	}
	if err := s.Wait(context.Background()); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("Wait says %v", err)
	}
	if _, err := s.Transform(t.Context(), m); err != nil {
		t.Errorf("Transform says %v", err)
	}
}

// TestResumeWithOtherFeatures: the error codes of arrowio are preserved in errors of the stage.
func TestResumeWithOtherFeatures(t *testing.T) {
	s := newStage(t, nil)
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(29, 30)), 120, 3))
	other, err := arrowio.NewContract([]string{"other"}, "label", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Contract: other,
		Resume: s.Live()})
	if !errors.Is(err, wire.SchemaChanged) {
		t.Errorf("resuming with other features: %v", err)
	}
}

// TestRecords: a record learns and transforms as its encoded form does, bit for bit, and every reference is released.
func TestRecords(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	byWire, byRecord := newStage(t, nil), newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(39, 40)), 120, 3)
	rows[4].class = ""
	rows[7].x[2] = float32(math.NaN())
	whole := recordOf(mem, rows)
	for i := range 6 {
		at := spec.Position{Seq: uint64(i + 1), Time: time.Unix(int64(i), 0)}
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
		waitIdle(t, byWire)
		waitIdle(t, byRecord)
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

// TestTransformStops: a message with many batches can be cancelled between two of them.
func TestTransformStops(t *testing.T) {
	s := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(41, 42)), 120, 3)
	learnRows(t, s, 1, rows)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Transform(ctx, decode(t, s, rows)); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

func TestConfigRefused(t *testing.T) {
	for want, change := range map[string]func(*spec.Config){
		`nulls "drop" is not one of`:        func(c *spec.Config) { c.Nulls = "drop" },
		`align "spin" is not one of`:        func(c *spec.Config) { c.Training.Align = "spin" },
		`nosuch`:                            func(c *spec.Config) { c.Fit.Method = "nosuch" },
		`window balance "some" is not one`:  func(c *spec.Config) { c.Training.Window.Balance = "some" },
		`until ready "whenever" is not one`: func(c *spec.Config) { c.Until = "whenever" },
	} {
		c := spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}}
		change(&c)
		if s, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			if s != nil {
				s.Close()
			}
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestFixedModel: a stage with a fixed model learns nothing, and says so.
func TestFixedModel(t *testing.T) {
	t.Parallel()
	first := newStage(t, nil)
	rows := clouds(rand.New(rand.NewPCG(61, 62)), 120, 3)
	learnRows(t, first, 1, rows)
	m := first.Live().Model
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}}, Fixed: m})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range []error{s.Refit(), s.Adopt(first.Live(), false)} {
		if !errors.Is(err, spec.ErrFixed) {
			t.Errorf("%v, want %v", err, spec.ErrFixed)
		}
	}
	st := s.Status()
	if s.Learn(decode(t, s, rows), spec.Position{}) != nil || s.Wait(t.Context()) != nil || s.Backlog() != 0 ||
		s.Learns() || s.TakeOver(nil) || st.Live != s.Live() || st.Live.Epoch != 1 ||
		st.Live.Version != m.Digest()[:16] || !math.IsNaN(st.Accuracy+st.Chance+st.Candidate+st.HeldOut) {
		t.Errorf("status %+v", st)
	}
	if s.LabelLimits() != (spec.Labels{}) || s.LabelStatus() != (spec.LabelStatus{}) {
		t.Error("labels have limits")
	}
	if rows, labels := s.LabelsAhead(); rows || labels {
		t.Error("a stream is ahead")
	}
	s.LabelsReached(time.Now())
	s.Standby(true)
	_, err = New(spec.Config{Spec: arrowio.Spec{Features: []string{"y"}}, Fixed: m})
	const differs = `the fixed model and the features of messages differ: its feature "x[0]" is in no entry`
	if err == nil || err.Error() != differs {
		t.Errorf("other features: %v", err)
	}
}
