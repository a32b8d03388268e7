package method_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/modeltest"
)

// manifoldFormulas are those of package manifold.
func manifoldFormulas() map[string]formula {
	few := map[string]string{"rows": "60", "iters": "30", "tol": "0"}
	paper := map[string]string{"rows": "60", "iters": "40", "tol": "0", "alpha": "1", "beta": "1", "sigma": "0.02",
		"start": "sum"}
	parts := map[string]string{"patch_k": "4", "patch_size": "20"}
	return map[string]formula{
		"le":              {"le", nil, le},
		"le of heat":      {"le", map[string]string{"t": "auto", "k": "6"}, le},
		"lle":             {"lle", nil, lle},
		"lle of few":      {"lle", map[string]string{"k": "6", "reg": "0.01"}, lle},
		"isomap":          {"isomap", nil, isomap},
		"tsimr":           {"tsimr", nil, tsimr},
		"tsimr, parallel": {"tsimr", map[string]string{"gamma": "0.5", "t": "auto"}, tsimr},
		"mp-tsimr":        {"mp-tsimr", parts, tsimr},
		"mp-tsimr, parallel": {"mp-tsimr", map[string]string{"patch_k": "5", "patch_size": "16", "gamma": "0.5",
			"t": "auto"}, tsimr},
		"ltsimr":               {"ltsimr", map[string]string{"gamma": "0.5", "ridge": "0.1"}, ltsimr},
		"ltsimr, not parallel": {"ltsimr", map[string]string{"gamma": "0", "ridge": "0.1"}, ltsimr},
		"mp-ltsimr": {"mp-ltsimr", map[string]string{"patch_k": "4", "patch_size": "20", "gamma": "0.5",
			"ridge": "0.1"}, ltsimr},
		"lpfe":                 {"lpfe", nil, lpfe},
		"lenews":               {"lenews", few, lenews},
		"lenews of the paper":  {"lenews", paper, lenews},
		"lenewks":              {"lenewks", few, lenews},
		"lppnews":              {"lppnews", few, lppnews},
		"lppnews of the paper": {"lppnews", paper, lppnews},
	}
}

// TestEigenvaluesNearOne: new rows can only have the outputs before the first eigenvalue near 1. A fit with more
// outputs is a *model.DimError with that number, and a fit with that number succeeds.
func TestEigenvaluesNearOne(t *testing.T) {
	few := 0
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d := &model.Data{N: 60, M: 6}
		for range d.N * d.M {
			d.X = append(d.X, rng.NormFloat64())
		}
		c := fit.Config{Method: "le", Dim: 59}
		_, err := fit.Fit(t.Context(), d, c)
		var bound *model.DimError
		if !errors.As(err, &bound) {
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		few++
		if c.Dim = bound.Max; !strings.Contains(err.Error(), "which other rows cannot be mapped with") {
			t.Errorf("seed %d: %v", seed, err)
		}
		if _, err := fit.Fit(t.Context(), d, c); err != nil {
			t.Errorf("seed %d, %d outputs: %v", seed, c.Dim, err)
		}
	}
	if few == 0 {
		t.Error("no rows have such an eigenvalue")
	}
}

// neighbours is the graph of the k nearest rows with heat weights, connected by the shortest edges.
func neighbours(t testing.TB, p *modeltest.Problem) pairGraph {
	heat := heatKernel(p.X, p.Float(t, "t"))
	return joined(p.X, p.Int(t, "k"), anyPair).union().times(heat).connect(p.X, heat)
}

// le minimises Y'LY with Y'DY = I.
func le(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	g := neighbours(t, p)
	return &modeltest.Criterion{Form: modeltest.Embedding, N: diagonal(g.degrees()), D: g.laplacian()}
}

// lle minimises the error of the reconstructions with Y'Y = nI.
func lle(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, _ := p.X.Dims()
	k := p.Int(t, "k")
	if !joined(p.X, k, anyPair).union().isConnected() {
		return nil // the edges between components enter the reconstructions
	}
	w := reconstructions(t, p.X, k, p.Float(t, "reg"))
	form, size := mat.NewSymDense(n, nil), make([]float64, n)
	for i := range n {
		size[i] = 1 / float64(n)
		off := mat.NewVecDense(n, nil)
		off.SetVec(i, 1)
		for j, v := range w[i] {
			off.SetVec(j, off.AtVec(j)-v)
		}
		form.SymRankOne(form, 1, off)
	}
	return &modeltest.Criterion{Form: modeltest.Embedding, N: diagonal(size), D: form}
}

// isomap scales the leading eigenvectors of -HGH/2, G the squared geodesics, by the roots of their eigenvalues.
func isomap(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	g := geodesics(p.X, p.Int(t, "k"))
	n := len(g)
	rows, all := make([]float64, n), 0.0
	for i := range n {
		for j := range n {
			rows[i] += g[i][j] * g[i][j] / float64(n)
			all += g[i][j] * g[i][j] / float64(n*n)
		}
	}
	b := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			b.SetSym(i, j, -(g[i][j]*g[i][j]-rows[i]-rows[j]+all)/2)
		}
	}
	values, vectors := eigen(t, b)
	y := mat.NewDense(n, p.Dim, nil)
	for c := range p.Dim {
		if values[n-1-c]-values[n-2-c] < 1e-3*values[n-1-c] {
			return nil
		}
		for i := range n {
			y.Set(i, c, vectors.At(i, n-1-c)*math.Sqrt(values[n-1-c]))
		}
	}
	return &modeltest.Criterion{Form: modeltest.Exact, Columns: y, Tolerance: 1e-4}
}

// unexplained is what tangent vectors in spaces of dim dimensions do not explain, and the spaces; nil if they are not
// unique.
func unexplained(t testing.TB, p *modeltest.Problem, dim int) *mat.SymDense {
	n, _ := p.X.Dims()
	space, of := tangents(t, p, dim)
	if space == nil {
		return nil
	}
	q := tangentForm(p.X, neighbours(t, p), space, of, p.Float(t, "gamma"))
	return eliminate(t, q, n, 0)
}

// tangents are the tangent spaces of each patch, and the patch of each row: its k nearest and itself, or one of the
// patches that the rows are divided into. They are nil if one is not unique, or the division.
func tangents(t testing.TB, p *modeltest.Problem, dim int) (space []*mat.Dense, of []int) {
	n, _ := p.X.Dims()
	var patches [][]int
	if _, divided := p.Params["patch_k"]; divided {
		patches, of = divide(p.X, p.Int(t, "patch_k"), p.Int(t, "patch_size"))
		if patches == nil {
			return nil, nil
		}
	} else {
		for i := range n {
			near := nearest(p.X, i, p.Int(t, "k"), func(int) bool { return true })
			patches, of = append(patches, append([]int{i}, near...)), append(of, i)
		}
	}
	for _, rows := range patches {
		s, unique := tangent(t, p.X, rows, dim)
		if !unique {
			return nil, nil
		}
		space = append(space, s)
	}
	return space, of
}

// tsimr minimises what is unexplained with f'f = 1 and f orthogonal to the constant, up to a constant.
func tsimr(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, _ := p.X.Dims()
	form := unexplained(t, p, p.Dim)
	if form == nil {
		return nil
	}
	one := make([]float64, n)
	for i := range one {
		one[i] = 1
	}
	return &modeltest.Criterion{Form: modeltest.Embedding, N: diagonal(one), D: form, Shifted: true}
}

// ltsimr maximises the variance against what is unexplained of f = X a.
func ltsimr(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	form := unexplained(t, p, min(p.Dim, p.Columns-1))
	if form == nil {
		return nil
	}
	return &modeltest.Criterion{Form: modeltest.Ratio, N: sumOfSquares(p.X),
		D: conjugate(p.X, form), Tolerance: 1e-5}
}

// learned are the weights W after the given number of steps of the paper's algorithms, which lower
// |X - XW|^2 + alpha |W - S|^2 + beta sum W: algorithm 2 if no product of rows is negative, else algorithm 1. Weights
// below 1e-6 of the largest are removed, and edges are added until the graph is connected.
func learned(t testing.TB, p *modeltest.Problem) pairGraph {
	n, _ := p.X.Dims()
	alpha, beta := p.Float(t, "alpha"), p.Float(t, "beta")
	product := kernelMatrix(p.X, p.Params["kernel"])
	positive, negative := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	positive.Apply(func(_, _ int, v float64) float64 { return math.Max(v, 0) }, product)
	negative.Apply(func(_, _ int, v float64) float64 { return math.Max(-v, 0) }, product)
	least, start, isSigned := math.Inf(1), 1.0, false
	for i := range n {
		largest := 0.0
		for j := range n {
			largest = math.Max(largest, distance2(p.X, i, j))
			isSigned = isSigned || product.At(i, j) < 0
		}
		least = math.Min(least, largest)
	}
	heat := heatKernel(p.X, p.Float(t, "sigma")*least)
	if p.Params["start"] == "sum" {
		start = 1 / float64(n-1)
	}
	w := pairWeights(n, func(int, int) float64 { return start })
	for range p.Int(t, "iters") {
		// plus and minus are W times the positive and the negative parts of the products.
		now := mat.NewDense(n, n, nil)
		for i, row := range w {
			now.SetRow(i, row)
		}
		var plus, minus mat.Dense
		plus.Mul(now, positive)
		minus.Mul(now, negative)
		w = pairWeights(n, func(i, j int) float64 {
			above := 2 * (positive.At(i, j) + alpha*heat(i, j))
			below := plus.At(i, j) + plus.At(j, i) + 2*alpha*w[i][j] + beta
			if !isSigned {
				return w[i][j] * above / below
			}
			above += minus.At(i, j) + minus.At(j, i)
			below += 2 * negative.At(i, j)
			return w[i][j] * math.Sqrt(above/below)
		})
	}
	largest := 0.0
	for i := range n {
		largest = math.Max(largest, slices.Max(w[i]))
	}
	kept := pairWeights(n, func(i, j int) float64 {
		if w[i][j] < 1e-6*largest {
			return 0
		}
		return w[i][j]
	})
	return kept.connect(p.X, func(i, j int) float64 { return w[i][j] })
}

// lenews minimises Y'LY with Y'DY = I for the learned weights.
func lenews(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	g := learned(t, p)
	return &modeltest.Criterion{Form: modeltest.Embedding, N: diagonal(g.degrees()), D: g.laplacian()}
}

// lppnews is its linear form.
func lppnews(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	g := learned(t, p)
	return &modeltest.Criterion{Form: modeltest.Ratio, N: weighted(p.X, g.degrees()), D: g.form(p.X)}
}

// lpfe follows the most parallel fields of unit vectors: a = (2 X L X' + rho I)^-1 X r, made orthonormal.
func lpfe(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	w := joined(p.X, p.Int(t, "k"), anyPair).union().connect(p.X,
		func(int, int) float64 { return 1 })
	space, of := tangents(t, p, p.Dim)
	if space == nil {
		return nil
	}
	start := []int{0}
	for _, s := range space {
		_, k := s.Dims()
		start = append(start, start[len(start)-1]+k)
	}
	parallel := tangentForm(mat.NewDense(n, m, nil), w, space, of, 1) // without positions only v counts
	v3 := mat.NewSymDense(start[n], nil)
	v3.CopySym(parallel.SliceSym(n, n+start[n]))
	values, vectors := eigen(t, v3)
	d := w.form(p.X)
	d.ScaleSym(2, d)
	rho := p.Float(t, "ridge") * mat.Trace(d) / float64(p.Columns)
	for j := range m {
		d.SetSym(j, j, d.At(j, j)+rho)
	}
	columns := mat.NewDense(m, p.Dim, nil)
	for c := range p.Dim {
		if values[c+1]-values[c] < 1e-6*values[len(values)-1] {
			return nil
		}
		u := mat.NewDense(n, m, nil)
		for i, s := range space {
			local := mat.NewVecDense(start[i+1]-start[i], nil)
			for k := range start[i+1] - start[i] {
				local.SetVec(k, vectors.At(start[i]+k, c))
			}
			local.ScaleVec(1/mat.Norm(local, 2), local)
			var along mat.VecDense
			along.MulVec(s, local)
			u.SetRow(i, along.RawVector().Data)
		}
		right := mat.NewVecDense(m, nil)
		for a := range n {
			r := 0.0
			for j := range n {
				for k := range m {
					r += w[a][j] * (p.X.At(a, k) - p.X.At(j, k)) * (u.At(j, k) + u.At(a, k))
				}
			}
			right.AddScaledVec(right, r, p.X.RowView(a))
		}
		var column mat.VecDense
		if err := column.SolveVec(d, right); err != nil {
			t.Fatal(err)
		}
		for before := range c {
			along := mat.Dot(columns.ColView(before), &column)
			column.AddScaledVec(&column, -along, columns.ColView(before))
		}
		column.ScaleVec(1/mat.Norm(&column, 2), &column)
		columns.SetCol(c, column.RawVector().Data)
	}
	return &modeltest.Criterion{Form: modeltest.Exact, Columns: columns, Tolerance: 1e-4}
}
