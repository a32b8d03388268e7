package fit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/similarity"
	"github.com/embedd/embedd/model/score"
)

// TestLinearKernelIsLSMPA: with the linear kernel the outputs of the kernel form are those of the linear form, with or
// without a ridge.
func TestLinearKernelIsLSMPA(t *testing.T) {
	for _, name := range []string{"iris", "wine"} {
		d := fixture.Dataset(t, name)
		outputs := func(method string, params map[string]string) *mat.Dense {
			m, err := Fit(context.Background(), d, Config{Method: method, Dim: 3, Params: params})
			if err != nil {
				t.Fatalf("%s: %s: %v", name, method, err)
			}
			y := make([]float32, d.N*3)
			if err := m.Project(y, model.DenseRows(d.X, d.N, d.M)); err != nil {
				t.Fatal(err)
			}
			out := mat.NewDense(d.N, 3, nil)
			for i, v := range y {
				out.Set(i/3, i%3, float64(v))
			}
			return out
		}
		for _, ridge := range []string{"0", "0.1"} {
			a := outputs("lsmpa", map[string]string{"ridge": ridge})
			b := outputs("ksmpa", map[string]string{"ridge": ridge, "kernel": "linear"})
			for j := range 3 {
				if c := correlation(a.ColView(j), b.ColView(j)); !(math.Abs(c) >= 1-1e-9) {
					t.Errorf("%s, ridge %s: output %d of lsmpa and of linear ksmpa correlate by %.12f", name, ridge, j, c)
				}
			}
		}
	}
}

// TestKernelIsChosen: kernel=auto is gauss where it separates the classes better by more than a standard error, and for
// more outputs than there are columns, else linear.
func TestKernelIsChosen(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 1))
	rings := &model.Data{N: 120, M: 2, Classes: []string{"a", "b"}}
	for i := range rings.N {
		angle, radius := 2*math.Pi*rng.Float64(), 1+float64(i%2)+0.1*rng.NormFloat64()
		rings.X = append(rings.X, radius*math.Cos(angle), radius*math.Sin(angle))
		rings.Y = append(rings.Y, i%2)
	}
	lines := synthetic(48, 60, 5, 3)
	for i, c := range lines.Y {
		lines.X[i*lines.M] += 50 * float64(c) // both kernels separate the classes
	}
	tiny := lines.Subset([]int{0, 1, 2, 3, 4, 5}) // two of each class: no row can be held out
	for name, c := range map[string]struct {
		data  *model.Data
		dim   int
		given map[string]string
		want  string
		tried int // kernels and ridges that were compared
	}{
		"rings":              {rings, 1, nil, "gauss", 6},
		"rings, a ridge":     {rings, 1, map[string]string{"ridge": "0.1"}, "gauss", 2},
		"rings, given":       {rings, 1, map[string]string{"kernel": "linear"}, "linear", 3},
		"more outputs":       {rings, 3, nil, "gauss", 3},
		"lines":              {lines, 2, nil, "linear", 6},
		"lines, a ridge":     {lines, 2, map[string]string{"ridge": "0.1"}, "linear", 2},
		"lines, all columns": {lines, 5, map[string]string{"ridge": "0.1"}, "linear", 2},
		"two rows of each":   {tiny, 2, nil, "linear", 0},
	} {
		m := fit(t, c.data, Config{Method: "ksmpa", Dim: c.dim, Params: c.given})
		scores := m.Report().Ridge.Scores
		if got := m.Params()["kernel"]; got != c.want || len(scores) != c.tried {
			t.Errorf("%s: the kernel is %s of %d compared, want %s of %d: %+v", name, got, len(scores), c.want, c.tried, scores)
		}
		if c.tried == 6 && (scores[0].Kernel != "linear" || scores[3].Kernel != "gauss") {
			t.Errorf("%s: %+v", name, scores)
		}
	}
}

// smpa computes the Laplacians of D and S from every pair: geodesics of the union graph of k neighbours by Floyd and
// Warshall, divided by the largest.
func (p *plain) smpa(k int, l1, l2, l3 float64) (dissimilar, similar *mat.Dense) {
	near := p.graphOf(k, func(int) func(int) bool { return anyRow })
	g := mat.NewDense(p.n, p.n, nil)
	g.Apply(func(i, j int, w float64) float64 {
		switch {
		case i == j:
			return 0
		case w == 0:
			return math.Inf(1)
		}
		return math.Sqrt(p.dist2(i, j))
	}, near)
	for via := range p.n {
		for i := range p.n {
			for j := range p.n {
				g.Set(i, j, min(g.At(i, j), g.At(i, via)+g.At(via, j)))
			}
		}
	}
	g.Scale(1/mat.Max(g), g)
	laplacian := func(same, other func(g float64) float64) *mat.Dense {
		l := mat.NewDense(p.n, p.n, nil)
		for i := range p.n {
			for j := range p.n {
				if i == j {
					continue
				}
				w := other(g.At(i, j))
				if p.y[i] == p.y[j] {
					w = same(g.At(i, j))
				}
				l.Set(i, j, -w)
				l.Set(i, i, l.At(i, i)+w)
			}
		}
		return l
	}
	return laplacian(func(g float64) float64 { return l1 * g }, func(g float64) float64 { return l2 / g }),
		laplacian(func(g float64) float64 { return l3 / g }, func(float64) float64 { return 0 })
}

// TestSMPAMeetsItsPencil: both forms solve the pencil of their formulas, and no random columns are better. The kernel
// form does so on the factor of its kernel.
func TestSMPAMeetsItsPencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 1))
	data := synthetic(43, 80, 6, 4)
	p := plainly(data)
	const dim = 3
	check := func(name string, m *model.Model, n, d *mat.SymDense, a *mat.Dense, columns int) {
		t.Helper()
		if r := m.Report().Ridge.Relative; r > 0 {
			d = ridged(d, r*mat.Trace(d)/float64(columns))
		}
		if e := notIdentity(form(d, a)); !(e <= 1e-9) {
			t.Errorf("%s: A'DA differs from I by %g", name, e)
		}
		if e := equation(n, d, a, m.Eigenvalues()); !(e <= 1e-8) {
			t.Errorf("%s: residual %g", name, e)
		}
		if got, other := mat.Trace(form(n, a)), better(rng, n, d, dim); !(other <= got+1e-9*math.Abs(got)) {
			t.Errorf("%s: random trace %g, the method's %g", name, other, got)
		}
	}
	for _, l := range [][3]float64{{1, 1, 1}, {0.5, 2, 3}} {
		dissimilar, similar := p.smpa(5, l[0], l[1], l[2])
		for _, ridge := range []string{"0.3", "oas", "0"} {
			params := map[string]string{"ridge": ridge, "l1": fmt.Sprint(l[0]), "l2": fmt.Sprint(l[1]),
				"l3": fmt.Sprint(l[2])}
			m := fit(t, data, Config{Method: "lsmpa", Dim: dim, Params: params})
			check("lsmpa ridge "+ridge, m, linalg.Symmetric(form(dissimilar, p.x)),
				linalg.Symmetric(form(similar, p.x)), matrixOf(m), p.m)
		}
		// F F' = K of the median squared distance, by a Cholesky factor: with the coefficients a of the model, A = F'a.
		var squared []float64
		for i := range p.n {
			for j := range i {
				squared = append(squared, p.dist2(i, j))
			}
		}
		width := linalg.Median(squared)
		k := mat.NewSymDense(p.n, nil)
		for i := range p.n {
			for j := range i + 1 {
				k.SetSym(i, j, math.Exp(-p.dist2(i, j)/width))
			}
		}
		var chol mat.Cholesky
		if !chol.Factorize(k) {
			t.Fatal("the kernel is not definite")
		}
		var f mat.TriDense
		chol.LTo(&f)
		for _, ridge := range []string{"0.3", "0.01"} {
			params := map[string]string{"ridge": ridge, "kernel": "gauss", "l1": fmt.Sprint(l[0]),
				"l2": fmt.Sprint(l[1]), "l3": fmt.Sprint(l[2])}
			m := fit(t, data, Config{Method: "ksmpa", Dim: dim, Params: params})
			var a mat.Dense
			a.Mul(f.T(), mat.NewDense(p.n, dim, m.Content().Map.(*mapping.KernelMap).Coefficients))
			factor := mat.DenseCopyOf(&f)
			check("ksmpa ridge "+ridge, m, linalg.Symmetric(form(dissimilar, factor)),
				linalg.Symmetric(form(similar, factor)), &a, p.n)
		}
	}
}

func correlation(a, b mat.Vector) float64 {
	n := float64(a.Len())
	ma, mb := mat.Sum(a)/n, mat.Sum(b)/n
	var ab, aa, bb float64
	for i := range a.Len() {
		x, y := a.AtVec(i)-ma, b.AtVec(i)-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// TestSMPADuplicates: equal rows have a geodesic of 0, which must not become an
// infinite weight.
func TestSMPADuplicates(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	twice := &model.Data{N: 2 * d.N, M: d.M, Classes: d.Classes}
	twice.X = append(append(twice.X, d.X...), d.X...)
	twice.Y = append(append(twice.Y, d.Y...), d.Y...)
	for _, method := range []string{"lsmpa", "ksmpa"} {
		m, err := Fit(context.Background(), twice,
			Config{Method: method, Dim: 2, Params: map[string]string{"ridge": "0.1"}})
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		right, err := score.Correct(t.Context(), m, d, d, 1)
		if err != nil || right < d.N*9/10 {
			t.Errorf("%s: %d of %d right, %v", method, right, d.N, err)
		}
	}
}

// heat is the heat similarity of the LEnewS paper.
func heat(squared *mat.Dense) (s *mat.Dense, rate float64) {
	return similarity.Heat(squared, similarity.Width(squared, 0.02))
}

// TestSimilarityAlgorithms: on nonnegative rows both algorithms reach one
// objective, and it falls at every step.
func TestSimilarityAlgorithms(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	n := 40
	x := mat.NewDense(n, d.M, nil)
	for i := range n {
		for j := range d.M {
			x.Set(i, j, d.X[(i*3)*d.M+j]/8)
		}
	}
	g := mat.NewDense(n, n, nil)
	g.Mul(x, x.T())
	s, _ := heat(similarity.SquaredDistances(t.Context(), x))
	learn := func(signed bool, steps int) *similarity.Learned {
		return similarity.Rule{Alpha: 1, Beta: 1, Steps: steps, Tolerance: 1e-12,
			Signed: signed}.Learn(context.Background(), g, s, func(float64) {})
	}
	one, two := learn(true, 5000), learn(false, 5000)
	sum := similarity.Rule{Alpha: 1, Beta: 1, Steps: 5000, Tolerance: 1e-12, Signed: true,
		SumToOne: true}.Learn(context.Background(), g, s, func(float64) {})
	if !(math.Abs(sum.End-one.End) <= 1e-5*one.End) {
		t.Errorf("objective %g from rows that sum to 1, %g from weights of 1", sum.End, one.End)
	}
	if diff := math.Abs(one.End-two.End) / two.End; !(diff <= 1e-5) {
		t.Errorf("objectives %g and %g differ by %g", one.End, two.End, diff)
	}
	for _, r := range []*similarity.Learned{one, two} {
		if !(r.Gradient <= 1e-5) {
			t.Errorf("optimality condition is off by %g", r.Gradient)
		}
		for i := range n {
			for j := range n {
				if v := r.W.At(i, j); !(v >= 0) || v != r.W.At(j, i) || i == j && v != 0 {
					t.Fatalf("w[%d,%d] = %g, w[%d,%d] = %g", i, j, v, j, i, r.W.At(j, i))
				}
			}
		}
	}
	for _, signed := range []bool{true, false} {
		last := math.Inf(1)
		for steps := range 30 {
			j := learn(signed, steps).End
			if !(j <= last*(1+1e-12)) {
				t.Errorf("signed %t: J rose from %g to %g at step %d", signed, last, j, steps)
			}
			last = j
		}
	}
}

// TestSimilarityFallsWithSlowProducts: J falls at every step, also after a product in float64, with enough rows that
// products are updated incrementally; and the reported J is that of W.
func TestSimilarityFallsWithSlowProducts(t *testing.T) {
	const n, steps = 201, 18
	data := synthetic(46, n, 4, 4)
	x := mat.NewDense(n, data.M, data.X)
	for _, signed := range []bool{true, false} {
		if !signed {
			x.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, x)
		}
		var g mat.Dense
		g.Mul(x, x.T())
		s, _ := heat(similarity.SquaredDistances(t.Context(), x))
		last := math.Inf(1)
		for k := range steps + 1 {
			rule := similarity.Rule{Alpha: 1, Beta: 1, Steps: k, Signed: signed, SumToOne: true}
			learned := rule.Learn(context.Background(), &g, s, func(float64) {})
			var product mat.Dense
			product.Mul(learned.W, &g)
			j := rule.Objective(&g, s, learned.W, &product, nil)
			if learned.Steps != k || !(math.Abs(j-learned.End) <= 1e-6*j) {
				t.Errorf("signed %t: after %d steps J is %g, reported as %g after %d", signed, k, j, learned.End,
					learned.Steps)
			}
			if !(j <= last*(1+1e-9)) {
				t.Errorf("signed %t: J rose from %g to %g at step %d", signed, last, j, k)
			}
			last = j
		}
	}
}

// TestSimilarityBeatsRandomOnes: J at the learned W is below J at feasible ones,
// and is the J of the paper.
func TestSimilarityBeatsRandomOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 1))
	p := plainly(synthetic(44, 30, 5, 3))
	var g mat.Dense
	g.Mul(p.x, p.x.T())
	squared := similarity.SquaredDistances(t.Context(), p.x)
	s, _ := heat(squared)
	rule := similarity.Rule{Alpha: 0.7, Beta: 0.4, Steps: 500, Tolerance: 1e-6}
	learned := rule.Learn(context.Background(), &g, s, func(float64) {})
	objective := func(w *mat.Dense) float64 {
		var fit, off mat.Dense
		fit.Mul(w.T(), p.x)
		fit.Sub(p.x, &fit)
		off.Sub(w, s)
		a, b := mat.Norm(&fit, 2), mat.Norm(&off, 2)
		return a*a + rule.Alpha*b*b + rule.Beta*mat.Sum(w)
	}
	best := objective(learned.W)
	if none := objective(mat.NewDense(p.n, p.n, nil)); !(math.Abs(none-learned.Zero) <= 1e-9*none) {
		t.Errorf("J of no similarity is %g by its formula, %g as reported", none, learned.Zero)
	}
	if !(math.Abs(best-learned.End) <= 1e-9*best) {
		t.Errorf("J is %g by its formula, %g as reported", best, learned.End)
	}
	for k := range 200 {
		w := mat.NewDense(p.n, p.n, nil)
		for i := range p.n {
			for j := range i {
				v := rng.ExpFloat64() / float64(p.n)
				if k%2 == 0 { // near the learned one
					v = learned.W.At(i, j) * (1 + 0.1*rng.NormFloat64())
				}
				w.Set(i, j, max(v, 0))
				w.Set(j, i, max(v, 0))
			}
		}
		if j := objective(w); !(j >= best*(1-1e-6)) {
			t.Errorf("a random similarity has J = %g, the learned one %g", j, best)
		}
	}
}

// TestLPPnewSMeetsItsPencil: max (X D X', X L X' + rho I) of the learned W.
func TestLPPnewSMeetsItsPencil(t *testing.T) {
	data := synthetic(45, 60, 5, 3)
	p := plainly(data)
	var g mat.Dense
	g.Mul(p.x, p.x.T())
	squared := similarity.SquaredDistances(t.Context(), p.x)
	paper, _ := heat(squared)
	t.Run("as in the paper", func(t *testing.T) {
		testLPPnewS(t, similarity.Rule{Alpha: 1, Beta: 1}, &g, paper, data, p, map[string]string{"ridge": "0.2", "alpha": "1",
			"beta": "1", "sigma": "0.02"})
	})
	nearest, length := 0.0, mat.Trace(&g)/float64(p.n)
	for i := range p.n {
		nearest += p.dist2(i, p.nearest(i, 1, func(j int) bool { return j != i })[0]) / float64(p.n)
	}
	own, _ := similarity.Heat(squared, 4*nearest)
	t.Run("defaults", func(t *testing.T) {
		testLPPnewS(t, similarity.Rule{Alpha: 8 * length, Beta: 0.1 * length}, &g, own, data, p,
			map[string]string{"ridge": "0.2"})
	})
}

func testLPPnewS(t *testing.T, rule similarity.Rule, g, s *mat.Dense, data *model.Data, p *plain,
	params map[string]string) {
	rng := rand.New(rand.NewPCG(45, 1))
	rule.Steps, rule.Tolerance = 500, 1e-6
	learned := rule.Learn(t.Context(), g, s, func(float64) {})
	largest := mat.Max(learned.W)
	degrees, laplacian := mat.NewDense(p.n, p.n, nil), mat.NewDense(p.n, p.n, nil)
	for i := range p.n {
		for j := range p.n {
			if w := learned.W.At(i, j); w >= 1e-6*largest {
				degrees.Set(i, i, degrees.At(i, i)+w)
				laplacian.Set(i, i, laplacian.At(i, i)+w)
				laplacian.Set(i, j, laplacian.At(i, j)-w)
			}
		}
	}
	m := fit(t, data, Config{Method: "lppnews", Dim: 3, Params: params})
	n, d := linalg.Symmetric(form(degrees, p.x)), linalg.Symmetric(form(laplacian, p.x))
	d = ridged(d, 0.2*mat.Trace(d)/float64(p.m))
	a := matrixOf(m)
	if e := notIdentity(form(d, a)); !(e <= 1e-6) {
		t.Errorf("A'DA differs from I by %g", e)
	}
	if e := equation(n, d, a, m.Eigenvalues()); !(e <= 1e-6) {
		t.Errorf("residual %g", e)
	}
	if got, other := mat.Trace(form(n, a)), better(rng, n, d, 3); !(other <= got*(1+1e-9)) {
		t.Errorf("random trace %g, the method's %g", other, got)
	}
}

// TestSlowProduct: incremental products agree with those in float64, for weights that change by up to 3 percent in each
// step: exactly up to an order of 200, and else up to the rounding errors of float32 in 16 steps.
func TestSlowProduct(t *testing.T) {
	for n, tolerance := range map[int]float64{150: 1e-14, 213: 2e-8} {
		rng := rand.New(rand.NewPCG(45, 1))
		g, w := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		for i := range n {
			for j := range i + 1 {
				v := 1e3 * rng.Float64()
				g.Set(i, j, v)
				g.Set(j, i, v)
				w.Set(i, j, rng.Float64())
			}
		}
		p := &similarity.IncrementalProduct{G: g}
		var want, got, off mat.Dense
		got.CloneFrom(g)
		for step := range 41 {
			for i, v := range w.RawMatrix().Data {
				if step < 40 { // the last one stays
					w.RawMatrix().Data[i] = v * (1 + 0.05*(rng.Float64()-0.6))
				}
			}
			p.Of(context.Background(), &got, w)
			want.Mul(w, g)
			off.Sub(&got, &want)
			if e := max(mat.Max(&off), -mat.Min(&off)) / mat.Max(&want); !(e <= tolerance) {
				t.Fatalf("of order %d, a product is off by %g of the largest in step %d", n, e, step)
			}
		}
	}
}
