package fit

import (
	"context"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/method/patch"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// The eliminated problem of mpda is the full one with blockdiag(a_t I, a_v I).
func TestMPDAEqualsTheFullSystem(t *testing.T) {
	data := synthetic(41, 60, 6, 3)
	for _, method := range []string{"mpda", "pmpda"} {
		for _, params := range []map[string]string{{}, {"ridge": "1", "gamma": "0.3"}, {"alpha": "1e-5"},
			{"alpha": "100", "t": "auto"}} {
			m := fit(t, data, Config{Method: method, Dim: 5, Params: params})
			// The task as in the fit.
			w, form, task := mpdaForm(t, data, method, params)
			n, _ := frame.LocalScatters(context.Background(), task, "k")
			l, err := graph.LaplacianForm(t.Context(), task.X, w)
			if err != nil {
				t.Fatal(err)
			}
			s, rows, dim := whole(form), data.N, data.M
			full, numerator := mat.NewSymDense(dim+form.Dim(), nil), mat.NewSymDense(dim+form.Dim(), nil)
			for i := range dim {
				for j := i; j < dim; j++ {
					full.SetSym(i, j, 2*l.At(i, j))
					numerator.SetSym(i, j, n.At(i, j))
				}
				for c := range form.Dim() {
					sum := 0.0
					for r := range rows {
						sum += task.X.At(r, i) * s.At(r, rows+c)
					}
					full.SetSym(i, dim+c, sum)
				}
			}
			for a := range form.Dim() {
				for b := a; b < form.Dim(); b++ {
					full.SetSym(dim+a, dim+b, s.At(rows+a, rows+b))
				}
			}
			at, av := m.Report().Ridge.Absolute, task.Float("alpha")
			if task.Params["alpha"] == "relative" {
				av = task.Ridge * form.Trace() / float64(form.Dim())
			} else if !(math.Abs(at-av) <= 1e-12*av) {
				t.Errorf("%s %v: a_t = %g", method, params, at)
			}
			for i := range full.SymmetricDim() {
				add := at
				if i >= dim {
					add = av
				}
				full.SetSym(i, i, full.At(i, i)+add)
			}
			q, err := pencil.Ridge(full, 0)
			if err != nil {
				t.Fatal(err)
			}
			want, err := pencil.Solve(t.Context(), numerator, q, pencil.Max, 5)
			if err != nil {
				t.Fatal(err)
			}
			top := mat.DenseCopyOf(want.Vectors.Slice(0, dim, 0, 5))
			pencil.FixSigns(top)
			if e := apart(top, matrixOf(m)); !(e <= 1e-7) {
				t.Errorf("%s %v: maps differ by %.2g", method, params, e)
			}
			for j, l := range m.Eigenvalues() {
				if !(math.Abs(l-want.Values[j]) <= 1e-8*want.Values[0]) {
					t.Errorf("%s %v: eigenvalue %d is %.12g, of the full system %.12g", method, params, j, l,
						want.Values[j])
				}
			}
		}
	}
}

// mpdaForm computes the form that a fit of mpda or pmpda solves.
func mpdaForm(t *testing.T, data *model.Data, name string, params map[string]string) (*graph.Matrix, *tangent.Form,
	*frame.Task) {
	t.Helper()
	ctx := context.Background()
	m, p, err := Config{Method: name, Params: params}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	task := &frame.Task{Method: m, Params: p, Scaling: model.ScaleStandard, Report: &model.Report{}}
	rows, err := frame.Prepare(t.Context(), data, true, false, task.Report)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Load(ctx, rows); err != nil {
		t.Fatal(err)
	}
	frame.ChooseRidge(ctx, task)
	own, _, err := graph.NearestByClass(ctx, task.X, rows.Y, task.Int("k"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := own.Weights(graph.Union, graph.Heat(frame.HeatWidth(task, own)))
	if err != nil {
		t.Fatal(err)
	}
	patches, of := own.Patches(), linalg.Range(data.N)
	if name == "mpda" {
		_, patches = patch.PartitionClasses(ctx, task)
		of = tangent.PatchOf(patches, data.N)
	}
	spaces, err := graph.Tangents(ctx, task.X, patches, graph.EnergyDim(0.95))
	if err != nil {
		t.Fatal(err)
	}
	form := tangent.New(ctx, task.X, w, &tangent.Spaces{Patch: of, Spaces: spaces}, task.Float("gamma"))
	return w, form, task
}

func TestPMPDATakesSomeRowsAndSaysSo(t *testing.T) {
	m := fit(t, synthetic(40, 700, 4, 3), Config{Method: "pmpda"})
	if notes := m.Report().Notes; !slices.ContainsFunc(notes, func(s string) bool {
		return s == "500 of 700 rows were used, evenly spaced: the cost grows too fast with the rows"
	}) {
		t.Errorf("notes %q", notes)
	}
}
