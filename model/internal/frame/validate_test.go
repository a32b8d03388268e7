package frame

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/pencil"
)

// TestFoldsKeepWhatARunShares: in each fold the first setting of a run computes what all settings share, for any number
// of cores, which does not change the results either.
func TestFoldsKeepWhatARunShares(t *testing.T) {
	const n, m = 90, 6
	rng := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{N: n, M: m, Classes: []string{"a", "b", "c"}}
	for i := range n {
		d.Y = append(d.Y, i%3)
		for j := range m {
			x := rng.NormFloat64()
			if j < 2 {
				x += 0.8 * float64(i%3*(1-2*j))
			}
			d.X = append(d.X, x)
		}
	}
	var built atomic.Int64
	method := &Method{Name: "counted", Supervised: true, Map: "linear", Streaming: "window",
		Fit: Maximize(func(_ context.Context, t *Task) *Ratio {
			built.Add(1)
			return &Ratio{N: t.Basis.Total, D: t.Basis.Within}
		}, pencil.Max)}
	ridges := []float64{1e-6, 0.1, 1, 10, 100, 1000}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, run := range []int{1, 3, 6} {
		var first []Tally
		for _, cores := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(cores)
			task := loaded(t, d, method)
			built.Store(0)
			got := task.Validate(t.Context(), "ridge", len(ridges), run, func(ft *Task, i int) { ft.Ridge = ridges[i] })
			if len(got) != len(ridges) || got[0].Scored != n {
				t.Fatalf("%v", got)
			}
			if want := int64(3 * len(ridges) / run); built.Load() != want {
				t.Errorf("runs of %d on %d cores: the criterion was built %d times, want %d", run, cores, built.Load(), want)
			}
			if first == nil {
				first = got
			}
			if !slices.Equal(first, got) {
				t.Errorf("runs of %d on %d cores: %v, on one %v", run, cores, got, first)
			}
		}
	}
}

// TestFoldsLetGoOfWhatIsNotShared: memory of a single setting is released before the next ones.
func TestFoldsLetGoOfWhatIsNotShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d := &model.Data{N: 30, M: 3, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.Y = append(d.Y, i%2)
		for range d.M {
			d.X = append(d.X, rng.NormFloat64())
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, run := range []int{1, 4} {
		var kept []weak.Pointer[[1 << 16]byte]
		most := 0
		method := &Method{Name: "keeping", Supervised: true, Map: "linear",
			Streaming: "window", Fit: func(_ context.Context, t *Task) *Solution {
				runtime.GC()
				alive := 0
				for _, p := range kept {
					if p.Value() != nil {
						alive++
					}
				}
				most = max(most, alive)
				own := new([1 << 16]byte)
				kept, t.Cache = append(kept, weak.Make(own)), own
				return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, 0)
			}}
		task := loaded(t, d, method)
		task.Validate(t.Context(), "ridge", 8, run, func(*Task, int) {})
		shared := 0
		if run > 1 {
			shared = 3 * 8 / run // of each fold and run
		}
		if len(kept) != 24 || most > shared+1 {
			t.Errorf("runs of %d: of %d fits %d kept something at a time, want at most %d", run, len(kept), most, shared+1)
		}
	}
}

// TestFoldThatFailsIsLeftOut, with its cause, at any setting of a run.
func TestFoldThatFailsIsLeftOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	d := &model.Data{N: 30, M: 3, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.Y = append(d.Y, i%2)
		for range d.M {
			d.X = append(d.X, rng.NormFloat64())
		}
	}
	method := &Method{Name: "failing", Supervised: true, Map: "linear", Streaming: "window",
		Fit: func(_ context.Context, t *Task) *Solution {
			if t.Ridge == 0 && t.Rows.Index[0] != 0 {
				panic(fail.With(errors.New("no ridge")))
			}
			return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, 0)
		}}
	for _, bad := range []int{0, 1} {
		task := loaded(t, d, method)
		got := task.Validate(t.Context(), "ridge", 2, 2, func(ft *Task, i int) {
			if i != bad {
				ft.Ridge = 1
			}
		})
		want := "ridge: fold 1 of 3 cannot be fitted and was left out: no ridge" // it alone holds out the first row
		if len(got) != 2 || got[0].Scored != 20 || !slices.Contains(task.Report.Notes, want) {
			t.Errorf("setting %d fails: %v, %q", bad, got, task.Report.Notes)
		}
	}
}

// TestFoldsTrainOnSums: a fold of a method that learns from moments has those of its training rows, also of a class
// that trains in every fold.
func TestFoldsTrainOnSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	d := &model.Data{N: 62, M: 4, Classes: []string{"a", "b", "c"}}
	for i := range d.N {
		d.Y = append(d.Y, max(i%2, 2*(i/60)))
		for j := range d.M {
			d.X = append(d.X, 1e3+float64(j+d.Y[i])*rng.NormFloat64())
		}
	}
	var mu sync.Mutex
	var fitted []*Task
	method := &Method{Name: "moments", Supervised: true, Map: "linear", Streaming: "moments",
		Fit: func(_ context.Context, t *Task) *Solution {
			mu.Lock()
			defer mu.Unlock()
			fitted = append(fitted, t)
			return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, 0)
		}}
	task := loaded(t, d, method)
	task.Validate(t.Context(), "ridge", 1, 1, func(*Task, int) {})
	pick, deal := Folds(task.Rows, 1500, 3, 0)
	for f := range 3 {
		train, _ := HeldOut(pick, deal, f)
		want := &Task{Method: method, Report: &model.Report{}}
		if err := want.Load(t.Context(), task.Rows.Subset(train)); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(fitted, func(got *Task) bool {
			return slices.Equal(got.Basis.Counts, want.Basis.Counts) && got.Columns == want.Columns &&
				floats.EqualApprox(got.Units.Mean, want.Units.Mean, 1e-9) &&
				floats.EqualApprox(got.Units.Scale, want.Units.Scale, 1e-9) &&
				mat.EqualApprox(got.Basis.Total, want.Basis.Total, 1e-9) &&
				mat.EqualApprox(got.Basis.Within, want.Basis.Within, 1e-9) &&
				mat.EqualApprox(got.Basis.Means, want.Basis.Means, 1e-9)
		}) {
			t.Errorf("no fit of three has the moments of the rows that fold %d trains on", f)
		}
	}
}

// loaded is the task of fitting a method at two dimensions.
func loaded(t *testing.T, d *model.Data, method *Method) *Task {
	t.Helper()
	report := &model.Report{}
	rows, err := Prepare(t.Context(), d, true, false, report)
	if err != nil {
		t.Fatal(err)
	}
	task := &Task{Method: method, D: 2, Report: report}
	if err := task.Load(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	return task
}
