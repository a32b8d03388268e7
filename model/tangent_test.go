package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// swissRoll is a strip of arc length s and height h, rolled up in three
// dimensions, and its flat coordinates (n x 2).
func swissRoll(n int, seed uint64) (*Data, *mat.Dense) {
	rng := rand.New(rand.NewPCG(seed, 11))
	arc := func(t float64) float64 { return (t*math.Sqrt(1+t*t) + math.Asinh(t)) / 2 }
	d, flat := &Data{N: n, M: 3}, mat.NewDense(n, 2, nil)
	for i := range n {
		t, h := 1.5*math.Pi*(1+2*rng.Float64()), 21*rng.Float64()
		d.X = append(d.X, t*math.Cos(t), h, t*math.Sin(t))
		flat.SetRow(i, []float64{arc(t), h})
	}
	return d, flat
}

// recovered is the least R^2 of the flat coordinates explained by an affine map
// of the embedding.
func recovered(t *testing.T, flat, y *mat.Dense) float64 {
	t.Helper()
	n, d := y.Dims()
	design := mat.NewDense(n, d+1, nil)
	for i := range n {
		copy(design.RawRowView(i), y.RawRowView(i))
		design.Set(i, d, 1)
	}
	var b, fitted mat.Dense
	if err := b.Solve(design, flat); err != nil {
		t.Fatal(err)
	}
	fitted.Mul(design, &b)
	least := 1.0
	_, c := flat.Dims()
	for j := range c {
		mean, left, total := mat.Sum(flat.ColView(j))/float64(n), 0.0, 0.0
		for i := range n {
			left += math.Pow(flat.At(i, j)-fitted.At(i, j), 2)
			total += math.Pow(flat.At(i, j)-mean, 2)
		}
		least = min(least, 1-left/total)
	}
	return least
}

// manifoldOf is symmetric weights and tangents of some random rows: patches of
// three rows, or each row its own, with dimensions of 0 to 2.
func manifoldOf(t *testing.T, n, m, patches int) (*mat.Dense, *graph.Matrix, *tangents) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(patches)))
	x := mat.NewDense(n, m, nil)
	for i := range n {
		for j := range m {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	ctx := context.Background()
	lists, err := graph.Nearest(ctx, x, 4)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lists.Weights(graph.Union, graph.Heat(2))
	if err != nil {
		t.Fatal(err)
	}
	tan := &tangents{of: make([]int, n)}
	rows := make([][]int, patches)
	for i := range n {
		tan.of[i] = i % patches
		rows[i%patches] = append(rows[i%patches], i, (i+1)%n, (i+2)%n)
	}
	tan.spaces, err = graph.Tangents(ctx, x, rows, graph.FixedDim(2))
	if err != nil {
		t.Fatal(err)
	}
	flat, err := graph.Tangents(ctx, x, [][]int{{0, 0}}, graph.FixedDim(1))
	if err != nil {
		t.Fatal(err)
	}
	line, err := graph.Tangents(ctx, x, rows[1:2], graph.FixedDim(1))
	if err != nil {
		t.Fatal(err)
	}
	tan.spaces[0], tan.spaces[1] = flat[0], line[0]
	return x, w, tan
}

// whole is the form as one matrix over (f; v): what its parts stand for.
func (f *tangentForm) whole() *mat.SymDense {
	n := f.w.Order()
	s := mat.NewSymDense(n+f.dim(), nil)
	l := f.w.Laplacian()
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, 2*l.At(i, j))
		}
	}
	for p, block := range f.s3 {
		if block == nil {
			continue
		}
		for c := range block.SymmetricDim() {
			for i, r := range f.rows[p] {
				s.SetSym(r, n+f.start[p]+c, f.s2[p].At(i, c))
			}
			for e := c; e < block.SymmetricDim(); e++ {
				s.SetSym(n+f.start[p]+c, n+f.start[p]+e, block.At(c, e))
			}
		}
	}
	for _, l := range f.links {
		r, c := l.s3.Dims()
		for i := range r {
			for j := range c {
				s.SetSym(n+f.start[l.p]+i, n+f.start[l.q]+j, l.s3.At(i, j))
			}
		}
	}
	return s
}

// The blocks are those of the double sum over all pairs.
func TestTangentFormEqualsItsDoubleSum(t *testing.T) {
	for _, patches := range []int{5, 16} {
		for _, gamma := range []float64{0, 0.7} {
			x, w, tan := manifoldOf(t, 16, 4, patches)
			form, err := newTangentForm(context.Background(), x, w, tan, gamma)
			if err != nil {
				t.Fatal(err)
			}
			s := form.whole()
			rng := rand.New(rand.NewPCG(3, 4))
			for range 5 {
				z := make([]float64, s.SymmetricDim())
				for i := range z {
					z[i] = rng.NormFloat64()
				}
				fv := mat.NewVecDense(len(z), z)
				v := func(p int) *mat.VecDense { // T_p v_p
					out := mat.NewVecDense(4, nil)
					for c := range tan.spaces[p].Dim() {
						out.AddScaledVec(out, z[16+form.start[p]+c], tan.spaces[p].Basis.ColView(c))
					}
					return out
				}
				want := 0.0
				for i := range 16 {
					for j := range 16 {
						p, q := tan.of[i], tan.of[j]
						var step mat.VecDense
						step.SubVec(x.RowView(i), x.RowView(j))
						want += w.At(i, j) * math.Pow(z[i]-z[j]-mat.Dot(v(q), &step), 2)
						for c := range tan.spaces[p].Dim() {
							r := z[16+form.start[p]+c] - mat.Dot(tan.spaces[p].Basis.ColView(c), v(q))
							want += gamma * w.At(i, j) * r * r
						}
					}
				}
				if got := mat.Inner(fv, s, fv); math.Abs(got-want) > 1e-9*want {
					t.Errorf("%d patches, gamma %g: form %.12g, double sum %.12g", patches, gamma, got, want)
				}
			}
		}
	}
}

// Elimination gives the form at its minimum over v: the Schur complement of the
// whole, and the vectors that reach it.
func TestTangentEliminationIsTheMinimum(t *testing.T) {
	for _, patches := range []int{5, 16} {
		for _, gamma := range []float64{0, 0.7, 1e9} {
			x, w, tan := manifoldOf(t, 16, 4, patches)
			form, err := newTangentForm(context.Background(), x, w, tan, gamma)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := form.factor(context.Background(), 0)
			if err != nil {
				t.Fatal(err)
			}
			m, err := form.eliminate(parts)
			if err != nil {
				t.Fatal(err)
			}
			f := mat.NewDense(16, 2, nil)
			for i := range 16 {
				f.SetRow(i, []float64{math.Sin(float64(i)), x.At(i, 0)})
			}
			mf := quadratic(m, f)
			s, v := form.whole(), form.vectors(parts, f)
			for c := range 2 {
				z := mat.NewVecDense(s.SymmetricDim(), nil)
				for i := range 16 {
					z.SetVec(i, f.At(i, c))
				}
				for p := range v {
					for k := range tan.spaces[p].Dim() {
						z.SetVec(16+form.start[p]+k, v[p].At(k, c))
					}
				}
				at := mat.Inner(z, s, z)
				if math.Abs(at-mf.At(c, c)) > 1e-6*mf.At(c, c) {
					t.Errorf("%d patches, gamma %g: %.9g eliminated, %.9g at the vectors", patches, gamma, mf.At(c, c), at)
				}
				rng := rand.New(rand.NewPCG(8, 8))
				for range 20 {
					other := mat.VecDenseCopyOf(z)
					for i := 16; i < z.Len(); i++ {
						other.SetVec(i, z.AtVec(i)+1e-3*rng.NormFloat64())
					}
					if got := mat.Inner(other, s, other); got < at*(1-1e-9) {
						t.Errorf("%d patches, gamma %g: other vectors reach %.9g, below %.9g", patches, gamma, got, at)
					}
				}
			}
			linear, err := form.eliminateLinear(x, parts)
			if err != nil {
				t.Fatal(err)
			}
			want := quadratic(m, x)
			for i := range 4 {
				for j := range 4 {
					if e := math.Abs(linear.At(i, j) - want.At(i, j)); e > 1e-6*mat.Trace(linear) {
						t.Errorf("linear form (%d, %d) is %g away from X'MX", i, j, e)
					}
				}
			}
		}
	}
}

func quadratic(m *graph.Matrix, f *mat.Dense) *mat.Dense {
	n, c := f.Dims()
	mf := mat.NewDense(n, c, nil)
	m.Apply(mf, f)
	var out mat.Dense
	out.Mul(f.T(), mf)
	return &out
}

// The eliminated problem of mpda is the full one with blockdiag(a_t I, a_v I).
func TestMPDAEqualsTheFullSystem(t *testing.T) {
	data := synthetic(41, 60, 6, 3)
	for _, method := range []string{"mpda", "pmpda"} {
		for _, params := range []map[string]string{{}, {"ridge": "1", "gamma": "0.3"}, {"alpha": "1e-5"}, {"alpha": "100", "t": "auto"}} {
			m := fit(t, data, Config{Method: method, Dim: 5, Params: params})
			// The task as the fit has it.
			w, form, task := mpdaForm(t, data, method, params)
			n, _, err := localScatters(context.Background(), task, "k")
			if err != nil {
				t.Fatal(err)
			}
			l, err := graph.LaplacianForm(task.x, w)
			if err != nil {
				t.Fatal(err)
			}
			s, rows, dim := form.whole(), data.N, data.M
			full, numerator := mat.NewSymDense(dim+form.dim(), nil), mat.NewSymDense(dim+form.dim(), nil)
			for i := range dim {
				for j := i; j < dim; j++ {
					full.SetSym(i, j, 2*l.At(i, j))
					numerator.SetSym(i, j, n.At(i, j))
				}
				for c := range form.dim() {
					sum := 0.0
					for r := range rows {
						sum += task.x.At(r, i) * s.At(r, rows+c)
					}
					full.SetSym(i, dim+c, sum)
				}
			}
			for a := range form.dim() {
				for b := a; b < form.dim(); b++ {
					full.SetSym(dim+a, dim+b, s.At(rows+a, rows+b))
				}
			}
			at, av := m.Report().Ridge.Absolute, task.float("alpha")
			if task.params["alpha"] == "relative" {
				av = task.ridge * form.trace() / float64(form.dim())
			} else if math.Abs(at-av) > 1e-12*av {
				t.Errorf("%s %v: a_t = %g", method, params, at)
			}
			for i := range full.SymmetricDim() {
				add := at
				if i >= dim {
					add = av
				}
				full.SetSym(i, i, full.At(i, i)+add)
			}
			q, err := pencil.Ridge(full, 0)
			if err != nil {
				t.Fatal(err)
			}
			want, err := pencil.Solve(numerator, q, pencil.Max, 5)
			if err != nil {
				t.Fatal(err)
			}
			top := mat.DenseCopyOf(want.Vectors.Slice(0, dim, 0, 5))
			pencil.FixSigns(top)
			if e := apart(top, matrixOf(m)); e > 1e-7 {
				t.Errorf("%s %v: maps differ by %.2g", method, params, e)
			}
			for j, l := range m.Eigenvalues() {
				if math.Abs(l-want.Values[j]) > 1e-8*want.Values[0] {
					t.Errorf("%s %v: eigenvalue %d is %.12g, of the full system %.12g", method, params, j, l, want.Values[j])
				}
			}
		}
	}
}

// mpdaForm rebuilds what a fit of mpda or pmpda solves with.
func mpdaForm(t *testing.T, data *Data, method string, params map[string]string) (*graph.Matrix, *tangentForm, *task) {
	t.Helper()
	ctx := context.Background()
	m, p, err := Config{Method: method, Params: params}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	task := &task{method: m, params: p, scaling: Standard, report: &Report{}}
	rows, err := prepare(data, true, false, task.report)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.load(ctx, rows); err != nil {
		t.Fatal(err)
	}
	if err := task.settleRidge(ctx); err != nil {
		t.Fatal(err)
	}
	own, _, err := graph.NearestByClass(ctx, task.x, rows.y, task.int("k"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := own.Weights(graph.Union, task.heat(own))
	if err != nil {
		t.Fatal(err)
	}
	patches, of := own.Patches(), everyRow(data.N)
	if method == "mpda" {
		if _, patches, err = task.partitionClasses(ctx); err != nil {
			t.Fatal(err)
		}
		of = patchOf(patches, data.N)
	}
	spaces, err := graph.Tangents(ctx, task.x, patches, graph.EnergyDim(0.95))
	if err != nil {
		t.Fatal(err)
	}
	form, err := newTangentForm(ctx, task.x, w, &tangents{of, spaces}, task.float("gamma"))
	if err != nil {
		t.Fatal(err)
	}
	return w, form, task
}

func TestPMPDATakesSomeRowsAndSaysSo(t *testing.T) {
	m := fit(t, synthetic(40, 700, 4, 3), Config{Method: "pmpda"})
	if notes := m.Report().Notes; !slices.ContainsFunc(notes, func(s string) bool {
		return s == "500 of 700 rows were looked at, evenly spaced: the cost grows too fast with the rows"
	}) {
		t.Errorf("notes %q", notes)
	}
}

// Where each patch is a row, mp-tsimr is tsimr: one tangent each, the same.
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
	back, of := slices.Clone(spaces), everyRow(roll.N)
	slices.Reverse(back)
	slices.Reverse(of)
	for _, gamma := range []float64{0, 1} {
		var m [2]*graph.Matrix
		for i, tan := range []*tangents{{everyRow(roll.N), spaces}, {of, back}} {
			form, err := newTangentForm(context.Background(), x, w, tan, gamma)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := form.factor(context.Background(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if m[i], err = form.eliminate(parts); err != nil {
				t.Fatal(err)
			}
		}
		for i := range roll.N {
			for j := range roll.N {
				if e := math.Abs(m[0].At(i, j) - m[1].At(i, j)); e > 1e-9 {
					t.Fatalf("gamma %g: entry (%d, %d) differs by %g", gamma, i, j, e)
				}
			}
		}
	}
}

// A rolled strip comes out flat, and a new point of it lands where it belongs.
func TestTSIMRUnrollsTheSwissRoll(t *testing.T) {
	for _, c := range []struct {
		method string
		n      int
		least  float64
	}{{"tsimr", 1000, 0.99}, {"mp-tsimr", 1000, 0.9}, {"mp-tsimr", 2000, 0.97}} {
		all, flat := swissRoll(c.n+300, 2)
		roll := &Data{N: c.n, M: 3, X: all.X[:3*c.n]}
		m := fit(t, roll, Config{Method: c.method, Scale: None})
		y := mat.NewDense(all.N, 2, nil)
		out := make([]float32, all.N*2)
		if err := m.Project(out, DenseRows(all.X, all.N, 3)); err != nil {
			t.Fatal(err)
		}
		for i, v := range out {
			y.Set(i/2, i%2, float64(v))
		}
		part := func(a *mat.Dense, from, to int) *mat.Dense { return a.Slice(from, to, 0, 2).(*mat.Dense) }
		inside := recovered(t, part(flat, 0, c.n), part(y, 0, c.n))
		outside := recovered(t, part(flat, c.n, all.N), part(y, c.n, all.N))
		t.Logf("%s n=%d: R^2 %.4f, of new rows %.4f; %v", c.method, c.n, inside, outside, m.Report().Notes)
		if inside < c.least || outside < c.least-0.02 {
			t.Errorf("%s n=%d: R^2 %.4f, of new rows %.4f; want %.2f", c.method, c.n, inside, outside, c.least)
		}
	}
}

// tangentFormOf is the form that a fit of the tsimr family minimises.
func tangentFormOf(t *testing.T, data *Data, c Config, find manifoldTangents) (*task, *tangentForm, []tangentPart) {
	t.Helper()
	ctx := context.Background()
	m, p, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	task := &task{method: m, params: p, d: c.Dim, scaling: Standard, report: &Report{}}
	rows, err := prepare(data, false, false, task.report)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.load(ctx, rows); err != nil {
		t.Fatal(err)
	}
	_, w, tan, err := find(ctx, task, task.d)
	if err != nil {
		t.Fatal(err)
	}
	form, err := newTangentForm(ctx, task.x, w, tan, task.float("gamma"))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := form.factor(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return task, form, parts
}

// The embedding is the lowest eigenvectors of the eliminated form after the
// constant: no other orthonormal columns have a lower trace.
func TestTSIMRMeetsItsProblem(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, find := range map[string]manifoldTangents{"tsimr": pointTangents, "mp-tsimr": patchTangents} {
		for _, gamma := range []string{"0", "2"} {
			c := Config{Method: name, Dim: 3, Params: map[string]string{"gamma": gamma}}
			data := dataset(t, "iris")
			m := fit(t, data, c)
			_, form, parts := tangentFormOf(t, data, c, find)
			s, err := form.eliminate(parts)
			if err != nil {
				t.Fatal(err)
			}
			y := mat.DenseCopyOf(mat.NewDense(data.N, 3, m.mapping.(*tangent).embedding))
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
			if e := notIdentity(&yy); e > 1e-9 {
				t.Errorf("%s gamma %s: Y'Y differs from I by %g", name, gamma, e)
			}
			trace, sum := mat.Trace(quadratic(s, y)), 0.0
			for _, l := range m.Eigenvalues() {
				sum += l
			}
			if math.Abs(trace-sum) > 1e-8*trace {
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
				if got := mat.Trace(quadratic(s, pencil.Orthonormal(other, 0))); got < trace*(1-1e-9) {
					t.Errorf("%s gamma %s: other columns have trace %g, below %g", name, gamma, got, trace)
				}
			}
		}
	}
}

func TestLTSIMRMeetsItsPencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for name, find := range map[string]manifoldTangents{"ltsimr": pointTangents, "mp-ltsimr": patchTangents} {
		for _, gamma := range []string{"0", "1", "1e9"} {
			c := Config{Method: name, Dim: 2, Params: map[string]string{"gamma": gamma, "ridge": "0.1"}}
			data := dataset(t, "wine")
			m := fit(t, data, c)
			task, f, parts := tangentFormOf(t, data, c, find)
			s, err := f.eliminate(parts)
			if err != nil {
				t.Fatal(err)
			}
			d := ridged(symmetric(quadratic(s, task.x)), m.Report().Ridge.Absolute)
			a := matrixOf(m)
			if e := notIdentity(form(d, a)); e > 1e-6 {
				t.Errorf("%s gamma %s: A'(S_eff + rho I)A differs from I by %g", name, gamma, e)
			}
			if e := equation(task.moment(), d, a, m.Eigenvalues()); e > 1e-6 {
				t.Errorf("%s gamma %s: residual %g", name, gamma, e)
			}
			trace := mat.Trace(form(task.moment(), a))
			if other := better(rng, task.moment(), d, 2); other > trace*(1+1e-6) {
				t.Errorf("%s gamma %s: a random map has trace %g, above %g", name, gamma, other, trace)
			}
		}
	}
}

// The normal equations of the linear functions hold, with fields that are
// eigenvectors of R.
func TestLPFESolvesItsNormalEquations(t *testing.T) {
	data := dataset(t, "wine")
	m := fit(t, data, Config{Method: "lpfe", Params: map[string]string{"ridge": "0.1"}})
	p := plainly(data)
	lists, err := graph.Nearest(context.Background(), p.x, 10)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lists.Weights(graph.Union, graph.Binary)
	if err != nil {
		t.Fatal(err)
	}
	spaces, err := graph.Tangents(context.Background(), p.x, lists.Patches(), graph.FixedDim(2))
	if err != nil {
		t.Fatal(err)
	}
	// R by its sum, dense.
	r := mat.NewSymDense(2*p.n, nil)
	for i := range p.n {
		for j := range p.n {
			weight := w.At(i, j)
			if weight == 0 {
				continue
			}
			var q mat.Dense
			q.Mul(spaces[i].Basis.T(), spaces[j].Basis)
			for a := range 2 { // r_a = sum_b q_ab v_jb - v_ia
				z := mat.NewVecDense(2*p.n, nil)
				z.SetVec(2*i+a, -1)
				z.SetVec(2*j, q.At(a, 0))
				z.SetVec(2*j+1, q.At(a, 1))
				r.SymRankOne(r, weight, z)
			}
		}
	}
	fields, err := pencil.Solve(r, pencil.Identity(2*p.n), pencil.Min, 2)
	if err != nil {
		t.Fatal(err)
	}
	l, err := graph.LaplacianForm(p.x, w)
	if err != nil {
		t.Fatal(err)
	}
	l.ScaleSym(2, l)
	left := ridged(l, m.Report().Ridge.Absolute)
	for c := range 2 {
		if e := math.Abs(m.Eigenvalues()[c] - fields.Values[c]); e > 1e-9 {
			t.Errorf("field %d: eigenvalue %g away", c, e)
		}
		u := mat.NewDense(p.n, p.m, nil)
		for i := range p.n {
			v := mat.NewVecDense(2, []float64{fields.Vectors.At(2*i, c), fields.Vectors.At(2*i+1, c)})
			v.ScaleVec(1/mat.Norm(v, 2), v)
			mat.NewVecDense(p.m, u.RawRowView(i)).MulVec(spaces[i].Basis, v)
		}
		// Gradient of sum w_ij ((x_j - x_i)'u_i - (x_j - x_i)'a)^2 over a.
		gradient := mat.NewVecDense(p.m, nil)
		for i := range p.n {
			for j := range p.n {
				if weight := w.At(i, j); weight > 0 {
					var step mat.VecDense
					step.SubVec(p.x.RowView(j), p.x.RowView(i))
					gradient.AddScaledVec(gradient, weight*mat.Dot(&step, u.RowView(i)), &step)
				}
			}
		}
		var got mat.VecDense
		got.MulVec(left, matrixOf(m).ColView(c))
		if mat.Dot(&got, gradient) < 0 {
			gradient.ScaleVec(-1, gradient)
		}
		got.SubVec(&got, gradient)
		if e := mat.Norm(&got, 2) / mat.Norm(gradient, 2); e > 1e-7 {
			t.Errorf("field %d: normal equations are off by %.2g", c, e)
		}
	}
}

// The pseudo-inverse of a large block, by its Cholesky factor and the few
// eigenvectors under the cut, is that of all eigenvectors.
func TestPseudoInverseOfALargeBlock(t *testing.T) {
	const n = 320
	rng := rand.New(rand.NewPCG(7, 6))
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			a.Set(i, j, rng.NormFloat64())
		}
	}
	q := pencil.Orthonormal(a, 0)
	for _, zeros := range []int{0, 1, 6} {
		values := make([]float64, n)
		for i := range values {
			if i >= zeros {
				values[i] = math.Pow(10, -6*rng.Float64())
			}
		}
		var s, want mat.Dense
		s.Mul(q, mat.NewDiagDense(n, values))
		s.Mul(&s, q.T())
		for i, v := range values {
			if v > 0 {
				values[i] = 1 / v
			}
		}
		want.Mul(q, mat.NewDiagDense(n, values))
		want.Mul(&want, q.T())
		metric, null, err := pseudoInverse(context.Background(), symmetric(&s))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		if null != nil {
			_, found = null.Dims()
		}
		if found != zeros {
			t.Fatalf("%d zero eigenvalues: %d were found", zeros, found)
		}
		part := tangentPart{metric: metric, null: null}
		got := part.solve(identity(n))
		var diff mat.Dense
		diff.Sub(got, &want)
		if e := mat.Norm(&diff, 2) / mat.Norm(&want, 2); e > 1e-7 {
			t.Errorf("%d zero eigenvalues: off by %g", zeros, e)
		}
		half := part.half(identity(n))
		var square mat.Dense
		square.Mul(half.T(), half)
		diff.Sub(&square, &want)
		if e := mat.Norm(&diff, 2) / mat.Norm(&want, 2); e > 1e-7 {
			t.Errorf("%d zero eigenvalues: square of the half off by %g", zeros, e)
		}
	}
}

// TestFewRowsAreSplit: fewer rows than patch_size are not one patch, whose tangent
// space would be theirs.
func TestFewRowsAreSplit(t *testing.T) {
	m := fit(t, synthetic(47, 40, 6, 2), Config{Method: "mp-tsimr", Dim: 2})
	if notes := m.Report().Notes; !slices.ContainsFunc(notes, func(s string) bool { return strings.HasSuffix(s, " patches of 40 rows") }) || slices.Contains(notes, "1 patches of 40 rows") {
		t.Errorf("40 rows: %q", notes)
	}
}
