package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// swissRoll is a strip of arc length s and height h, rolled up in three
// dimensions, and its flat coordinates (n x 2).
func swissRoll(n int, seed uint64) (*model.Data, *mat.Dense) {
	rng := rand.New(rand.NewPCG(seed, 11))
	arc := func(t float64) float64 { return (t*math.Sqrt(1+t*t) + math.Asinh(t)) / 2 }
	d, flat := &model.Data{N: n, M: 3}, mat.NewDense(n, 2, nil)
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
func manifoldOf(t *testing.T, n, m, patches int) (*mat.Dense, *graph.Matrix, *tangent.Spaces) {
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
	tan := &tangent.Spaces{Patch: make([]int, n)}
	rows := make([][]int, patches)
	for i := range n {
		tan.Patch[i] = i % patches
		rows[i%patches] = append(rows[i%patches], i, (i+1)%n, (i+2)%n)
	}
	tan.Spaces, err = graph.Tangents(ctx, x, rows, graph.FixedDim(2))
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
	tan.Spaces[0], tan.Spaces[1] = flat[0], line[0]
	return x, w, tan
}

// whole is the form as one matrix over (f; v): which its parts represent.
func whole(f *tangent.Form) *mat.SymDense {
	n := f.W.Order()
	s := mat.NewSymDense(n+f.Dim(), nil)
	l := f.W.Laplacian()
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, 2*l.At(i, j))
		}
	}
	for p, block := range f.S3 {
		if block == nil {
			continue
		}
		for c := range block.SymmetricDim() {
			for i, r := range f.Rows[p] {
				s.SetSym(r, n+f.Start[p]+c, f.S2[p].At(i, c))
			}
			for e := c; e < block.SymmetricDim(); e++ {
				s.SetSym(n+f.Start[p]+c, n+f.Start[p]+e, block.At(c, e))
			}
		}
	}
	for _, l := range f.Links {
		r, c := l.S3.Dims()
		for i := range r {
			for j := range c {
				s.SetSym(n+f.Start[l.P]+i, n+f.Start[l.Q]+j, l.S3.At(i, j))
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
			form := tangent.New(context.Background(), x, w, tan, gamma)
			s := whole(form)
			rng := rand.New(rand.NewPCG(3, 4))
			for range 5 {
				z := make([]float64, s.SymmetricDim())
				for i := range z {
					z[i] = rng.NormFloat64()
				}
				fv := mat.NewVecDense(len(z), z)
				v := func(p int) *mat.VecDense { // T_p v_p
					out := mat.NewVecDense(4, nil)
					for c := range tan.Spaces[p].Dim() {
						out.AddScaledVec(out, z[16+form.Start[p]+c], tan.Spaces[p].Basis.ColView(c))
					}
					return out
				}
				want := 0.0
				for i := range 16 {
					for j := range 16 {
						p, q := tan.Patch[i], tan.Patch[j]
						var step mat.VecDense
						step.SubVec(x.RowView(i), x.RowView(j))
						want += w.At(i, j) * math.Pow(z[i]-z[j]-mat.Dot(v(q), &step), 2)
						for c := range tan.Spaces[p].Dim() {
							r := z[16+form.Start[p]+c] - mat.Dot(tan.Spaces[p].Basis.ColView(c), v(q))
							want += gamma * w.At(i, j) * r * r
						}
					}
				}
				if got := mat.Inner(fv, s, fv); !(math.Abs(got-want) <= 1e-9*want) {
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
			form := tangent.New(context.Background(), x, w, tan, gamma)
			parts := form.Factor(context.Background(), 0)
			m := form.Eliminate(parts)
			f := mat.NewDense(16, 2, nil)
			for i := range 16 {
				f.SetRow(i, []float64{math.Sin(float64(i)), x.At(i, 0)})
			}
			mf := quadratic(m, f)
			s, v := whole(form), form.Vectors(parts, f)
			for c := range 2 {
				z := mat.NewVecDense(s.SymmetricDim(), nil)
				for i := range 16 {
					z.SetVec(i, f.At(i, c))
				}
				for p := range v {
					for k := range tan.Spaces[p].Dim() {
						z.SetVec(16+form.Start[p]+k, v[p].At(k, c))
					}
				}
				at := mat.Inner(z, s, z)
				if !(math.Abs(at-mf.At(c, c)) <= 1e-6*mf.At(c, c)) {
					t.Errorf("%d patches, gamma %g: %.9g eliminated, %.9g at the vectors", patches, gamma,
						mf.At(c, c), at)
				}
				rng := rand.New(rand.NewPCG(8, 8))
				for range 20 {
					other := mat.VecDenseCopyOf(z)
					for i := 16; i < z.Len(); i++ {
						other.SetVec(i, z.AtVec(i)+1e-3*rng.NormFloat64())
					}
					if got := mat.Inner(other, s, other); !(got >= at*(1-1e-9)) {
						t.Errorf("%d patches, gamma %g: other vectors reach %.9g, below %.9g", patches, gamma, got, at)
					}
				}
			}
			linear := form.EliminateLinear(t.Context(), x, parts)
			want := quadratic(m, x)
			for i := range 4 {
				for j := range 4 {
					if e := math.Abs(linear.At(i, j) - want.At(i, j)); !(e <= 1e-6*mat.Trace(linear)) {
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
	m.Apply(context.Background(), mf, f)
	var out mat.Dense
	out.Mul(f.T(), mf)
	return &out
}

// By default the gradients are made orthonormal: they span what they spanned, the first ones what the first ones did.
func TestLPFEMakesGradientsOrthonormal(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	unit := matrixOf(fit(t, data, Config{Method: "lpfe", Dim: 3, Params: map[string]string{"ridge": "0.1"}}))
	plain := matrixOf(fit(t, data, Config{Method: "lpfe", Dim: 3, Params: map[string]string{"ridge": "0.1",
		"metric": "plain"}}))
	var inner mat.Dense
	inner.Mul(unit.T(), unit)
	if e := notIdentity(&inner); !(e <= 1e-9) {
		t.Errorf("A'A differs from I by %.2g", e)
	}
	for d := 1; d <= 3; d++ {
		if s := sine(t, unit.Slice(0, data.M, 0, d).(*mat.Dense), plain.Slice(0, data.M, 0, d).(*mat.Dense)); !(s <= 1e-9) {
			t.Errorf("the first %d columns span another space, sine %.2g", d, s)
		}
	}
}

// The normal equations of the linear functions hold, with fields that are
// eigenvectors of R.
func TestLPFESolvesItsNormalEquations(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	m := fit(t, data, Config{Method: "lpfe", Params: map[string]string{"ridge": "0.1", "metric": "plain"}})
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
	fields, err := pencil.Solve(t.Context(), r, pencil.Identity(2*p.n), pencil.Min, 2)
	if err != nil {
		t.Fatal(err)
	}
	l, err := graph.LaplacianForm(t.Context(), p.x, w)
	if err != nil {
		t.Fatal(err)
	}
	l.ScaleSym(2, l)
	left := ridged(l, m.Report().Ridge.Absolute)
	for c := range 2 {
		if e := math.Abs(m.Eigenvalues()[c] - fields.Values[c]); !(e <= 1e-9) {
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
		if e := mat.Norm(&got, 2) / mat.Norm(gradient, 2); !(e <= 1e-7) {
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
	q := pencil.Orthonormal(t.Context(), a, 0)
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
		metric, null, err := tangent.PseudoInverse(context.Background(), linalg.Symmetric(&s))
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
		part := tangent.Part{Metric: metric, Null: null}
		got := part.Solve(linalg.Identity(n))
		var diff mat.Dense
		diff.Sub(got, &want)
		if e := mat.Norm(&diff, 2) / mat.Norm(&want, 2); !(e <= 1e-7) {
			t.Errorf("%d zero eigenvalues: off by %g", zeros, e)
		}
		half := part.Half(linalg.Identity(n))
		var square mat.Dense
		square.Mul(half.T(), half)
		diff.Sub(&square, &want)
		if e := mat.Norm(&diff, 2) / mat.Norm(&want, 2); !(e <= 1e-7) {
			t.Errorf("%d zero eigenvalues: square of the half off by %g", zeros, e)
		}
	}
}

// TestPseudoInverseCut: an eigenvalue counts as zero up to a share of 1e-10 of the largest.
func TestPseudoInverseCut(t *testing.T) {
	for _, share := range []float64{2e-10, 5e-11} {
		s := mat.NewSymDense(3, []float64{7, 0, 0, 0, 7 * share, 0, 0, 0, 1})
		_, null, err := tangent.PseudoInverse(t.Context(), s)
		if err != nil || (null != nil) != (share < 1e-10) {
			t.Errorf("a share of %g: the null space is %v, %v", share, null, err)
		}
	}
}
