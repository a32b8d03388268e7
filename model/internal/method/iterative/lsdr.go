package iterative

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/stiefel"
)

// lsdr: the directions W (orthonormal rows) whose outputs u = W x share most squared-loss mutual information with the
// class, estimated by least squares with b centres u_l = W x_l:
//
//	phi_l(u, y) = exp(-|u - u_l|^2 / 2 s^2) [y = y_l],
//	H = (1/n^2) sum_ij phi(u_i, y_j) phi(u_i, y_j)',  h = (1/n) sum_i phi(u_i, y_i),
//	alpha = (H + lambda I)^-1 h,  SMI = alpha'h - alpha'H alpha/2 - 1/2.
//
// H has one block per class. With beta = lambda (H + lambda I)^-1 alpha,
//
//	dSMI = (alpha + beta)'dh - alpha'dH alpha/2 - beta'dH alpha.
//
// s and lambda come from cross-validation of J = alpha'H alpha/2 - h'alpha at the directions of LDA; the ascent starts
// there, at those of PCA and at random ones drawn from the seed. Suzuki and Sugiyama, Neural Computation 25, 2013.
var LSDR = frame.Method{
	Name: "lsdr", Title: "least-squares dimension reduction",
	Paper: "Suzuki and Sugiyama, Sufficient dimension reduction via squared-loss mutual information estimation, " +
		"AISTATS 2010; Neural Computation 25, 2013",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("centres", "100", "rows that are kernel centres, evenly spaced in each class", 2),
		frame.IntParam("starts", "5", "starts of the search: LDA, PCA, then random ones", 1),
		frame.IntParam("iters", "100", "most steps from each start", 1),
		frame.FloatParam("s", "auto", "width of the kernels: auto (cross-validation over 0.5, 1 and 2 times the median "+
			"distance), or a number", 1e-9, 1e9, "auto"),
		frame.FloatParam("lambda", "auto", "regularisation of alpha: auto (cross-validation over 0.001, 0.1 and 10), or "+
			"a number", 1e-12, 1e12, "auto"),
	},
	Memory: func(e frame.Extent) int64 { return e.Copies(4, 6500) },
	Fit:    fitLSDR,
}

func fitLSDR(ctx context.Context, t *frame.Task) *frame.Solution {
	starts := lsdrStarts(ctx, t)
	q := NewInformation(t.X, t.Rows, t.Int("centres"))
	q.chooseParams(ctx, t, starts[0])
	found := make([]*mat.Dense, len(starts))
	searches := make([]model.Search, len(starts))
	fail.Check(parallel.EachProgress(ctx, len(starts), func(i int) {
		own := *q // each start has a separate last point
		ascent := stiefel.Ascent{Steps: t.Int("iters"), Gain: 1e-9, Value: own.Value, Gradient: own.Gradient}
		found[i] = ascent.From(ctx, starts[i], &searches[i])
	}, func(done int) { t.ReportProgress("search", float64(done)/float64(len(starts))) }))
	var best *mat.Dense
	search := &model.Search{Start: searches[0].Start, End: math.Inf(-1), Limit: searches[0].Limit}
	for i, s := range searches {
		search.Steps += s.Steps
		if s.End > search.End {
			best, search.End, search.Gradient, search.Converged = found[i], s.End, s.Gradient, s.Converged
		}
	}
	sol := t.InBasis(frame.Principal(ctx, t, best), nil, t.D)
	return sol.Searched(search).Use("s", q.S).Use("lambda", q.Lambda)
}

// Information is the estimate of squared-loss mutual information.
type Information struct {
	x, Ref    *mat.Dense // rows (n x m) and centres (b x m), centres by class
	y         []int      // class of each row
	Own       [][2]int   // of each class: its centres [from, to)
	count     []float64  // of each class: its rows
	S, Lambda float64

	last point // of the last Value: a search asks for the gradient there next
}

// point is the estimate at directions a.
type point struct {
	a           *mat.Dense
	k, u, z     *mat.Dense
	alpha, beta []float64
	smi         float64
}

// at is the point of the rows at a.
func (q *Information) at(a *mat.Dense) *point {
	if q.last.a == nil || !mat.Equal(q.last.a, a) {
		p := point{a: mat.DenseCopyOf(a)}
		p.k, p.u, p.z = q.kernel(q.x, a)
		p.alpha, p.beta, p.smi = q.solve(p.k)
		q.last = p
	}
	return &q.last
}

func NewInformation(x *mat.Dense, p *frame.Rows, centres int) *Information {
	q := &Information{x: x, y: p.Y, count: make([]float64, len(p.Classes))}
	for _, c := range p.Y {
		q.count[c]++
	}
	var rows []int
	rows, q.Own = p.References(centres, 1)
	q.Ref = linalg.Pick(x, rows)
	return q
}

// kernel is exp(-|u_i - u_l|^2 / 2 s^2) of rows and centres, n x b, with the outputs of both.
func (q *Information) kernel(x, a *mat.Dense) (k, u, z *mat.Dense) {
	n, _ := x.Dims()
	b, _ := q.Ref.Dims()
	k, u, z = mat.NewDense(n, b, nil), new(mat.Dense), new(mat.Dense)
	u.Mul(x, a)
	z.Mul(q.Ref, a)
	f := -1 / (2 * q.S * q.S)
	for i := range n {
		row, ui := k.RawRowView(i), u.RawRowView(i)
		for l := range row {
			sum := 0.0
			for j, v := range z.RawRowView(l) {
				sum += (ui[j] - v) * (ui[j] - v)
			}
			row[l] = math.Exp(f * sum)
		}
	}
	return k, u, z
}

// solve is alpha and beta, and the quadratic and linear form of alpha, by class.
func (q *Information) solve(k *mat.Dense) (alpha, beta []float64, smi float64) {
	_, b := k.Dims()
	alpha, beta = make([]float64, b), make([]float64, b)
	smi = -0.5
	for c, own := range q.Own {
		size := own[1] - own[0]
		if size == 0 {
			continue
		}
		h, linear := q.forms(k, q.y, q.count[c], c)
		kept := mat.NewSymDense(size, nil)
		kept.CopySym(h)
		for l := range size {
			h.SetSym(l, l, h.At(l, l)+q.Lambda)
		}
		var chol mat.Cholesky
		a, bb := mat.NewVecDense(size, alpha[own[0]:own[1]]), mat.NewVecDense(size, beta[own[0]:own[1]])
		if !chol.Factorize(h) || chol.SolveVecTo(a, linear) != nil || chol.SolveVecTo(bb, a) != nil {
			return alpha, beta, math.Inf(-1) // lambda is below rounding error
		}
		bb.ScaleVec(q.Lambda, bb)
		smi += mat.Dot(a, linear) - mat.Inner(a, kept, a)/2
	}
	return alpha, beta, smi
}

// forms are the blocks of H and h of class c over some rows, of which count are of the class.
func (q *Information) forms(k *mat.Dense, y []int, count float64, c int) (*mat.SymDense, *mat.VecDense) {
	n, _ := k.Dims()
	own := q.Own[c]
	size := own[1] - own[0]
	block := k.Slice(0, n, own[0], own[1])
	h := mat.NewSymDense(size, nil)
	h.SymOuterK(count/(float64(n)*float64(n)), block.T())
	linear := mat.NewVecDense(size, nil)
	for i, class := range y {
		if class == c {
			floats.AddScaled(linear.RawVector().Data, 1/float64(n), k.RawRowView(i)[own[0]:own[1]])
		}
	}
	return h, linear
}

func (q *Information) Value(a *mat.Dense) float64 { return q.at(a).smi }

// Gradient is dSMI/dA. With f = K_c alpha_c and g = K_c beta_c in class c,
// dSMI = sum_il w_il dK_il, w_il = [y_i = c](alpha_l + beta_l)/n
// - (n_c/n^2) (f_i (alpha_l + beta_l) + g_i alpha_l), and
// dK_il/dA = -(K_il/s^2) (x_i - x_l)(u_i - u_l)'.
func (q *Information) Gradient(a *mat.Dense) *mat.Dense {
	p := q.at(a)
	k, u, z, alpha, beta := p.k, p.u, p.z, p.alpha, p.beta
	n, b := k.Dims()
	_, d := a.Dims()
	both := make([]float64, b)
	floats.AddTo(both, alpha, beta)
	anchor, pull := mat.NewDense(n, d, nil), mat.NewDense(b, d, nil)
	size := float64(n)
	for i := range n {
		row, ui, gi := k.RawRowView(i), u.RawRowView(i), anchor.RawRowView(i)
		for c, own := range q.Own {
			if own[0] == own[1] {
				continue
			}
			part := row[own[0]:own[1]]
			f, g := floats.Dot(part, alpha[own[0]:own[1]]), floats.Dot(part, beta[own[0]:own[1]])
			same := 0.0
			if q.y[i] == c {
				same = 1 / size
			}
			share := q.count[c] / (size * size)
			for l := own[0]; l < own[1]; l++ {
				w := same*both[l] - share*(f*both[l]+g*alpha[l])
				w *= -row[l] / (q.S * q.S)
				pl := pull.RawRowView(l)
				for j, v := range z.RawRowView(l) {
					t := w * (ui[j] - v)
					gi[j] += t
					pl[j] -= t
				}
			}
		}
	}
	m, _ := a.Dims()
	out, other := mat.NewDense(m, d, nil), mat.NewDense(m, d, nil)
	out.Mul(q.x.T(), anchor)
	other.Mul(q.Ref.T(), pull)
	out.Add(out, other)
	return out
}

// chooseParams chooses s and lambda at the outputs of a.
func (q *Information) chooseParams(ctx context.Context, t *frame.Task, a *mat.Dense) {
	defer t.Report.Phase("widths")()
	var z mat.Dense
	z.Mul(q.Ref, a)
	median := medianDistance(&z)
	widths, weights := []float64{0.5 * median, median, 2 * median}, []float64{1e-3, 1e-1, 10}
	if t.Params["s"] != "auto" {
		widths = []float64{t.Float("s")}
	}
	if t.Params["lambda"] != "auto" {
		weights = []float64{t.Float("lambda")}
	}
	q.S, q.Lambda = widths[len(widths)/2], weights[len(weights)/2]
	at, fold := frame.Folds(t.Rows, frame.MaxValidated, 3, 0)
	if fold == nil || len(widths)*len(weights) == 1 {
		return
	}
	best := math.Inf(1)
	scores := make([]float64, len(widths)*len(weights))
	for f := range 3 {
		train, test := frame.HeldOut(at, fold, f)
		if len(test) == 0 {
			continue // there are fewer groups of rows than folds
		}
		part := NewInformation(linalg.Pick(t.X, train), t.Rows.Subset(train), t.Int("centres"))
		held, y := linalg.Pick(t.X, test), t.Rows.Subset(test).Y
		for i, s := range widths {
			fail.Check(ctx.Err())
			part.S = s
			own, _, _ := part.kernel(part.x, a)
			other, _, _ := part.kernel(held, a)
			for j, lambda := range weights {
				part.Lambda = lambda
				alpha, _, _ := part.solve(own)
				scores[i*len(weights)+j] += part.risk(other, y, alpha)
			}
		}
	}
	for k, v := range scores {
		if v < best {
			best, q.S, q.Lambda = v, widths[k/len(weights)], weights[k%len(weights)]
		}
	}
}

// risk is J of alpha on rows that it has not seen.
func (q *Information) risk(k *mat.Dense, y []int, alpha []float64) float64 {
	count := make([]float64, len(q.Own))
	for _, c := range y {
		count[c]++
	}
	j := 0.0
	for c, own := range q.Own {
		if own[0] == own[1] {
			continue
		}
		h, linear := q.forms(k, y, count[c], c)
		a := mat.NewVecDense(own[1]-own[0], alpha[own[0]:own[1]])
		j += mat.Inner(a, h, a)/2 - mat.Dot(linear, a)
	}
	return j
}

// medianDistance is the median distance of two rows, 1 if it is zero.
func medianDistance(z *mat.Dense) float64 {
	n, _ := z.Dims()
	var all []float64
	for i := range n {
		for j := range i {
			all = append(all, floats.Distance(z.RawRowView(i), z.RawRowView(j), 2))
		}
	}
	if len(all) > 0 {
		if middle := linalg.Select(all, len(all)/2); middle > 0 {
			return middle
		}
	}
	return 1
}

// lsdrStarts are orthonormal: the columns of LDA, the columns of PCA, then random ones.
func lsdrStarts(ctx context.Context, t *frame.Task) []*mat.Dense {
	_, t.Ridge = frame.OAS(t.Basis.Within, t.Basis.N, t.Columns)
	space := fail.Must(frame.Whitening(ctx, t, t.D))
	starts := []*mat.Dense{stiefel.Retract(space.Vectors), frame.Leading(ctx, t.Basis.Total, t.D)}
	r := rand.New(rand.NewPCG(t.Seed, 0))
	for len(starts) < t.Int("starts") {
		a := mat.NewDense(t.M, t.D, nil)
		for i := range t.M {
			for j := range t.D {
				a.Set(i, j, r.NormFloat64())
			}
		}
		starts = append(starts, stiefel.Retract(a))
	}
	return starts[:t.Int("starts")]
}
