package method_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/modeltest"
)

// marginFormulas are those of package margin.
func marginFormulas() map[string]formula {
	ridge := map[string]string{"ridge": "0.1"}
	return map[string]formula{
		"mfa":                  {"mfa", ridge, mfa},
		"lfda":                 {"lfda", ridge, lfda},
		"dla":                  {"dla", map[string]string{"beta": "0.3"}, dla},
		"dla with heat":        {"dla", map[string]string{"beta": "0.3", "t": "auto"}, dla},
		"lsda":                 {"lsda", map[string]string{"ridge": "0.1", "beta": "0.2"}, lsda},
		"lsda of all pairs":    {"lsda", map[string]string{"ridge": "0.1", "k": "0"}, lsda},
		"lsmpa":                {"lsmpa", map[string]string{"ridge": "0.1", "l1": "2", "l2": "0.7", "l3": "3"}, lsmpa},
		"ksmpa":                {"ksmpa", map[string]string{"ridge": "0.1", "kernel": "gauss"}, ksmpa},
		"ksmpa, linear":        {"ksmpa", map[string]string{"ridge": "0.1", "kernel": "linear", "l2": "0.7"}, ksmpa},
		"ksmpa, polynomial":    {"ksmpa", map[string]string{"ridge": "0.3", "kernel": "polynomial", "k": "3"}, ksmpa},
		"ksmpa, cosine":        {"ksmpa", map[string]string{"ridge": "0.1", "kernel": "cosine", "l1": "2"}, ksmpa},
		"dawge":                {"dawge", ridge, dawge},
		"dawge of squares":     {"dawge", map[string]string{"ridge": "0.1", "f": "square", "normalize": "none"}, dawge},
		"mfa by class":         {"mfa", map[string]string{"ridge": "0.1", "penalty": "class-pairs"}, mfa},
		"mfa by the shortest":  {"mfa", map[string]string{"ridge": "0.1", "penalty": "global-pairs"}, mfa},
		"mfa with other sizes": {"mfa", map[string]string{"ridge": "1", "k1": "2", "k2": "3"}, mfa},
	}
}

func sameClass(p *modeltest.Problem) func(i, j int) bool {
	return func(i, j int) bool { return p.Y[i] == p.Y[j] }
}

func otherClass(p *modeltest.Problem) func(i, j int) bool {
	return func(i, j int) bool { return p.Y[i] != p.Y[j] }
}

// mfa has edges to the k1 nearest of the class, and between classes as penalty says.
func mfa(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	k2 := p.Int(t, "k2")
	own := joined(p.X, p.Int(t, "k1"), sameClass(p)).union()
	other := joined(p.X, k2, otherClass(p)).union()
	n := len(p.Y)
	type pair struct{ i, j int }
	// Of equally long pairs those of the first row come first.
	shortest := func(of func(i, j int) bool) (all []pair) {
		for i := range n {
			for j := range n {
				if p.Y[i] != p.Y[j] && of(i, j) {
					all = append(all, pair{i, j})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b pair) int {
			switch d, e := distance2(p.X, a.i, a.j), distance2(p.X, b.i, b.j); {
			case d < e:
				return -1
			case d > e:
				return 1
			}
			return 0
		})
		return all[:min(k2, len(all))]
	}
	join := func(g pairGraph, pairs []pair) {
		for _, e := range pairs {
			g[e.i][e.j], g[e.j][e.i] = 1, 1
		}
	}
	switch p.Params["penalty"] {
	case "class-pairs":
		other = newGraph(n)
		for c := range p.Classes {
			join(other, shortest(func(i, _ int) bool { return p.Y[i] == c }))
		}
	case "global-pairs":
		other = newGraph(n)
		join(other, shortest(func(i, j int) bool { return i < j }))
	}
	return &modeltest.Criterion{Form: modeltest.Ratio, N: other.form(p.X), D: own.form(p.X)}
}

// lfda has Sugiyama's weights of pairs: A_ij/n_c within, A_ij (1/n - 1/n_c) or 1/n between.
func lfda(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, count := len(p.Y), classCounts(p.Y, p.Classes)
	affinity := localScaling(p.X, p.Y, p.Classes, p.Int(t, "kNN"))
	within := pairWeights(n, func(i, j int) float64 {
		if p.Y[i] != p.Y[j] {
			return 0
		}
		return affinity(i, j) / count[p.Y[i]]
	})
	return &modeltest.Criterion{Form: modeltest.Ratio, N: localBetween(p, p.Int(t, "kNN")), D: within.form(p.X)}
}

// dla sums patches: of each row, its k1 nearest of the class with weight 1 and its k2 nearest of others with -beta.
func dla(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	heat := heatKernel(p.X, p.Float(t, "t"))
	own := joined(p.X, p.Int(t, "k1"), sameClass(p)).both().times(heat)
	other := joined(p.X, p.Int(t, "k2"), otherClass(p)).both().times(heat)
	return &modeltest.Criterion{Form: modeltest.Orthonormal,
		D: combine(1, own.form(p.X), -p.Float(t, "beta"), other.form(p.X))}
}

// lsda splits one graph of the k nearest rows, or of all for 0, by class; each row is its own neighbour in the class.
func lsda(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, _ := p.X.Dims()
	k := p.Int(t, "k")
	if k == 0 {
		k = n
	}
	near := joined(p.X, k, anyPair).union()
	within := near.times(func(i, j int) float64 {
		if p.Y[i] == p.Y[j] {
			return 1
		}
		return 0
	})
	for i := range within {
		within[i][i] = 1
	}
	between := near.times(func(i, j int) float64 {
		if p.Y[i] != p.Y[j] {
			return 1
		}
		return 0
	})
	w := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range n {
			w.SetSym(i, j, within[i][j])
		}
	}
	beta := p.Float(t, "beta")
	return &modeltest.Criterion{Form: modeltest.Ratio,
		N: combine(beta, between.form(p.X), 1-beta, conjugate(p.X, w)),
		D: weighted(p.X, within.degrees())}
}

// sides are the graphs of lsmpa: dissimilarities l1 g in a class and l2/g between classes, and similarities l3/g in a
// class, for geodesics g over the largest, at least 1e-3 of their median.
func sides(t testing.TB, p *modeltest.Problem) (dissimilar, similar pairGraph) {
	g := geodesics(p.X, p.Int(t, "k"))
	var positive []float64
	for i := range g {
		for j := i + 1; j < len(g); j++ {
			if g[i][j] > 0 {
				positive = append(positive, g[i][j])
			}
		}
	}
	slices.Sort(positive)
	least, largest := 1e-3*median(positive), positive[len(positive)-1]
	near := func(i, j int) float64 { return math.Max(g[i][j], least) / largest }
	l1, l2, l3 := p.Float(t, "l1"), p.Float(t, "l2"), p.Float(t, "l3")
	dissimilar = pairWeights(len(g), func(i, j int) float64 {
		if p.Y[i] == p.Y[j] {
			return l1 * near(i, j)
		}
		return l2 / near(i, j)
	})
	similar = pairWeights(len(g), func(i, j int) float64 {
		if p.Y[i] == p.Y[j] {
			return l3 / near(i, j)
		}
		return 0
	})
	return dissimilar, similar
}

func lsmpa(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	dissimilar, similar := sides(t, p)
	return &modeltest.Criterion{Form: modeltest.Ratio, N: dissimilar.form(p.X), D: similar.form(p.X)}
}

// ksmpa has the criterion of lsmpa on the rows of K^1/2, K the matrix of the kernel: the outputs of the rows are
// K^1/2 b, where b are the leading eigenvectors of (K^1/2 L_D K^1/2, K^1/2 L_S K^1/2 + rho I) and rho is relative to as
// many columns as there are rows, with the linear kernel to those of lsmpa. Columns are unique if the eigenvalues
// differ.
func ksmpa(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n := len(p.Y)
	dissimilar, similar := sides(t, p)
	root := power(t, kernelMatrix(p.X, p.Params["kernel"]), 0.5)
	numerator := conjugate(root, dissimilar.laplacian())
	denominator := conjugate(root, similar.laplacian())
	relative := n
	if p.Params["kernel"] == "linear" {
		relative = p.Columns
	}
	rho := p.Float(t, "ridge") * mat.Trace(denominator) / float64(relative)
	for i := range n {
		denominator.SetSym(i, i, denominator.At(i, i)+rho)
	}
	white := power(t, denominator, -0.5)
	values, vectors := eigen(t, conjugate(white, numerator))
	for c := range p.Dim {
		if values[n-1-c]-values[n-2-c] < 1e-3*values[n-1] {
			return nil
		}
	}
	var y mat.Dense
	y.Product(root, white, vectors)
	columns := mat.NewDense(n, p.Dim, nil)
	for c := range p.Dim {
		columns.SetCol(c, mat.Col(nil, n-1-c, &y))
	}
	return &modeltest.Criterion{Form: modeltest.Exact, Columns: columns, Tolerance: 1e-4}
}

// power is the power of a matrix without its part of no variance.
func power(t testing.TB, s *mat.SymDense, exponent float64) *mat.Dense {
	values, vectors := eigen(t, s)
	n := len(values)
	scaled := mat.DenseCopyOf(vectors)
	for c, v := range values {
		if v > 1e-13*values[n-1] {
			v = math.Pow(v, exponent)
		} else {
			v = 0
		}
		for i := range n {
			scaled.Set(i, c, v*scaled.At(i, c))
		}
	}
	var out mat.Dense
	out.Mul(scaled, vectors.T())
	return &out
}

// dawge weighs the pairs of a class by the cosine of their difference with the normal of the class's boundary: that
// of a linear support vector machine against the k nearest rows of others.
func dawge(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	form := mat.NewSymDense(m, nil)
	for c := range p.Classes {
		var own, other []int
		for i, y := range p.Y {
			if y == c {
				own = append(own, i)
			} else {
				other = append(other, i)
			}
		}
		if len(own) < 2 {
			continue
		}
		distance := func(i int) float64 {
			least := math.Inf(1)
			for _, j := range own {
				least = math.Min(least, distance2(p.X, i, j))
			}
			return least
		}
		slices.SortStableFunc(other, func(a, b int) int {
			switch d, e := distance(a), distance(b); {
			case d < e:
				return -1
			case d > e:
				return 1
			}
			return 0
		})
		other = other[:min(p.Int(t, "k"), len(other))]
		normal := margin(t, p.X, own, other, p.Float(t, "c"))
		scale := 1.0
		if p.Params["normalize"] == "class" {
			scale = 1 / float64(len(own))
		}
		g := pairWeights(n, func(i, j int) float64 {
			if p.Y[i] != c || p.Y[j] != c {
				return 0
			}
			d := mat.NewVecDense(m, nil)
			d.SubVec(p.X.RowView(j), p.X.RowView(i))
			if mat.Norm(d, 2) == 0 {
				return 0
			}
			cos := math.Abs(mat.Dot(d, normal)) / (mat.Norm(d, 2) * mat.Norm(normal, 2))
			if p.Params["f"] == "square" {
				cos *= cos
			}
			return scale * cos
		})
		form.AddSym(form, g.form(p.X))
	}
	return &modeltest.Criterion{Form: modeltest.Ratio, N: sumOfSquares(p.X), D: form, Tolerance: 1e-5}
}

// margin is the normal w of min (|w|^2 + b^2)/2 + c sum max(0, 1 - s(w.x + b))^2, by steps to the minimum of the rows
// inside the margin until these stay the same.
func margin(t testing.TB, x *mat.Dense, own, other []int, c float64) *mat.VecDense {
	_, m := x.Dims()
	rows := append(slices.Clone(own), other...)
	side := func(k int) float64 {
		if k < len(own) {
			return 1
		}
		return -1
	}
	z := mat.NewDense(len(rows), m+1, nil)
	for k, i := range rows {
		for j := range m {
			z.Set(k, j, side(k)*x.At(i, j))
		}
		z.Set(k, m, side(k))
	}
	value := func(v *mat.VecDense) float64 {
		var out mat.VecDense
		out.MulVec(z, v)
		f := mat.Dot(v, v) / 2
		for k := range rows {
			gap := math.Max(0, 1-out.AtVec(k))
			f += c * gap * gap
		}
		return f
	}
	v := mat.NewVecDense(m+1, nil)
	for range 500 {
		// (I + 2c sum z z') v = 2c sum z over the rows inside the margin.
		left, right := mat.NewDense(m+1, m+1, nil), mat.NewVecDense(m+1, nil)
		for j := range m + 1 {
			left.Set(j, j, 1)
		}
		for k := range rows {
			if mat.Dot(z.RowView(k), v) < 1 {
				var outer mat.Dense
				outer.Outer(2*c, z.RowView(k), z.RowView(k))
				left.Add(left, &outer)
				right.AddScaledVec(right, 2*c, z.RowView(k))
			}
		}
		var to, step mat.VecDense
		if err := to.SolveVec(left, right); err != nil {
			t.Fatal(err)
		}
		step.SubVec(&to, v)
		length := 1.0
		next := mat.NewVecDense(m+1, nil)
		for next.AddScaledVec(v, length, &step); value(next) > value(v) && length > 1e-12; {
			length /= 2
			next.AddScaledVec(v, length, &step)
		}
		v.CopyVec(next)
		if mat.Norm(&step, 2) <= 1e-12*mat.Norm(v, 2) {
			break
		}
	}
	return mat.VecDenseCopyOf(v.SliceVec(0, m))
}
