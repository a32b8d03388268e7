package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method/scatter"
	"github.com/embedd/embedd/model/internal/stiefel"
)

// plain has standardised data and its scatters, summed row by row.
type plain struct {
	x             *mat.Dense // n x m
	within, total *mat.SymDense
	between       *mat.SymDense
	y             []int
	n, m, classes int
}

func plainly(d *model.Data) *plain {
	p := &plain{n: d.N, m: d.M, y: d.Y, classes: len(d.Classes), x: mat.NewDense(d.N, d.M, nil)}
	n := float64(d.N)
	for j := range d.M {
		mean, v := 0.0, 0.0
		for i := range d.N {
			mean += d.X[i*d.M+j] / n
		}
		for i := range d.N {
			v += (d.X[i*d.M+j] - mean) * (d.X[i*d.M+j] - mean) / n
		}
		for i := range d.N {
			p.x.Set(i, j, (d.X[i*d.M+j]-mean)/math.Sqrt(v))
		}
	}
	p.within, p.total, p.between = mat.NewSymDense(d.M, nil), mat.NewSymDense(d.M, nil), mat.NewSymDense(d.M, nil)
	for c := range p.classes {
		mu, count := mat.NewVecDense(d.M, nil), 0.0
		for i, k := range d.Y {
			if k == c {
				mu.AddVec(mu, p.x.RowView(i))
				count++
			}
		}
		mu.ScaleVec(1/count, mu)
		p.between.SymRankOne(p.between, count/n, mu)
		for i, k := range d.Y {
			if k == c {
				var r mat.VecDense
				r.SubVec(p.x.RowView(i), mu)
				p.within.SymRankOne(p.within, 1/n, &r)
			}
		}
	}
	for i := range d.N {
		p.total.SymRankOne(p.total, 1/n, p.x.RowView(i))
	}
	return p
}

func ridged(s *mat.SymDense, rho float64) *mat.SymDense {
	out := mat.NewSymDense(s.SymmetricDim(), nil)
	out.CopySym(s)
	for i := range s.SymmetricDim() {
		out.SetSym(i, i, out.At(i, i)+rho)
	}
	return out
}

func form(s mat.Matrix, a *mat.Dense) *mat.Dense {
	var sa, out mat.Dense
	sa.Mul(s, a)
	out.Mul(a.T(), &sa)
	return &out
}

func notIdentity(a *mat.Dense) float64 {
	n, _ := a.Dims()
	worst := 0.0
	for i := range n {
		for j := range n {
			want := 0.0
			if i == j {
				want = 1
			}
			worst = max(worst, math.Abs(a.At(i, j)-want))
		}
	}
	return worst
}

// equation is max |N a - lambda D a| over the columns, relative to |lambda D a|.
func equation(n, d mat.Matrix, a *mat.Dense, lambda []float64) float64 {
	var na, da mat.Dense
	na.Mul(n, a)
	da.Mul(d, a)
	worst := 0.0
	for j, l := range lambda {
		var r, s mat.VecDense
		s.ScaleVec(l, da.ColView(j))
		r.SubVec(na.ColView(j), &s)
		worst = max(worst, mat.Norm(&r, 2)/(mat.Norm(&s, 2)+mat.Norm(na.ColView(j), 2)))
	}
	return worst
}

// better is the largest trace of the numerator over 100 random A with A'DA = I.
func better(rng *rand.Rand, n, d mat.Matrix, cols int) float64 {
	m, _ := n.Dims()
	best := math.Inf(-1)
	for range 100 {
		a := mat.NewDense(m, cols, nil)
		for i := range m {
			for j := range cols {
				a.Set(i, j, rng.NormFloat64())
			}
		}
		var chol mat.Cholesky
		if !chol.Factorize(linalg.Symmetric(form(d, a))) {
			continue
		}
		var u, inverse mat.TriDense
		chol.UTo(&u)
		if inverse.InverseTri(&u) != nil {
			continue
		}
		var feasible mat.Dense
		feasible.Mul(a, &inverse)
		best = max(best, mat.Trace(form(n, &feasible)))
	}
	return best
}

func TestPCAIsTheLeadingSpaceOfTheTotalScatter(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	p := plainly(data)
	m := fit(t, data, Config{Method: "pca", Dim: 4})
	a := matrixOf(m)
	if e := notIdentity(form(ridged(mat.NewSymDense(p.m, nil), 1), a)); !(e <= 1e-12) {
		t.Errorf("A'A differs from I by %g", e)
	}
	if e := equation(p.total, ridged(mat.NewSymDense(p.m, nil), 1), a, m.Eigenvalues()); !(e <= 1e-10) {
		t.Errorf("residual %g", e)
	}
	trace := mat.Trace(form(p.total, a))
	if other := better(rand.New(rand.NewPCG(1, 1)), p.total, ridged(mat.NewSymDense(p.m, nil), 1), 4); !(other <= trace) {
		t.Errorf("a random basis holds %g of the variance, pca %g", other, trace)
	}
	white := fit(t, data, Config{Method: "pca", Dim: 4, Params: map[string]string{"whiten": "true"}})
	if e := notIdentity(form(p.total, matrixOf(white))); !(e <= 1e-10) {
		t.Errorf("whitened outputs have covariance %g away from I", e)
	}
}

func TestLDAMeetsItsPencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, name := range []string{"wine", "vowel", "iris"} {
		data := fixture.Dataset(t, name)
		p := plainly(data)
		for _, r := range []string{"0.1", "1", "oas"} {
			m := fit(t, data, Config{Method: "lda", Params: map[string]string{"ridge": r}})
			rho := m.Report().Ridge.Relative * mat.Trace(p.within) / float64(p.m)
			d := ridged(p.within, rho)
			if e := notIdentity(form(d, matrixOf(m))); !(e <= 1e-9) {
				t.Errorf("%s ridge %s: A'(S_w + rho I)A differs from I by %g", name, r, e)
			}
			if e := equation(p.between, d, matrixOf(m), m.Eigenvalues()); !(e <= 1e-9) {
				t.Errorf("%s ridge %s: residual %g", name, r, e)
			}
			trace := mat.Trace(form(p.between, matrixOf(m)))
			if other := better(rng, p.between, d, m.Dim()); !(other <= trace*(1+1e-9)) {
				t.Errorf("%s ridge %s: random trace %g, lda %g", name, r, other, trace)
			}
		}
		literal := fit(t, data, Config{Method: "lda", Params: map[string]string{"ridge": "0"}})
		within := form(p.within, matrixOf(literal))
		for j := range literal.Dim() {
			if !(math.Abs(within.At(j, j)-1) <= 1e-9) {
				t.Errorf("%s: a'S_w a = %g at ridge 0", name, within.At(j, j))
			}
		}
		if e := equation(p.between, p.total, matrixOf(literal), literal.Eigenvalues()); !(e <= 1e-9) {
			t.Errorf("%s: residual %g at ridge 0", name, e)
		}
		// A ridge near zero gives the same directions.
		near := fit(t, data, Config{Method: "lda", Params: map[string]string{"ridge": "1e-10"}})
		if e := sine(t, matrixOf(literal), matrixOf(near)); !(e <= 1e-6) {
			t.Errorf("%s: ridge 0 and ridge 1e-10 are %g apart", name, e)
		}
	}
}

// With fewer rows than features classes can collapse: no within-class variance.
func TestLiteralLDAReportsCollapsedDirections(t *testing.T) {
	data := synthetic(21, 9, 40, 3)
	m := fit(t, data, Config{Method: "lda", Params: map[string]string{"ridge": "0"}})
	if n := m.Report().Notes; len(n) != 1 {
		t.Fatalf("notes %q", n)
	}
	p := plainly(data)
	if e := notIdentity(form(p.total, matrixOf(m))); !(e <= 1e-8) {
		t.Errorf("collapsed directions have total variance %g away from 1", e)
	}
}

// TestTieOfTheFirstResponses: two responses are fitted exactly and share an eigenvalue. The third is no part of the
// tie, so its direction stays behind theirs: that of the third feature alone.
func TestTieOfTheFirstResponses(t *testing.T) {
	d := &model.Data{M: 3, Classes: []string{"a", "b", "c", "d"}}
	for i := range 40 {
		x, y, noise := float64(i%2*2-1), float64(i/2%2*2-1), float64(i/4%2*2-1)
		d.X, d.Y, d.N = append(d.X, x, y, x*y+0.5*noise), append(d.Y, i%4), d.N+1
	}
	m := fit(t, d, Config{Method: "srda", Dim: 3, Params: map[string]string{"ridge": "0"}})
	a, values := matrixOf(m), m.Eigenvalues()
	if !(math.Abs(values[0]-values[1]) <= 1e-12) || !(values[2] <= 0.9*values[1]) {
		t.Fatalf("eigenvalues %v: not a tie of the first two alone", values)
	}
	if !(math.Abs(a.At(0, 2)) <= 1e-9) || !(math.Abs(a.At(1, 2)) <= 1e-9) || !(math.Abs(a.At(2, 2)) >= 0.1) {
		t.Errorf("the last direction is %g, %g, %g", a.At(0, 2), a.At(1, 2), a.At(2, 2))
	}
}

func TestSRDASolvesTheNormalEquations(t *testing.T) {
	for name, data := range map[string]*model.Data{"wine": fixture.Dataset(t, "wine"),
		"five classes": synthetic(20, 80, 7, 5)} {
		p := plainly(data)
		m := fit(t, data, Config{Method: "srda", Params: map[string]string{"ridge": "0.2"}})
		rho := 0.2 * mat.Trace(p.total) / float64(p.m)
		// Closed form: responses orthonormal to 1 and each other.
		ones := mat.NewDense(p.n, p.classes, nil)
		for i, c := range p.y {
			ones.Set(i, 0, 1)
			if c > 0 {
				ones.Set(i, c, 1)
			}
		}
		var qr mat.QR
		qr.Factorize(ones)
		var full mat.Dense
		qr.QTo(&full)
		var rhs, want mat.Dense
		rhs.Mul(p.x.T(), full.Slice(0, p.n, 1, p.classes))
		if err := want.Solve(ridged(p.total, rho), &rhs); err != nil {
			t.Fatal(err)
		}
		if e := sine(t, matrixOf(m), &want); !(e <= 1e-9) {
			t.Errorf("%s: %g away from the closed form", name, e)
		}
		// Columns are uncorrelated with falling variance, so d < C-1 is the leading part.
		v := form(p.total, matrixOf(m))
		for i := range m.Dim() {
			for j := range m.Dim() {
				if i != j && !(math.Abs(v.At(i, j)) <= 1e-10) {
					t.Errorf("%s: columns %d and %d have covariance %g", name, i, j, v.At(i, j))
				}
			}
			if i > 0 && !(v.At(i, i) <= v.At(i-1, i-1)) {
				t.Errorf("%s: variances rise at column %d", name, i)
			}
			if !(math.Abs(v.At(i, i)-m.Eigenvalues()[i]) <= 1e-10) {
				t.Errorf("%s: eigenvalue %g, variance %g", name, m.Eigenvalues()[i], v.At(i, i))
			}
		}
		less := fit(t, data, Config{Method: "srda", Dim: 1, Params: map[string]string{"ridge": "0.2"}})
		if e := sine(t, matrixOf(less), mat.DenseCopyOf(matrixOf(m).Slice(0, p.m, 0, 1))); !(e <= 1e-9) {
			t.Errorf("%s: one column is not the first of all", name)
		}
	}
}

func TestTwoClassSLEIsFishersDirection(t *testing.T) {
	for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleNone} {
		data := fixture.Dataset(t, "wdbc")
		a := fit(t, data, Config{Method: "sle", Scale: scale})
		b := fit(t, data, Config{Method: "lda", Scale: scale, Params: map[string]string{"ridge": "0"}})
		if e := sine(t, matrixOf(a), matrixOf(b)); !(e <= 1e-6) {
			t.Errorf("scale %s: %g away from LDA", scale, e)
		}
		if a.InformativeRank() != 1 {
			t.Errorf("informative rank %d, want 1", a.InformativeRank())
		}
	}
}

// graphForm is X L X' and X X' from the n x n signed graph, X the rows about the
// origin, with a constant column for augment.
func graphForm(p *plain, origin string, weight func(i, j int) float64) (pen, moment *mat.Dense) {
	m := p.m
	if origin == "augment" {
		m++
	}
	x := mat.NewDense(p.n, m, nil)
	for i := range p.n {
		copy(x.RawRowView(i), p.x.RawRowView(i))
		if origin == "augment" {
			x.Set(i, m-1, 1)
		}
	}
	l := mat.NewDense(p.n, p.n, nil)
	for i := range p.n {
		degree := 0.0
		for j := range p.n {
			w := weight(i, j)
			degree += math.Abs(w)
			l.Set(i, j, -w)
		}
		l.Set(i, i, l.At(i, i)+degree)
	}
	pen, moment = new(mat.Dense), new(mat.Dense)
	var lx mat.Dense
	lx.Mul(l, x)
	pen.Mul(x.T(), &lx)
	moment.Mul(x.T(), x)
	return pen, moment
}

func TestSLEEqualsTheGraphForm(t *testing.T) {
	for _, classes := range []int{2, 4} {
		data := synthetic(22, 40, 6, classes)
		p := plainly(data)
		pen, moment := graphForm(p, "mean", func(i, j int) float64 {
			if p.y[i] == p.y[j] {
				return 1
			}
			return -1
		})
		for d := 1; d <= 6; d++ {
			m := fit(t, data, Config{Method: "sle", Dim: d})
			if e := notIdentity(form(moment, matrixOf(m))); !(e <= 1e-8) {
				t.Errorf("C=%d d=%d: A'MA differs from I by %g", classes, d, e)
			}
			if e := equation(pen, moment, matrixOf(m), m.Eigenvalues()); !(e <= 1e-8) {
				t.Errorf("C=%d d=%d: |P a - lambda M a| is %g", classes, d, e)
			}
			if want := classes - 1; m.InformativeRank() != want {
				t.Errorf("C=%d: informative rank %d, want %d", classes, m.InformativeRank(), want)
			}
			for j, l := range m.Eigenvalues() {
				if n := float64(p.n); j >= classes-1 && !(math.Abs(l-n) <= 1e-9*n) || j < classes-1 && !(l <= n*(1-1e-9)) {
					t.Errorf("C=%d: eigenvalue %d is %g", classes, j, l)
				}
			}
			// After the informative columns norms increase: most variance first.
			for j := classes; j < d; j++ {
				if a := matrixOf(m); !(mat.Norm(a.ColView(j), 2) >= mat.Norm(a.ColView(j-1), 2)*(1-1e-9)) {
					t.Errorf("C=%d: column %d is shorter than column %d", classes, j, j-1)
				}
			}
		}
	}
}

// The literal trace at the min end is not above that of random feasible columns.
func TestSLEBeatsRandomColumns(t *testing.T) {
	data := synthetic(23, 60, 5, 3)
	p := plainly(data)
	pen, moment := graphForm(p, "mean", func(i, j int) float64 {
		if p.y[i] == p.y[j] {
			return 1
		}
		return -1
	})
	m := fit(t, data, Config{Method: "sle", Dim: 2})
	var minus mat.Dense
	minus.Scale(-1, pen)
	if other, got := -better(rand.New(rand.NewPCG(4, 4)), &minus, moment, 2),
		mat.Trace(form(pen, matrixOf(m))); !(other >= got*(1-1e-9)) {
		t.Errorf("random trace %g, sle %g", other, got)
	}
}

func TestSLEOriginsGiveFiniteOrderedSpectra(t *testing.T) {
	data := synthetic(24, 50, 4, 3)
	for _, origin := range []string{"mean", "none", "augment"} {
		for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleNone, model.ScaleMinMax} {
			m := fit(t, data, Config{Method: "sle", Dim: 4, Scale: scale, Params: map[string]string{"origin": origin}})
			v := m.Eigenvalues()
			for j := 1; j < len(v); j++ {
				if !(v[j] >= v[j-1]-1e-9*math.Abs(v[j])) {
					t.Errorf("%s %s: eigenvalues %v do not rise", origin, scale, v)
				}
			}
			if !(m.Report().Residual <= 1e-8) {
				t.Errorf("%s %s: residual %g", origin, scale, m.Report().Residual)
			}
		}
	}
}

// Each view of SLE one-versus-rest meets the pencil of its n x n graph.
func TestSLEOvREqualsTheGraphForm(t *testing.T) {
	data := synthetic(25, 36, 4, 3)
	// Uneven classes, so that the weightings differ.
	for i := range data.Y {
		if data.Y[i] == 2 && i%2 == 0 {
			data.Y[i] = 0
		}
	}
	p := plainly(data)
	for _, kind := range []string{"group", "target", "positive", "none"} {
		for _, ridge := range []string{"1e-3", "0"} {
			m := fit(t, data, Config{Method: "sle-ovr", Dim: 2,
				Params: map[string]string{"weights": kind, "ridge": ridge}})
			v := m.Content().Map.(*mapping.Views)
			for c := range p.classes {
				np := 0.0
				for _, y := range p.y {
					if y == c {
						np++
					}
				}
				alpha, beta := 1.0, 1.0
				switch kind {
				case "group":
					alpha, beta = 1/np, 1/(float64(p.n)-np)
				case "target":
					alpha, beta = 1/np, 1/np
				case "positive":
					alpha = 1 / np
				}
				pen, moment := graphForm(p, "augment", func(i, j int) float64 {
					switch a, b := p.y[i] == c, p.y[j] == c; {
					case a && b:
						return alpha
					case !a && !b:
						return beta
					}
					return -1
				})
				a := mat.NewDense(p.m+1, 2, nil)
				for i := range p.m {
					a.SetRow(i, v.Of(c)[i*2:i*2+2])
				}
				a.SetRow(p.m, v.Offset[c*2:c*2+2])
				if ridge == "0" {
					if e := notIdentity(form(moment, a)); !(e <= 1e-8) {
						t.Errorf("%s class %d: A'MA differs from I by %g", kind, c, e)
					}
					lambda := form(pen, a)
					if e := equation(pen, moment, a, []float64{lambda.At(0, 0), lambda.At(1, 1)}); !(e <= 1e-7) {
						t.Errorf("%s class %d: residual %g at ridge 0", kind, c, e)
					}
					continue
				}
				d := ridged(linalg.Symmetric(pen), 1e-3*mat.Trace(pen)/float64(p.m+1))
				if e := notIdentity(form(d, a)); !(e <= 1e-8) {
					t.Errorf("%s class %d: A'(P + rho I)A differs from I by %g", kind, c, e)
				}
				lambda := form(moment, a)
				if e := equation(moment, d, a, []float64{lambda.At(0, 0), lambda.At(1, 1)}); !(e <= 1e-8) {
					t.Errorf("%s class %d: residual %g", kind, c, e)
				}
			}
		}
	}
}

func TestSLEOvRKnowsItsWindow(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	m := fit(t, data, Config{Method: "sle-ovr"})
	class := make([]int, data.N)
	if err := m.ProjectClasses(t.Context(), make([]float32, data.N*2), class,
		model.DenseRows(data.X, data.N, data.M)); err != nil {
		t.Fatal(err)
	}
	for i, c := range class {
		if c != data.Y[i] {
			t.Errorf("row %d of the window is taken for class %d, not %d", i, c, data.Y[i])
		}
	}
}

func TestSLEOvRWindowIsCapped(t *testing.T) {
	data := synthetic(26, 2500, 3, 4)
	m := fit(t, data, Config{Method: "sle-ovr"})
	if n := len(m.Content().Map.(*mapping.Views).Label); n != 2000 {
		t.Errorf("window of %d rows, want 2000", n)
	}
	if len(m.Report().Notes) != 1 {
		t.Errorf("notes %q", m.Report().Notes)
	}
}

func randomFrame(rng *rand.Rand, q, k int) *mat.Dense {
	a := mat.NewDense(q, k, nil)
	for i := range q {
		for j := range k {
			a.Set(i, j, rng.NormFloat64())
		}
	}
	return stiefel.Retract(a)
}

func TestPairAccGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	p := &scatter.Pairs{Means: mat.NewDense(7, 5, nil), Prior: []float64{.1, .2, .1, .15, .05, .3, .1}}
	for i := range 7 {
		for j := range 5 {
			p.Means.Set(i, j, 2*rng.NormFloat64())
		}
	}
	o := randomFrame(rng, 5, 2)
	g := p.Gradient(o)
	for i := range 5 {
		for j := range 2 {
			const h = 1e-6
			up, down := mat.DenseCopyOf(o), mat.DenseCopyOf(o)
			up.Set(i, j, o.At(i, j)+h)
			down.Set(i, j, o.At(i, j)-h)
			want := (p.Accuracy(up) - p.Accuracy(down)) / (2 * h)
			if !(math.Abs(g.At(i, j)-want) <= 1e-8) {
				t.Errorf("dF/dO[%d,%d] is %g, by differences %g", i, j, g.At(i, j), want)
			}
		}
	}
	if e := notIdentity(form(ridged(mat.NewSymDense(5, nil), 1), o)); !(e <= 1e-12) {
		t.Errorf("a retracted frame is %g away from orthonormal", e)
	}
}

func TestPairAccClimbs(t *testing.T) {
	for _, name := range []string{"vowel", "wine", "digits"} {
		for _, d := range []int{1, 2} {
			m := fit(t, fixture.Dataset(t, name), Config{Method: "pairacc", Dim: d})
			s := m.Report().Search
			if !(s.End >= s.Start-1e-12) || !(s.Gradient <= 1e-4) {
				t.Errorf("%s d=%d: criterion %g to %g, gradient %g", name, d, s.Start, s.End, s.Gradient)
			}
		}
	}
}

// At d = C-1 the span is LDA's space; beyond it, padding keeps the existing columns.
func TestPairAccAtAndBeyondLDA(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	at := fit(t, data, Config{Method: "pairacc", Dim: 2})
	past := fit(t, data, Config{Method: "pairacc", Dim: 5})
	first := mat.DenseCopyOf(matrixOf(past).Slice(0, data.M, 0, 2))
	if e := apart(matrixOf(at), first); !(e <= 1e-9) {
		t.Errorf("padding changes the leading columns by %g", e)
	}
	p := plainly(data)
	d := ridged(p.within, past.Report().Ridge.Absolute)
	if e := notIdentity(form(d, matrixOf(past))); !(e <= 1e-9) {
		t.Errorf("A'(S_w + rho I)A differs from I by %g", e)
	}
	if past.InformativeRank() != 2 {
		t.Errorf("informative rank %d of 5 columns in 3 classes, want 2", past.InformativeRank())
	}
}

func TestPairAccCoincidentMeans(t *testing.T) {
	data := synthetic(27, 60, 4, 3)
	for i := range data.N { // class 2 becomes a copy of class 1
		if data.Y[i] == 2 {
			copy(data.X[i*4:i*4+4], data.X[(i-1)*4:i*4])
		}
	}
	for d := 1; d <= 4; d++ {
		m := fit(t, data, Config{Method: "pairacc", Dim: d})
		if m.Dim() != d {
			t.Errorf("dim %d, want %d", m.Dim(), d)
		}
	}
}

// The shrinkage of scikit-learn's OAS on standardised iris, whose printed
// formula would give another figure.
func TestOASIsScikitLearns(t *testing.T) {
	p := plainly(fixture.Dataset(t, "iris"))
	if s, r := frame.OAS(p.total, 150, 4); !(math.Abs(s-0.03126) <= 5e-5) || !(math.Abs(r-s/(1-s)) <= 1e-15) {
		t.Errorf("total: s = %.5f, r = %.5f", s, r)
	}
	if s, _ := frame.OAS(p.within, 150, 4); !(math.Abs(s-0.03233) <= 5e-5) {
		t.Errorf("within: s = %.5f", s)
	}
	one := mat.NewSymDense(1, []float64{2})
	if s, r := frame.OAS(one, 10, 1); s != 0 || r != 1e-6 {
		t.Errorf("one column: s = %g, r = %g", s, r)
	}
	even := ridged(mat.NewSymDense(3, nil), 1)
	if s, r := frame.OAS(even, 10, 3); s != 1 || r != 10 {
		t.Errorf("a multiple of I: s = %g, r = %g", s, r)
	}
}

func TestFoldsFollowTheRule(t *testing.T) {
	// Names sort against their indices; c has two rows and is never scored.
	p := &frame.Rows{N: 10, Classes: []string{"z", "a", "c"}, Y: []int{0, 1, 0, 1, 1, 2, 0, 1, 0, 2}}
	pick, fold := frame.Folds(p, 1500, 3, 0)
	want := map[int]int{1: 0, 3: 1, 4: 2, 7: 0, 5: -1, 9: -1, 0: 0, 2: 1, 6: 2, 8: 0}
	for i, row := range pick {
		if row != i || fold[i] != want[row] {
			t.Errorf("row %d at %d is in fold %d, want %d", row, i, fold[i], want[row])
		}
	}
	if _, fold := frame.Folds(&frame.Rows{N: 5, Classes: []string{"a", "b"}, Y: []int{0, 0, 0, 1, 1}}, 1500, 3,
		0); fold != nil {
		t.Error("one class that can be scored gave folds")
	}
	big := &frame.Rows{N: 4001, Classes: []string{"a", "b", "c"}}
	for i := range 4001 {
		c := i % 2
		if i == 17 {
			c = 2
		}
		big.Y = append(big.Y, c)
	}
	pick, _ = frame.Folds(big, 1500, 3, 0)
	if len(pick) < 1500 || len(pick) > 1501 {
		t.Errorf("%d rows of 4001 are looked at", len(pick))
	}
}

func TestRidgeAutoTakesTheBestScore(t *testing.T) {
	for _, name := range []string{"iris", "wine", "vowel", "wdbc"} {
		for method, candidates := range map[string]int{"lda": 3, "srda": 3, "mfa": 3, "lfda": 3, "lsda": 6, "dawge": 5} {
			r := fit(t, fixture.Dataset(t, name), Config{Method: method}).Report().Ridge
			if r.Rule != "cv" || len(r.Scores) != candidates {
				t.Fatalf("%s %s: %+v", name, method, r)
			}
			for _, s := range r.Scores {
				if s.Ridge == r.Relative {
					for _, o := range r.Scores {
						if o.Correct > s.Correct || o.Correct == s.Correct && !(o.Ridge <= s.Ridge) {
							t.Errorf("%s %s: %g chosen, %g is better", name, method, s.Ridge, o.Ridge)
						}
					}
				}
			}
		}
	}
	// Too few rows a class to validate: the shrinkage decides, and says so.
	few := synthetic(28, 6, 4, 3)
	m, err := Fit(context.Background(), few, Config{Method: "lda"})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Report(); r.Ridge.Rule != "oas" || len(r.Notes) != 1 {
		t.Errorf("ridge %+v, notes %q", r.Ridge, r.Notes)
	}
	if r := fit(t, few, Config{Method: "dawge"}).Report(); r.Ridge.Rule != "fixed" || r.Ridge.Relative != 0.1 {
		t.Errorf("ridge of dawge %+v", r.Ridge)
	}
	literal := Config{Method: "dawge", Params: map[string]string{"constraint": "orthonormal"}}
	if r := fit(t, fixture.Dataset(t, "iris"), literal).Report().Ridge; r != nil {
		t.Errorf("a ridge of dawge without a denominator: %+v", r)
	}
}
