package fit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/moments"
)

// Six rows of three features in two classes.
var rows = &model.Data{
	X: []float64{
		1, 0, 2,
		2, 1, 1,
		1, 1, 3,
		8, 0, 2,
		9, 1, 3,
		8, 1, 1,
	},
	N: 6, M: 3,
	Y:        []int{0, 0, 0, 1, 1, 1},
	Classes:  []string{"low", "high"},
	Features: []string{"a", "b", "c"},
}

func ExampleFit() {
	m, err := fit.Fit(context.Background(), rows, fit.Config{Method: "lda", Params: map[string]string{"ridge": "0.1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	y := make([]float32, rows.N*m.Dim())
	if err := m.Project(y, model.DenseRows(rows.X, rows.N, rows.M)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Method(), m.Dim(), "low < 0 < high:", y[0] < 0, y[5] > 0)
	// Output: lda 1 low < 0 < high: true true
}

func ExampleFit_dimension() {
	_, err := fit.Fit(context.Background(), rows, fit.Config{Method: "lda", Dim: 2})
	fmt.Println(err)
	var dim *model.DimError
	if errors.As(err, &dim) {
		fmt.Println("the most is", dim.Max)
	}
	// Output:
	// lda: dim 2 exceeds the 1 discriminant directions of 2 classes (C-1); n=6, m=3
	// the most is 1
}

func ExampleConfig_WithChoice() {
	c := fit.Config{Method: fit.Auto, Dim: fit.AutoDim}
	m, err := fit.Fit(context.Background(), rows, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	choice := m.Report().Choice
	best := choice.Scores[0]
	fmt.Printf("%s at %d: %g of %d held-out rows are right\n", best.Method, best.Dim, best.Correct, best.Scored)
	again, err := fit.Fit(context.Background(), rows, c.WithChoice(choice)) // other rows, the same method
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Method() == m.Method(), again.Params()["auto"])
	// Output:
	// blend at 1: 6 of 6 held-out rows are right
	// true method and dim
}

func ExampleFitMoments() {
	seen := moments.New(3, false)
	if err := seen.Add(context.Background(), rows.X, rows.Y); err != nil {
		fmt.Println(err)
		return
	}
	c := fit.Config{Method: "srda", Params: map[string]string{"ridge": "0.1"}}
	m, err := fit.FitMoments(context.Background(), seen, rows.Features, rows.Classes, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Method(), m.Dim(), m.Rows(), m.Features())
	// Output: srda 1 6 [a b c]
}

func ExampleLookup() {
	m, err := fit.Lookup("pca")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Title, "/", m.Streaming, "/", m.Params[0].Name, "=", m.Params[0].Default)
	_, err = fit.Lookup("sla")
	nearest, _, _ := strings.Cut(err.Error(), ",")
	fmt.Println(nearest)
	// Output:
	// principal component analysis / moments / whiten = false
	// unknown method "sla"; the nearest is sle
}

// A custom method from patches: each row with its nearest row of the class and its nearest of the others, moved towards
// the first and away from the second, for constant variance.
func ExampleCriterion() {
	own := fit.Criterion{Name: "mine", Supervised: true,
		InBasis: func(ctx context.Context, x fit.BasisRows, y []int) (n, d *mat.SymDense, err error) {
			same, other, err := graph.NearestByClass(ctx, x.Dense, y, 1, 1)
			if err != nil {
				return nil, nil, err
			}
			difference := mat.NewSymDense(2, []float64{1, -1, -1, 1}) // |y_0 - y_1|^2
			star := func(nb *graph.Neighbors) (*mat.SymDense, error) {
				parts, err := graph.Align(nb.Len(), func(yield func(graph.Patch) bool) {
					for _, rows := range nb.Patches() {
						if !yield(graph.Patch{Rows: rows, L: difference}) {
							return
						}
					}
				})
				if err != nil {
					return nil, err
				}
				return graph.WeightForm(ctx, x.Dense, parts)
			}
			if n, err = star(other); err != nil {
				return nil, nil, err
			}
			d, err = star(same)
			return n, d, err
		}}
	m, err := fit.Fit(context.Background(), rows,
		fit.Config{Criterion: &own, Dim: 1, Params: map[string]string{"ridge": "0.1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	y := make([]float32, rows.N)
	if err := m.Project(y, model.DenseRows(rows.X, rows.N, rows.M)); err != nil {
		fmt.Println(err)
		return
	}
	low, high := slices.Max(y[:3]), slices.Min(y[3:])
	fmt.Println(m.Method(), "apart:", low < high)
	// Output: mine apart: true
}
