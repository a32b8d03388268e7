package model

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestLinearKernelIsLSMPA: with the linear kernel and no ridge the kernel form
// spans what the linear one spans, among the outputs of the rows.
func TestLinearKernelIsLSMPA(t *testing.T) {
	for _, name := range []string{"iris", "wine"} {
		d := dataset(t, name)
		outputs := func(method string, params map[string]string) *mat.Dense {
			m, err := Fit(context.Background(), d, Config{Method: method, Dim: 3, Params: params})
			if err != nil {
				t.Fatalf("%s: %s: %v", name, method, err)
			}
			y := make([]float32, d.N*3)
			if err := m.Project(y, DenseRows(d.X, d.N, d.M)); err != nil {
				t.Fatal(err)
			}
			out := mat.NewDense(d.N, 3, nil)
			for i, v := range y {
				out.Set(i/3, i%3, float64(v))
			}
			return out
		}
		a := outputs("lsmpa", map[string]string{"ridge": "0"})
		b := outputs("ksmpa", map[string]string{"ridge": "0", "kernel": "linear"})
		for j := range 3 {
			if c := correlation(a.ColView(j), b.ColView(j)); math.Abs(c) < 1-1e-9 {
				t.Errorf("%s: output %d of lsmpa and of linear ksmpa correlate by %.12f", name, j, c)
			}
		}
	}
}

func correlation(a, b mat.Vector) float64 {
	n := float64(a.Len())
	ma, mb := mat.Sum(a)/n, mat.Sum(b)/n
	var ab, aa, bb float64
	for i := range a.Len() {
		x, y := a.AtVec(i)-ma, b.AtVec(i)-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// TestSMPADuplicates: equal rows have a geodesic of 0, which must not become an
// infinite weight.
func TestSMPADuplicates(t *testing.T) {
	d := dataset(t, "iris")
	twice := &Data{N: 2 * d.N, M: d.M, Classes: d.Classes}
	twice.X = append(append(twice.X, d.X...), d.X...)
	twice.Y = append(append(twice.Y, d.Y...), d.Y...)
	for _, method := range []string{"lsmpa", "ksmpa"} {
		m, err := Fit(context.Background(), twice, Config{Method: method, Dim: 2, Params: map[string]string{"ridge": "0.1"}})
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		right, err := m.Correct(d, d, 1)
		if err != nil || right < d.N*9/10 {
			t.Errorf("%s: %d of %d right, %v", method, right, d.N, err)
		}
	}
}

// TestSimilarityAlgorithms: on nonnegative rows both algorithms reach one
// objective, and it falls at every step.
func TestSimilarityAlgorithms(t *testing.T) {
	d := dataset(t, "iris")
	n := 40
	x := mat.NewDense(n, d.M, nil)
	for i := range n {
		for j := range d.M {
			x.Set(i, j, d.X[(i*3)*d.M+j]/8)
		}
	}
	g := mat.NewDense(n, n, nil)
	g.Mul(x, x.T())
	s, _ := heatSimilarity(squaredDistances(x), 0.02)
	learn := func(signed bool, steps int) *similarity {
		out, err := similarityRule{alpha: 1, beta: 1, steps: steps, tolerance: 1e-12, signed: signed}.learn(context.Background(), g, s, func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one, two := learn(true, 5000), learn(false, 5000)
	if diff := math.Abs(one.end-two.end) / two.end; diff > 1e-5 {
		t.Errorf("objectives %g and %g differ by %g", one.end, two.end, diff)
	}
	for _, r := range []*similarity{one, two} {
		if r.gradient > 1e-5 {
			t.Errorf("optimality condition is off by %g", r.gradient)
		}
		for i := range n {
			for j := range n {
				if v := r.w.At(i, j); !(v >= 0) || v != r.w.At(j, i) || i == j && v != 0 {
					t.Fatalf("w[%d,%d] = %g, w[%d,%d] = %g", i, j, v, j, i, r.w.At(j, i))
				}
			}
		}
	}
	for _, signed := range []bool{true, false} {
		last := math.Inf(1)
		for steps := range 30 {
			j := learn(signed, steps).end
			if j > last*(1+1e-12) {
				t.Errorf("signed %t: J rose from %g to %g at step %d", signed, last, j, steps)
			}
			last = j
		}
	}
}
