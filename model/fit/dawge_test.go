package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/svm"
	"github.com/embedd/embedd/model/pencil"
)

// At the optimum the gradient of the SVM's objective is zero: (w, b) = 2 c sum_i max(0, 1 - s_i f(x_i)) s_i (x_i, 1).
func TestSVMIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, apart := range []float64{0, 1, 6} { // overlapping to separable
		a, b := mat.NewDense(90, 4, nil), mat.NewDense(30, 4, nil)
		for _, x := range []*mat.Dense{a, b} {
			n, m := x.Dims()
			for i := range n {
				for j := range m {
					x.Set(i, j, rng.NormFloat64())
				}
				x.Set(i, 0, x.At(i, 0)+apart)
			}
			apart = -apart
		}
		if apart == 0 { // one group around the other
			a.Scale(0.2, a)
			b.Scale(5, b)
		}
		for _, c := range []float64{0.1, 1} {
			w, err := svm.Normal(context.Background(), a, b, c)
			if err != nil {
				t.Fatal(err)
			}
			// the optimal b, solved here by bisection on its gradient
			rest := func(bias float64) ([]float64, float64) {
				g, gb := make([]float64, 4), -bias
				floats.AddScaled(g, -1, w)
				for k, x := range []*mat.Dense{a, b} {
					s := 1 - 2*float64(k)
					n, _ := x.Dims()
					for i := range n {
						loss := max(0, 1-s*(floats.Dot(w, x.RawRowView(i))+bias))
						floats.AddScaled(g, 2*c*loss*s, x.RawRowView(i))
						gb += 2 * c * loss * s
					}
				}
				return g, gb
			}
			low, high := -100.0, 100.0
			for range 200 {
				if _, gb := rest((low + high) / 2); gb > 0 {
					low = (low + high) / 2
				} else {
					high = (low + high) / 2
				}
			}
			if g, _ := rest(low); !(floats.Norm(g, math.Inf(1)) <= 1e-9) {
				t.Errorf("groups %g apart, c=%g: gradient %v at %v", apart, c, g, w)
			}
		}
	}
}

// X L X' of dawge from the n x n graph, edge by edge.
func dawgeForm(t *testing.T, p *plain, f string, byClass bool) *mat.SymDense {
	t.Helper()
	full := mat.NewSymDense(p.m, nil)
	for c := range p.classes {
		var in []int
		for i, y := range p.y {
			if y == c {
				in = append(in, i)
			}
		}
		type candidate struct {
			row  int
			near float64
		}
		var out []candidate
		for i, y := range p.y {
			if y != c {
				o := candidate{i, math.Inf(1)}
				for _, j := range in {
					o.near = min(o.near, floats.Distance(p.x.RawRowView(i), p.x.RawRowView(j), 2))
				}
				out = append(out, o)
			}
		}
		var near []int
		for _, o := range out {
			closer := 0
			for _, q := range out {
				if q.near < o.near {
					closer++
				}
			}
			if closer < 30 {
				near = append(near, o.row)
			}
		}
		v, err := svm.Normal(context.Background(), linalg.Pick(p.x, in), linalg.Pick(p.x, near), 1)
		if err != nil {
			t.Fatal(err)
		}
		weight := 1.0
		if byClass {
			weight = 1 / float64(len(in))
		}
		for k, i := range in {
			for _, j := range in[:k] {
				var e mat.VecDense
				e.SubVec(p.x.RowView(i), p.x.RowView(j))
				if mat.Norm(&e, 2) == 0 {
					continue // it has no direction, and e e' is zero
				}
				cos := math.Abs(mat.Dot(&e, mat.NewVecDense(p.m, v))) / (floats.Norm(v, 2) * mat.Norm(&e, 2))
				if f == "square" {
					cos *= cos
				}
				full.SymRankOne(full, weight*cos, &e)
			}
		}
	}
	return full
}

func TestDAWGEMeetsItsPencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	data := uneven()
	data.X = append(data.X, data.X[:10*5]...) // ten rows twice: edges without a direction
	data.Y = append(data.Y, data.Y[:10]...)
	data.N += 10
	p := plainly(data)
	moment := mat.NewSymDense(p.m, nil)
	moment.ScaleSym(float64(p.n), p.total)
	for _, f := range []string{"abs", "square"} {
		for _, normalize := range []string{"class", "none"} {
			params := map[string]string{"f": f, "normalize": normalize, "ridge": "0.1"}
			graph := dawgeForm(t, p, f, normalize == "class")
			m := fit(t, data, Config{Method: "dawge", Dim: 3, Params: params})
			d := ridged(graph, 0.1*mat.Trace(graph)/float64(p.m))
			if e := notIdentity(form(d, matrixOf(m))); !(e <= 1e-8) {
				t.Errorf("%v: A'(X L X' + rho I)A differs from I by %g", params, e)
			}
			if e := equation(moment, d, matrixOf(m), m.Eigenvalues()); !(e <= 1e-8) {
				t.Errorf("%v: residual %g", params, e)
			}
			trace := mat.Trace(form(moment, matrixOf(m)))
			if other := better(rng, moment, d, 3); !(other <= trace*(1+1e-9)) {
				t.Errorf("%v: random trace %g, dawge %g", params, other, trace)
			}
			params["ridge"] = "0"
			literal := fit(t, data, Config{Method: "dawge", Dim: 3, Params: params})
			if e := equation(graph, moment, matrixOf(literal), literal.Eigenvalues()); !(e <= 1e-8) {
				t.Errorf("%v: residual %g", params, e)
			}
			delete(params, "ridge")
			params["constraint"] = "orthonormal"
			paper := fit(t, data, Config{Method: "dawge", Dim: 3, Params: params})
			unit := ridged(mat.NewSymDense(p.m, nil), 1)
			if e := notIdentity(form(unit, matrixOf(paper))); !(e <= 1e-9) {
				t.Errorf("%v: A'A differs from I by %g", params, e)
			}
			if e := equation(graph, unit, matrixOf(paper), paper.Eigenvalues()); !(e <= 1e-8) {
				t.Errorf("%v: residual %g", params, e)
			}
			if paper.Report().Ridge != nil {
				t.Errorf("%v: reports a ridge", params)
			}
		}
	}
}

// Rows that coincide across classes have no boundary: the fit is still defined.
func TestDAWGEWithoutABoundary(t *testing.T) {
	data := synthetic(41, 40, 3, 2)
	for i := range data.N {
		if data.Y[i] == 1 {
			copy(data.X[i*3:i*3+3], data.X[(i-1)*3:i*3])
		}
	}
	m := fit(t, data, Config{Method: "dawge", Dim: 3})
	a := mat.DenseCopyOf(matrixOf(m))
	pencil.FixSigns(a)
	if e := apart(a, matrixOf(m)); !(e <= 0) {
		t.Errorf("signs are not fixed")
	}
	for _, v := range m.Components() {
		if !linalg.IsFinite(v) {
			t.Fatal("a component is not finite")
		}
	}
}
