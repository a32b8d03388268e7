package method_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/modeltest"
)

// localityFormulas are those of package locality.
func localityFormulas() map[string]formula {
	ridge := map[string]string{"ridge": "0.1"}
	return map[string]formula{
		"lpp":                  {"lpp", ridge, lpp},
		"lpp of equal weights": {"lpp", map[string]string{"ridge": "0.1", "t": "inf", "k": "3"}, lpp},
		"npe":                  {"npe", ridge, npe},
		"npe, regular":         {"npe", map[string]string{"ridge": "0.1", "reg": "0.1", "k": "8"}, npe},
		"lltsa":                {"lltsa", ridge, lltsa},
		"lltsa of small parts": {"lltsa", map[string]string{"ridge": "0.1", "k": "6"}, lltsa},
		"lltsa of three rows":  {"lltsa", map[string]string{"ridge": "0.1", "k": "3"}, lltsa},
	}
}

// TestPatchSize: patches of lltsa have k rows, at most all of them. By default there are two more than outputs, at
// least 12, and fewer than all.
func TestPatchSize(t *testing.T) {
	for name, c := range map[string]struct {
		rows, dim int
		given     string
		want      string
	}{
		"default":         {40, 2, "auto", "12"},
		"ten outputs":     {40, 10, "auto", "12"},
		"eleven outputs":  {40, 11, "auto", "13"},
		"few rows":        {10, 2, "auto", "9"},
		"given":           {40, 2, "7", "7"},
		"given, few rows": {10, 2, "11", "10"},
	} {
		d := fixture.Synthetic(49, c.rows, 14, 2)
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: "lltsa", Dim: c.dim, Params: map[string]string{"k": c.given}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := m.Params()["k"]; got != c.want {
			t.Errorf("%s: patches have %s rows, want %s", name, got, c.want)
		}
	}
}

// lpp has heat weights of the k nearest rows; t is by default their mean squared distance to the nearest.
func lpp(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	g := joined(p.X, p.Int(t, "k"), anyPair).union().times(heatKernel(p.X, p.Float(t, "t")))
	return &modeltest.Criterion{Form: modeltest.Ratio, N: weighted(p.X, g.degrees()), D: g.form(p.X)}
}

// npe has the error of each row's reconstruction from its k nearest, with weights of sum 1.
func npe(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	_, m := p.X.Dims()
	w := reconstructions(t, p.X, p.Int(t, "k"), p.Float(t, "reg"))
	errors := mat.NewSymDense(m, nil)
	for i := range w {
		off := mat.NewVecDense(m, nil)
		off.CopyVec(p.X.RowView(i))
		for j, v := range w[i] {
			off.AddScaledVec(off, -v, p.X.RowView(j))
		}
		errors.SymRankOne(errors, 1, off)
	}
	return &modeltest.Criterion{Form: modeltest.Ratio, N: sumOfSquares(p.X), D: errors}
}

// lltsa has what no affine map of the tangent coordinates of a patch of k rows explains, min(d, k-2, m-1)
// coordinates.
func lltsa(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	n, m := p.X.Dims()
	k := p.Int(t, "k")
	b := mat.NewSymDense(n, nil)
	for i := range n {
		rows := append([]int{i}, nearest(p.X, i, k-1, func(int) bool { return true })...)
		space, unique := tangent(t, p.X, rows, min(p.Dim, k-2, p.Columns-1))
		if !unique {
			return nil
		}
		// Orthonormal coordinates of the patch: the constant, and those along the tangent space.
		coordinates := [][]float64{make([]float64, len(rows))}
		for r := range rows {
			coordinates[0][r] = 1
		}
		mean := mat.NewVecDense(m, nil)
		for _, r := range rows {
			mean.AddScaledVec(mean, 1/float64(len(rows)), p.X.RowView(r))
		}
		_, q := space.Dims()
		for c := range q {
			along := make([]float64, len(rows))
			for a, r := range rows {
				var away mat.VecDense
				away.SubVec(p.X.RowView(r), mean)
				along[a] = mat.Dot(&away, space.ColView(c))
			}
			coordinates = append(coordinates, along)
		}
		for a := range rows {
			b.SetSym(rows[a], rows[a], b.At(rows[a], rows[a])+1)
		}
		for _, v := range coordinates {
			norm := mat.Norm(mat.NewVecDense(len(v), v), 2)
			for a := range rows {
				for e := a; e < len(rows); e++ {
					x, y := rows[a], rows[e]
					b.SetSym(x, y, b.At(x, y)-v[a]*v[e]/(norm*norm))
				}
			}
		}
	}
	return &modeltest.Criterion{Form: modeltest.Ratio, N: sumOfSquares(p.X), D: conjugate(p.X, b)}
}
