package stage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestManyFeatures: if one matrix of features x features would be many times the window's memory, rows are learned
// within that memory, or not at all, and the status says which. Four such rows are 480 KB; the matrices of their fit
// would be 7.2 GB each.
func TestManyFeatures(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // what is measured includes garbage
	for _, c := range []struct {
		method string
		m      int
		bytes  int64
		rows   int
		live   bool
		want   []string
	}{
		{"lda", 30_000, 1 << 30, 4, true, []string{"30000 features", "training.window.bytes", "223 rows"}},
		{"pca", 20_000, 64 << 20, 60, true, []string{"20 rows", "fewer features"}},
		{"auto", 3000, 16 << 20, 80, true, []string{"34 rows"}},
		{"lpp", 3000, 16 << 20, 80, true, []string{"34 rows"}},
		{"lda", 30_000, 16 << 20, 60, false, []string{"nothing is learned", "raise training.window.bytes"}},
		{"lda", 300, 16 << 20, 60, true, nil},
	} {
		t.Run(fmt.Sprintf("%s of %d features in %d MiB", c.method, c.m, c.bytes>>20), func(t *testing.T) {
			s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
				Fit:      fit.Config{Method: c.method, Dim: 1},
				Training: spec.Training{Window: spec.Window{Rows: 20_000, Bytes: c.bytes}, Every: spec.Every{Rows: c.rows}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := rand.New(rand.NewPCG(71, 72))
			for seq := range uint64(5) {
				rec := wideRecord(r, c.rows, c.m)
				m, err := s.FromRecord(rec)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Learn(m, spec.Position{Seq: seq + 1}); err != nil {
					t.Fatal(err)
				}
				if err := s.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if s.Live() == nil && c.live && seq == 4 {
					t.Errorf("no model: %+v", s.Status())
				}
				if live := s.Live(); live != nil {
					if _, err := s.Transform(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
				rec.Release()
			}
			runtime.ReadMemStats(&after)
			st := s.Status()
			for _, want := range c.want {
				if !strings.Contains(st.Hint, want) {
					t.Errorf("the status says %q, not %q", st.Hint, want)
				}
			}
			if c.want == nil && st.Hint != "" {
				t.Errorf("the status says %q", st.Hint)
			}
			if (s.Live() != nil) != c.live {
				t.Errorf("live %v", s.Live())
			}
			// The memory of the process is an upper bound of what it had concurrently.
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 4*c.bytes+64<<20 {
				t.Errorf("the heap grew by %d MiB, and the window has %d", grown>>20, c.bytes>>20)
			}
		})
	}
}

// wideRecord is n rows of m features of two classes.
func wideRecord(r *rand.Rand, n, m int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for i := range n {
		list.Append(true)
		for j := range m {
			list.ValueBuilder().(*array.Float32Builder).Append(r.Float32() + float32(i%2*(j%3)))
		}
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("c", i%2))
	}
	return b.NewRecord()
}

// TestFeatureLimit: a message with more features than the limit fixes no schema.
func TestFeatureLimit(t *testing.T) {
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label",
		Limits: arrowio.Limits{Features: 100}}, Fit: fit.Config{Method: "lda"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(73, 74))
	_, err = s.FromRecord(wideRecord(r, 4, 101))
	if !errors.Is(err, wire.TooManyFields) || !strings.Contains(err.Error(), "limits.features") {
		t.Error(err)
	}
	if _, err = s.FromRecord(wideRecord(r, 4, 100)); err != nil {
		t.Error(err)
	}
}

// TestRowsOfAFit: a fit needs no more memory in addition to its rows than the window, so the window has fewer rows than
// configured, and the log has their number. Methods that are fitted from moments have all of them.
func TestRowsOfAFit(t *testing.T) {
	for _, c := range []struct {
		method      string
		bytes       int64
		least, most int // rows of the window
	}{
		{"isomap", 1 << 20, 120, 209},     // 24 n^2
		{"mp-ltsimr", 1 << 20, 150, 241},  // 18 n^2
		{"mpda", 1 << 20, 100, 241},       //
		{"lsmpa", 1 << 20, 120, 170},      // 36 n^2
		{"lsmpa", 256 << 20, 2000, 2000},  // it looks at 2,000 rows
		{"lenews", 512 << 20, 2000, 2000}, // and at 1,500
		{"le", 1 << 20, 150, 512},         // a graph, and its factor
		{"lle", 1 << 20, 80, 512},         // a patch for each row
		{"lpp", 1 << 20, 300, 900},        // a graph
		{"pmpda", 1 << 20, 20, 100},       // all tangent vectors of two rows
		{fit.Auto, 1 << 20, 100, 170},     // what lsmpa holds, which it tries
		{"lda", 1 << 20, 2000, 2000},
	} {
		t.Run(fmt.Sprintf("%s in %d MiB", c.method, c.bytes>>20), func(t *testing.T) {
			var log bytes.Buffer
			s := newStage(t, func(conf *spec.Config) {
				conf.Contract = testContract(t)
				conf.Fit, conf.Logger = fit.Config{Method: c.method}, slog.New(slog.NewTextHandler(&log, nil))
				conf.Training = spec.Training{Window: spec.Window{Rows: 2000, Bytes: c.bytes}, Every: spec.Every{Rows: 10_000}}
			})
			learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(75, 76)), 20, 2))
			s.Close() // the worker has ended
			rows := inspect(s).Window.MaxRows()
			if rows < c.least || rows > c.most {
				t.Errorf("the window holds %d rows, not %d to %d", rows, c.least, c.most)
			}
			if logged := strings.Contains(log.String(), fmt.Sprintf("rows=%d requested=2000", rows)); logged != (rows < 2000) {
				t.Errorf("%d rows, and the log says %q", rows, log.String())
			}
		})
	}
	// 3.2 GB of geodesics in addition to a window of 1 GiB, before they were counted.
	s := newStage(t, func(c *spec.Config) { c.Fit.Method, c.Training.Window = "isomap", spec.Window{Rows: 20_000} })
	if n := inspect(s).WindowRows(20_000, 256); 8*n*n > 1<<30 || n < 10_000 {
		t.Errorf("%d rows with the default of window.bytes", n)
	}
	for _, c := range []struct {
		method      string
		m, mib      int
		least, most int
	}{
		{fit.Auto, 784, 1024, 20_000, 20_000}, // the default: all that are asked for
		{fit.Auto, 1024, 1024, 14_000, 18_000},
		{"le", 4, 1024, 20_000, 20_000},
		{"lle", 4, 1024, 20_000, 20_000},
		{"le", 2, 64, 10_000, 19_000}, // a factor that fills in little
		{"le", 16, 64, 3000, 5000},    // and one that does
	} {
		s := newStage(t, func(conf *spec.Config) {
			conf.Fit.Method, conf.Training.Window = c.method, spec.Window{Rows: 20_000, Bytes: int64(c.mib) << 20}
		})
		if n := inspect(s).WindowRows(20_000, c.m); n < c.least || n > c.most {
			t.Errorf("%s of %d features in %d MiB: %d rows, not %d to %d", c.method, c.m, c.mib, n, c.least, c.most)
		}
	}
}
