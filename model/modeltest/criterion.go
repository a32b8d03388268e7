package modeltest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Reference computes what a fit has to reach, from the definition of its criterion. It is only worth something if it
// shares no code with the method: loops over rows and pairs are best. It returns nil for rows that do not determine the
// criterion, such as tied ones where it depends on the order of ties.
type Reference func(t testing.TB, p *Problem) *Criterion

// Problem is a fit as its criterion sees it.
type Problem struct {
	X       *mat.Dense // n x m, scaled and centred rows with a column for each feature
	Y       []int      // class of each row
	Classes int
	Dim     int
	Params  map[string]string // as the model reports them
	Columns int               // rank of X, which ridges are relative to
}

// Float is the value of a parameter that is a number, or inf.
func (p *Problem) Float(t testing.TB, name string) float64 {
	v, err := strconv.ParseFloat(p.Params[name], 64)
	if err != nil {
		t.Fatalf("parameter %s of %v: %v", name, p.Params, err)
	}
	return v
}

// Int is the value of a parameter that is a whole number.
func (p *Problem) Int(t testing.TB, name string) int { return int(p.Float(t, name)) }

// Form is what a fit optimises.
type Form string

const (
	// Ratio: the map A (m x d) maximises tr(A'NA) with A'(D + rho I)A = I, in the space that the rows span, where
	// rho = ridge tr(D)/columns.
	Ratio Form = "ratio"
	// Orthonormal: the map A minimises tr(A'DA) with A'A = I.
	Orthonormal Form = "orthonormal"
	// Embedding: the outputs Y (n x d) of the rows minimise tr(Y'DY) with Y'NY = I and Y'N1 = 0.
	Embedding Form = "embedding"
	// Search: the map A maximises Objective, as far as a local search finds it. With D, A'(D + rho I)A = I.
	Search Form = "search"
	// Exact: the columns of the map, or of the outputs, equal the columns of Columns, up to their signs.
	Exact Form = "exact"
)

// Criterion is what a fit has to reach.
type Criterion struct {
	Form Form
	N, D *mat.SymDense // over features, or over rows for an embedding
	// PerFeature: single features count, and the map is not bound to the space that the rows span.
	PerFeature bool
	// AnyScale: the columns of a ratio, or of an embedding, are scaled or rotated in another way than its constraint
	// says.
	AnyScale bool
	// Shifted: a constant was added to each output of an embedding.
	Shifted   bool
	Objective func(a *mat.Dense) float64
	Columns   *mat.Dense // of the map, m x d, or the outputs of the rows, n x d
	Tolerance float64    // of the objective, relative; 0: 1e-6
}

// criterion checks that fits of one and two dimensions reach what the reference says.
func (s suite) criterion(t *testing.T, d *model.Data, ref Reference) {
	for dim := 1; dim <= 2; dim++ {
		t.Run(fmt.Sprintf("dim %d", dim), func(t *testing.T) { s.criterionAt(t, d, dim, ref) })
	}
}

func (s suite) criterionAt(t *testing.T, d *model.Data, dim int, ref Reference) {
	c := s.c
	c.Dim = dim
	m := s.fit(t, d, c)
	p := problem(t, m, d)
	v := span(t, p.X)
	_, p.Columns = v.Dims()
	r := ref(t, p)
	if r == nil {
		t.Skip("the rows do not determine the criterion")
	}
	if r.Tolerance == 0 {
		r.Tolerance = 1e-6
	}
	if r.PerFeature {
		v = mat.DenseCopyOf(identity(m.M()))
	}
	w := m.Components()
	if w == nil {
		for i := range d.N {
			for j := range i {
				if slices.Equal(p.X.RawRowView(i), p.X.RawRowView(j)) {
					t.Skip("a map gives equal rows one output, where the embedding has two")
				}
			}
		}
		r.checkEmbedding(t, p, outputMatrix(t, m, d))
		return
	}
	a := mat.NewDense(m.M(), m.Dim(), w)
	rho := 0.0
	if _, has := p.Params["ridge"]; has && r.D != nil && r.Form != Orthonormal {
		rho = p.Float(t, "ridge") * mat.Trace(congruence(v, r.D)) / float64(p.Columns)
		reported := m.Report().Ridge
		if reported == nil || !(math.Abs(reported.Absolute-rho) <= 1e-6*rho) {
			t.Errorf("the report has the ridge %+v, want the absolute ridge %g", reported, rho)
		}
	}
	r.checkMap(t, a, v, rho)
}

// problem is the fit of a model on its rows.
func problem(t testing.TB, m *model.Model, d *model.Data) *Problem {
	t.Helper()
	mean, scale := m.Mean(), m.Scale()
	x := mat.NewDense(d.N, d.M, nil)
	for j := range d.M {
		constant := true
		for i := range d.N {
			constant = constant && d.X[i*d.M+j] == d.X[j]
		}
		for i := range d.N {
			if !constant {
				x.Set(i, j, (d.X[i*d.M+j]-mean[j])/scale[j])
			}
		}
	}
	return &Problem{X: x, Y: d.Y, Classes: len(d.Classes), Dim: m.Dim(), Params: m.Params()}
}

// span is an orthonormal basis of the space of the rows, m x r.
func span(t testing.TB, x *mat.Dense) *mat.Dense {
	t.Helper()
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		t.Fatal("the singular values of the rows do not converge")
	}
	values, rank := svd.Values(nil), 0
	for rank < len(values) && values[rank] > 1e-9*values[0] {
		rank++
	}
	var v mat.Dense
	svd.VTo(&v)
	m, _ := v.Dims()
	return mat.DenseCopyOf(v.Slice(0, m, 0, rank))
}

// CheckRatio checks the columns a of a map that no model has, such as the map of one class: a'Da = I, and
// tr(a'Na) is the largest possible.
func CheckRatio(t *testing.T, numerator, denominator *mat.SymDense, a *mat.Dense) {
	t.Helper()
	r := &Criterion{Form: Ratio, N: numerator, D: denominator, Tolerance: 1e-6}
	r.checkMap(t, a, mat.DenseCopyOf(identity(denominator.SymmetricDim())), 0)
}

// checkMap checks a linear map. v spans the rows: directions outside it have no variance.
func (r *Criterion) checkMap(t *testing.T, a, v *mat.Dense, rho float64) {
	t.Helper()
	_, d := a.Dims()
	if r.Form == Exact {
		r.checkColumns(t, a)
		return
	}
	inside := new(mat.Dense) // V'A
	inside.Mul(v.T(), a)
	_, rank := v.Dims()
	metric := identity(rank)
	if r.D != nil && r.Form != Orthonormal {
		metric = congruence(v, r.D)
		for i := range rank {
			metric.SetSym(i, i, metric.At(i, i)+rho)
		}
	}
	constrained := r.Form == Orthonormal || !r.AnyScale && (r.Form == Ratio || r.D != nil)
	if r.Form == Search && r.D == nil && !r.AnyScale {
		constrained = true // orthonormal
	}
	if constrained {
		unit(t, inside, metric, 1e-6)
	}
	half := inverseRoot(t, metric)
	if r.Form == Search {
		r.checkSearch(t, inside, v, half, constrained)
		return
	}
	form := new(mat.SymDense)
	if r.Form == Orthonormal {
		form = congruence(v, r.D)
		form.ScaleSym(-1, form)
	} else {
		form = congruence(v, r.N)
	}
	values := eigenvalues(t, congruence(half, form))
	best, size := 0.0, math.Max(math.Abs(values[0]), math.Abs(values[rank-1]))
	for c := range d {
		best += values[rank-1-c]
	}
	reached := traceRatio(t, inside, form, metric)
	if !(math.Abs(reached-best) <= r.Tolerance*size) {
		t.Errorf("the objective is %.10g, the optimum of the reference %.10g (largest eigenvalue %.3g)", reached, best, size)
	}
	rng := rand.New(rand.NewPCG(uint64(d), 3))
	for range 30 {
		other := normals(rng, rank, d)
		if v := traceRatio(t, other, form, metric); !(v <= reached+r.Tolerance*size) {
			t.Errorf("random columns reach %g, the fit %g", v, reached)
		}
	}
}

// checkColumns compares columns with the columns of the reference, up to their signs.
func (r *Criterion) checkColumns(t *testing.T, a *mat.Dense) {
	t.Helper()
	_, d := a.Dims()
	for c := range d {
		got, want := a.ColView(c), r.Columns.ColView(c)
		size, dot := mat.Norm(want, 2), mat.Dot(got, want)
		var off mat.VecDense
		off.AddScaledVec(got, -math.Copysign(1, dot), want)
		if !(mat.Norm(&off, 2) <= r.Tolerance*size) {
			t.Errorf("column %d is %.3g of its length away from the reference", c, mat.Norm(&off, 2)/size)
		}
	}
}

// checkSearch compares the map with random feasible ones, and with those next to it along the objective's gradient.
func (r *Criterion) checkSearch(t *testing.T, inside, v, half *mat.Dense, constrained bool) {
	t.Helper()
	rank, d := inside.Dims()
	at := func(b *mat.Dense) float64 {
		var a mat.Dense
		a.Mul(v, b)
		return r.Objective(&a)
	}
	feasible := func(z *mat.Dense) *mat.Dense { // of the coordinates in which the metric is the identity
		if constrained {
			z = orthonormalize(z)
		}
		out := new(mat.Dense)
		out.Mul(half, z)
		return out
	}
	var back mat.Dense
	if err := back.Solve(half, inside); err != nil {
		t.Fatal(err)
	}
	reached, rng := at(inside), rand.New(rand.NewPCG(uint64(d), 5))
	if again := at(feasible(&back)); !(math.Abs(again-reached) <= 1e-6*math.Abs(reached)) {
		t.Fatalf("the objective is %g at the fit, and %g at the same columns", reached, again)
	}
	for range 30 {
		if v := at(feasible(normals(rng, rank, d))); !(v <= reached+r.Tolerance*math.Abs(reached)) {
			t.Errorf("random columns reach %g, the fit %g", v, reached)
		}
	}
	// Along the gradient, by differences: a search with a wrong one ends where the objective still rises.
	size := mat.Norm(&back, 2)
	uphill := mat.NewDense(rank, d, nil)
	uphill.Apply(func(i, j int, v float64) float64 {
		const step = 1e-4
		next := mat.DenseCopyOf(&back)
		next.Set(i, j, v+step*size)
		more := at(feasible(next))
		next.Set(i, j, v-step*size)
		return more - at(feasible(next))
	}, &back)
	length := mat.Norm(uphill, 2)
	if length == 0 {
		return
	}
	for _, step := range []float64{1e-1, 1e-2, 1e-3} {
		var next, move mat.Dense
		move.Scale(step*size/length, uphill)
		next.Add(&back, &move)
		if v := at(feasible(&next)); !(v <= reached+r.Tolerance*math.Abs(reached)) {
			t.Errorf("a change by %g of the columns, along the gradient, raises the objective from %.10g to %.10g: is the "+
				"gradient of the search wrong?", step, reached, v)
		}
	}
}

// checkEmbedding checks the outputs y of the rows.
func (r *Criterion) checkEmbedding(t *testing.T, p *Problem, y *mat.Dense) {
	t.Helper()
	const float32s = 1e-4 // outputs are float32
	n, d := y.Dims()
	switch r.Form {
	case Exact:
		r.checkColumns(t, y)
		return
	case Embedding:
	default:
		t.Fatalf("form %q of a map that is not linear", r.Form)
	}
	if r.Shifted {
		for c := range d {
			mean := mat.Sum(y.ColView(c)) / float64(n)
			for i := range n {
				y.Set(i, c, y.At(i, c)-mean)
			}
		}
	}
	var ny, ones mat.Dense
	ny.Mul(r.N, y)
	for c := range d {
		sum := 0.0
		for i := range n {
			sum += ny.At(i, c)
		}
		if !(math.Abs(sum) <= float32s*math.Sqrt(mat.Sum(r.N))*math.Sqrt(mat.Dot(ny.ColView(c), y.ColView(c)))) {
			t.Errorf("output %d is not orthogonal to the constant: %g", c, sum)
		}
	}
	if !r.AnyScale {
		unit(t, y, r.N, float32s)
	}
	// The optimum among vectors orthogonal to the constant: an orthonormal basis of the complement of N 1.
	ones.Mul(r.N, mat.NewDense(n, 1, slices.Repeat([]float64{1}, n)))
	var qr mat.QR
	qr.Factorize(&ones)
	var q mat.Dense
	qr.QTo(&q)
	rest := mat.DenseCopyOf(q.Slice(0, n, 1, n))
	metric, form := congruence(rest, r.N), congruence(rest, r.D)
	values := eigenvalues(t, congruence(inverseRoot(t, metric), form))
	best, size := 0.0, values[len(values)-1]
	for c := range d {
		best += values[c]
	}
	var inside mat.Dense
	inside.Mul(rest.T(), y)
	reached := traceRatio(t, &inside, form, metric)
	if !(math.Abs(reached-best) <= math.Max(r.Tolerance, 1e-6)*size) {
		t.Errorf("the objective is %.10g, the optimum of the reference %.10g (largest eigenvalue %.3g)", reached, best, size)
	}
}

// parameters checks that a fit with the reported parameters is the same fit.
func (s suite) parameters(t *testing.T, d *model.Data, about fit.Method) {
	c := s.c
	m := s.fit(t, d, c)
	used := m.Params()
	for _, p := range about.Params {
		if v, has := used[p.Name]; !has || v == "" || v == "auto" || v == "oas" {
			t.Errorf("parameter %s is reported as %q", p.Name, v)
		}
	}
	r := m.Report()
	if r.Convergence == "" || (r.Search == nil) != (r.Convergence == model.Direct) {
		t.Errorf("convergence %q with the search %+v", r.Convergence, r.Search)
	}
	c.Params = map[string]string{}
	for _, p := range about.Params {
		c.Params[p.Name] = used[p.Name]
	}
	same := s.fit(t, d, c)
	if !maps.Equal(same.Params(), used) {
		t.Errorf("a fit with the reported parameters reports %v instead of %v", same.Params(), used)
	}
	again, y := outputMatrix(t, same, d), outputMatrix(t, m, d)
	again.Sub(again, y)
	if off := mat.Norm(again, 2) / mat.Norm(y, 2); !(off <= 1e-3) {
		t.Errorf("a fit with the reported parameters %v has outputs that are %.2g apart", used, off)
	}
}

// twice checks that every row given twice changes nothing but the scale of the columns.
func (s suite) twice(t *testing.T, d *model.Data) {
	if s.hasRidge {
		s.c.Params = maps.Clone(s.c.Params)
		if s.c.Params == nil {
			s.c.Params = map[string]string{}
		}
		s.c.Params["ridge"] = "0.1"
	}
	double := *d
	double.N = 2 * d.N
	double.X, double.Y = slices.Concat(d.X, d.X), slices.Concat(d.Y, d.Y)
	one, two := s.fit(t, d, s.c), s.fit(t, &double, s.c)
	if one.Components() == nil {
		one, two := outputMatrix(t, one, d), outputMatrix(t, two, d)
		two.Sub(two, one)
		if off := mat.Norm(two, 2) / mat.Norm(one, 2); !(off <= 1e-4) {
			t.Errorf("with each row twice the outputs are %.2g apart", off)
		}
		return
	}
	a := mat.NewDense(one.M(), one.Dim(), one.Components())
	b := mat.NewDense(two.M(), two.Dim(), two.Components())
	for c := range one.Dim() {
		u, v := a.ColView(c), b.ColView(c)
		if cosine := math.Abs(mat.Dot(u, v)) / (mat.Norm(u, 2) * mat.Norm(v, 2)); !(cosine >= 1-1e-6) {
			t.Errorf("with each row twice column %d has the cosine %g with that of the rows", c, cosine)
		}
	}
}

func outputMatrix(t *testing.T, m *model.Model, d *model.Data) *mat.Dense {
	t.Helper()
	y := outputs(t, m, d, 0, d.N)
	out := mat.NewDense(d.N, m.Dim(), nil)
	for i, v := range y {
		out.Set(i/m.Dim(), i%m.Dim(), float64(v))
	}
	return out
}

// unit checks Y'MY = I.
func unit(t *testing.T, y *mat.Dense, metric *mat.SymDense, tolerance float64) {
	t.Helper()
	g := congruence(y, metric)
	d := g.SymmetricDim()
	for i := range d {
		for j := range d {
			want := 0.0
			if i == j {
				want = 1
			}
			if !(math.Abs(g.At(i, j)-want) <= tolerance) {
				t.Errorf("entry %d, %d of the constraint is %.10g, want %g", i, j, g.At(i, j), want)
			}
		}
	}
}

// traceRatio is tr((B'MB)^-1 B'FB).
func traceRatio(t *testing.T, b *mat.Dense, form, metric *mat.SymDense) float64 {
	t.Helper()
	var ratio mat.Dense
	if err := ratio.Solve(congruence(b, metric), congruence(b, form)); err != nil {
		t.Fatalf("the columns are dependent: %v", err)
	}
	return mat.Trace(&ratio)
}

// congruence is B'SB.
func congruence(b *mat.Dense, s *mat.SymDense) *mat.SymDense {
	var half, full mat.Dense
	half.Mul(s, b)
	full.Mul(b.T(), &half)
	n, _ := full.Dims()
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return out
}

func eigenvalues(t *testing.T, s *mat.SymDense) []float64 {
	t.Helper()
	var e mat.EigenSym
	if !e.Factorize(s, false) {
		t.Fatal("the eigenvalues of the reference do not converge")
	}
	return e.Values(nil)
}

// inverseRoot is a matrix H with H'MH = I.
func inverseRoot(t *testing.T, metric *mat.SymDense) *mat.Dense {
	t.Helper()
	var e mat.EigenSym
	if !e.Factorize(metric, true) {
		t.Fatal("the eigenvalues of the denominator do not converge")
	}
	values := e.Values(nil)
	var h mat.Dense
	e.VectorsTo(&h)
	for j, v := range values {
		if !(v > 0) {
			t.Fatalf("the denominator of the reference is not positive definite: %g of %g", v, values[len(values)-1])
		}
		for i := range values {
			h.Set(i, j, h.At(i, j)/math.Sqrt(v))
		}
	}
	return &h
}

func identity(n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 1)
	}
	return s
}

func normals(r *rand.Rand, n, d int) *mat.Dense {
	a := mat.NewDense(n, d, nil)
	for i := range n {
		for j := range d {
			a.Set(i, j, r.NormFloat64())
		}
	}
	return a
}

// orthonormalize makes columns orthonormal, each by its part outside of those before it.
func orthonormalize(a *mat.Dense) *mat.Dense {
	n, d := a.Dims()
	var qr mat.QR
	qr.Factorize(a)
	var q mat.Dense
	qr.QTo(&q)
	return mat.DenseCopyOf(q.Slice(0, n, 0, d))
}
