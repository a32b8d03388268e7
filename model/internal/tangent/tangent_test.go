package tangent

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
)

// lines are three patches of rows in the plane: the first two have lines as tangent spaces, the third has none. Rows 0
// and 1 are joined by a weight of 3, rows 1 and 2 by one of 5.
func lines(t *testing.T, angle float64) (*mat.Dense, *graph.Matrix, *Spaces) {
	t.Helper()
	w, err := graph.FromDense(mat.NewDense(3, 3, []float64{0, 3, 0, 3, 0, 5, 0, 5, 0}), 0)
	if err != nil {
		t.Fatal(err)
	}
	line := func(x, y float64) *graph.Tangent {
		return &graph.Tangent{Singular: []float64{1}, Basis: mat.NewDense(2, 1, []float64{x, y})}
	}
	return mat.NewDense(3, 2, []float64{0, 0, 2, 1, 5, 5}), w, &Spaces{Patch: []int{0, 1, 2},
		Spaces: []*graph.Tangent{line(1, 0), line(math.Cos(angle), math.Sin(angle)), {Basis: new(mat.Dense)}}}
}

// TestFormByHand compares the form with sum_ij W_ij (f_i - f_j - v_j B_ji)^2 + gamma sum_ij W_ij (v_i - A_ij v_j)^2,
// for three rows.
func TestFormByHand(t *testing.T) {
	const gamma = 2
	for _, angle := range []float64{0, 0.3, math.Pi / 2} {
		x, w, tan := lines(t, angle)
		f := New(t.Context(), x, w, tan, gamma)
		a := math.Cos(angle)
		// B_10 = T_0'(x_1 - x_0), and so on: the third patch has no tangent vector.
		b0, b1, b2 := 2.0, -2*a-math.Sin(angle), 3*a+4*math.Sin(angle)
		if f.Dim() != 2 || !slices.Equal(f.Start, []int{0, 1, 2, 2}) {
			t.Fatalf("coordinates start at %v", f.Start)
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("angle %g: %s is %g, want %g", angle, what, got, want)
			}
		}
		// The other end of a patch without tangent vectors counts in the degree only.
		near("S3[0,0]", f.S3[0].At(0, 0), 3*b0*b0+gamma*(3+3*a*a))
		near("S3[1,1]", f.S3[1].At(0, 0), 3*b1*b1+5*b2*b2+gamma*(8+3*a*a))
		near("tr S3", f.Trace(), f.S3[0].At(0, 0)+f.S3[1].At(0, 0))
		if !slices.Equal(f.Rows[0], []int{0, 1}) || !slices.Equal(f.Rows[1], []int{0, 1, 2}) || f.S2[2] != nil {
			t.Errorf("rows %v", f.Rows)
		}
		near("S2[0,0]", f.S2[0].At(0, 0), 3*b0)
		near("S2[1,0]", f.S2[0].At(1, 0), -3*b0)
		near("S2[1,1]", f.S2[1].At(1, 0), 3*b1+5*b2)
		near("S2[2,1]", f.S2[1].At(2, 0), -5*b2)
		if len(f.Links) != 1 || f.Links[0].P != 0 || f.Links[0].Q != 1 {
			t.Fatalf("links %+v", f.Links)
		}
		near("S3[0,1]", f.Links[0].S3.At(0, 0), -2*gamma*3*a)
		s := f.Connection()
		near("the connection of both", s.At(0, 1), -2*gamma*3*a)
		near("the connection of the first", s.At(0, 0), f.S3[0].At(0, 0))
		if parts := f.parts(); len(parts) != 1 || !slices.Equal(parts[0], []int{0, 1}) {
			t.Errorf("parts %v", parts)
		}
	}
	x, w, tan := lines(t, 0.3)
	plain := New(t.Context(), x, w, tan, 0)
	if parts := plain.parts(); len(parts) != 2 || len(plain.Links) != 0 || !(math.Abs(plain.S3[0].At(0, 0)-12) <= 1e-12) {
		t.Errorf("without a connection: parts %v, S3 %g", parts, plain.S3[0].At(0, 0))
	}
	// S1 - S2 S3^-1 S2' of one row pair: with S3 = 3 b0^2 the data of the first patch is explained.
	all := plain.Factor(t.Context(), 0)
	m := plain.Eliminate(all)
	for i := range 3 {
		for j := range 3 {
			s1 := []float64{6, -6, 0, -6, 16, -10, 0, -10, 10}[3*i+j]
			s2 := [2][3]float64{}
			for p := range 2 {
				for at, r := range plain.Rows[p] {
					s2[p][r] = plain.S2[p].At(at, 0)
				}
				s1 -= s2[p][i] * s2[p][j] / plain.S3[p].At(0, 0)
			}
			if !(math.Abs(m.At(i, j)-s1) <= 1e-9) {
				t.Errorf("entry %d, %d is %g, want %g", i, j, m.At(i, j), s1)
			}
		}
	}
	linear := plain.EliminateLinear(t.Context(), x, all)
	var xm, want mat.Dense
	xm.Mul(m, x)
	want.Mul(x.T(), &xm)
	if !mat.EqualApprox(linear, &want, 1e-9) {
		t.Errorf("the linear form is %v", mat.Formatted(linear))
	}
	v := plain.Vectors(all, mat.NewDense(3, 1, []float64{1, 2, 4}))
	if got, want := v[0].At(0, 0), -(3*2-3*2*2)/12.; v[2] != nil || !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("the tangent vector of the first patch is %g, want %g", got, want)
	}
	if of := PatchOf([][]int{{2, 0}, {1}}, 3); !slices.Equal(of, []int{0, 1, 0}) {
		t.Errorf("patches %v", of)
	}
}

// TestPseudoInverses: values up to 1e-10 of the largest count as 0, and zero has no inverse.
func TestPseudoInverses(t *testing.T) {
	if q, null, err := PseudoInverse(t.Context(), mat.NewSymDense(2, nil)); q != nil || null != nil || err != nil {
		t.Errorf("of zero: %v, %v, %v", q, null, err)
	}
	empty, b := &Part{}, mat.NewDense(2, 1, []float64{1, 2})
	if empty.Half(b) != nil || mat.Norm(empty.Solve(b), 1) != 0 {
		t.Error("a part that is zero has an inverse")
	}
	for least, want := range map[float64]int{1.1e-10: 0, 0.9e-10: 1, 0: 1} {
		s := mat.NewSymDense(3, []float64{4, 0, 0, 0, 4 * least, 0, 0, 0, 2})
		q, null, err := PseudoInverse(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		if null != nil {
			_, count = null.Dims()
		}
		p := &Part{Metric: q, Null: null}
		got := p.Solve(mat.NewDense(3, 1, []float64{1, 1, 1}))
		if count != want || !(math.Abs(got.At(0, 0)-0.25) <= 1e-9) || !(math.Abs(got.At(2, 0)-0.5) <= 1e-9) ||
			want == 1 && !(math.Abs(got.At(1, 0)) <= 1e-9) {
			t.Errorf("least value %g: %d are zero, %v", least, count, mat.Formatted(got.T()))
		}
		half := p.Half(mat.NewDense(3, 1, []float64{1, 1, 1}))
		if n := mat.Norm(half, 2); want == 1 && !(math.Abs(n*n-0.75) <= 1e-9) {
			t.Errorf("least value %g: |Z'b|^2 is %g", least, n*n)
		}
	}
	// With an eighth of the values zero, the whole matrix is decomposed.
	const n = 80
	s := mat.NewSymDense(n, nil)
	for i := 30; i < n; i++ {
		s.SetSym(i, i, 1)
	}
	if _, _, err := deflated(t.Context(), s, 1); err == nil || !strings.HasPrefix(err.Error(),
		"more than 16 of 80 eigen") {
		t.Error(err)
	}
	for i := 3; i < n; i++ {
		s.SetSym(i, i, 1)
	}
	if _, null, err := deflated(t.Context(), s, 1); err != nil {
		t.Error(err)
	} else if _, k := null.Dims(); k != 3 {
		t.Errorf("%d of 3 values are zero", k)
	}
}
