package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method/manifold"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// If each patch is one row, mp-tsimr equals tsimr.
func TestPatchesOfOneRowArePoints(t *testing.T) {
	roll, _ := swissRoll(120, 2)
	x := mat.NewDense(roll.N, 3, roll.X)
	lists, err := graph.Nearest(context.Background(), x, 10)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lists.Weights(graph.Union, graph.Binary)
	if err != nil {
		t.Fatal(err)
	}
	spaces, err := graph.Tangents(context.Background(), x, lists.Patches(), graph.FixedDim(2))
	if err != nil {
		t.Fatal(err)
	}
	// The same tangents, numbered backwards.
	back, of := slices.Clone(spaces), linalg.Range(roll.N)
	slices.Reverse(back)
	slices.Reverse(of)
	for _, gamma := range []float64{0, 1} {
		var m [2]*graph.Matrix
		for i, tan := range []*tangent.Spaces{{Patch: linalg.Range(roll.N), Spaces: spaces},
			{Patch: of, Spaces: back}} {
			form := tangent.New(context.Background(), x, w, tan, gamma)
			parts := form.Factor(context.Background(), 0)
			m[i] = form.Eliminate(parts)
		}
		for i := range roll.N {
			for j := range roll.N {
				if e := math.Abs(m[0].At(i, j) - m[1].At(i, j)); !(e <= 1e-9) {
					t.Fatalf("gamma %g: entry (%d, %d) differs by %g", gamma, i, j, e)
				}
			}
		}
	}
}

// A rolled strip becomes flat, and a new point of it is mapped to its position.
func TestTSIMRUnrollsTheSwissRoll(t *testing.T) {
	for _, c := range []struct {
		method string
		n      int
		least  float64
	}{{"tsimr", 1000, 0.99}, {"mp-tsimr", 1000, 0.9}, {"mp-tsimr", 2000, 0.97}}[:testsize.Of(2, 3)] {
		all, flat := swissRoll(c.n+300, 2)
		roll := &model.Data{N: c.n, M: 3, X: all.X[:3*c.n]}
		m := fit(t, roll, Config{Method: c.method, Scale: model.ScaleNone})
		y := mat.NewDense(all.N, 2, nil)
		out := make([]float32, all.N*2)
		if err := m.Project(out, model.DenseRows(all.X, all.N, 3)); err != nil {
			t.Fatal(err)
		}
		for i, v := range out {
			y.Set(i/2, i%2, float64(v))
		}
		part := func(a *mat.Dense, from, to int) *mat.Dense { return a.Slice(from, to, 0, 2).(*mat.Dense) }
		inside := recovered(t, part(flat, 0, c.n), part(y, 0, c.n))
		outside := recovered(t, part(flat, c.n, all.N), part(y, c.n, all.N))
		t.Logf("%s n=%d: R^2 %.4f, of new rows %.4f; %v", c.method, c.n, inside, outside, m.Report().Notes)
		if !(inside >= c.least) || !(outside >= c.least-0.02) {
			t.Errorf("%s n=%d: R^2 %.4f, of new rows %.4f; want %.2f", c.method, c.n, inside, outside, c.least)
		}
	}
}

// tangentFormOf is the form that a fit of the tsimr family minimises.
func tangentFormOf(t *testing.T, data *model.Data, c Config, find manifold.ManifoldTangents) (*frame.Task,
	*tangent.Form, []tangent.Part) {
	t.Helper()
	ctx := context.Background()
	method, p, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	task := &frame.Task{Method: method, Params: p, D: c.Dim, Scaling: model.ScaleStandard, Report: &model.Report{}}
	rows, err := frame.Prepare(t.Context(), data, false, false, task.Report)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Load(ctx, rows); err != nil {
		t.Fatal(err)
	}
	m := find(ctx, task, task.D)
	form := tangent.New(ctx, task.X, m.W, m.Tangents, task.Float("gamma"))
	parts := form.Factor(ctx, 0)
	return task, form, parts
}

// The embedding is the lowest eigenvectors of the reduced form after the constant: no other orthonormal columns have a
// lower trace.
func TestTSIMRMeetsItsProblem(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, find := range map[string]manifold.ManifoldTangents{"tsimr": manifold.PointTangents,
		"mp-tsimr": manifold.PatchTangents} {
		for _, gamma := range []string{"0", "2"} {
			c := Config{Method: name, Dim: 3, Params: map[string]string{"gamma": gamma}}
			data := fixture.Dataset(t, "iris")
			m := fit(t, data, c)
			_, form, parts := tangentFormOf(t, data, c, find)
			s := form.Eliminate(parts)
			y := mat.DenseCopyOf(mat.NewDense(data.N, 3, m.Content().Map.(*mapping.Tangent).Embedding))
			centre := func(y *mat.Dense) {
				for j := range 3 {
					mean := mat.Sum(y.ColView(j)) / float64(data.N)
					for i := range data.N {
						y.Set(i, j, y.At(i, j)-mean)
					}
				}
			}
			centre(y)
			var yy mat.Dense
			yy.Mul(y.T(), y)
			if e := notIdentity(&yy); !(e <= 1e-9) {
				t.Errorf("%s gamma %s: Y'Y differs from I by %g", name, gamma, e)
			}
			trace, sum := mat.Trace(quadratic(s, y)), 0.0
			for _, l := range m.Eigenvalues() {
				sum += l
			}
			if !(math.Abs(trace-sum) <= 1e-8*trace) {
				t.Errorf("%s gamma %s: trace %g, eigenvalues sum to %g", name, gamma, trace, sum)
			}
			for range 100 {
				other := mat.DenseCopyOf(y)
				for i := range data.N {
					for j := range 3 {
						other.Set(i, j, other.At(i, j)+0.01*rng.NormFloat64())
					}
				}
				centre(other)
				if got := mat.Trace(quadratic(s, pencil.Orthonormal(t.Context(), other, 0))); !(got >= trace*(1-1e-9)) {
					t.Errorf("%s gamma %s: other columns have trace %g, below %g", name, gamma, got, trace)
				}
			}
		}
	}
}

func TestLTSIMRMeetsItsPencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for name, find := range map[string]manifold.ManifoldTangents{"ltsimr": manifold.PointTangents,
		"mp-ltsimr": manifold.PatchTangents} {
		for _, gamma := range []string{"0", "1", "1e9"} {
			c := Config{Method: name, Dim: 2, Params: map[string]string{"gamma": gamma, "ridge": "0.1"}}
			data := fixture.Dataset(t, "wine")
			m := fit(t, data, c)
			task, f, parts := tangentFormOf(t, data, c, find)
			s := f.Eliminate(parts)
			d := ridged(linalg.Symmetric(quadratic(s, task.X)), m.Report().Ridge.Absolute)
			a := matrixOf(m)
			if e := notIdentity(form(d, a)); !(e <= 1e-6) {
				t.Errorf("%s gamma %s: A'(S_eff + rho I)A differs from I by %g", name, gamma, e)
			}
			if e := equation(frame.Moment(task), d, a, m.Eigenvalues()); !(e <= 1e-6) {
				t.Errorf("%s gamma %s: residual %g", name, gamma, e)
			}
			trace := mat.Trace(form(frame.Moment(task), a))
			if other := better(rng, frame.Moment(task), d, 2); !(other <= trace*(1+1e-6)) {
				t.Errorf("%s gamma %s: a random map has trace %g, above %g", name, gamma, other, trace)
			}
		}
	}
}

// TestFewRowsAreSplit: fewer rows than patch_size are not one patch, whose tangent
// space would be theirs.
func TestFewRowsAreSplit(t *testing.T) {
	m := fit(t, synthetic(47, 40, 6, 2), Config{Method: "mp-tsimr", Dim: 2})
	if notes := m.Report().Notes; !slices.ContainsFunc(notes,
		func(s string) bool { return strings.HasSuffix(s, " patches of 40 rows") }) ||
		slices.Contains(notes, "1 patches of 40 rows") {
		t.Errorf("40 rows: %q", notes)
	}
}
