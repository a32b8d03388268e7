package graph

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// TestPanicInAPoolIsAnError: of a caller's function, of indices that do not exist, and of tables that are damaged where
// only the pool reads them.
func TestPanicInAPoolIsAnError(t *testing.T) {
	ctx := context.Background()
	const n, m = 600, 8
	x := normals(rand.New(rand.NewPCG(3, 9)), n, m)
	nb := mustNearest(t, x, 5)
	rows := contiguous(x)
	lost := &Matrix{rows: n, cols: n, start: make([]int, n+1), index: []int{n}, value: []float64{1}}
	for i := range n {
		lost.start[i+1] = 1
	}
	for name, call := range map[string]func() error{
		"tangents": func() error {
			_, err := Tangents(ctx, x, nb.Patches(), func([]float64) int { panic("no dimension") })
			return err
		},
		"reconstruction": func() error {
			_, err := Barycentric(ctx, mat.NewDense(2, m, nil), x, nb, 1e-3)
			return err
		},
		"search": func() error {
			s := &search{ref: rows, query: rows, dim: m, self: true, same: newLists(n/2, 3)}
			return s.run(ctx)
		},
		"queries": func() error {
			s := &search{ref: rows, query: rows, dim: m, same: newLists(n/2, 3)}
			return s.run(ctx)
		},
		"product": func() error {
			_, err := WeightForm(ctx, x, lost)
			return err
		},
		"gram": func() error {
			_, err := tile.Gram(ctx, tile.Rows(x), tile.Rows(mat.NewDense(n/2, m, nil)))
			return err
		},
	} {
		var p *parallel.Panic
		if err := call(); !errors.As(err, &p) {
			t.Errorf("%s: error %v, want that of a panic", name, err)
		}
	}
}

// TestApplyPanicsWhereItIsCalled: an operator has no error result.
func TestApplyPanicsWhereItIsCalled(t *testing.T) {
	x := normals(rand.New(rand.NewPCG(4, 9)), 50, 3)
	w := mustWeights(t, mustNearest(t, x, 5), Union, Binary)
	defer func() {
		if _, ok := recover().(*parallel.Panic); !ok {
			t.Error("a product of other shapes does not panic here")
		}
	}()
	w.Apply(ctx, mat.NewDense(50, 3, nil), mat.NewDense(7, 3, nil))
}
