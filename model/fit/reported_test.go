package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
)

// searching are the methods that search. All others solve an eigenproblem or a linear system.
var searching = []string{"pairacc", "tnca", "lsdr", "lenews", "lenewks", "lppnews"}

// TestReportedParameters: every method reports each parameter that it declares with the value that it used, no word
// that chooses one, and how its fit ended.
func TestReportedParameters(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	d = d.Subset(every(d.N, 2))
	for _, m := range Methods() {
		t.Run(m.Name, func(t *testing.T) {
			fitted := fit(t, d, Config{Method: m.Name, Dim: 2, Seed: 1})
			used := fitted.Params()
			for _, p := range m.Params {
				if v, has := used[p.Name]; !has || v == "" || v == "auto" || v == "oas" {
					t.Errorf("parameter %s is reported as %q", p.Name, v)
				}
			}
			r := fitted.Report()
			switch searched := slices.Contains(searching, m.Name); {
			case searched && r.Search == nil:
				t.Error("the report has no search")
			case searched && (r.Convergence == model.Converged) != r.Search.Converged,
				searched && r.Convergence == model.Direct,
				!searched && r.Convergence != model.Direct:
				t.Errorf("convergence %q, search %+v", r.Convergence, r.Search)
			case searched && !r.Search.Converged && (r.Search.Limit == 0 || !slices.ContainsFunc(r.Notes,
				func(n string) bool { return strings.Contains(n, "converge") })):
				t.Errorf("the search %+v ended early, and the notes %q do not say so", *r.Search, r.Notes)
			}
		})
	}
}

// TestFitThatReportsTooLittle: a method that omits a parameter or its convergence gives an error that names it.
func TestFitThatReportsTooLittle(t *testing.T) {
	d := fixture.Dataset(t, "iris")
	width := frame.FloatParam("width", "auto", "", 0, 1, "auto")
	for says, f := range map[string]func(*frame.Task) *frame.Solution{
		"does not report its convergence": func(t *frame.Task) *frame.Solution {
			return &frame.Solution{Components: make([]float64, t.M*t.D), Dim: t.D}
		},
		"reports parameter width as auto": func(t *frame.Task) *frame.Solution {
			return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, t.D)
		},
		"does not report parameter width": func(t *frame.Task) *frame.Solution {
			delete(t.Params, "width")
			return t.InBasis(mat.NewDense(t.M, t.D, nil), nil, t.D)
		},
	} {
		m := &frame.Method{Name: "careless", Map: "linear", Params: []frame.Param{width},
			Fit: func(_ context.Context, t *frame.Task) *frame.Solution { return f(t) }}
		params, err := m.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := fitError(t, m, params, d); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
}

// TestSearchThatStopsEarly: the report says whether the limit of steps ended a search.
func TestSearchThatStopsEarly(t *testing.T) {
	d := fixture.Dataset(t, "wine")
	for _, m := range []string{"lsdr", "tnca", "lenews", "lenewks", "lppnews"} {
		c := Config{Method: m, Dim: 2, Seed: 1, Params: map[string]string{"iters": "3"}}
		r := fit(t, d, c).Report()
		if r.Convergence != model.Stopped || r.Search.Converged || r.Search.Limit != 3 ||
			!slices.ContainsFunc(r.Notes, func(n string) bool {
				return strings.HasPrefix(n, "the search stopped before it converged, after at most 3 steps from a start")
			}) {
			t.Errorf("%s in 3 steps: convergence %q, search %+v, notes %q", m, r.Convergence, *r.Search, r.Notes)
		}
		if m == "lsdr" || m == "tnca" {
			c.Params["iters"] = "1000"
			if r := fit(t, d, c).Report(); r.Convergence != model.Converged || !r.Search.Converged ||
				r.Search.Steps == r.Search.Limit {
				t.Errorf("%s in 1000 steps: convergence %q, search %+v", m, r.Convergence, *r.Search)
			}
		}
	}
}

// fitError is the error of a fit of a method that is not in the table.
func fitError(t *testing.T, m *frame.Method, params map[string]string, d *model.Data) error {
	t.Helper()
	report := &model.Report{}
	rows, err := frame.Prepare(t.Context(), d, m.Supervised, false, report)
	if err != nil {
		t.Fatal(err)
	}
	task := &frame.Task{Method: m, Params: params, D: 2, Scaling: model.ScaleStandard, Report: report}
	if err := task.Load(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	_, err = task.Run(t.Context(), nil, d.Classes)
	return err
}

// diagonal is the diagonal discriminant: per feature, the between-class variance against the within-class variance.
func diagonal(x *mat.Dense, y []int) (n, d *mat.SymDense) {
	rows, m := x.Dims()
	sums, count := map[int][]float64{}, map[int]float64{}
	for i, c := range y {
		if sums[c] == nil {
			sums[c] = make([]float64, m)
		}
		for j := range m {
			sums[c][j] += x.At(i, j)
		}
		count[c]++
	}
	n, d = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	for c := range len(sums) {
		mean := mat.NewVecDense(m, nil)
		mean.ScaleVec(1/count[c], mat.NewVecDense(m, sums[c]))
		n.SymRankOne(n, count[c]/float64(rows), mean)
	}
	for i, c := range y {
		for j := range m {
			away := x.At(i, j) - sums[c][j]/count[c]
			d.SetSym(j, j, d.At(j, j)+away*away/float64(rows))
		}
	}
	return n, d
}

// TestPerFeatureCriterionOfFewRows: with fewer rows than features a criterion of single features is that of the
// features, not of the directions in which the rows vary.
func TestPerFeatureCriterionOfFewRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, shape := range [][2]int{{60, 7}, {14, 40}} {
		d := &model.Data{N: shape[0], M: shape[1], Classes: []string{"a", "b"}}
		for i := range d.N {
			d.Y = append(d.Y, i%2)
			for j := range d.M {
				d.X = append(d.X, (rng.NormFloat64()+float64(i%2)*math.Cos(float64(j)))*float64(1+j%3))
			}
		}
		own := Criterion{Name: "diagonal", Supervised: true,
			PerFeature: func(_ context.Context, x FeatureRows, y []int) (n, d *mat.SymDense, err error) {
				n, d = diagonal(x.Dense, y)
				return n, d, nil
			}}
		m := fit(t, d, Config{Criterion: &own, Dim: 1, Params: map[string]string{"ridge": "0.2"}})
		// Of two classes, the direction is the difference of the means over each feature's variance and ridge.
		x := mat.NewDense(d.N, d.M, nil)
		for i := range d.N {
			for j := range d.M {
				x.Set(i, j, (d.X[i*d.M+j]-m.Mean()[j])/m.Scale()[j])
			}
		}
		_, within := diagonal(x, d.Y)
		rho := 0.2 * mat.Trace(within) / float64(m.Report().Ridge.Columns)
		dot, wanted, found := 0.0, 0.0, 0.0
		for j := range d.M {
			difference := 0.0
			for i, c := range d.Y {
				difference += float64(1-2*c) * x.At(i, j)
			}
			want, got := difference/(within.At(j, j)+rho), m.Components()[j]
			dot, wanted, found = dot+want*got, wanted+want*want, found+got*got
		}
		if cosine := math.Abs(dot) / math.Sqrt(wanted*found); !(cosine >= 1-1e-9) {
			t.Errorf("%d rows of %d features: cosine %g with the diagonal discriminant", d.N, d.M, cosine)
		}
	}
}
