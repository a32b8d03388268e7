package stage

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// blended is a blend of methods that learn from moments.
func withBlend(c *spec.Config) {
	c.Training.Window.Rows, c.Training.Every.Rows = 1500, 500
	c.Fit = fit.Config{Method: fit.Blend, Dim: 3,
		Params: map[string]string{"members": "lda/standard/2/ridge=oas,pca/none/3,pca/standard/3,pairacc/standard/2"}}
}

// TestBlend: a blend whose members are fitted from moments is refitted from moments, stays in one epoch, and passes the
// gate as one model.
func TestBlend(t *testing.T) {
	w := newRecordedStage(t, func(c *spec.Config) {
		withBlend(c)
		c.Training.Window.Rows, c.Training.Every.Rows = 9000, 200
	})
	rows := clouds(rand.New(rand.NewPCG(81, 82)), 9000, 3)
	for i := range rows { // overlapping classes
		for j := range rows[i].x {
			rows[i].x[j] /= 4
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	learnRows(t, w.Stage, 1, rows)
	st := w.Status()
	if parts := inspect(w.Stage); !parts.ByMoments || parts.Probe {
		t.Errorf("it learns from moments: %v; probe: %v", parts.ByMoments, parts.Probe)
	}
	if st.Fits < 30 || len(w.decisions) < 3 || st.Live.Epoch != 1 || !(st.Accuracy >= 0.8) {
		t.Errorf("%d fits, %d models, epoch %d, right about %.3f", st.Fits, len(w.decisions), st.Live.Epoch, st.Accuracy)
	}
	m := st.Live.Model
	if m.Method() != fit.Blend || m.Map() != "linear" || m.Dim() != 3 {
		t.Errorf("live is %s, %s, of %d outputs", m.Method(), m.Map(), m.Dim())
	}
	for _, why := range w.decisions[1:] {
		if !strings.Contains(why, "evidence") {
			t.Errorf("no gate: %s", why)
		}
	}
	t.Logf("%d fits, right about %.3f:\n%s", st.Fits, st.Accuracy, strings.Join(w.decisions, "\n"))
}

// TestBlendIsOfItsRows: the model of a stage is the blend fitted to the rows of its window.
func TestBlendIsOfItsRows(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(83, 84)), 400, 3)
	s := newStage(t, func(c *spec.Config) {
		withBlend(c)
		c.Training.Every.Rows = 100000
	})
	learnRows(t, s, 1, rows)
	parts := inspect(s)
	got, err := parts.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := parts.Window.NewestRows(parts.Window.Len())
	if got.Rows() != w.Rows || w.Rows < 250 {
		t.Fatalf("a model of %d rows, and the window has %d", got.Rows(), w.Rows)
	}
	want, err := fit.Fit(t.Context(), parts.Samples(w), s.config.Fit)
	if err != nil {
		t.Fatal(err)
	}
	probe := dataOf(rows)
	a, b := project(t, want, probe), project(t, got, probe)
	for i := range a {
		if d := a[i] - b[i]; !(d <= 1e-4) || !(d >= -1e-4) {
			t.Fatalf("output %d is %g from rows, %g from moments", i, a[i], b[i])
		}
	}
}

func project(t *testing.T, m *model.Model, d *model.Data) []float64 {
	t.Helper()
	y := make([]float32, d.N*m.Dim())
	if err := m.ProjectContext(t.Context(), y, model.DenseRows(d.X, d.N, m.M())); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(y))
	for i, f := range y {
		out[i] = float64(f)
	}
	return out
}

// TestBlendReproducible: a blend has the same digests and decisions after a restart at any point, also with drift in
// the middle.
func TestBlendReproducible(t *testing.T) {
	stops := []int{600, 1020, 1980, 2060, 3000}
	if !testsize.Long() {
		stops = []int{1020, 2060, 3000}
	}
	t.Run("features", func(t *testing.T) { compareRestarts(t, driftingRows(4000), stops, withBlend) })
	t.Run("landmarks", func(t *testing.T) {
		w := compareRestarts(t, driftingRows(4000), []int{1020}, func(c *spec.Config) {
			withBlend(c)
			c.Fit.Landmarks = 40
		})
		if m := w.live.Model; m.Method() != fit.Blend || m.Map() != "kernel" || !inspect(w.Stage).ByMoments {
			t.Errorf("live is %s, %s", m.Method(), m.Map())
		}
	})
}

// TestBlendOfWindow: a blend with a member that needs the rows is fitted from them, and one with an unknown method is
// rejected.
func TestBlendOfWindow(t *testing.T) {
	of := func(members string) func(c *spec.Config) {
		return func(c *spec.Config) { withBlend(c); c.Fit.Params = map[string]string{"members": members} }
	}
	s := newStage(t, of("lda/standard/2,mfa/standard/3"))
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(85, 86)), 700, 3))
	if l := s.Live(); l == nil || l.Model.Method() != fit.Blend || inspect(s).ByMoments {
		t.Errorf("live is %+v: %s", l, s.Status().Note)
	}
	for members, want := range map[string]string{
		"":                                "give method/scale/dim",
		"lda/standard/2,nca/standard/2":   `member "nca/standard/2": unknown method "nca"`,
		"lda/standard/2,ksmpa/standard/2": `member "ksmpa/standard/2": ksmpa is not linear`,
	} {
		c := *s.config
		of(members)(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("members %q: %v, want %q", members, err, want)
		}
	}
	c := *s.config
	c.Fit.Params = nil
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "needs the parameter members") {
		t.Errorf("no members: %v", err)
	}
}

// TestAutoBlends: if configured, auto combines the best candidates into one model and fits other rows in the same way.
func TestAutoBlends(t *testing.T) {
	change := func(c *spec.Config) { withBlend(c); c.Fit = fit.Config{Method: fit.Auto, Blend: 2, Dim: 2} }
	if testsize.Soak() {
		compareRestarts(t, driftingRows(3000), []int{1020, 2060}, change)
	}
	s := newStage(t, change)
	rows := driftingRows(2000)[:600]
	learnRows(t, s, 1, rows[:300])
	first := s.Live()
	if first == nil || first.Model.Method() != fit.Blend || strings.Count(first.Model.Params()["members"], ",") != 1 {
		t.Fatalf("live is %+v: %s", first, s.Status().Note)
	}
	learnRows(t, s, 16, rows[300:])
	parts := inspect(s)
	m, err := parts.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Params()["members"] != first.Model.Params()["members"] || m.Rows() <= first.Model.Rows() {
		t.Errorf("of %d rows %v, and of %d rows %v", first.Model.Rows(), first.Model.Params(), m.Rows(), m.Params())
	}
}
