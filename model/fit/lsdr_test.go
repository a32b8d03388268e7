package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method/iterative"
)

func information5(t *testing.T) (*iterative.Information, *plain, *model.Data) {
	t.Helper()
	data := uneven()
	p := plainly(data)
	q := iterative.NewInformation(p.x, &frame.Rows{N: data.N, M: data.M, Y: data.Y, Classes: data.Classes}, 20)
	q.S, q.Lambda = 1.5, 0.05
	return q, p, data
}

func TestLSDRGradient(t *testing.T) {
	q, _, _ := information5(t)
	rng := rand.New(rand.NewPCG(14, 1))
	for _, d := range []int{1, 2, 4} {
		a := randomFrame(rng, 5, d)
		g := q.Gradient(a)
		for i := range 5 {
			for j := range d {
				const h = 1e-5
				up, down := mat.DenseCopyOf(a), mat.DenseCopyOf(a)
				up.Set(i, j, a.At(i, j)+h)
				down.Set(i, j, a.At(i, j)-h)
				want := (q.Value(up) - q.Value(down)) / (2 * h)
				if !(math.Abs(g.At(i, j)-want) <= 1e-8) {
					t.Errorf("d=%d: dSMI/dA[%d,%d] is %g, by differences %g", d, i, j, g.At(i, j), want)
				}
			}
		}
	}
}

// The information by its formula: the whole H, from all pairs of rows.
func TestLSDRInformationIsItsFormula(t *testing.T) {
	q, p, data := information5(t)
	b, _ := q.Ref.Dims()
	a := randomFrame(rand.New(rand.NewPCG(15, 1)), 5, 2)
	var u, z mat.Dense
	u.Mul(p.x, a)
	z.Mul(q.Ref, a)
	class := make([]int, b)
	for c, own := range q.Own {
		for l := own[0]; l < own[1]; l++ {
			class[l] = c
		}
	}
	phi := func(i, y int) *mat.VecDense {
		v := mat.NewVecDense(b, nil)
		for l := range b {
			if class[l] == y {
				var e mat.VecDense
				e.SubVec(u.RowView(i), z.RowView(l))
				v.SetVec(l, math.Exp(-mat.Dot(&e, &e)/(2*q.S*q.S)))
			}
		}
		return v
	}
	n := float64(data.N)
	h, linear := mat.NewSymDense(b, nil), mat.NewVecDense(b, nil)
	for i := range data.N {
		for _, y := range data.Y {
			h.SymRankOne(h, 1/(n*n), phi(i, y))
		}
		linear.AddScaledVec(linear, 1/n, phi(i, data.Y[i]))
	}
	var alpha mat.VecDense
	if err := alpha.SolveVec(ridged(h, q.Lambda), linear); err != nil {
		t.Fatal(err)
	}
	want := mat.Dot(&alpha, linear) - mat.Inner(&alpha, h, &alpha)/2 - 0.5
	if got := q.Value(a); !(math.Abs(got-want) <= 1e-10) {
		t.Errorf("information %v, want %v", got, want)
	}
}

// Columns are orthonormal, outputs uncorrelated, and the information is no less
// than at the start.
func TestLSDRClimbs(t *testing.T) {
	for _, name := range []string{"iris"} {
		for _, d := range []int{1, 2} {
			m := fit(t, fixture.Dataset(t, name), Config{Method: "lsdr", Dim: d, Seed: 1})
			s := m.Report().Search
			t.Logf("%s d=%d: %.4f to %.4f in %d steps, gradient %.2g", name, d, s.Start, s.End, s.Steps, s.Gradient)
			if !(s.End >= s.Start) {
				t.Errorf("%s d=%d: information %g to %g", name, d, s.Start, s.End)
			}
			if e := notIdentity(form(ridged(mat.NewSymDense(m.M(), nil), 1), matrixOf(m))); !(e <= 1e-9) {
				t.Errorf("%s d=%d: A'A differs from I by %g", name, d, e)
			}
		}
	}
}

// The one direction that has the class is found, where LDA finds nothing: the classes have the same mean.
func TestLSDRFindsWhatMeansDoNotShow(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	data := &model.Data{N: 300, M: 5, Classes: []string{"inside", "outside"}}
	for i := range data.N {
		for j := range 5 {
			v := rng.NormFloat64()
			if j == 2 {
				v = (0.5 + float64(i%2)*2) * math.Copysign(1+0.2*rng.Float64(), v)
			}
			data.X = append(data.X, v)
		}
		data.Y = append(data.Y, i%2)
	}
	a := matrixOf(fit(t, data, Config{Method: "lsdr", Dim: 1, Seed: 1}))
	if share := math.Abs(a.At(2, 0)) / mat.Norm(a, 2); !(share >= 0.98) {
		t.Errorf("the direction %v holds %.3f of what matters", mat.Formatted(a.T()), share)
	}
}
