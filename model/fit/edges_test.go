package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
)

// The tests sum both sides of each criterion pair by pair, from n x n matrices, as in the papers.

func (p *plain) dist2(i, j int) float64 {
	sum := 0.0
	for c := range p.m {
		d := p.x.At(i, c) - p.x.At(j, c)
		sum += d * d
	}
	return sum
}

// nearest returns the k nearest of the allowed rows, ties to the lower index.
func (p *plain) nearest(i, k int, allowed func(j int) bool) []int {
	var all []int
	for j := range p.n {
		if j != i && allowed(j) {
			all = append(all, j)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(p.dist2(i, a), p.dist2(i, b)) })
	return all[:min(k, len(all))]
}

func (p *plain) own(i int) func(int) bool { return func(j int) bool { return p.y[j] == p.y[i] } }

func (p *plain) otherClass(i int) func(int) bool { return func(j int) bool { return p.y[j] != p.y[i] } }

func anyRow(int) bool { return true }

// graphOf is the symmetric 0/1 matrix that lists of k make, joined by "or".
func (p *plain) graphOf(k int, allowed func(i int) func(int) bool) *mat.Dense {
	w := mat.NewDense(p.n, p.n, nil)
	for i := range p.n {
		for _, j := range p.nearest(i, k, allowed(i)) {
			w.Set(i, j, 1)
			w.Set(j, i, 1)
		}
	}
	return w
}

// shortest is the graph of the k shortest pairs of different classes with i in
// class c, or of all for c < 0.
func (p *plain) shortest(w *mat.Dense, k, c int) {
	var pairs [][2]int
	for i := range p.n {
		for j := range p.n {
			if p.y[i] != p.y[j] && (p.y[i] == c || c < 0 && i < j) {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]int) int { return cmp.Compare(p.dist2(a[0], a[1]), p.dist2(b[0], b[1])) })
	for _, e := range pairs[:k] {
		w.Set(e[0], e[1], 1)
		w.Set(e[1], e[0], 1)
	}
}

// pairSum is half the sum of w_ij (x_i - x_j)(x_i - x_j)'.
func (p *plain) pairSum(w mat.Matrix) *mat.SymDense {
	s := mat.NewSymDense(p.m, nil)
	for i := range p.n {
		for j := range p.n {
			if v := w.At(i, j); v != 0 && i != j {
				var d mat.VecDense
				d.SubVec(p.x.RowView(i), p.x.RowView(j))
				s.SymRankOne(s, v/2, &d)
			}
		}
	}
	return s
}

func (p *plain) degreeSum(w *mat.Dense) *mat.SymDense {
	s := mat.NewSymDense(p.m, nil)
	for i := range p.n {
		s.SymRankOne(s, mat.Sum(w.RowView(i)), p.x.RowView(i))
	}
	return s
}

func (p *plain) weightSum(w *mat.Dense) *mat.SymDense {
	var wx, out mat.Dense
	wx.Mul(w, p.x)
	out.Mul(p.x.T(), &wx)
	return linalg.Symmetric(&out)
}

func (p *plain) mfa(penalty string, k1, k2 int) (n, d *mat.SymDense) {
	w := mat.NewDense(p.n, p.n, nil)
	switch penalty {
	case "per-sample":
		w = p.graphOf(k2, p.otherClass)
	case "class-pairs":
		for c := range p.classes {
			p.shortest(w, k2, c)
		}
	case "global-pairs":
		p.shortest(w, k2, -1)
	}
	return p.pairSum(w), p.pairSum(p.graphOf(k1, p.own))
}

// lfda is Sugiyama's form by pairs: A_ij/n_c inside classes for S_w; A_ij (1/n -
// 1/n_c) inside and 1/n between them for S_b.
func (p *plain) lfda(k int) (n, d *mat.SymDense) {
	size, sigma := make([]float64, p.classes), make([]float64, p.n)
	byClass := make([][]float64, p.classes)
	for i, c := range p.y {
		size[c]++
		if near := p.nearest(i, k, p.own(i)); len(near) > 0 {
			sigma[i] = math.Sqrt(p.dist2(i, near[len(near)-1]))
		}
		byClass[c] = append(byClass[c], sigma[i])
	}
	for i, c := range p.y {
		slices.Sort(byClass[c])
		sigma[i] = max(sigma[i], 1e-3*byClass[c][len(byClass[c])/2])
	}
	within, between := mat.NewDense(p.n, p.n, nil), mat.NewDense(p.n, p.n, nil)
	for i, c := range p.y {
		for j, e := range p.y {
			if c != e {
				between.Set(i, j, 1/float64(p.n))
			} else if i != j {
				a := math.Exp(-p.dist2(i, j) / (sigma[i] * sigma[j]))
				within.Set(i, j, a/size[c])
				between.Set(i, j, a*(1/float64(p.n)-1/size[c]))
			}
		}
	}
	return p.pairSum(between), p.pairSum(within)
}

func (p *plain) lsda(k int, beta float64) (n, d *mat.SymDense) {
	all := p.graphOf(k, func(int) func(int) bool { return anyRow })
	within, between := mat.NewDense(p.n, p.n, nil), mat.NewDense(p.n, p.n, nil)
	for i, c := range p.y {
		for j, e := range p.y {
			if c == e {
				within.Set(i, j, all.At(i, j))
			} else {
				between.Set(i, j, all.At(i, j))
			}
		}
		within.Set(i, i, 1)
	}
	n = p.pairSum(between)
	n.ScaleSym(beta, n)
	inside := p.weightSum(within)
	inside.ScaleSym(1-beta, inside)
	n.AddSym(n, inside)
	return n, p.degreeSum(within)
}

func (p *plain) lpp(k int, width float64) (n, d *mat.SymDense) {
	w := p.graphOf(k, func(int) func(int) bool { return anyRow })
	if width == 0 { // the mean squared distance to the nearest row
		for i := range p.n {
			width += p.dist2(i, p.nearest(i, 1, anyRow)[0]) / float64(p.n)
		}
	}
	for i := range p.n {
		for j := range p.n {
			w.Set(i, j, w.At(i, j)*math.Exp(-p.dist2(i, j)/width))
		}
	}
	return p.degreeSum(w), p.pairSum(w)
}

func (p *plain) npe(t *testing.T, k int) (n, d *mat.SymDense) {
	d = mat.NewSymDense(p.m, nil)
	for i := range p.n {
		near := p.nearest(i, k, anyRow)
		z := mat.NewDense(len(near), p.m, nil)
		for a, j := range near {
			var row mat.VecDense
			row.SubVec(p.x.RowView(j), p.x.RowView(i))
			z.SetRow(a, row.RawVector().Data)
		}
		var g mat.Dense
		g.Mul(z, z.T())
		trace := mat.Trace(&g)
		ones := mat.NewVecDense(len(near), nil)
		for a := range near {
			g.Set(a, a, g.At(a, a)+1e-3*trace)
			ones.SetVec(a, 1)
		}
		var w, rest mat.VecDense
		if err := w.SolveVec(&g, ones); err != nil {
			t.Fatal(err)
		}
		w.ScaleVec(1/mat.Sum(&w), &w)
		rest.MulVec(z.T(), &w)
		d.SymRankOne(d, 1, &rest)
	}
	n = mat.NewSymDense(p.m, nil)
	n.ScaleSym(float64(p.n), p.total)
	return n, d
}

// lltsa uses the residual of each centred patch after its leading tangents.
func (p *plain) lltsa(t *testing.T, k, tangents int) (n, d *mat.SymDense) {
	d = mat.NewSymDense(p.m, nil)
	for i := range p.n {
		rows := append([]int{i}, p.nearest(i, k-1, anyRow)...)
		z := mat.NewDense(k, p.m, nil)
		for a, j := range rows {
			z.SetRow(a, p.x.RawRowView(j))
		}
		for c := range p.m {
			mean := mat.Sum(z.ColView(c)) / float64(k)
			for a := range k {
				z.Set(a, c, z.At(a, c)-mean)
			}
		}
		var svd mat.SVD
		if !svd.Factorize(z, mat.SVDThin) {
			t.Fatal("svd")
		}
		var v mat.Dense
		svd.VTo(&v)
		for c, s := range svd.Values(nil) {
			if c >= tangents {
				d.SymRankOne(d, s*s, v.ColView(c))
			}
		}
	}
	n = mat.NewSymDense(p.m, nil)
	n.ScaleSym(float64(p.n), p.total)
	return n, d
}

// Each method solves the pencil of its paper, in its max form with a ridge and in its literal form without, and no
// random columns are better.
func TestGraphRatiosMeetTheirPencils(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	data := synthetic(40, 75, 6, 4)
	data.Y[3], data.Y[7] = 1, 1 // uneven classes
	p := plainly(data)
	const dim = 3
	for _, c := range []struct {
		method   string
		params   map[string]string
		minimum  bool // of the literal form
		formulas func() (n, d *mat.SymDense)
	}{
		{"mfa", nil, true, func() (n, d *mat.SymDense) { return p.mfa("per-sample", 5, 20) }},
		{"mfa", map[string]string{"penalty": "class-pairs", "k1": "3"}, true,
			func() (n, d *mat.SymDense) { return p.mfa("class-pairs", 3, 20) }},
		{"mfa", map[string]string{"penalty": "global-pairs", "k2": "9"}, true,
			func() (n, d *mat.SymDense) { return p.mfa("global-pairs", 5, 9) }},
		{"lfda", nil, false, func() (n, d *mat.SymDense) { return p.lfda(7) }},
		{"lfda", map[string]string{"kNN": "2"}, false, func() (n, d *mat.SymDense) { return p.lfda(2) }},
		{"lsda", nil, false, func() (n, d *mat.SymDense) { return p.lsda(5, 0.1) }},
		{"lsda", map[string]string{"k": "0", "beta": "0.6"}, false,
			func() (n, d *mat.SymDense) { return p.lsda(p.n-1, 0.6) }},
		{"lpp", nil, true, func() (n, d *mat.SymDense) { return p.lpp(5, 0) }},
		{"lpp", map[string]string{"k": "3", "t": "0.7"}, true, func() (n, d *mat.SymDense) { return p.lpp(3, 0.7) }},
		{"lpp", map[string]string{"t": "inf"}, true, func() (n, d *mat.SymDense) { return p.lpp(5, math.Inf(1)) }},
		{"npe", nil, true, func() (n, d *mat.SymDense) { return p.npe(t, 5) }},
		{"lltsa", nil, true, func() (n, d *mat.SymDense) { return p.lltsa(t, 12, dim) }},
	} {
		n, d := c.formulas()
		for _, ridge := range []string{"0.3", "oas", "0"} {
			name := fmt.Sprintf("%s %v ridge %s", c.method, c.params, ridge)
			params := map[string]string{"ridge": ridge}
			for k, v := range c.params {
				params[k] = v
			}
			m := fit(t, data, Config{Method: c.method, Dim: dim, Params: params})
			numerator, denominator, sign := n, d, 1.0
			switch {
			case ridge != "0":
				rho := m.Report().Ridge.Relative * mat.Trace(d) / float64(p.m)
				denominator = ridged(d, rho)
			case c.minimum:
				numerator, denominator, sign = d, n, -1
			}
			if e := notIdentity(form(denominator, matrixOf(m))); !(e <= 1e-9) {
				t.Errorf("%s: A'DA differs from I by %g", name, e)
			}
			if e := equation(numerator, denominator, matrixOf(m), m.Eigenvalues()); !(e <= 1e-8) {
				t.Errorf("%s: residual %g", name, e)
			}
			var signed mat.Dense
			signed.Scale(sign, numerator)
			got := mat.Trace(form(&signed, matrixOf(m)))
			if other := better(rng, &signed, denominator, dim); !(other <= got+1e-9*math.Abs(got)) {
				t.Errorf("%s: random trace %g, the method's %g", name, other, got)
			}
		}
	}
}

// dla sums over patches, with no denominator.
func TestDLASumsItsPatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	data := synthetic(43, 70, 5, 3)
	p := plainly(data)
	identity := ridged(mat.NewSymDense(p.m, nil), 1)
	for _, c := range []struct {
		params map[string]string
		beta   float64
		k1, k2 int
		width  float64
	}{
		{map[string]string{"beta": "0.3"}, 0.3, 5, 10, math.Inf(1)},
		{map[string]string{"beta": "1", "k1": "2", "k2": "4"}, 1, 2, 4, math.Inf(1)},
		{map[string]string{"beta": "0"}, 0, 5, 10, math.Inf(1)},
		{map[string]string{"t": "2.5", "beta": "0.3"}, 0.3, 5, 10, 2.5},
	} {
		w := mat.NewDense(p.n, p.n, nil)
		add := func(i, j int, v float64) {
			v *= math.Exp(-p.dist2(i, j) / c.width)
			w.Set(i, j, w.At(i, j)+v)
			w.Set(j, i, w.At(j, i)+v)
		}
		for i := range p.n {
			for _, j := range p.nearest(i, c.k1, p.own(i)) {
				add(i, j, 1)
			}
			for _, j := range p.nearest(i, c.k2, p.otherClass(i)) {
				add(i, j, -c.beta)
			}
		}
		pen := p.pairSum(w)
		m := fit(t, data, Config{Method: "dla", Dim: 2, Params: c.params})
		if e := notIdentity(form(identity, matrixOf(m))); !(e <= 1e-12) {
			t.Errorf("%v: A'A differs from I by %g", c.params, e)
		}
		if e := equation(pen, identity, matrixOf(m), m.Eigenvalues()); !(e <= 1e-9) {
			t.Errorf("%v: residual %g", c.params, e)
		}
		var minus mat.Dense
		minus.Scale(-1, pen)
		if other, got := better(rng, &minus, identity, 2), mat.Trace(form(&minus, matrixOf(m))); !(other <= got) {
			t.Errorf("%v: random trace %g, dla %g", c.params, other, got)
		}
	}
}

func TestLFDAMetrics(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	at := func(metric string) *model.Model {
		return fit(t, data, Config{Method: "lfda", Dim: 4, Params: map[string]string{"ridge": "0.1", "metric": metric}})
	}
	plain, weighted, orthonormal := at("plain"), at("weighted"), at("orthonormalized")
	for j, l := range plain.Eigenvalues() {
		var d mat.VecDense
		d.AddScaledVec(matrixOf(weighted).ColView(j), -math.Sqrt(l), matrixOf(plain).ColView(j))
		if !(mat.Norm(&d, 2) <= 1e-12) {
			t.Errorf("column %d is not the plain one times %g", j, math.Sqrt(l))
		}
	}
	if e := notIdentity(form(ridged(mat.NewSymDense(data.M, nil), 1), matrixOf(orthonormal))); !(e <= 1e-12) {
		t.Errorf("orthonormalized: A'A differs from I by %g", e)
	}
	if e := sine(t, matrixOf(plain), matrixOf(orthonormal)); !(e <= 1e-9) {
		t.Errorf("orthonormalized: another space, %g apart", e)
	}
}

// The affinities of a class are computed in blocks; with more rows than one block the result is the sum over all pairs.
func TestLFDAOfManyRowsEqualsPairs(t *testing.T) {
	data := synthetic(44, 2*frame.PairRows+40, 3, 2)
	data.X = append(data.X, data.X[:30]...) // ten rows twice
	data.Y = append(data.Y, data.Y[:10]...)
	data.N += 10
	p := plainly(data)
	n, d := p.lfda(7)
	m := fit(t, data, Config{Method: "lfda", Params: map[string]string{"ridge": "0.1"}})
	d = ridged(d, 0.1*mat.Trace(d)/3)
	if e := equation(n, d, matrixOf(m), m.Eigenvalues()); !(e <= 1e-9) {
		t.Errorf("residual %g", e)
	}
}

// With more rows than fit in a block, the scatters are the sums over the pairs of each class.
func TestLFDAOfManyClassesEqualsPairs(t *testing.T) {
	const classes, size, m, k = 171, 100, 2, 7
	data := synthetic(46, classes*size, m, classes)
	method, params, err := Config{Method: "lfda"}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	task := &frame.Task{Method: method, Params: params, Scaling: model.ScaleStandard, Report: &model.Report{}}
	rows, err := frame.Prepare(t.Context(), data, true, false, task.Report)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Load(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	n, d := frame.LocalScatters(t.Context(), task, "kNN")
	between, within := mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	for c := range classes {
		x, mean := mat.NewDense(size, m, nil), mat.NewVecDense(m, nil)
		for i := range size {
			x.SetRow(i, task.X.RawRowView(i*classes+c)) // classes alternate
			mean.AddScaledVec(mean, 1./size, x.RowView(i))
		}
		dist2 := func(i, j int) float64 {
			return math.Pow(x.At(i, 0)-x.At(j, 0), 2) + math.Pow(x.At(i, 1)-x.At(j, 1), 2)
		}
		sigma := make([]float64, size)
		for i := range sigma {
			all := make([]float64, size)
			for j := range all {
				all[j] = dist2(i, j)
			}
			slices.Sort(all)
			sigma[i] = math.Sqrt(all[k]) // the first is the row itself
		}
		g, local := mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
		for i := range size {
			var own, apart mat.VecDense
			own.SubVec(x.RowView(i), mean)
			g.SymRankOne(g, 1-float64(size)/(classes*size), &own)
			for j := range i {
				apart.SubVec(x.RowView(i), x.RowView(j))
				local.SymRankOne(local, math.Exp(-dist2(i, j)/(sigma[i]*sigma[j])), &apart)
			}
		}
		for _, part := range []struct {
			to, of *mat.SymDense
			by     float64
		}{{within, local, 1. / size}, {between, local, 1./(classes*size) - 1./size}, {between, g, 1}} {
			var scaled mat.SymDense
			scaled.ScaleSym(part.by, part.of)
			part.to.AddSym(part.to, &scaled)
		}
		between.SymRankOne(between, size, mean) // rows are about the mean of all
	}
	var offWithin, offBetween mat.Dense
	offWithin.Sub(d, within)
	offBetween.Sub(n, between)
	if !(mat.Norm(&offWithin, 2) <= 1e-9*mat.Norm(within, 2) && mat.Norm(&offBetween, 2) <= 1e-9*mat.Norm(between, 2)) {
		t.Errorf("within %v, not %v\nbetween %v, not %v", mat.Formatted(d), mat.Formatted(within), mat.Formatted(n),
			mat.Formatted(between))
	}
}

func TestGraphSizesAreClampedWithANote(t *testing.T) {
	data := synthetic(45, 30, 4, 3)
	data.Classes = append(data.Classes, "small", "one")
	data.Y[0], data.Y[3], data.Y[6], data.Y[9] = 3, 3, 3, 4
	for _, c := range []struct {
		method string
		params map[string]string
		want   string
	}{
		{"mfa", nil, "k1=5 was clamped in 2 of 5 classes, down to 0"},
		{"dla", map[string]string{"k1": "2", "k2": "25"}, "k2=25 was clamped in 3 of 5 classes, down to 20"},
		{"lfda", nil, "kNN=7 was clamped in 3 of 5 classes, down to 0"},
		{"lsda", map[string]string{"k": "40"}, "k=40 was clamped to 29"},
		{"lpp", map[string]string{"k": "40"}, "k=40 was clamped to 29"},
		{"npe", map[string]string{"k": "40"}, "k=40 was clamped to 29"},
		{"lltsa", map[string]string{"k": "40"}, "k=40 was clamped to 30"},
		{"mpda", map[string]string{"patch_k": "8", "patch_size": "4"}, "patch_k=8 was clamped in 1 of 5 classes, down to 5"},
	} {
		m := fit(t, data, Config{Method: c.method, Params: c.params})
		if !slices.ContainsFunc(m.Report().Notes, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: notes %q lack %q", c.method, m.Report().Notes, c.want)
		}
	}
}

func TestGraphMethodsRefuseWithFigures(t *testing.T) {
	flat := &model.Data{M: 3, Classes: []string{"a"}}
	rng := rand.New(rand.NewPCG(46, 1))
	for i := range 60 { // three lines far apart: one tangent holds each patch
		v := rng.NormFloat64()
		row := []float64{float64(100 * (i / 20 % 2)), float64(100 * (i / 40)), 0}
		row[2] += v
		flat.X, flat.N = append(flat.X, row...), flat.N+1
	}
	singles := synthetic(47, 6, 3, 6)
	few := synthetic(48, 40, 6, 2)
	copies := &model.Data{M: 5, Classes: []string{"a", "b"}} // all neighbours are equal rows, to rounding
	for i := range 120 {
		j := i % 10
		copies.X, copies.Y, copies.N = append(copies.X, synthetic(49, 10, 5, 2).X[j*5:j*5+5]...),
			append(copies.Y, j%2), i+1
	}
	for _, c := range []struct {
		data *model.Data
		cfg  Config
		want string
	}{
		{flat, Config{Method: "lltsa", Dim: 2},
			"dim 2 exceeds 1: tangent spaces of more dimensions explain all of the variance"},
		{flat, Config{Method: "lltsa", Scale: model.ScaleNone},
			"tangent spaces of 1 dimension explain all of the variance (n=60, m=3): the rows are on lines"},
		{singles, Config{Method: "mfa"}, "denominator of the criterion is zero (n=6, m=3)"},
		{singles, Config{Method: "lfda"}, "denominator of the criterion is zero (n=6, m=3)"},
		{copies, Config{Method: "mfa", Params: map[string]string{"ridge": "0.1"}},
			"denominator of the criterion is zero (n=120, m=5)"},
		{copies, Config{Method: "mpda"}, "denominator of the criterion is zero (n=120, m=5)"},
		{few, Config{Method: "mfa", Dim: 5,
			Params: map[string]string{"penalty": "global-pairs", "k2": "3", "ridge": "0.1"}},
			"dim 5 exceeds rank 3 of the criterion"},
		{few, Config{Method: "dla", Dim: 7}, "dim 7 exceeds rank 6 of the total scatter"},
		{few, Config{Method: "mfa", Params: map[string]string{"k1": "0"}},
			`"0" is not allowed; give a whole number >= 1`},
		{few, Config{Method: "dla", Params: map[string]string{"beta": "1.5"}},
			`"1.5" is not allowed; give auto or a number in [0, 1]`},
		{few, Config{Method: "lpp", Params: map[string]string{"t": "0"}},
			`"0" is not allowed; give auto, inf or a number > 0`},
		{few, Config{Method: "lltsa", Params: map[string]string{"k": "1"}},
			`"1" is not allowed; give auto or a whole number >= 2`},
	} {
		m, err := Fit(context.Background(), c.data, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: model %v, error %v; want %q", c.cfg.Method, m != nil, err, c.want)
		}
	}
}

// Tangent spaces with as many dimensions as columns would explain everything, in every method that uses them; the
// number of outputs is limited only by the columns.
func TestTangentMethodsReachEveryDimension(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	for _, method := range []string{"lltsa", "ltsimr", "mp-ltsimr", "lpfe"} {
		m := fit(t, data, Config{Method: method, Dim: data.M})
		if m.Dim() != data.M || m.InformativeRank() != data.M {
			t.Errorf("%s: %d outputs, %d of them informative; want %d", method, m.Dim(), m.InformativeRank(), data.M)
		}
		one := &model.Data{N: data.N, M: 1, Y: data.Y, Classes: data.Classes}
		for i := range data.N {
			one.X = append(one.X, data.X[i*data.M+2]+1e-3*float64(i))
		}
		if m := fit(t, one, Config{Method: method}); m.Dim() != 1 {
			t.Errorf("%s of one feature: %d outputs", method, m.Dim())
		}
	}
}
