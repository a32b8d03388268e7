package method_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/modeltest"
)

// patchFormulas are those of package patch.
func patchFormulas() map[string]formula {
	return map[string]formula{
		"mpda":            {"mpda", map[string]string{"patch_size": "100"}, discriminant(false)},
		"pmpda":           {"pmpda", nil, discriminant(true)},
		"pmpda with heat": {"pmpda", map[string]string{"t": "auto", "gamma": "0.3", "energy": "0.8"}, discriminant(true)},
	}
}

// TestMPDAOfAWeakDirection: a direction whose eigenvalue is below 1e-10 of the first is none.
func TestMPDAOfAWeakDirection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var noise [120]float64
	for i := range noise {
		noise[i] = rng.NormFloat64()
	}
	for width, want := range map[float64]int{5e-6: 0, 1.5e-6: 1} { // the eigenvalue falls with its square
		d := &model.Data{N: 60, M: 2, Classes: []string{"a", "b", "c"}}
		for i := range d.N {
			c := i % 3
			d.Y = append(d.Y, c)
			d.X = append(d.X, float64(3*c)+noise[2*i], width*(float64(4*(c%2))+noise[2*i+1]))
		}
		_, err := fit.Fit(t.Context(), d, fit.Config{Method: "mpda", Dim: 2, Scale: model.ScaleNone})
		var bound *model.DimError
		if (err == nil) != (want == 0) || errors.As(err, &bound) && bound.Max != want {
			t.Errorf("width %g: %v", width, err)
		}
	}
}

// discriminant maximises the local between-class scatter of lfda against what tangent vectors at each row, or at each
// class, do not explain.
func discriminant(points bool) modeltest.Reference {
	return func(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
		n := len(p.Y)
		k := p.Int(t, "k")
		same := func(i, j int) bool { return p.Y[i] == p.Y[j] }
		w := joined(p.X, k, same).union().times(heatKernel(p.X, p.Float(t, "t")))
		var space []*mat.Dense
		of := make([]int, n)
		if points {
			for i := range n {
				of[i] = i
				patch := append([]int{i}, nearest(p.X, i, k, func(j int) bool { return same(i, j) })...)
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
		q := tangentForm(p.X, w, space, of, p.Float(t, "gamma"))
		unexplained := eliminate(t, q, n, p.Float(t, "ridge"))
		return &modeltest.Criterion{Form: modeltest.Ratio, N: localBetween(p, k),
			D: conjugate(p.X, unexplained), Tolerance: 1e-5}
	}
}

// energetic is the tangent space of the fewest directions with this share of the variance of a patch.
func energetic(t testing.TB, x *mat.Dense, patch []int, energy float64) (space *mat.Dense, unique bool) {
	_, m := x.Dims()
	all, _ := tangent(t, x, patch, m)
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
	return tangent(t, x, patch, dim)
}

// localBetween is S_b of lfda.
func localBetween(p *modeltest.Problem, k int) *mat.SymDense {
	n, count := len(p.Y), classCounts(p.Y, p.Classes)
	affinity := localScaling(p.X, p.Y, p.Classes, k)
	return pairWeights(n, func(i, j int) float64 {
		if p.Y[i] != p.Y[j] {
			return 1 / float64(n)
		}
		return affinity(i, j) * (1/float64(n) - 1/count[p.Y[i]])
	}).form(p.X)
}
