package scatter

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/stiefel"
	"github.com/embedd/embedd/model/pencil"
)

// pairacc: of the space of LDA, the k < C-1 directions that separate pairs of classes best. The whitened space T: all
// columns of max (S_b + 1e-3 S_w, S_w + rho I). With class means m_i in its first q = min(C-1, m) columns, t_ij = m_i -
// m_j and priors p_i, maximise over O'O = I (q x k)
//
//	F(O) = sum_{i<j} p_i p_j erf(|O't_ij| / (2 sqrt 2)),
//
// the pairwise accuracy of Loog, Duin and Haeb-Umbach (IEEE TPAMI 23, 2001) computed in the projected space. A = T[:,
// :q] O, padded with the next columns of T if d > q. Moments suffice.
var PairAcc = frame.Method{
	Name: "pairacc", Title: "pairwise accuracy directions",
	Paper: "after Loog, Duin and Haeb-Umbach, Multiclass linear dimension reduction by weighted pairwise Fisher " +
		"criteria, IEEE TPAMI 23, 2001",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []frame.Param{frame.RidgeParam("oas",
		"relative ridge of the within-class scatter: oas (auto is the same), or a number", true)},
	Dim:   frame.ClassDirections,
	Ridge: &frame.RidgeRule{Scatter: frame.WithinScatter},
	Fit:   fitPairAcc,
	// for fewer dimensions than the classes span
	Auto: &frame.Candidate{Rank: 7, Landmarks: true, Tried: func(d, classes int, _ bool) bool { return d < classes-1 }},
}

func fitPairAcc(ctx context.Context, t *frame.Task) *frame.Solution {
	q := frame.ClassDirections(t)
	k := min(t.D, q)
	s, err := frame.Whitening(ctx, t, max(q, t.D))
	if rank, ok := errors.AsType[*pencil.RankError](err); ok && rank.Max >= t.D {
		// The class means span fewer dimensions than C-1, and all of these fit.
		q = rank.Max
		s, err = frame.Whitening(ctx, t, q)
	}
	fail.Check(err)
	lead := s.Vectors.Slice(0, t.M, 0, q)
	o, search := PairDirections(ctx, t, lead, k)

	a := mat.NewDense(t.M, t.D, nil)
	a.Slice(0, t.M, 0, k).(*mat.Dense).Mul(lead, o)
	for j := k; j < t.D; j++ {
		a.SetCol(j, mat.Col(nil, j, s.Vectors))
	}
	return t.InBasis(a, nil, q).Searched(search)
}

// PairDirections is the O (q x k) that maximises F in the leading q columns of a whitened space.
func PairDirections(ctx context.Context, t *frame.Task, lead mat.Matrix, k int) (*mat.Dense, *model.Search) {
	p := &Pairs{Means: new(mat.Dense), Prior: make([]float64, t.Basis.Classes())}
	p.Means.Mul(t.Basis.Means, lead)
	for c, n := range t.Basis.Counts {
		p.Prior[c] = n / t.Basis.N
	}
	o := p.start(ctx, k)
	search := &model.Search{}
	ascent := stiefel.Ascent{Steps: 60, Gain: 1e-12, Value: p.Accuracy, Gradient: p.Gradient}
	return p.rotate(ctx, ascent.From(ctx, o, search)), search
}

// Pairs is the criterion: class means (C x q) in the whitened space, and priors.
type Pairs struct {
	Means *mat.Dense
	Prior []float64
}

// each calls f for every pair i < j of different rows of z with their distance.
func each(z *mat.Dense, f func(i, j int, distance float64)) {
	c, _ := z.Dims()
	for i := range c {
		a := z.RawRowView(i)
		for j := i + 1; j < c; j++ {
			sum := 0.0
			for l, v := range z.RawRowView(j) {
				sum += (a[l] - v) * (a[l] - v)
			}
			if sum > 0 {
				f(i, j, math.Sqrt(sum))
			}
		}
	}
}

// laplace is sum_{i<j} w_ij (x_i - x_j)(z_i - z_j)' for rows x of means and z.
func (p *Pairs) laplace(z *mat.Dense, w func(i, j int, distance float64) float64) *mat.Dense {
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
	out.Mul(p.Means.T(), r)
	return &out
}

// start is the leading k eigenvectors of the closed form of Loog et al.: sum p_i p_j erf(D/(2 sqrt 2))/(2 D^2) t t', D
// in the whole whitened space.
func (p *Pairs) start(ctx context.Context, k int) *mat.Dense {
	m := p.laplace(p.Means, func(i, j int, d float64) float64 {
		return p.Prior[i] * p.Prior[j] * math.Erf(d/(2*math.Sqrt2)) / (2 * d * d)
	})
	return frame.Leading(ctx, linalg.Symmetric(m), k)
}

// Accuracy is F(O).
func (p *Pairs) Accuracy(o *mat.Dense) float64 {
	var z mat.Dense
	z.Mul(p.Means, o)
	f := 0.0
	each(&z, func(i, j int, d float64) {
		f += p.Prior[i] * p.Prior[j] * math.Erf(d/(2*math.Sqrt2))
	})
	return f
}

// Gradient is dF/dO = sum p_i p_j exp(-D^2/8)/(sqrt(2 pi) D) t t'O, D = |O't|.
func (p *Pairs) Gradient(o *mat.Dense) *mat.Dense {
	var z mat.Dense
	z.Mul(p.Means, o)
	return p.laplace(&z, func(i, j int, d float64) float64 {
		return p.Prior[i] * p.Prior[j] * math.Exp(-d*d/8) / (math.Sqrt(2*math.Pi) * d)
	})
}

// rotate rotates O, which F does not determine, to the principal axes of the class means
// in its span: the first column separates them most.
func (p *Pairs) rotate(ctx context.Context, o *mat.Dense) *mat.Dense {
	var z mat.Dense
	z.Mul(p.Means, o)
	_, k := z.Dims()
	s := mat.NewSymDense(k, nil)
	for c, w := range p.Prior {
		s.SymRankOne(s, w, z.RowView(c))
	}
	r := frame.Leading(ctx, s, k)
	var out mat.Dense
	out.Mul(o, r)
	return &out
}
