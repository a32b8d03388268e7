package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// panicked fails where err is not that of a panic, or does not say why.
func panicked(t *testing.T, what string, err error, why string) {
	t.Helper()
	var p *Panic
	if !errors.As(err, &p) || len(p.Stack) == 0 || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: error %v, want a panic that says %q", what, err, why)
	}
}

// TestPanicInAPoolIsAnErrorOfTheFit: each method's pool meets a task whose tables
// are damaged where that pool alone looks. Nothing here recovers but the pool.
func TestPanicInAPoolIsAnErrorOfTheFit(t *testing.T) {
	d := synthetic(3, 120, 6, 3)
	for name, damage := range map[string]func(t *task){
		"sle-ovr": func(t *task) { t.stat.second[1] = mat.NewSymDense(1, nil) },
		"lsdr":    func(t *task) { t.rows.y = append(t.rows.y, 0) },
	} {
		method := *must(lookup(name))
		honest := method.fit
		method.fit = func(ctx context.Context, t *task) (*solution, error) {
			damage(t)
			return honest(ctx, t)
		}
		params := must(method.resolve(nil))
		if name == "lsdr" {
			params["s"], params["lambda"] = "1", "0.1" // not by cross-validation, which looks there too
		}
		_, err := fitMethod(t.Context(), &method, params, d, Config{Method: name, Dim: 2})
		panicked(t, name, err, name+": panicked: ")
	}
}

// TestPanicInAPoolIsAnErrorOfItsFunction is the same for the pools whose tables
// nothing but the pool itself could damage in a fit.
func TestPanicInAPoolIsAnErrorOfItsFunction(t *testing.T) {
	const n, m = 300, 4
	r := rand.New(rand.NewPCG(8, 1))
	rows := normals(r, n*m)

	data := synthetic(4, n, m, 3)
	l := newNeighbourLoss(&prepared{n: n, m: m, y: data.Y, of: data.Classes}, 50)
	unit := mat.NewDense(m, m, nil)
	for i := range m {
		unit.Set(i, i, 1)
	}
	l.place(mat.NewDense(n, m, rows), unit)
	l.at = l.at[:n/2]
	_, err := l.value(unit, nil)
	panicked(t, "tnca", err, "index out of range")

	_, err = eachPair(rows, m, func(a, b []float64) float64 { panic("a pair") })
	panicked(t, "pairs", err, "a pair")

	nameless := kernelFunction{name: "gauss"} // without its bandwidth
	_, err = nameless.gram(rows, m)
	panicked(t, "gram", err, "index out of range")
	e := &similarityMap{training: randomTraining(r, 20, m, 2), lambda: []float64{1, 1}, k: nameless}
	_, err = newKernel(make([]float64, m), []float64{1, 1, 1, 1}, false, false, e)
	panicked(t, "tables of a similarity", err, "index out of range")

	square := mat.NewDense(n, n, nil)
	err = (similarityRule{}).step(square, nil, mat.NewDense(1, 1, nil), mat.NewDense(n, n, slices.Repeat([]float64{1}, n*n)), square, nil)
	panicked(t, "step of a similarity", err, "out of range")
	product := &slowProduct{g: square}
	if err := product.of(t.Context(), mat.NewDense(n, n, nil), square); err != nil {
		t.Fatal(err)
	}
	product.out = mat.NewDense(1, 1, nil)
	panicked(t, "product of a similarity", product.of(t.Context(), mat.NewDense(n, n, nil), square), "out of range")

	s := newScaling(mat.NewSymDense(n, slices.Repeat([]float64{1}, n*n)))
	s.squared = slices.Clip(s.squared[:n])
	_, err = pencil.Partial(t.Context(), s, pencil.Max, 2, constant(n))
	panicked(t, "isomap", err, "eigenvectors: panicked: ")
}

// TestPanicOfAProjectionIsAnErrorOfTheCall: rows whose memory is shorter than they
// say, past the check. The next call of the same model is as good as any.
func TestPanicOfAProjectionIsAnErrorOfTheCall(t *testing.T) {
	mo := randomLinear(t, 64, 8, 1, 1)
	const n = 8192
	x, _ := rowsOf(mo, n)
	rows := rowMajor(x, n, 64)
	want := project(t, mo, rows)
	for _, short := range []int{n - 1, 1} {
		y := make([]float32, n*8)
		err := mo.kernel.project(y, nil, rowMajor(slices.Clip(x[:short*64]), n, 64))
		panicked(t, "short rows", err, "project: panicked: ")
		panicked(t, "few classes", mo.winners(y, make([]int, short), rows), "project: panicked: ")
		if err := mo.Project(y, rows); err != nil || !sameBits(y, want) {
			t.Errorf("after a panic: %v, the same bits: %t", err, sameBits(y, want))
		}
	}
}

// TestPanicOfACallersFunction, on whatever goroutine, is an error of the call.
func TestPanicOfACallersFunction(t *testing.T) {
	ctx, d := t.Context(), synthetic(5, 120, 6, 3)
	for name, c := range map[string]struct {
		own    Criterion
		params map[string]string
	}{
		"build": {own: Criterion{Build: func(context.Context, *mat.Dense, []int) (n, d *mat.SymDense, err error) {
			panic("my build")
		}}, params: map[string]string{"ridge": "1"}},
		"folds": {own: Criterion{Supervised: true, Build: func(context.Context, *mat.Dense, []int) (n, d *mat.SymDense, err error) {
			panic("my folds")
		}}},
		"orthonormal": {own: Criterion{Orthonormal: true, Build: func(context.Context, *mat.Dense, []int) (n, d *mat.SymDense, err error) {
			panic("my orthonormal")
		}}},
		"weight": {own: Criterion{Build: func(ctx context.Context, x *mat.Dense, _ []int) (n, d *mat.SymDense, err error) {
			nb, err := graph.Nearest(ctx, x, 5)
			if err == nil {
				_, err = nb.Weights(graph.Union, func(i, j int, _ float64) float64 { panic("my weight") })
			}
			return nil, nil, err
		}}},
		"dimension": {own: Criterion{Build: func(ctx context.Context, x *mat.Dense, _ []int) (n, d *mat.SymDense, err error) {
			_, err = graph.Tangents(ctx, x, [][]int{{0, 1, 2}, {3, 4, 5}}, func([]float64) int { panic("my dimension") })
			return nil, nil, err
		}}},
	} {
		c.own.Name = name + "-criterion"
		_, err := c.own.Fit(ctx, d, Config{Params: c.params})
		panicked(t, name, err, c.own.Name+": panicked: my "+name)
	}
	for _, method := range []string{"lda", "lsdr", "sle-ovr", "tnca", Auto} {
		// In the fit itself, and before: in the middle of what a pool does beside it.
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
	if err := s.Add(d.X, d.Y, nil); err != nil {
		t.Fatal(err)
	}
	_, err := FitMoments(ctx, s, nil, d.Classes, Config{Method: "lda", Progress: func(string, float64) { panic("my progress") }})
	panicked(t, "moments", err, "lda: panicked: my progress")

	c := EvalConfig{Methods: []string{"pca"}, Splits: 1}
	panicked(t, "yield", Evaluate(ctx, d, c, func(EvalResult) error { panic("my yield") }), "eval: panicked: my yield")
	c.Progress = func(string, int, float64) { panic("my progress") }
	panicked(t, "eval", Evaluate(ctx, d, c, func(EvalResult) error { return nil }), "eval: panicked: my progress")

	m := fit(t, d, Config{Method: "pca"})
	panicked(t, "project", new(Model).Project(nil, DenseRows(d.X, d.N, 0)), "project: panicked: ")
	_, _, err = Align(m, nil, DenseRows(d.X, d.N, d.M), AlignSign)
	panicked(t, "align", err, "align: panicked: ")
	_, err = Read(brokenReader{})
	panicked(t, "read", err, "model file: panicked: my reader")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("my reader") }
