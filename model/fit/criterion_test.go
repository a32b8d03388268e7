package fit

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestCriterionIsTheMethod: a criterion from the parts of package graph gives the model of the method in the table.
func TestCriterionIsTheMethod(t *testing.T) {
	ctx := context.Background()
	d := fixture.Dataset(t, "wine")
	everyPair := func(n int, at func(i, j int) float64) *mat.Dense {
		w := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				w.Set(i, j, at(i, j))
			}
		}
		return w
	}
	for _, c := range []struct {
		own Criterion
		as  string
		dim int
	}{
		{as: "lpp", dim: 4, own: Criterion{InBasis: func(ctx context.Context, x BasisRows, y []int) (n, d *mat.SymDense,
			err error) {
			nb, err := graph.Nearest(ctx, x.Dense, 5)
			if err != nil {
				return nil, nil, err
			}
			w, err := nb.Weights(graph.Union, graph.Heat(nb.MeanNearest()))
			if err != nil {
				return nil, nil, err
			}
			if n, err = graph.DegreeForm(t.Context(), x.Dense, w.Degrees()); err != nil {
				return nil, nil, err
			}
			d, err = graph.LaplacianForm(t.Context(), x.Dense, w)
			return n, d, err
		}}},
		// In the metric framework every pair is dissimilar and pairs of a class are similar: total scatter against
		// within-class scatter.
		{as: "lda", dim: 2, own: Criterion{Supervised: true,
			InBasis: func(ctx context.Context, x BasisRows, y []int) (n, d *mat.SymDense, err error) {
				count := map[int]float64{}
				for _, c := range y {
					count[c]++
				}
				one := func(int, int) float64 { return 1 }
				same := func(i, j int) float64 {
					if y[i] != y[j] {
						return 0
					}
					return 1 / count[y[i]]
				}
				return graph.FromDS(t.Context(), x.Dense, everyPair(len(y), one), everyPair(len(y), same))
			}}},
		{as: "dla", dim: 4, own: Criterion{Supervised: true, Orthonormal: true,
			InBasis: func(ctx context.Context, x BasisRows, y []int) (n, d *mat.SymDense, err error) {
				same, other, err := graph.NearestByClass(ctx, x.Dense, y, 5, 10)
				if err != nil {
					return nil, nil, err
				}
				star := mat.NewSymDense(16, nil)
				star.SetSym(0, 0, 5-10*0.3)
				for j := 1; j <= 15; j++ {
					weight := 1.0
					if j > 5 {
						weight = -0.3
					}
					star.SetSym(0, j, -weight)
					star.SetSym(j, j, weight)
				}
				parts, err := graph.Align(len(y), func(yield func(graph.Patch) bool) {
					for i := range y {
						near, _ := same.Row(i)
						far, _ := other.Row(i)
						if !yield(graph.Patch{Rows: slices.Concat([]int{i}, near, far), L: star}) {
							return
						}
					}
				})
				if err != nil {
					return nil, nil, err
				}
				d, err = graph.WeightForm(t.Context(), x.Dense, parts)
				return nil, d, err
			}}},
	} {
		t.Run(c.as, func(t *testing.T) {
			// The numerator of the framework for LDA is S_t, that of LDA S_b: the same directions, S_t = S_b + S_w,
			// at ridge 0 only.
			ridge := map[string]string{"ridge": "0.05"}
			switch c.as {
			case "lda":
				ridge["ridge"] = "0"
			case "dla":
				ridge = nil
			}
			params := ridge
			if c.as == "dla" {
				params = map[string]string{"beta": "0.3"}
			}
			want, err := Fit(ctx, d, Config{Method: c.as, Dim: c.dim, Params: params})
			if err != nil {
				t.Fatal(err)
			}
			c.own.Name = "own"
			got, err := Fit(ctx, d, Config{Criterion: &c.own, Dim: c.dim, Params: ridge})
			if err != nil {
				t.Fatal(err)
			}
			if s := sine(t, matrixOf(want), matrixOf(got)); !(s < 1e-8) {
				t.Errorf("sine between the spans of %s and of its criterion is %.2g, want < 1e-8", c.as, s)
			}
			var file bytes.Buffer
			if err := model.Write(&file, got); err != nil {
				t.Fatal(err)
			}
			again, err := model.Read(&file)
			if err != nil {
				t.Fatal(err)
			}
			if again.Digest() != got.Digest() || again.Method() != "own" {
				t.Errorf("read back it is %s %s, written as %s", again.Method(), again.Digest(), got.Digest())
			}
		})
	}
}

func TestCriterionRefuses(t *testing.T) {
	ctx := context.Background()
	d := fixture.Dataset(t, "wine")
	form := func(order int, v float64) func(context.Context, BasisRows, []int) (*mat.SymDense, *mat.SymDense, error) {
		return func(_ context.Context, x BasisRows, _ []int) (n, d *mat.SymDense, err error) {
			_, m := x.Dims()
			if order > 0 {
				m = order
			}
			s := mat.NewSymDense(m, nil)
			s.SetSym(0, 0, v)
			return s, s, nil
		}
	}
	for _, c := range []struct {
		own  Criterion
		c    Config
		says string
	}{
		{Criterion{Name: "own"}, Config{}, "a function that builds it"},
		{Criterion{InBasis: form(0, 1)}, Config{}, "needs a name"},
		{Criterion{Name: "lda", InBasis: form(0, 1)}, Config{}, "a method has this name"},
		{Criterion{Name: "own", InBasis: form(0, 1)}, Config{Method: "lda"}, "leave it empty"},
		{Criterion{Name: "own", InBasis: form(0, 1)}, Config{Dim: AutoDim}, "give one"},
		{Criterion{Name: "own", InBasis: form(0, 1)}, Config{Scale: "huge"}, "unknown scale"},
		{Criterion{Name: "own", InBasis: form(0, 1)}, Config{Params: map[string]string{"k": "3"}}, "allowed: ridge"},
		{Criterion{Name: "own", InBasis: form(3, 1)}, Config{}, "the numerator has order 3; it must be 13"},
		{Criterion{Name: "own", InBasis: form(0, math.NaN())}, Config{}, "the numerator is not finite"},
		{Criterion{Name: "own", Orthonormal: true, InBasis: form(3, 1)}, Config{}, "the denominator has order 3"},
		{Criterion{Name: "own", Orthonormal: true, InBasis: form(0, 1)}, Config{Params: map[string]string{"ridge": "1"}},
			"it takes none"},
		{Criterion{Name: "own", InBasis: form(0, 1)}, Config{Dim: 5}, "dim 5 exceeds rank 1 of the criterion"},
		{Criterion{Name: "own", InBasis: func(context.Context, BasisRows, []int) (n, d *mat.SymDense,
			err error) {
			return nil, nil, nil
		}}, Config{}, "no numerator"},
	} {
		c.c.Criterion = &c.own
		_, err := Fit(ctx, d, c.c)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want an error that says %q", err, c.says)
		}
	}
}

// TestCriterionChoosesItsRidge: without a parameter the ridge of a supervised criterion is cross-validated.
func TestCriterionChoosesItsRidge(t *testing.T) {
	build := func(_ context.Context, x BasisRows, _ []int) (n, d *mat.SymDense, err error) {
		m := x.Dense.RawMatrix().Cols
		n, d = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
		for i := range m {
			n.SetSym(i, i, float64(i+1))
			d.SetSym(i, i, 1)
		}
		return n, d, nil
	}
	own := Criterion{Name: "own", Supervised: true, InBasis: build}
	for given, want := range map[string]string{"": "cv", "auto": "cv", "oas": "oas", "0.5": "fixed"} {
		c := Config{Criterion: &own, Dim: 2}
		if given != "" {
			c.Params = map[string]string{"ridge": given}
		}
		if got := fit(t, fixture.Dataset(t, "wine"), c).Report().Ridge; got == nil || got.Rule != want {
			t.Errorf("ridge %q: %+v, want the rule %s", given, got, want)
		}
	}
}
