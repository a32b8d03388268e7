package fit

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method/iterative"
)

// uneven is 83 rows of 5 features in classes of 40, 25, 16, 1 and 1 rows.
func uneven() *model.Data {
	d := synthetic(40, 83, 5, 5)
	for i := range d.Y {
		switch {
		case i == 7:
			d.Y[i] = 3
		case i == 30:
			d.Y[i] = 4
		case i%2 == 0:
			d.Y[i] = 0
		case i%5 < 3:
			d.Y[i] = 1
		default:
			d.Y[i] = 2
		}
	}
	return d
}

func TestTNCAGradient(t *testing.T) {
	data := uneven()
	p := plainly(data)
	rng := rand.New(rand.NewPCG(8, 8))
	random := func(r, c int) *mat.Dense {
		a := mat.NewDense(r, c, nil)
		for i := range r {
			for j := range c {
				a.Set(i, j, rng.NormFloat64())
			}
		}
		return a
	}
	for _, references := range []int{1000, 20} {
		for _, d := range []int{1, 2, 5} {
			l := iterative.NewNeighbourLoss(&frame.Rows{N: data.N, M: data.M, Y: data.Y, Classes: data.Classes},
				references)
			l.Project(t.Context(), p.x, random(5, 5))
			l.Penalty, l.To = 0.1, random(5, d)
			at, g := random(5, d), mat.NewDense(5, d, nil)
			value := l.Value(t.Context(), at, g)
			if other := l.Value(t.Context(), at, nil); other != value {
				t.Errorf("loss %v without a gradient, %v with one", other, value)
			}
			for i := range 5 {
				for j := range d {
					const h = 1e-5
					up, down := mat.DenseCopyOf(at), mat.DenseCopyOf(at)
					up.Set(i, j, at.At(i, j)+h)
					down.Set(i, j, at.At(i, j)-h)
					want := (l.Value(t.Context(), up, nil) - l.Value(t.Context(), down, nil)) / (2 * h)
					if !(math.Abs(g.At(i, j)-want) <= 1e-7) {
						t.Errorf("d=%d, %d references: dF/dL[%d,%d] is %g, by differences %g", d, len(l.Rows), i, j,
							g.At(i, j), want)
					}
				}
			}
		}
	}
}

// The loss by its formula, pair by pair.
func TestTNCALossIsItsFormula(t *testing.T) {
	data := uneven()
	p := plainly(data)
	l := iterative.NewNeighbourLoss(&frame.Rows{N: data.N, M: data.M, Y: data.Y, Classes: data.Classes}, 20)
	if n := len(l.Rows); n < 20 || n > 22 {
		t.Errorf("%d references, want 20 and one more for each class of one row at most", n)
	}
	unit := mat.NewDense(5, 5, nil)
	for i := range 5 {
		unit.Set(i, i, 1)
	}
	l.Project(t.Context(), p.x, unit)
	at := mat.NewDense(5, 2, []float64{1, 0, 0, 1, .5, .5, -1, 1, 0, .2})
	var y mat.Dense
	y.Mul(p.x, at)
	want := 0.0
	for i := range data.N {
		same, all := 0.0, 0.0
		for _, j := range l.Rows {
			if i == j {
				continue
			}
			var r mat.VecDense
			r.SubVec(y.RowView(i), y.RowView(j))
			k := math.Pow(1+mat.Dot(&r, &r)/8, -4)
			all += k
			if data.Y[i] == data.Y[j] {
				same += k
			}
		}
		want -= math.Log(same/all+1e-12) / float64(data.N)
	}
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want) <= 1e-12*want) {
		t.Errorf("loss %v, want %v", got, want)
	}
}

// The search ends no worse than it started: from the directions of pairacc, or from 8 dimensions on from those of MFA.
func TestTNCADescends(t *testing.T) {
	for _, name := range []string{"wine", "vowel"} {
		for _, d := range []int{1, 2, 5, 8, 10} {
			s := fit(t, fixture.Dataset(t, name), Config{Method: "tnca", Dim: d}).Report().Search
			if !(s.End < s.Start) || s.Steps < 1 || s.StartAccuracy == nil || s.EndAccuracy == nil {
				t.Errorf("%s d=%d: %+v", name, d, *s)
				continue
			}
			t.Logf("%s d=%d: loss %.4f to %.4f in %d steps, accuracy %.3f to %.3f", name, d, s.Start, s.End, s.Steps,
				*s.StartAccuracy, *s.EndAccuracy)
		}
	}
}

// If classes are mixed along every direction the L2 term would shrink the outputs to one point: the start is kept, with
// a note.
func TestTNCAKeepsItsOutputs(t *testing.T) {
	data := &model.Data{N: 40, M: 3, Classes: []string{"a", "b"}}
	for i := range data.N {
		data.X = append(data.X, float64(i), 2*float64(i), -float64(i))
		data.Y = append(data.Y, i%2)
	}
	m := fit(t, data, Config{Method: "tnca", Dim: 1})
	if mat.Norm(matrixOf(m), 2) == 0 {
		t.Error("every row has the same output")
	}
	if r := m.Report(); len(r.Notes) == 0 || r.Search.End != r.Search.Start || r.Convergence != model.Stopped {
		t.Errorf("search %+v, notes %q", *r.Search, r.Notes)
	}
}

// A search that converges ends where the gradient is zero.
func TestTNCAReachesAStationaryPoint(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	m := fit(t, data, Config{Method: "tnca", Params: map[string]string{"iters": "1000"}})
	if s := m.Report().Search; !(s.Gradient <= 1e-2) || s.Steps == 1000 {
		t.Errorf("%+v", *s)
	}
}

// Outputs are uncorrelated, most variance first.
func TestTNCAOutputsArePrincipal(t *testing.T) {
	data := fixture.Dataset(t, "vowel")
	p := plainly(data)
	for _, d := range []int{3, 9} {
		v := form(p.total, matrixOf(fit(t, data, Config{Method: "tnca", Dim: d})))
		for i := range d {
			for j := range i {
				if !(math.Abs(v.At(i, j)) <= 1e-9*v.At(0, 0)) {
					t.Errorf("d=%d: outputs %d and %d have covariance %g", d, i, j, v.At(i, j))
				}
			}
			if i > 0 && !(v.At(i, i) <= v.At(i-1, i-1)) {
				t.Errorf("d=%d: output %d varies more than the one before", d, i)
			}
		}
	}
}

func TestTNCADoesNotDependOnThreads(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	a := fit(t, data, Config{Method: "tnca"})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if b := fit(t, data, Config{Method: "tnca"}); a.Digest() != b.Digest() {
		t.Error("one thread gives another model")
	}
}
