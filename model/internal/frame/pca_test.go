package frame

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// Only the fit that computes the components writes the criterion: the fits that reuse them run concurrently.
func TestReductionIsWrittenOnce(t *testing.T) {
	const n, m = 40, 6
	rng := rand.New(rand.NewPCG(5, 2))
	d := &model.Data{N: n, M: m, Classes: []string{"a", "b"}}
	for i := range n {
		d.Y = append(d.Y, i%2)
		for range m {
			d.X = append(d.X, rng.NormFloat64())
		}
	}
	report := &model.Report{}
	rows, err := Prepare(t.Context(), d, true, false, report)
	if err != nil {
		t.Fatal(err)
	}
	method := &Method{Name: "behind", Supervised: true, Map: "linear", Streaming: "window"}
	task := &Task{Method: method, D: 2, Report: report}
	if err := task.Load(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	task.VarianceShare = 0.9
	var built *Ratio
	fit := func(_ context.Context, t *Task) *Solution {
		t.ratio = built
		return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, 0)
	}
	for _, next := range []*Ratio{nil, {N: mat.NewSymDense(1, nil)}} {
		built = next
		WithPCA(t.Context(), task, fit)
		if task.Cache.(*reduction).task.ratio != nil {
			t.Errorf("a fit wrote into the components that others read")
		}
	}
}

// TestComponentsOfAShare: the fewest components that explain at least the share of the variance are kept, but no fewer
// than outputs.
func TestComponentsOfAShare(t *testing.T) {
	total := mat.NewSymDense(3, []float64{2, 0, 0, 0, 1, 0, 0, 0, 1})
	for _, c := range []struct {
		share float64
		d     int
		want  int
	}{{0.5, 1, 1}, {0.51, 1, 2}, {0.75, 1, 2}, {0.76, 1, 3}, {0.1, 2, 2}, {0.1, 3, 3}} {
		task := &Task{D: c.d, M: 3, VarianceShare: c.share, X: mat.NewDense(2, 3, nil),
			Basis: &BasisScatters{Total: total, Within: total, Means: mat.NewDense(2, 3, nil)}}
		f := newReduction(t.Context(), task)
		if f.task.M != c.want || f.task.Columns != c.want || f.share != c.share || f.task.axes == nil {
			t.Errorf("%g of the variance, %d outputs: %d components, want %d", c.share, c.d, f.task.M, c.want)
		}
	}
}
