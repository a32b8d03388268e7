package fit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method/iterative"
	"github.com/embedd/embedd/model/internal/method/manifold"
	"github.com/embedd/embedd/model/internal/similarity"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// TestPanicInAPoolIsAnErrorOfTheFit: each method's pool gets a task whose tables are damaged where only that pool reads
// them. Nothing but the pool recovers here.
func TestPanicInAPoolIsAnErrorOfTheFit(t *testing.T) {
	d := synthetic(3, 120, 6, 3)
	for name, damage := range map[string]func(t *frame.Task){
		"sle-ovr": func(t *frame.Task) { t.Basis.Second[1] = mat.NewSymDense(1, nil) },
		"lsdr":    func(t *frame.Task) { t.Rows.Y = append(t.Rows.Y, 0) },
	} {
		method := *fail.Must(lookup(name))
		honest := method.Fit
		method.Fit = func(ctx context.Context, t *frame.Task) *frame.Solution {
			damage(t)
			return honest(ctx, t)
		}
		params := fail.Must(method.Resolve(nil))
		if name == "lsdr" {
			params["s"], params["lambda"] = "1", "0.1" // not by cross-validation, which looks there too
		}
		err := failure(func() { fitWith(t.Context(), &method, params, d, Config{Method: name, Dim: 2}) })
		panicked(t, name, err, name+": panicked: ")
	}
}

// TestPanicInAPoolIsAnErrorOfItsFunction is the same for pools whose tables only the pool could damage in a fit.
func TestPanicInAPoolIsAnErrorOfItsFunction(t *testing.T) {
	const n, m = 300, 4
	r := rand.New(rand.NewPCG(8, 1))
	rows := normals(r, n*m)

	data := synthetic(4, n, m, 3)
	l := iterative.NewNeighbourLoss(&frame.Rows{N: n, M: m, Y: data.Y, Classes: data.Classes}, 50)
	unit := mat.NewDense(m, m, nil)
	for i := range m {
		unit.Set(i, i, 1)
	}
	l.Project(t.Context(), mat.NewDense(n, m, rows), unit)
	l.Slot = l.Slot[:n/2]
	err := failure(func() { l.Value(t.Context(), unit, nil) })
	panicked(t, "tnca", err, "index out of range")

	_, err = mapping.EachPair(t.Context(), rows, m, func(a, b []float64) float64 { panic("a pair") })
	panicked(t, "pairs", err, "a pair")

	nameless := mapping.Kernel{Name: "gauss"} // without its bandwidth
	_, err = nameless.Gram(t.Context(), rows, m)
	panicked(t, "gram", err, "index out of range")
	e := &mapping.SimilarityMap{Training: mapping.Training{D: 2, Rows: normals(r, 20*m), Embedding: normals(r, 40)},
		Lambda: []float64{1, 1}, K: nameless}
	_, err = e.Extension(m)
	panicked(t, "tables of a similarity", err, "index out of range")

	square := mat.NewDense(n, n, nil)
	err = failure(func() {
		(similarity.Rule{}).Step(t.Context(), square, nil, mat.NewDense(1, 1, nil),
			mat.NewDense(n, n, slices.Repeat([]float64{1}, n*n)), square, nil)
	})
	panicked(t, "step of a similarity", err, "out of range")
	product := &similarity.IncrementalProduct{G: square}
	product.Of(t.Context(), mat.NewDense(n, n, nil), square)
	product.Out = mat.NewDense(1, 1, nil)
	err = failure(func() { product.Of(t.Context(), mat.NewDense(n, n, nil), square) })
	panicked(t, "product of a similarity", err, "out of range")

	s := manifold.NewScaling(t.Context(), mat.NewSymDense(n, slices.Repeat([]float64{1}, n*n)))
	s.Squared = slices.Clip(s.Squared[:n])
	_, err = pencil.Partial(t.Context(), s, pencil.Max, 2, linalg.Constant(n))
	panicked(t, "isomap", err, "eigenvectors: panicked: ")
}

// failure is the error that f fails with.
func failure(f func()) (err error) {
	defer fail.Catch(&err)
	f()
	return nil
}

// TestPanicOfACallersFunction, on whatever goroutine, is an error of the call.
func TestPanicOfACallersFunction(t *testing.T) {
	ctx, d := t.Context(), synthetic(5, 120, 6, 3)
	for name, c := range map[string]struct {
		own    Criterion
		params map[string]string
	}{
		"build": {own: Criterion{InBasis: func(context.Context, BasisRows, []int) (n, d *mat.SymDense, err error) {
			panic("my build")
		}}, params: map[string]string{"ridge": "1"}},
		"folds": {own: Criterion{Supervised: true,
			InBasis: func(context.Context, BasisRows, []int) (n, d *mat.SymDense, err error) {
				panic("my folds")
			}}},
		"orthonormal": {own: Criterion{Orthonormal: true,
			InBasis: func(context.Context, BasisRows, []int) (n, d *mat.SymDense, err error) {
				panic("my orthonormal")
			}}},
		"weight": {own: Criterion{InBasis: func(ctx context.Context, x BasisRows, _ []int) (n, d *mat.SymDense,
			err error) {
			nb, err := graph.Nearest(ctx, x.Dense, 5)
			if err == nil {
				_, err = nb.Weights(graph.Union, func(i, j int, _ float64) float64 { panic("my weight") })
			}
			return nil, nil, err
		}}},
		"dimension": {own: Criterion{InBasis: func(ctx context.Context, x BasisRows, _ []int) (n, d *mat.SymDense,
			err error) {
			_, err = graph.Tangents(ctx, x.Dense, [][]int{{0, 1, 2}, {3, 4, 5}},
				func([]float64) int { panic("my dimension") })
			return nil, nil, err
		}}},
	} {
		c.own.Name = name + "-criterion"
		_, err := Fit(ctx, d, Config{Criterion: &c.own, Params: c.params})
		panicked(t, name, err, c.own.Name+": panicked: my "+name)
	}
	for _, method := range []string{"lda", "lsdr", "sle-ovr", "tnca", Auto} {
		// In the fit itself, and before it: in the middle of a pool's concurrent work.
		for _, phase := range []string{"statistics", "search", "views", "auto"} {
			reached := false
			_, err := Fit(ctx, d, Config{Method: method, Dim: 2, Progress: func(p string, _ float64) {
				if p == phase {
					reached = true
					panic("my progress")
				}
			}})
			if reached {
				panicked(t, method+" "+phase, err, method+": panicked: my progress")
			} else if err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
	s := moments.New(d.M, false)
	if err := s.Add(t.Context(), d.X, d.Y); err != nil {
		t.Fatal(err)
	}
	_, err := FitMoments(ctx, s, nil, d.Classes,
		Config{Method: "lda", Progress: func(string, float64) { panic("my progress") }})
	panicked(t, "moments", err, "lda: panicked: my progress")

	m := fit(t, d, Config{Method: "pca"})
	rows := model.DenseRows(d.X, d.N, d.M)
	panicked(t, "project", m.ProjectContext(brokenContext{t.Context()}, make([]float32, d.N*m.Dim()), rows),
		"project: panicked: my context")
	_, _, err = model.Align(brokenContext{t.Context()}, m, fit(t, d, Config{Method: "lda"}), rows, model.AlignSign)
	panicked(t, "align", err, "panicked: my context")
	_, err = model.Read(brokenReader{})
	panicked(t, "read", err, "model file: panicked: my reader")
}

type brokenContext struct{ context.Context }

func (brokenContext) Err() error { panic("my context") }

func (brokenContext) Value(any) any { panic("my context") }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("my reader") }

// panicked fails the test unless err is of a panic and contains why.
func panicked(t *testing.T, what string, err error, why string) {
	t.Helper()
	var p model.Panic
	if !errors.As(err, &p) || len(p.Stack()) == 0 || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: error %v, want a panic that says %q", what, err, why)
	}
}
