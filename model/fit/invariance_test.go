package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method"
)

// shaped is a method whose map is not one matrix, with parameters, and with what its outputs depend on at scale none.
type shaped struct {
	method string
	params string // name=value name=value
	// order: the order of the rows; origin: moving all rows. No output depends on a rotation of all rows.
	order, origin bool
}

// le, lle and isomap are tested in manifold_test.go, linear methods in fit_test.go.
// The chi2 kernel is not here: it is for values from 0 on, which neither a move nor
// a turn keeps.
var shapedMethods = []shaped{
	{method: "ksmpa"}, // distances
	{method: "ksmpa", params: "kernel=linear"},
	{method: "ksmpa", params: "kernel=polynomial"}, // products about the mean
	{method: "ksmpa", params: "kernel=cosine"},
	{method: "tsimr"}, // distances and tangents
	{method: "tsimr", params: "gamma=10"},
	// A partition depends on the order by the algorithm of its authors: a split grows two patches alternately, beginning
	// with the earlier of the two rows that are farthest apart.
	{method: "mp-tsimr", params: "patch_size=16", order: true},
	{method: "mp-tsimr", params: "patch_size=16 gamma=10", order: true},
	{method: "lenews", origin: true}, // products of rows about their own zero, as its paper has it
	{method: "lenewks"},
	{method: "lenewks", params: "kernel=linear", origin: true}, // lenews
	{method: "lenewks", params: "kernel=polynomial"},
	// The constant feature is added to rows about their mean.
	{method: "sle-ovr"},
	{method: "sle-ovr", params: "origin=mean"},
	{method: "sle-ovr", params: "origin=none", origin: true}, // the literal form
}

func (s shaped) String() string { return strings.TrimSpace(s.method + " " + s.params) }

func (s shaped) config(scale model.Scale) Config {
	c := Config{Method: s.method, Dim: 2, Scale: scale, Params: map[string]string{}}
	for _, m := range method.Table {
		if m.Name == s.method {
			for name, v := range fixed(m) {
				c.Params[name] = v
			}
		}
	}
	for _, set := range strings.Fields(s.params) {
		name, value, _ := strings.Cut(set, "=")
		c.Params[name] = value
	}
	return c
}

func TestEveryMapIsTestedForInvariance(t *testing.T) {
	for _, m := range method.Table {
		if m.Map != "linear" && !slices.Contains(manifoldMethods, m.Name) &&
			!slices.ContainsFunc(shapedMethods, func(s shaped) bool { return s.method == m.Name }) {
			t.Errorf("%s is not among them", m.Name)
		}
	}
}

// outputsAt returns the outputs of rows, in every view if there is one for each class: signs are fixed in each.
func outputsAt(t *testing.T, m *model.Model, x *mat.Dense) *mat.Dense {
	t.Helper()
	n, features := x.Dims()
	v, ok := m.Content().Map.(*mapping.Views)
	if !ok {
		y := project(t, m, model.DenseRows(x.RawMatrix().Data, n, features))
		out := mat.NewDense(n, m.Dim(), nil)
		out.Apply(func(i, j int, _ float64) float64 { return float64(y[i*m.Dim()+j]) }, out)
		return out
	}
	z, out := scaled(t, m, x), mat.NewDense(n, v.Count()*v.D, nil)
	for c := range v.Count() {
		y := out.Slice(0, n, c*v.D, (c+1)*v.D).(*mat.Dense)
		y.Mul(z, mat.NewDense(features, v.D, v.Of(c)))
		y.Apply(func(_, j int, a float64) float64 { return a + v.Offset[c*v.D+j] }, y)
	}
	return out
}

// scaled are rows in the scale of a model.
func scaled(t *testing.T, m *model.Model, x *mat.Dense) *mat.Dense {
	t.Helper()
	n, features := x.Dims()
	z := mat.NewDense(n, features, nil)
	if err := m.ScaledTo(z.RawMatrix().Data, model.DenseRows(x.RawMatrix().Data, n, features)); err != nil {
		t.Fatal(err)
	}
	return z
}

// The map does not depend on the order of the rows, and follows rows that move or rotate together, at the rows of the
// fit and at others; except if its definition depends on the order or the origin.
func TestMapsFollowTheirRows(t *testing.T) {
	const n, m = 60, 4
	data := synthetic(12, n, m, 3)
	x, other := mat.NewDense(n, m, data.X), mat.NewDense(n, m, nil)
	for i := range n {
		for j := range m { // between two rows, nearer to the first
			other.Set(i, j, 0.8*x.At(i, j)+0.2*x.At((i+7)%n, j))
		}
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	mixed := &model.Data{N: n, M: m, Classes: data.Classes}
	for _, i := range order {
		mixed.X = append(mixed.X, x.RawRowView(i)...)
		mixed.Y = append(mixed.Y, data.Y[i])
	}
	q := rotation(3, m)
	move := func(a *mat.Dense) *mat.Dense {
		out := mat.DenseCopyOf(a)
		out.Apply(func(_, j int, v float64) float64 { return v + 40*float64(j+1) }, out)
		return out
	}
	turn := func(a *mat.Dense) *mat.Dense {
		out := new(mat.Dense)
		out.Mul(a, q)
		return out
	}
	same := func(a *mat.Dense) *mat.Dense { return a }
	turned, moved := *data, *data
	turned.X, moved.X = turn(x).RawMatrix().Data, move(x).RawMatrix().Data
	for _, s := range shapedMethods {
		c := s.config(model.ScaleNone)
		a := fit(t, data, c)
		for _, change := range []struct {
			name    string
			data    *model.Data
			output  func(*mat.Dense) *mat.Dense
			depends bool
		}{{"in another order", mixed, same, s.order}, {"moved", &moved, move, s.origin},
			{"turned", &turned, turn, false}} {
			b := fit(t, change.data, c)
			for _, at := range []*mat.Dense{x, other} {
				e := apartEmbedded(outputsAt(t, a, at), outputsAt(t, b, change.output(at)))
				if !change.depends && !(e < 1e-6) {
					t.Errorf("%s: outputs of rows %s are %.2g apart", s, change.name, e)
				}
				if change.depends && !(e >= 1e-3) {
					t.Errorf("%s: outputs of rows %s are only %.2g apart: it does not depend on that", s,
						change.name, e)
				}
			}
		}
	}
}

// Rows of the fit are mapped to their outputs in the fit: to the last bit by the rule of distance zero and in the
// window of the views, by its formula with a kernel.
func TestRowsOfTheFitComeBack(t *testing.T) {
	for name, data := range map[string]*model.Data{"tall": synthetic(13, 60, 4, 3), "wide": synthetic(14, 30, 50, 3)} {
		x := mat.NewDense(data.N, data.M, data.X)
		for _, s := range shapedMethods {
			for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleMinMax, model.ScaleUnit,
				model.ScaleNone} {
				m := fit(t, data, s.config(scale))
				got := project(t, m, model.DenseRows(data.X, data.N, data.M))
				switch e := m.Content().Map.(type) {
				case *mapping.Views:
					for i, c := range data.Y { // rows are in their order, in the view of their class
						for j := range e.D {
							if want := e.Window[(c*data.N+i)*e.D+j]; float64(got[i*e.D+j]) != want {
								t.Fatalf("%s, %s, %s: row %d comes back at %g, not %g", name, s, scale, i,
									got[i*e.D+j], want)
							}
						}
					}
				case *mapping.KernelMap:
					want := kernelOutputs(scaled(t, m, x), e, s.params)
					size := mat.Max(absolute(want))
					for i, v := range got {
						if !(math.Abs(float64(v)-want.At(i/e.D, i%e.D)) <= 1e-6*size) {
							t.Fatalf("%s, %s, %s: row %d comes back at %g, not %g", name, s, scale, i/e.D, v,
								want.At(i/e.D, i%e.D))
						}
					}
				default:
					y := embeddingOf(m)
					for i, v := range got {
						if v != float32(y.At(i/2, i%2)) {
							t.Fatalf("%s, %s, %s: row %d comes back at %g, not %g", name, s, scale, i/2, v,
								y.At(i/2, i%2))
						}
					}
				}
			}
		}
	}
}

// kernelOutputs are sum_i a_i k(z, z_i) of the rows z of a fit, with the kernel of
// all of them.
func kernelOutputs(z *mat.Dense, e *mapping.KernelMap, params string) *mat.Dense {
	n, m := z.Dims()
	rows := mat.NewDense(len(e.Rows)/m, m, e.Rows)
	p := &plain{n: n, m: m, x: z}
	var squared []float64
	for i := range n {
		for j := range i {
			squared = append(squared, p.dist2(i, j))
		}
	}
	width := linalg.Median(squared)
	carriers, _ := rows.Dims()
	k := mat.NewDense(n, carriers, nil)
	k.Apply(func(i, j int, _ float64) float64 {
		a, b := z.RowView(i), rows.RowView(j)
		switch params {
		case "kernel=linear":
			return mat.Dot(a, b)
		case "kernel=polynomial":
			v := mat.Dot(a, b)/float64(m) + 1
			return v * v
		case "kernel=cosine":
			return mat.Dot(a, b) / mat.Norm(a, 2) / mat.Norm(b, 2)
		}
		var d mat.VecDense
		d.SubVec(a, b)
		return math.Exp(-mat.Dot(&d, &d) / width)
	}, k)
	out := new(mat.Dense)
	out.Mul(k, mat.NewDense(carriers, e.D, e.Coefficients))
	return out
}
