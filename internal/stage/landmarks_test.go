package stage

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// rings generates rows of three classes, one ring around the other: no straight line separates them.
func rings(r *rand.Rand, n int, size float64) []row {
	rows := make([]row, n)
	for i := range rows {
		a, radius := 2*math.Pi*r.Float64(), size*(1+float64(i%3)+0.12*r.NormFloat64())
		x := make([]float32, testFeatures)
		for j := range x {
			x[j] = float32(0.1 * size * r.NormFloat64())
		}
		x[0], x[1] = float32(radius*math.Cos(a)), float32(radius*math.Sin(a))
		rows[i] = row{x, fmt.Sprintf("c%d", i%3)}
	}
	return rows
}

// TestLandmarks refits more than 30 times with constant landmarks: all models have the same, there is one epoch once
// the window is full, and a refit maps no more rows after many rows than when the window was just full.
func TestLandmarks(t *testing.T) {
	straight := newStage(t, nil)
	r := rand.New(rand.NewPCG(61, 62))
	learnRows(t, straight, 1, rings(r, 1000, 1))
	if a := straight.Status().Accuracy; !(a <= 0.7) {
		t.Errorf("the test shows nothing: a linear model is right about %.2f", a)
	}
	var outcomes []spec.Outcome
	s := newStage(t, func(c *spec.Config) {
		c.Fit.Landmarks, c.Training.Every.Rows = 100, 1000
		c.Observe = func(o spec.Outcome) { outcomes = append(outcomes, o) }
	})
	rows := rings(r, 12000, 1)
	learnRows(t, s, 1, rows[:2000])
	first := s.Live()
	if first == nil || first.Model.Map() != "kernel" {
		t.Fatalf("live is %+v: %s", first, s.Status().Note)
	}
	early := s.Status().Fits
	lift, mapped := window.Mapping{Dim: inspect(s).Landmarks.Dim()}, 0
	lift.Map = func(ctx context.Context, dst []float64, rows [][]float64) error {
		mapped += len(rows)
		return inspect(s).Landmarks.Map(ctx, dst, rows)
	}
	inspect(s).Window.SetMapping(lift)
	var work, fits []int
	for part := range 5 {
		from := 2000 + 2000*part
		before := s.Status().Fits
		mapped = 0
		learnRows(t, s, uint64(1+from/20), rows[from:from+2000])
		work, fits = append(work, mapped), append(fits, s.Status().Fits-before)
	}
	st := s.Status()
	if refits := st.Fits - early; refits < 30 || st.Live.Epoch != first.Epoch || st.Alarms > 0 || !(st.Accuracy >= 0.95) {
		t.Errorf("%d fits, epoch %d, %d alarms, right about %.3f", st.Fits, st.Live.Epoch, st.Alarms, st.Accuracy)
	}
	for part := range work {
		if each, first := work[part]/fits[part], work[1]/fits[1]; 10*each > 11*first {
			t.Errorf("rows %d to %d: %d rows mapped for a fit, before %d: %v, fits %v", 2000+2000*part, 4000+2000*part, each,
				first, work, fits)
		}
	}
	probe := make([][]float64, 20)
	for i := range probe {
		for _, v := range rows[i].x {
			probe[i] = append(probe[i], float64(v))
		}
	}
	seen := func(l *spec.Live) []float64 {
		marks, err := fit.LandmarksOf(t.Context(), l.Model, fit.Config{Landmarks: 100})
		if err != nil {
			t.Fatal(err)
		}
		phi := make([]float64, len(probe)*marks.Dim())
		if err := marks.Map(t.Context(), phi, probe); err != nil {
			t.Fatal(err)
		}
		return phi
	}
	promoted := 0
	want := seen(first)
	for _, o := range outcomes {
		if o.Promoted {
			promoted++
			if fmt.Sprint(seen(o.Live)) != fmt.Sprint(want) {
				t.Errorf("model %s has other landmarks", o.Live.Version)
			}
		}
	}
	t.Logf("%d fits, %d promoted, mapped %v in fits %v", st.Fits, promoted, work, fits)
}

// TestLandmarksReproducible: digests and decisions with landmarks are the same after a restart at any point, also if
// the rows have moved away from the landmarks and new ones are drawn.
func TestLandmarksReproducible(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	rows := append(rings(r, 1800, 1), rings(r, 1800, 40)...)
	for _, method := range []string{"lda", "tnca"} {
		if method == "tnca" && !testsize.Soak() {
			continue
		}
		t.Run(method, func(t *testing.T) {
			stops := []int{1900, 2060}
			if testsize.Long() {
				stops = []int{600, 1900, 2060, 3000}
			}
			w := compareRestarts(t, rows, stops, func(c *spec.Config) {
				c.Training.Window.Rows = 1000
				c.Training.Every.Rows = 500
				c.Fit.Method, c.Fit.Landmarks = method, 80
				if method == "tnca" {
					c.Fit.Params = map[string]string{"iters": "5"}
				}
			})
			if all := strings.Join(w.decisions, "\n"); !strings.Contains(all, "on new landmarks") {
				t.Errorf("no new landmarks after the rows moved: %+v\n%s", w.Status(), all)
			}
		})
	}
}

// Rows from which no landmarks, or few, can be drawn are reported, and good rows after them are learned.
func TestLandmarksOfBadRows(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(i int, x *row)
		note  string // of the first model, "" where there is none
	}{
		"few rows":    {func(int, *row) {}, "landmarks instead of 50"},
		"equal rows":  {func(i int, x *row) { x.x = []float32{float32(i % 6), 0, 0, 0, 0, 0} }, "has rank 6"},
		"constant":    {func(_ int, x *row) { x.x = make([]float32, testFeatures) }, ""},
		"far":         {func(i int, x *row) { x.x[i%6] *= 1e9 }, "landmarks instead of 50"},
		"small":       {func(_ int, x *row) { x.x[0], x.x[1] = x.x[0]*1e-30, x.x[1]*1e-30 }, "landmarks instead of 50"},
		"no meaning":  {func(i int, x *row) { x.class = fmt.Sprintf("c%d", i/2%3) }, "landmarks instead of 50"},
		"one feature": {func(_ int, x *row) { clear(x.x[1:]) }, "landmarks instead of 50"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(65, 66))
			var failed []string
			s := newStage(t, func(c *spec.Config) {
				c.Fit.Landmarks = 50
				c.Observe = func(o spec.Outcome) {
					if o.Err != nil {
						failed = append(failed, o.Reason)
					}
				}
			})
			bad := rings(r, 30, 1)
			for i := range bad {
				c.spoil(i, &bad[i])
			}
			learnRows(t, s, 1, bad)
			if err := s.Refit(); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s)
			live := s.Live()
			if (live != nil) != (c.note != "") {
				t.Fatalf("live is %+v, failed %v", live, failed)
			}
			if live == nil && (len(failed) == 0 || !strings.Contains(failed[0], "no feature varies")) {
				t.Errorf("nothing says why: %v", failed)
			}
			if live != nil {
				if notes := strings.Join(live.Model.Report().Notes, "; "); !strings.Contains(notes, c.note) {
					t.Errorf("notes %q", notes)
				}
				if _, err := s.Transform(t.Context(), decode(t, s, bad)); err != nil {
					t.Error(err)
				}
			}
			learnRows(t, s, 100, rings(r, 1500, 1))
			if st := s.Status(); st.Live == nil || !(st.Accuracy >= 0.7) || inspect(s).Landmarks.Len() != 50 {
				t.Errorf("after good rows %d landmarks, right about %.2f: %s", inspect(s).Landmarks.Len(), st.Accuracy, st.Note)
			}
		})
	}
}

// Landmarks are drawn from labelled rows, by linear methods, within the memory of the window.
func TestLandmarksAreRefused(t *testing.T) {
	for want, change := range map[string]func(*spec.Config){
		"no label column":        func(c *spec.Config) { c.Spec.Label = ""; c.Fit.Method = "pca" },
		"makes its own map":      func(c *spec.Config) { c.Fit.Method = "isomap" },
		"and their width":        func(c *spec.Config) { c.Fit.Width = math.NaN() },
		"nonlinear auto and the": func(c *spec.Config) { c.Fit = fit.Config{Nonlinear: true} },
		"the scale rank need":    func(c *spec.Config) { c.Fit.Landmarks, c.Fit.Scale = 0, model.ScaleRank },
	} {
		c := spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
			Fit: fit.Config{Method: "lda", Landmarks: 20}}
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	s := newStage(t, func(c *spec.Config) { c.Fit.Landmarks, c.Training.Window.Bytes = 1000, 1<<20 })
	learnRows(t, s, 1, rings(rand.New(rand.NewPCG(67, 68)), 300, 1))
	if st := s.Status(); st.Live != nil ||
		!strings.Contains(st.Hint, "1000 landmarks of 6 features need more than training.window.bytes") {
		t.Errorf("with memory for no landmarks: %+v", st)
	}
}

// A standby replica uses the landmarks of the models that the trainer stored, and fits with them when it takes over.
func TestLandmarksOfAnother(t *testing.T) {
	change := func(c *spec.Config) { c.Fit.Landmarks, c.Training.Every.Rows = 40, 1000 }
	a := newRecordedStage(t, change)
	b := newStage(t, func(c *spec.Config) { change(c); c.Standby = true })
	rows := rings(rand.New(rand.NewPCG(69, 70)), 2000, 1)
	learnRows(t, a.Stage, 1, rows[:600])
	learnRows(t, b, 1, rows[:600])
	if a.live == nil || b.Live() != nil {
		t.Fatalf("live are %+v and %+v", a.live, b.Live())
	}
	if err := b.Adopt(a.live, false); err != nil {
		t.Fatal(err)
	}
	b.Standby(false)
	learnRows(t, b, 31, rows[600:])
	phi := func(l *fit.Landmarks) []float64 {
		dst := make([]float64, l.Dim())
		if err := l.Map(t.Context(), dst, [][]float64{{1, 2, 0, 0, 0, 0}}); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	mine, err := fit.LandmarksOf(t.Context(), b.Live().Model, fit.Config{Landmarks: 40})
	if err != nil {
		t.Fatal(err)
	}
	his, err := fit.LandmarksOf(t.Context(), a.live.Model, fit.Config{Landmarks: 40})
	if err != nil {
		t.Fatal(err)
	}
	if st := b.Status(); st.Fits == 0 || inspect(b).Renewed {
		t.Errorf("nothing was fitted: %+v", st)
	}
	if !slices.Equal(phi(mine), phi(his)) {
		t.Error("the landmarks are others")
	}
	// After a live model that is linear, or has other landmarks, candidates have new ones.
	c := newStage(t, func(c *spec.Config) { change(c); c.Fit.Landmarks = 30; c.Resume = a.live })
	learnRows(t, c, 1, rows)
	if st := c.Status(); st.Fits == 0 || inspect(c).Landmarks.Len() != 30 ||
		(st.Live.Version == a.live.Version) != (st.Live.Epoch == a.live.Epoch) {
		t.Errorf("%d landmarks, epoch %d: %s", inspect(c).Landmarks.Len(), st.Live.Epoch, st.Note)
	}
}

// A replica that adopts models of one epoch keeps the values and sums of their landmarks; for a model with other
// landmarks it does not.
func TestLandmarksOfAnEpochAreKept(t *testing.T) {
	change := func(c *spec.Config) { c.Fit.Landmarks, c.Training.Every.Rows = 40, 1000 }
	rows := rings(rand.New(rand.NewPCG(71, 72)), 3000, 1)
	a := newStage(t, change)
	learnRows(t, a, 1, rows[:900])
	first := a.Live()
	// Another of the same landmarks, as a store has it: read from its file.
	again := func(l *spec.Live, alike *fit.Landmarks) *spec.Live {
		t.Helper()
		d := &model.Data{N: 900, M: testFeatures, Classes: []string{"c0", "c1", "c2"}, Features: l.Model.Features()}
		for i := range d.N {
			for _, v := range rows[900+i].x {
				d.X = append(d.X, float64(v))
			}
			d.Y = append(d.Y, i%3)
		}
		m, err := alike.Fit(t.Context(), d, fit.Config{Method: "lda", Dim: l.Model.Dim()})
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := model.Write(&file, m); err != nil {
			t.Fatal(err)
		}
		read, err := model.Read(&file)
		if err != nil {
			t.Fatal(err)
		}
		return &spec.Live{Model: read, Version: read.Digest()[:16], Epoch: l.Epoch}
	}
	of := func(l *spec.Live) *fit.Landmarks {
		t.Helper()
		marks, err := fit.LandmarksOf(t.Context(), l.Model, fit.Config{Landmarks: 40})
		if err != nil {
			t.Fatal(err)
		}
		return marks
	}
	b := newStage(t, func(c *spec.Config) { change(c); c.Standby = true })
	learnRows(t, b, 1, rows[:900])
	adopt := func(l *spec.Live) *fit.Landmarks {
		t.Helper()
		if err := b.Adopt(l, false); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return inspect(b).Landmarks
	}
	before := adopt(first)
	if same := adopt(again(first, of(first))); same != before {
		t.Error("the landmarks of the next model of the epoch were drawn again")
	}
	c := newStage(t, change)
	learnRows(t, c, 1, rows[900:2000])
	if other := adopt(c.Live()); other == before {
		t.Error("landmarks are kept of which the model is not made")
	}
}
