package fit

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/moments"
)

// TestMain lets the heap grow to five times what is in use: fits allocate much and keep little, so the collector took a
// fifth of the processor time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestOneWorker: with one worker a fit starts no other goroutine, for any method, and its model is that of all cores.
// (Goroutines of gonum are not detected.) There are enough rows for all work to be divided. The short form has a third
// of the methods.
func TestOneWorker(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	d := synthetic(11, 240, 72, 4)
	var configs []Config
	for i, m := range Methods() {
		if i%testsize.Of(3, 1) != 0 {
			continue
		}
		c := Config{Method: m.Name, Dim: 2, Seed: 1}
		if slices.ContainsFunc(m.Params, func(p Param) bool { return p.Name == "rows" }) {
			c.Params = map[string]string{"rows": "60"}
		}
		configs = append(configs, c)
	}
	if testsize.Long() {
		configs = append(configs, Config{Method: Auto, Dim: 2})
	}
	own := &Criterion{Name: "own", Supervised: true,
		InBasis: func(ctx context.Context, x BasisRows, y []int) (n, d *mat.SymDense, err error) {
			lists, err := graph.Nearest(ctx, x.Dense, 5)
			if err != nil {
				return nil, nil, err
			}
			w, err := lists.Weights(graph.Union, graph.Binary)
			if err != nil {
				return nil, nil, err
			}
			if d, err = graph.LaplacianForm(ctx, x.Dense, w); err == nil {
				n, err = graph.DegreeForm(ctx, x.Dense, w.Degrees())
			}
			return n, d, err
		}}
	configs = append(configs, Config{Criterion: own, Dim: 2}, Config{Method: "lda", Dim: AutoDim})
	wide := 0 // fits that use more than one goroutine if they may
	for _, c := range configs {
		fit := func(workers int) (digest string, started int64) {
			c.Workers = workers
			at := parallel.Started()
			m, err := Fit(t.Context(), d, c)
			if err != nil {
				t.Fatalf("%s: %v", c.name(), err)
			}
			return m.Digest(), parallel.Started() - at
		}
		one, alone := fit(1)
		all, many := fit(0)
		if alone != 0 {
			t.Errorf("%s: %d goroutines with one worker", c.name(), alone)
		}
		if one != all {
			t.Errorf("%s: another model with one worker", c.name())
		}
		if many > 0 {
			wide++
		}
	}
	if wide < len(configs)*2/3 {
		t.Errorf("%d of %d fits start a goroutine on four cores: too few rows for this test", wide, len(configs))
	}
}

// TestOneWorkerOfMoments is TestOneWorker for fits from statistics, whose sums use the limit of the context.
func TestOneWorkerOfMoments(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	d := synthetic(12, 300, 220, 4) // enough features for a search of pairacc on several cores
	for _, m := range Methods() {
		if m.Streaming != "moments" {
			continue
		}
		fit := func(workers int) (digest string, started int64) {
			at := parallel.Started()
			s := moments.New(d.M, m.Name == "sle")
			if err := s.Add(model.Limit(t.Context(), workers), d.X, d.Y); err != nil {
				t.Fatal(err)
			}
			f, err := FitMoments(t.Context(), s, nil, d.Classes, Config{Method: m.Name, Dim: 2, Workers: workers})
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			return f.Digest(), parallel.Started() - at
		}
		one, alone := fit(1)
		all, many := fit(0)
		if alone != 0 || many == 0 || one != all {
			t.Errorf("%s: %d goroutines with one worker, %d with four, same model: %v", m.Name, alone, many, one == all)
		}
	}
}
