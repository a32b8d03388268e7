package patch_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/definition"
	"github.com/embedd/embedd/model/modeltest"
)

// TestFormulas compares each method with its definition. With few rows a class is one patch of mpda.
func TestFormulas(t *testing.T) {
	for name, c := range map[string]struct {
		method    string
		params    map[string]string
		reference modeltest.Reference
	}{
		"mpda":            {"mpda", map[string]string{"patch_size": "100"}, discriminant(false)},
		"pmpda":           {"pmpda", nil, discriminant(true)},
		"pmpda with heat": {"pmpda", map[string]string{"t": "auto", "gamma": "0.3", "energy": "0.8"}, discriminant(true)},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Run(t, fit.Config{Method: c.method, Seed: 5, Params: c.params}, c.reference)
		})
	}
}

// discriminant maximises the local between-class scatter of lfda against what tangent vectors at each row, or at each
// class, do not explain.
func discriminant(points bool) modeltest.Reference {
	return func(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
		n := len(p.Y)
		k := p.Int(t, "k")
		same := func(i, j int) bool { return p.Y[i] == p.Y[j] }
		w := definition.Joined(p.X, k, same).Union().Times(definition.Heat(p.X, p.Float(t, "t")))
		var space []*mat.Dense
		of := make([]int, n)
		if points {
			for i := range n {
				of[i] = i
				patch := append([]int{i}, definition.Nearest(p.X, i, k, func(j int) bool { return same(i, j) })...)
				s, unique := energetic(t, p.X, patch, p.Float(t, "energy"))
				if !unique {
					return nil
				}
				space = append(space, s)
			}
		} else {
			for c := range p.Classes {
				var patch []int
				for i, y := range p.Y {
					if y == c {
						of[i] = c
						patch = append(patch, i)
					}
				}
				s, unique := energetic(t, p.X, patch, p.Float(t, "energy"))
				if !unique {
					return nil
				}
				space = append(space, s)
			}
		}
		q := definition.TangentForm(p.X, w, space, of, p.Float(t, "gamma"))
		unexplained := definition.Eliminate(t, q, n, p.Float(t, "ridge"))
		return &modeltest.Criterion{Form: modeltest.Ratio, N: localBetween(p, k),
			D: definition.Conjugate(p.X, unexplained), Tolerance: 1e-5}
	}
}

// energetic is the tangent space of the fewest directions with this share of the variance of a patch.
func energetic(t testing.TB, x *mat.Dense, patch []int, energy float64) (space *mat.Dense, unique bool) {
	_, m := x.Dims()
	all, _ := definition.Tangent(t, x, patch, m)
	_, most := all.Dims()
	mean := mat.NewVecDense(m, nil)
	for _, r := range patch {
		mean.AddScaledVec(mean, 1/float64(len(patch)), x.RowView(r))
	}
	variance := func(dim int) float64 {
		sum := 0.0
		for _, r := range patch {
			var away mat.VecDense
			away.SubVec(x.RowView(r), mean)
			for c := range dim {
				along := mat.Dot(&away, all.ColView(c))
				sum += along * along
			}
		}
		return sum
	}
	dim := 0
	for dim < most && variance(dim) < energy*variance(most)*(1-1e-12) {
		dim++
	}
	return definition.Tangent(t, x, patch, dim)
}

// localBetween is S_b of lfda.
func localBetween(p *modeltest.Problem, k int) *mat.SymDense {
	n, count := len(p.Y), definition.Counts(p.Y, p.Classes)
	affinity := definition.Affinity(p.X, p.Y, p.Classes, k)
	return definition.Pairs(n, func(i, j int) float64 {
		if p.Y[i] != p.Y[j] {
			return 1 / float64(n)
		}
		return affinity(i, j) * (1/float64(n) - 1/count[p.Y[i]])
	}).Form(p.X)
}
