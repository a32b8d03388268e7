package model

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// pairacc: of the space of LDA, the k < C-1 directions in which pairs of classes
// are told apart best. White space T: all columns of
// max (S_b + 1e-3 S_w, S_w + rho I). With class means m_i in its first
// q = min(C-1, m) columns, t_ij = m_i - m_j and priors p_i, maximise over
// O'O = I (q x k)
//
//	F(O) = sum_{i<j} p_i p_j erf(|O't_ij| / (2 sqrt 2)),
//
// the pairwise accuracy of Loog, Duin and Haeb-Umbach (IEEE TPAMI 23, 2001)
// taken in the projected space. A = T[:, :q] O, padded with the next columns of
// T where d > q. Moments suffice.
var pairacc = Method{
	Name: "pairacc", Title: "pairwise accuracy directions",
	Paper:      "after Loog, Duin and Haeb-Umbach, Multiclass linear dimension reduction by weighted pairwise Fisher criteria, IEEE TPAMI 23, 2001",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []Param{ridgeParam("oas", "relative ridge of the within-class scatter: oas (auto is the same), or a number", true)},
	dim:    classDirections,
	bound:  func(t *task) (int, string) { return t.columns, rankOfTotal },
	ridge:  &ridgeRule{of: withinScatter},
	fit:    fitPairAcc,
}

// whiteSpace is T, at most count columns (0: all), and its eigenvalues. The
// share of S_w in the numerator orders the columns past the class means.
func (t *task) whiteSpace(count int) (*pencil.Solution, error) {
	q, err := t.ridgeMetric(t.stat.within)
	if err != nil {
		return nil, err
	}
	n := mat.NewSymDense(t.m, nil)
	n.ScaleSym(1e-3, t.stat.within)
	n.SymRankK(n, 1, t.stat.betweenFactor())
	return pencil.Solve(n, q, pencil.Max, count)
}

func fitPairAcc(ctx context.Context, t *task) (*solution, error) {
	q := classDirections(t)
	k := min(t.d, q)
	s, err := t.whiteSpace(max(q, t.d))
	var rank *pencil.RankError
	if errors.As(err, &rank) && rank.Max >= t.d {
		// Class means that span less than they could, and all d fit all the same.
		q = rank.Max
		s, err = t.whiteSpace(q)
	}
	if err != nil {
		return nil, err
	}
	lead := s.Vectors.Slice(0, t.m, 0, q)
	o, search, err := t.pairDirections(ctx, lead, k)
	if err != nil {
		return nil, err
	}
	t.report.Search = search

	a := mat.NewDense(t.m, t.d, nil)
	a.Slice(0, t.m, 0, k).(*mat.Dense).Mul(lead, o)
	for j := k; j < t.d; j++ {
		a.SetCol(j, mat.Col(nil, j, s.Vectors))
	}
	sol := t.solved(s, q)
	sol.components, sol.d, sol.eigenvalues = a.RawMatrix().Data, t.d, nil
	// Gap and residual are those of the white space, not of the directions in it.
	t.report.Gap, t.report.Ties, t.report.Residual = nil, nil, 0
	return sol, nil
}

// pairDirections is the O (q x k) that maximises F in the leading q columns of a
// white space.
func (t *task) pairDirections(ctx context.Context, lead mat.Matrix, k int) (*mat.Dense, *Search, error) {
	p := &pairs{means: new(mat.Dense), prior: make([]float64, t.stat.classes())}
	p.means.Mul(t.stat.means, lead)
	for c, n := range t.stat.counts {
		p.prior[c] = n / t.stat.n
	}
	o, err := p.start(k)
	if err != nil {
		return nil, nil, err
	}
	search := &Search{Start: p.accuracy(o)}
	ascent := climb{steps: 60, value: p.accuracy, gradient: p.gradient}
	if o, err = ascent.from(ctx, o, search); err != nil {
		return nil, nil, err
	}
	if o, err = p.turn(o); err != nil {
		return nil, nil, err
	}
	search.End = p.accuracy(o)
	return o, search, nil
}

// pairs is the criterion: class means (C x q) in the white space, and priors.
type pairs struct {
	means *mat.Dense
	prior []float64
}

// least is the distance below which two means coincide.
const least = 1e-9

// each calls f for every pair i < j of rows of z with their distance.
func each(z *mat.Dense, f func(i, j int, distance float64)) {
	c, _ := z.Dims()
	for i := range c {
		a := z.RawRowView(i)
		for j := i + 1; j < c; j++ {
			sum := 0.0
			for l, v := range z.RawRowView(j) {
				sum += (a[l] - v) * (a[l] - v)
			}
			f(i, j, math.Sqrt(sum))
		}
	}
}

// laplace is sum_{i<j} w_ij (x_i - x_j)(z_i - z_j)' for rows x of means and z.
func (p *pairs) laplace(z *mat.Dense, w func(i, j int, distance float64) float64) *mat.Dense {
	c, k := z.Dims()
	r := mat.NewDense(c, k, nil)
	each(z, func(i, j int, d float64) {
		weight := w(i, j, d)
		a, b := z.RawRowView(i), z.RawRowView(j)
		ri, rj := r.RawRowView(i), r.RawRowView(j)
		for l := range a {
			t := weight * (a[l] - b[l])
			ri[l] += t
			rj[l] -= t
		}
	})
	var out mat.Dense
	out.Mul(p.means.T(), r)
	return &out
}

// start is the leading k eigenvectors of the closed form of Loog et al.:
// sum p_i p_j erf(D/(2 sqrt 2))/(2 D^2) t t', D in the whole white space.
func (p *pairs) start(k int) (*mat.Dense, error) {
	m := p.laplace(p.means, func(i, j int, d float64) float64 {
		w := p.prior[i] * p.prior[j]
		if d < least {
			return w / (2 * math.Sqrt(2*math.Pi) * max(d, least))
		}
		return w * math.Erf(d/(2*math.Sqrt2)) / (2 * d * d)
	})
	return leading(symmetric(m), k)
}

// leading is the k leading eigenvectors, of zero eigenvalues too.
func leading(s *mat.SymDense, k int) (*mat.Dense, error) {
	n := s.SymmetricDim()
	minus := mat.NewSymDense(n, nil)
	minus.ScaleSym(-1, s)
	sol, err := pencil.Solve(minus, pencil.Identity(n), pencil.Min, k)
	if err != nil {
		return nil, err
	}
	return sol.Vectors, nil
}

// accuracy is F(O).
func (p *pairs) accuracy(o *mat.Dense) float64 {
	var z mat.Dense
	z.Mul(p.means, o)
	f := 0.0
	each(&z, func(i, j int, d float64) {
		f += p.prior[i] * p.prior[j] * math.Erf(d/(2*math.Sqrt2))
	})
	return f
}

// gradient is dF/dO = sum p_i p_j exp(-D^2/8)/(sqrt(2 pi) D) t t'O, D = |O't|.
func (p *pairs) gradient(o *mat.Dense) *mat.Dense {
	var z mat.Dense
	z.Mul(p.means, o)
	return p.laplace(&z, func(i, j int, d float64) float64 {
		d = max(d, least)
		return p.prior[i] * p.prior[j] * math.Exp(-d*d/8) / (math.Sqrt(2*math.Pi) * d)
	})
}

// turn rotates O, which F leaves free, to the principal axes of the class means
// in its span: the first column tells the most apart.
func (p *pairs) turn(o *mat.Dense) (*mat.Dense, error) {
	var z mat.Dense
	z.Mul(p.means, o)
	_, k := z.Dims()
	s := mat.NewSymDense(k, nil)
	for c, w := range p.prior {
		s.SymRankOne(s, w, z.RowView(c))
	}
	r, err := leading(s, k)
	if err != nil {
		return nil, err
	}
	var out mat.Dense
	out.Mul(o, r)
	return &out, nil
}
