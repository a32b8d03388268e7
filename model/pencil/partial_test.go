package pencil

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

// sparse is a symmetric matrix by rows for these tests.
type sparse struct {
	columns [][]int
	values  [][]float64
}

func newSparse(n int) *sparse {
	return &sparse{columns: make([][]int, n), values: make([][]float64, n)}
}

func (s *sparse) Order() int { return len(s.columns) }

func (s *sparse) Row(i int) ([]int, []float64) { return s.columns[i], s.values[i] }

func (s *sparse) Apply(dst, x *mat.Dense) {
	dst.Zero()
	for i, columns := range s.columns {
		row := dst.RawRowView(i)
		for p, c := range columns {
			v := s.values[i][p]
			for j, w := range x.RawRowView(c) {
				row[j] += v * w
			}
		}
	}
}

func (s *sparse) add(i, j int, v float64) {
	if p := slices.Index(s.columns[i], j); p >= 0 {
		s.values[i][p] += v
		return
	}
	s.columns[i] = append(s.columns[i], j)
	s.values[i] = append(s.values[i], v)
}

// join adds an edge of weight w to a Laplacian.
func (s *sparse) join(i, j int, w float64) {
	s.add(i, i, w)
	s.add(j, j, w)
	s.add(i, j, -w)
	s.add(j, i, -w)
}

// products hides the rows of an operator.
type products struct{ Operator }

// withSpectrum is a dense symmetric matrix with the given eigenvalues: a
// diagonal turned by reflections.
func withSpectrum(values []float64, seed uint64) *mat.SymDense {
	n := len(values)
	rng := rand.New(rand.NewPCG(seed, 7))
	a := mat.NewSymDense(n, nil)
	for i, v := range values {
		a.SetSym(i, i, v)
	}
	for range 3 {
		h := mat.NewVecDense(n, nil)
		for i := range n {
			h.SetVec(i, rng.NormFloat64())
		}
		h.ScaleVec(1/mat.Norm(h, 2), h)
		// H A H = A - 2 h w' - 2 w h', w = A h - (h'Ah) h.
		var w mat.VecDense
		w.MulVec(a, h)
		w.AddScaledVec(&w, -mat.Dot(h, &w), h)
		a.RankTwo(a, -2, h, &w)
	}
	return a
}

// sine is the sine of the largest angle between the spans of orthonormal columns.
func sine(a, b *mat.Dense) float64 {
	var c, r mat.Dense
	c.Mul(a.T(), b)
	r.Mul(a, &c)
	r.Sub(b, &r)
	var svd mat.SVD
	svd.Factorize(&r, mat.SVDNone)
	return svd.Values(nil)[0]
}

func ones(n int) *mat.Dense {
	x := mat.NewDense(n, 1, nil)
	for i := range n {
		x.Set(i, 0, 1)
	}
	return x
}

func spectrumOf(n int, f func(i int) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

var spectra = []struct {
	name   string
	values func(i, n int) float64
}{
	{"decaying", func(i, n int) float64 { return 1 / float64(i+1) }},
	{"graded", func(i, n int) float64 { return math.Pow(10, -8*float64(i)/float64(n)) }},
	{"indefinite", func(i, n int) float64 { return math.Cos(3 * float64(i)) }},
	{"clustered", func(i, n int) float64 { return 1/float64(i/3+1) + 1e-5*float64(i%3) }},
	{"flat", func(i, n int) float64 { return 1 + 1e-3*float64(i)/float64(n) }},
	{"even", func(i, n int) float64 { return float64(i) }},
}

func TestPartialAgreesWithFull(t *testing.T) {
	const n = 320
	for _, c := range spectra {
		values := spectrumOf(n, func(i int) float64 { return c.values(i, n) })
		s := withSpectrum(values, 3)
		up, vectors, err := eigen(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []End{Max, Min} {
			for _, d := range []int{1, 3, 12, 40} {
				start := time.Now()
				p, err := Partial(context.Background(), Dense(s), end, d, nil)
				if err != nil {
					t.Errorf("%s end %d d %d: %v", c.name, end, d, err)
					continue
				}
				took := time.Since(start)
				want := mat.NewDense(n, d, nil)
				worst, gap := 0.0, 0.0
				at := func(j int) int {
					if end == Max {
						return n - 1 - j
					}
					return j
				}
				for j := range d {
					worst = max(worst, math.Abs(p.Values[j]-up[at(j)]))
					want.SetCol(j, mat.Col(nil, at(j), vectors))
				}
				gap = math.Abs(up[at(d-1)] - up[at(d)])
				t.Logf("%s end %d d %d: %d products, %.3g s, value error %.2g, residual %.2g, gap %.2g, sine %.2g, notes %v", c.name, end, d, p.Products, took.Seconds(), worst/p.Largest, p.Residual/p.Largest, p.Gap, sine(want, p.Vectors), p.Notes)
				if worst > 1e-13*float64(n)*p.Largest {
					t.Errorf("%s end %d d %d: values differ by %g", c.name, end, d, worst)
				}
				if angle := sine(want, p.Vectors); angle > 1e-10+1e-14*float64(n)*p.Largest/gap {
					t.Errorf("%s end %d d %d: sine %g, gap %g", c.name, end, d, angle, gap)
				}
				if e := offIdentity(quadratic(identity(n), p.Vectors)); e > 1e-12 {
					t.Errorf("%s end %d d %d: vectors off orthonormal by %g", c.name, end, d, e)
				}
			}
		}
	}
}

func identity(n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 1)
	}
	return s
}

var _ = fmt.Sprint
var _ = errors.Is
var _ = runtime.NumCPU
var _ = strings.Contains
