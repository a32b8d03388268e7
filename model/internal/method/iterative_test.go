package method_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/modeltest"
)

// iterativeFormulas are those of package iterative.
func iterativeFormulas() map[string]formula {
	return map[string]formula{
		"tnca": {"tnca", map[string]string{"ridge": "0.3", "iters": "2000"}, tnca},
		"lsdr": {"lsdr", map[string]string{"starts": "1", "iters": "2000"}, lsdr},
	}
}

// tnca minimises the mean of -log(p_i + 1e-12) + (0.03/d)|L|^2, where A = T L for the whitening T of S_w + rho I, so
// that |L|^2 = tr(A'(S_w + rho I)A).
func tnca(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	_, within, _ := scatters(p.X, p.Y, p.Classes)
	rho := p.Float(t, "ridge") * mat.Trace(within) / float64(p.Columns)
	return &modeltest.Criterion{Form: modeltest.Search, AnyScale: true, Tolerance: 1e-4,
		Objective: func(a *mat.Dense) float64 {
			var y mat.Dense
			y.Mul(p.X, a)
			n, d := y.Dims()
			loss := 0.0
			for i := range n {
				same, all := 0.0, 0.0
				for j := range n {
					if i == j {
						continue
					}
					k := math.Pow(1+distance2(&y, i, j)/8, -4)
					all += k
					if p.Y[i] == p.Y[j] {
						same += k
					}
				}
				loss -= math.Log(same/all+1e-12) / float64(n)
			}
			size := mat.Trace(conjugate(a, within))
			for j := range d {
				size += rho * mat.Dot(a.ColView(j), a.ColView(j))
			}
			return -loss - 0.03/float64(d)*size
		}}
}

// lsdr maximises the squared-loss mutual information of outputs and classes. Of up to 100 rows each is a centre.
func lsdr(t testing.TB, p *modeltest.Problem) *modeltest.Criterion {
	s, lambda := p.Float(t, "s"), p.Float(t, "lambda")
	return &modeltest.Criterion{Form: modeltest.Search, Tolerance: 1e-4, Objective: func(a *mat.Dense) float64 {
		var y mat.Dense
		y.Mul(p.X, a)
		n, _ := y.Dims()
		phi := func(i, class, l int) float64 {
			if p.Y[l] != class {
				return 0
			}
			return math.Exp(-distance2(&y, i, l) / (2 * s * s))
		}
		h, v := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for i := range n {
			own := mat.NewVecDense(n, nil)
			for l := range n {
				own.SetVec(l, phi(i, p.Y[i], l))
			}
			v.AddScaledVec(v, 1/float64(n), own)
			for class, count := range classCounts(p.Y, p.Classes) {
				each := mat.NewVecDense(n, nil)
				for l := range n {
					each.SetVec(l, phi(i, class, l))
				}
				h.SymRankOne(h, count/float64(n*n), each) // of the count rows j of the class
			}
		}
		ridged := mat.NewSymDense(n, nil)
		ridged.CopySym(h)
		for l := range n {
			ridged.SetSym(l, l, h.At(l, l)+lambda)
		}
		var alpha mat.VecDense
		if err := alpha.SolveVec(ridged, v); err != nil {
			t.Fatal(err)
		}
		return mat.Dot(&alpha, v) - mat.Inner(&alpha, h, &alpha)/2 - 0.5
	}}
}
