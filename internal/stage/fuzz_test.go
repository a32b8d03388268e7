package stage

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bound"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// dice draws numbers from bytes, zeros after their end.
type dice []byte

func (d *dice) roll() byte {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

// far are numbers that caused faults before.
var far = []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -3e38, math.MaxFloat32, 1e39, 1e160,
	-math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-40}

func (d *dice) number() float64 {
	b := d.roll()
	if b < 128 {
		return float64(b)/16 - 4
	}
	return far[int(b)%len(far)]
}

// randomMessage is a valid message whose form, numbers and labels come from bytes.
func randomMessage(t testing.TB, d *dice) []byte {
	form := d.roll()
	var values arrow.DataType = arrow.PrimitiveTypes.Float32
	if form&1 != 0 {
		values = arrow.PrimitiveTypes.Float64
	}
	var x arrow.DataType = arrow.FixedSizeListOf(testFeatures, values)
	if form&2 != 0 {
		x = arrow.ListOf(values)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: x, Nullable: true}, {Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
	defer b.Release()
	for range int(d.roll() % 80) {
		kind := d.roll()
		list := b.Field(0).(array.ListLikeBuilder)
		if list.Append(kind&7 != 7); kind&7 != 7 || form&2 == 0 {
			for range testFeatures {
				switch v := list.ValueBuilder().(type) {
				case *array.Float32Builder:
					v.Append(float32(d.number()))
				case *array.Float64Builder:
					v.Append(d.number())
				}
			}
		}
		text(b.Field(1), fmt.Sprint("c", kind>>3&3), kind&32 == 0)
		text(b.Field(2), fmt.Sprint("k", d.roll()%16), kind&64 == 0)
	}
	return encodeRecord(t, b)
}

// failOnPanic fails a test if learning panicked.
func failOnPanic(t testing.TB) func(spec.Outcome) {
	return func(o spec.Outcome) {
		if o.Err != nil && strings.Contains(o.Err.Error(), "panic") {
			t.Error(o.Err)
		}
	}
}

// checkRefused fails a test unless an error is the rejection of a message.
func checkRefused(t testing.TB, err error) {
	var e *arrowio.Error
	if !errors.As(err, &e) || e.Code == wire.Internal {
		t.Errorf("no clean refusal: %v", err)
	}
}

// FuzzStage runs a message through a stage: decode, transform, encode, split, the rejected rows, and learning between
// valid messages. The message is the bytes, or is generated from them.
func FuzzStage(f *testing.F) {
	good := encodeRows(f, clouds(rand.New(rand.NewPCG(81, 82)), 60, 3))
	f.Add(good, []byte{}, uint16(0))
	for form := range byte(4) {
		f.Add([]byte{}, []byte{form, 40, 1, 200, 130, 131, 132, 133, 134, 7, 8, 9, 9, 140, 141}, uint16(form))
		f.Add([]byte{}, append([]byte{form, 79}, make([]byte, 600)...), uint16(300)+uint16(form))
	}
	f.Add([]byte{}, []byte{2, 3, 7, 0, 7, 0, 7, 0}, uint16(2))
	teacher := newStage(f, nil)
	learnRows(f, teacher, 1, clouds(rand.New(rand.NewPCG(83, 84)), 120, 3))
	live := teacher.Live()
	fixed := map[spec.Nulls]*Stage{}
	policies := []spec.Nulls{spec.NullsReject, spec.NullsSkip, spec.NullsImpute}
	for _, nulls := range policies {
		fixed[nulls] = newStage(f, func(c *spec.Config) {
			*c = spec.Config{Spec: arrowio.Spec{Features: c.Spec.Features, Label: "label", Limits: fuzzLimits}, Nulls: nulls,
				Fixed: live.Model}
		})
	}
	f.Fuzz(func(t *testing.T, msg, form []byte, how uint16) {
		if len(msg) == 0 {
			d := dice(form)
			msg = randomMessage(t, &d)
		}
		nulls := policies[how%3]
		bound.Check(t, 256<<20, func() {
			checkTransform(t, fixed[nulls], msg, int(how>>2))
			checkLearned(t, msg, good, nulls, how)
		})
	})
}

var fuzzLimits = arrowio.Limits{Message: 1 << 20, Body: 1 << 20, Rows: 2000}

// checkTransform checks the hot path.
func checkTransform(t testing.TB, s *Stage, msg []byte, limit int) {
	m, err := s.Decode(msg)
	if err != nil {
		checkRefused(t, err)
		return
	}
	r, err := s.Transform(t.Context(), m)
	if err != nil {
		t.Error(err)
		return
	}
	for k, b := range m.Batches() {
		drop, dim := r.Reduced.Drop, r.Reduced.Dim
		for i := range b.Rows() {
			if len(drop) > 0 && len(drop[k]) > 0 && drop[k][0] == i {
				drop[k] = drop[k][1:]
				continue
			}
			for _, y := range r.Reduced.Y[k][i*dim : (i+1)*dim] {
				if y-y != 0 {
					t.Errorf("row %d of batch %d has output %g", i, k, y)
				}
			}
		}
	}
	if r, err = s.Transform(t.Context(), m); err != nil {
		t.Error(err)
		return
	}
	if _, err = s.Encode(r); err != nil {
		checkRefused(t, err)
	}
	parts, err := s.Split(r, 1024+limit, func(int, int) []wire.Pair { return nil })
	if err != nil {
		checkRefused(t, err)
	}
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	var e arrowio.Envelope
	s.Open(&e, msg)
	if most := max(2*s.Expanded(&e)+8*len(msg)+64<<10, fuzzLimits.Body); total > most {
		t.Errorf("%d bytes in %d parts; the bound is %d", total, len(parts), most)
	}
	if r.RejectedRows() > 0 {
		if _, err := s.EncodeRejected(r); err != nil {
			checkRefused(t, err)
		}
	}
}

// checkLearned checks the learning path: training continues after any message.
func checkLearned(t testing.TB, msg, good []byte, nulls spec.Nulls, how uint16) {
	s, err := New(spec.Config{
		Spec:  arrowio.Spec{Features: []string{"x"}, Label: "label", Limits: fuzzLimits},
		Nulls: nulls, Fit: fit.Config{Method: []string{"lda", "pca", "srda"}[how/3%3], Dim: 2}, Until: spec.UntilPCA,
		Training: spec.Training{Every: spec.Every{Rows: 50}, Window: spec.Window{Rows: 200, Bytes: 4 << 20}},
		Observe:  failOnPanic(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for seq, body := range [][]byte{msg, good, msg, good} {
		m, err := s.Decode(body)
		if err != nil {
			checkRefused(t, err)
			continue
		}
		if err := s.Learn(m, spec.Position{Seq: uint64(seq + 1), Time: time.Unix(int64(seq+1), 0)}); err != nil {
			t.Error(err)
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if st := s.Status(); st.Bytes > 4<<20 {
		t.Errorf("the window takes %d bytes", st.Bytes)
	}
}

// FuzzLabels joins rows and labels that arrive separately, in an order, at times and with keys from the bytes, and
// learns the bytes as a message of labels.
func FuzzLabels(f *testing.F) {
	f.Add(labelMessage(f, []string{"k1", "k2", ""}, []string{"a", "", "b"}), []byte{})
	f.Add([]byte{}, []byte{0, 1, 20, 0, 1, 2, 3, 1, 5, 2, 1, 9, 3, 200, 1, 1, 1, 0, 4})
	f.Add([]byte{}, append([]byte{0, 0, 79}, make([]byte, 300)...))
	f.Fuzz(func(t *testing.T, msg, steps []byte) {
		bound.Check(t, 256<<20, func() {
			s, err := New(spec.Config{
				Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "id", Limits: fuzzLimits},
				Fit:      fit.Config{Method: "lda", Dim: 2},
				Labels:   &spec.Labels{Wait: time.Minute, Bytes: 64 << 10},
				Training: spec.Training{Every: spec.Every{Rows: 50}, Window: spec.Window{Rows: 200, Bytes: 4 << 20}},
				Observe:  failOnPanic(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			d, now, seq := dice(steps), time.Unix(1, 0), uint64(0)
			for len(d) > 0 && seq < 60 {
				seq++
				at := spec.Position{Seq: seq, Time: now}
				switch d.roll() % 4 {
				case 0:
					m, err := s.Decode(randomMessage(t, &d))
					if err != nil {
						checkRefused(t, err)
						continue
					}
					if err := s.Learn(m, at); err != nil {
						t.Error(err)
					}
				case 1:
					var keys, texts []string
					for range d.roll() % 20 {
						keys, texts = append(keys, fmt.Sprint("k", d.roll()%16)), append(texts, fmt.Sprint("c", d.roll()%4))
					}
					giveLabels(t, s, labelMessage(t, keys, texts), at)
				case 2:
					now = now.Add(time.Duration(int8(d.roll())) * time.Second)
				case 3:
					s.LabelsReached(now)
				}
			}
			giveLabels(t, s, msg, spec.Position{Seq: seq + 1, Time: now})
			if err := s.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.LabelStatus().Bytes; n > 64<<10 {
				t.Errorf("rows and labels that wait take %d bytes", n)
			}
		})
	})
}

func giveLabels(t testing.TB, s *Stage, msg []byte, at spec.Position) {
	m, err := s.DecodeLabels(msg)
	if err != nil {
		checkRefused(t, err)
		return
	}
	if err := s.LearnLabels(m, at); err != nil {
		t.Error(err)
	}
}
