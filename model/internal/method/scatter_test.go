package method_test

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/modeltest"
)

// TestSLEOfEveryDimension: sle has every number of outputs up to a largest one, which the error beyond it names, also
// where no directions are tied.
func TestSLEOfEveryDimension(t *testing.T) {
	for _, origin := range []string{"mean", "none", "augment"} {
		for m := 2; m <= 4; m++ {
			d := fixture.Synthetic(3, 40, m, m)
			for dim := 1; ; dim++ {
				got, err := fit.Fit(t.Context(), d, fit.Config{Method: "sle", Dim: dim, Scale: model.ScaleMinMax,
					Params: map[string]string{"origin": origin}})
				if bound := (*model.DimError)(nil); dim > 1 && errors.As(err, &bound) && bound.Max == dim-1 {
					break
				}
				if err != nil || got.Dim() != dim {
					t.Fatalf("origin %s, %d of %d features: %v", origin, dim, m, err)
				}
			}
		}
	}
}

// TestSLEOfTwoClassesHasNoConstantOutput: with a constant feature in front, sle of two classes has the outputs that it
// has about the mean, apart from their size; no output is that of the constant feature.
func TestSLEOfTwoClassesHasNoConstantOutput(t *testing.T) {
	equal, uneven, same := fixture.Synthetic(3, 40, 4, 2), fixture.Synthetic(4, 40, 4, 2), fixture.Synthetic(5, 39, 4, 2)
	for i := range 5 {
		uneven.Y[2*i] = 1
	}
	for i := range same.N {
		if same.Y[i] = 1; i%3 == 0 { // means of both classes are those of some three rows
			same.Y[i] = 0
		}
		for j := range same.M {
			same.X[i*same.M+j] = float64((i/3*(j+3))%7 + i/3)
		}
	}
	for name, d := range map[string]*model.Data{"equal": equal, "uneven": uneven, "the same means": same} {
		var at [2]*mat.Dense
		for i, origin := range []string{"mean", "augment"} {
			m, err := fit.Fit(t.Context(), d, fit.Config{Method: "sle", Dim: 4, Scale: model.ScaleMinMax,
				Params: map[string]string{"origin": origin}})
			if err != nil {
				t.Fatalf("%s, %s: %v", name, origin, err)
			}
			if at[i] = mat.NewDense(d.M, 4, m.Components()); !(m.Report().Residual <= 1e-8) {
				t.Errorf("%s, %s: residual %g", name, origin, m.Report().Residual)
			}
		}
		for c := range 4 {
			a, b := at[0].ColView(c), at[1].ColView(c)
			if cosine := mat.Dot(a, b) / (mat.Norm(a, 2) * mat.Norm(b, 2)); !(cosine >= 1-1e-9) {
				t.Errorf("%s: output %d has the cosine %g with that about the mean", name, c, cosine)
			}
		}
	}
}

// scatterFormulas are those of package scatter.
func scatterFormulas() map[string]formula {
	ridge := map[string]string{"ridge": "0.1"}
	return map[string]formula{
		"pca":     {"pca", nil, pca},
		"lda":     {"lda", ridge, lda},
		"srda":    {"srda", ridge, srda},
		"sle":     {"sle", nil, sle},
		"pairacc": {"pairacc", ridge, pairacc},
		"sle-ovr": {"sle-ovr", nil, nil}, // a map for each class; see TestViewsMeetTheirPencils
	}
}

// pca maximises the variance of orthonormal columns.
func pca(_ testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	total, _, _ := scatters(p.X, p.Y, p.Classes)
	total.ScaleSym(-1, total)
	return &modeltest.Criterion{Form: modeltest.Orthonormal, D: total}
}

// lda maximises S_b against S_w.
func lda(_ testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	_, within, between := scatters(p.X, p.Y, p.Classes)
	return &modeltest.Criterion{Form: modeltest.Ratio, N: between, D: within}
}

// srda regresses responses of unit variance, a basis of the class indicators that are orthogonal to the constant, on
// the rows, and turns the columns to the principal axes of their outputs.
func srda(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	indicators := mat.NewDense(n, p.Classes, nil)
	for i, c := range p.Y {
		indicators.Set(i, 0, 1)
		if c > 0 {
			indicators.Set(i, c, 1)
		}
	}
	var qr mat.QR
	qr.Factorize(indicators)
	var q mat.Dense
	qr.QTo(&q)
	responses := mat.DenseCopyOf(q.Slice(0, n, 1, p.Classes))
	responses.Scale(math.Sqrt(float64(n)), responses)
	total, _, _ := scatters(p.X, p.Y, p.Classes)
	rho := p.Float(t, "ridge") * mat.Trace(total) / float64(p.Columns)
	inverse := mat.NewSymDense(m, nil)
	inverse.CopySym(total)
	for j := range m {
		inverse.SetSym(j, j, total.At(j, j)+rho)
	}
	var right, a, half, spread mat.Dense
	right.Mul(p.X.T(), responses)
	right.Scale(1/float64(n), &right)
	if err := a.Solve(inverse, &right); err != nil {
		t.Fatal(err)
	}
	half.Mul(total, &a)
	spread.Mul(a.T(), &half)
	var e mat.EigenSym
	if !e.Factorize(conjugate(&a, total), true) {
		t.Fatal("no eigenvalues")
	}
	var axes mat.Dense
	e.VectorsTo(&axes)
	columns := mat.NewDense(m, p.Dim, nil)
	for c := range p.Dim {
		var column mat.VecDense
		column.MulVec(&a, axes.ColView(p.Classes-2-c))
		columns.SetCol(c, column.RawVector().Data)
	}
	return &modeltest.Criterion{Form: modeltest.Exact, Columns: columns, Tolerance: 1e-5}
}

// sle minimises X L X' against X X', L = n I - W, where W is 1 for pairs of a class, a row and itself included, and
// -1 for others.
func sle(_ testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	w := mat.NewSymDense(n, nil)
	for i, a := range p.Y {
		for j, b := range p.Y {
			if w.SetSym(i, j, -1); a == b {
				w.SetSym(i, j, 1)
			}
		}
	}
	products := sumOfSquares(p.X)
	numerator := mat.NewSymDense(m, nil)
	numerator.AddSym(conjugate(p.X, w), combine(-float64(n), products, 0, products))
	return &modeltest.Criterion{Form: modeltest.Ratio, N: numerator, D: products}
}

// pairacc maximises sum_{i<j} p_i p_j erf(|A'(m_i - m_j)|/(2 sqrt 2)) over whitened directions.
func pairacc(_ testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	_, within, _ := scatters(p.X, p.Y, p.Classes)
	means, count := classMeans(p.X, p.Y, p.Classes), classCounts(p.Y, p.Classes)
	n := float64(len(p.Y))
	objective := func(a *mat.Dense) float64 {
		var y mat.Dense
		y.Mul(means, a)
		sum := 0.0
		for i := range p.Classes {
			for j := i + 1; j < p.Classes; j++ {
				distance := math.Sqrt(distance2(&y, i, j))
				sum += count[i] / n * count[j] / n * math.Erf(distance/(2*math.Sqrt2))
			}
		}
		return sum
	}
	// The search is in the space of S_b + S_w/1000, which is that of the class means up to some 1e-5 of the objective.
	return &modeltest.Criterion{Form: modeltest.Search, D: within, Tolerance: 1e-4, Objective: objective}
}

// TestViewsMeetTheirPencils: the map of each class of sle-ovr maximises M against P + rho I, with rows z = (x, 1) and
// P = sum of w_ij (z_i - z_j)(z_i - z_j)' where weights are positive, w_ij (z_i + z_j)(z_i + z_j)' where negative.
func TestViewsMeetTheirPencils(t *testing.T) {
	inside := map[string]func(own, rest float64) (alpha, beta float64){
		"group":    func(own, rest float64) (alpha, beta float64) { return 1 / own, 1 / rest },
		"target":   func(own, _ float64) (alpha, beta float64) { return 1 / own, 1 / own },
		"positive": func(own, _ float64) (alpha, beta float64) { return 1 / own, 1 },
		"none":     func(_, _ float64) (alpha, beta float64) { return 1, 1 },
	}
	d := fixture.Dataset(t, "wine")
	for weights, of := range inside {
		for _, origin := range []string{"augment", "mean"} {
			m, err := fit.Fit(t.Context(), d, fit.Config{Method: "sle-ovr", Dim: 2,
				Params: map[string]string{"weights": weights, "origin": origin, "ridge": "0.01"}})
			if err != nil {
				t.Fatal(err)
			}
			mean, scale, size := m.Mean(), m.Scale(), d.M
			if origin == "augment" {
				size++
			}
			z := mat.NewDense(d.N, size, nil)
			for i := range d.N {
				for j := range d.M {
					z.Set(i, j, (d.X[i*d.M+j]-mean[j])/scale[j])
				}
				if size > d.M {
					z.Set(i, d.M, 1)
				}
			}
			views, count := m.Content().Map.(*mapping.Views), classCounts(d.Y, len(d.Classes))
			for c := range d.Classes {
				alpha, beta := of(count[c], float64(d.N)-count[c])
				p := mat.NewSymDense(size, nil)
				for i, a := range d.Y {
					for j := i + 1; j < d.N; j++ {
						pair := mat.NewVecDense(size, nil)
						switch b := d.Y[j]; {
						case a == c && b == c:
							pair.SubVec(z.RowView(i), z.RowView(j))
							p.SymRankOne(p, alpha, pair)
						case a != c && b != c:
							pair.SubVec(z.RowView(i), z.RowView(j))
							p.SymRankOne(p, beta, pair)
						default:
							pair.AddVec(z.RowView(i), z.RowView(j))
							p.SymRankOne(p, 1, pair)
						}
					}
				}
				rho := 0.01 * mat.Trace(p) / float64(size)
				for j := range size {
					p.SetSym(j, j, p.At(j, j)+rho)
				}
				a := mat.NewDense(size, 2, nil)
				for j := range d.M {
					for k := range 2 {
						a.Set(j, k, views.Components[(c*d.M+j)*2+k])
					}
				}
				if size > d.M {
					a.SetRow(d.M, views.Offset[c*2:c*2+2])
				}
				modeltest.CheckRatio(t, sumOfSquares(z), p, a)
			}
		}
	}
}
