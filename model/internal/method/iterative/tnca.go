package iterative

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/lbfgs"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/method/margin"
	"github.com/embedd/embedd/model/internal/method/scatter"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
	"github.com/embedd/embedd/model/score"
)

// tnca: neighbourhood components analysis with a heavy-tailed kernel, log loss and an L2 term, for few dimensions and
// many classes. In a space U = X T, with Y = U L, s_ij = |y_i - y_j|^2 and K_ij = (1 + s_ij/8)^-4, K_ii = 0, minimise
//
//	-(1/n) sum_i log(p_i + 1e-12) + (w/d) |L - L_1|_F^2,
//	p_i = sum_{j of the class of i} K_ij / sum_j K_ij,
//
// over L (columns of T x d) by L-BFGS; i runs over all rows, j over reference rows. Up to 7 dimensions T is the
// whitened space of pairacc, L starts at its directions, L_1 = 0 and w = 0.03. From 8 on T is the space of MFA, divided
// by the root of the mean within-class variance of its leading d columns, L starts at L_1 = c [I; 0] with c the best of
// 2^-3, 2^-2.5, ..., 2^2, and w = 0.3/c^2. A = T L, rotated to the principal axes of its outputs. After Goldberger,
// Roweis, Hinton and Salakhutdinov, NIPS 17, 2004.
var TNCA = frame.Method{
	Name: "tnca", Title: "neighbourhood components with a heavy tail",
	Paper:      "after Goldberger, Roweis, Hinton and Salakhutdinov, Neighbourhood components analysis, NIPS 17, 2004",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.RidgeParam("oas", "relative ridge of the space that is searched: oas (at least 0.3, from 8 dimensions on "+
			"0.1; auto is the same), or a number from 0 on", true),
		frame.IntParam("references", "1000",
			"most rows that others are drawn to; of more, evenly spaced ones of each class", 2),
		frame.IntParam("iters", "15", "most iterations of the search", 1),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.WithinScatter, Floor: tncaFloor},
	Memory: func(e frame.Extent) int64 { return e.Copies(4, 700) },
	Fit:    fitTNCA,
	// for fewer dimensions than the classes span; with few rows it is fast. Behind landmarks for few given outputs only.
	Auto: &frame.Candidate{Rank: 8, OneScale: true, Landmarks: true,
		Tried: func(d, classes int, few bool) bool { return d < classes-1 || few }},
}

// tied is the dimension from which the search stays near the directions of MFA: from there on a free search fits the
// noise of small samples.
const tied = 8

func tncaFloor(d int) float64 {
	if d < tied {
		return 0.3
	}
	return 0.1
}

func fitTNCA(ctx context.Context, t *frame.Task) *frame.Solution {
	iterations := t.Int("iters")
	l := NewNeighbourLoss(t.Rows, t.Int("references"))
	var space, start *mat.Dense
	if t.D < tied {
		space, start = freeStart(ctx, t)
		l.Project(ctx, t.X, space)
		l.Penalty = 0.03 / float64(t.D)
	} else {
		space = marginSpace(ctx, t)
		l.Project(ctx, t.X, space)
		start = l.tie(ctx, t.D)
	}
	r, _ := start.Dims()
	search := &model.Search{}
	startNN := l.leaveOneOut(ctx, start)
	best := lbfgs.Minimize(ctx, start.RawMatrix().Data, iterations, 1e-6, search, func(x, g []float64) float64 {
		t.ReportProgress("search", min(float64(search.Steps)/float64(iterations), 1))
		return l.Value(ctx, mat.NewDense(r, t.D, x), mat.NewDense(r, t.D, g))
	})
	if lost(mat.NewDense(r, t.D, best), start) {
		best = slices.Clone(start.RawMatrix().Data)
		g := mat.NewDense(r, t.D, nil)
		search.End = l.Value(ctx, start, g)
		search.Steps, search.Converged = 0, false
		search.Gradient = mat.Norm(g, 2)
		t.Report.Note("the search would give up outputs: no direction separates the classes there; the start is kept")
	}
	endNN := l.leaveOneOut(ctx, mat.NewDense(r, t.D, best))
	search.StartAccuracy, search.EndAccuracy = &startNN, &endNN

	a := mat.NewDense(t.M, t.D, nil)
	a.Mul(space, mat.NewDense(r, t.D, best))
	a = frame.Principal(ctx, t, a)
	return t.InBasis(a, nil, t.D).Searched(search)
}

// lost reports that directions have a lower rank than those the search started at: the L2 term shrinks directions that
// do not help, down to zero.
func lost(best, start *mat.Dense) bool {
	const shrunk = 1e-6 // share of the least singular value at the start, below which a direction is lost
	_, d := best.Dims()
	var end, begin mat.SVD
	if !end.Factorize(best, mat.SVDNone) || !begin.Factorize(start, mat.SVDNone) {
		return false
	}
	return !(end.Values(nil)[d-1] > shrunk*begin.Values(nil)[d-1])
}

// freeStart is the whitened space and the directions of pairacc in it, padded with the next columns.
func freeStart(ctx context.Context, t *frame.Task) (space, start *mat.Dense) {
	directions := frame.ClassDirections(t)
	s := frame.FullWhitening(ctx, t, min(max(directions, t.D), t.M))
	_, r := s.Vectors.Dims()
	if t.D > r {
		panic(fail.With(&pencil.RankError{Asked: t.D, Max: r}))
	}
	q := min(directions, r)
	k := min(t.D, q)
	o, _ := scatter.PairDirections(ctx, t, s.Vectors.Slice(0, t.M, 0, q), k)
	start = mat.NewDense(r, t.D, nil)
	start.Slice(0, q, 0, k).(*mat.Dense).Copy(o)
	for j := k; j < t.D; j++ {
		start.Set(q+j-k, j, 1)
	}
	return s.Vectors, start
}

// neighbourLoss is the loss of tnca over rows in the space that is searched.
type neighbourLoss struct {
	u       *mat.Dense // rows, n x r
	y       []int      // class of each row
	Rows    []int      // reference rows, by class
	own     [][2]int   // of each class: its references [from, to)
	Slot    []int      // index of each row among the references, or -1
	Penalty float64    // of |L - L_1|^2
	To      *mat.Dense // L_1, nil for zero
}

// NewNeighbourLoss chooses the references: evenly spaced rows of each class, at least 2 if it has them.
func NewNeighbourLoss(p *frame.Rows, references int) *neighbourLoss {
	l := &neighbourLoss{y: p.Y, Slot: slices.Repeat([]int{-1}, p.N)}
	l.Rows, l.own = p.References(references, 2)
	for k, i := range l.Rows {
		l.Slot[i] = k
	}
	return l
}

// Project computes the coordinates of the rows in the space.
func (l *neighbourLoss) Project(ctx context.Context, x, space *mat.Dense) {
	l.u = tile.Multiply(ctx, x, space)
}

// tie finds the scale c at which the leading d columns have the least loss, ties
// the search to them and returns them as its start.
func (l *neighbourLoss) tie(ctx context.Context, d int) *mat.Dense {
	_, r := l.u.Dims()
	var best *mat.Dense
	least, scale := math.Inf(1), 0.0
	for e := -3.0; e <= 2; e += 0.5 {
		start := mat.NewDense(r, d, nil)
		for j := range d {
			start.Set(j, j, math.Exp2(e))
		}
		v := l.Value(ctx, start, nil)
		if v < least {
			best, least, scale = start, v, math.Exp2(e)
		}
	}
	l.To, l.Penalty = best, 0.3/(float64(d)*scale*scale)
	return best
}

// anchorBlocks is the number of partial sums over the rows, whatever the number of threads, because the order of a sum
// decides its last digits.
const anchorBlocks = 16

// Value is the loss at L and, where g is not nil, its gradient there.
func (l *neighbourLoss) Value(ctx context.Context, at, g *mat.Dense) float64 {
	n, _ := l.u.Dims()
	k := len(l.Rows)
	_, d := at.Dims()
	y := tile.Product(l.u, at)
	z := make([]float64, k*d) // references by column
	for q, i := range l.Rows {
		for j, v := range y.RawRowView(i) {
			z[j*k+q] = v
		}
	}
	anchor := mat.NewDense(n, d, nil)
	losses := make([]float64, anchorBlocks)
	pulls := make([][]float64, anchorBlocks)
	fail.Check(parallel.Each(ctx, anchorBlocks, func(b int) {
		if g != nil {
			pulls[b] = make([]float64, k*d)
		}
		losses[b] = l.block(b*n/anchorBlocks, (b+1)*n/anchorBlocks, y, z, anchor, pulls[b])
	}))
	loss := 0.0
	for _, v := range losses {
		loss += v / float64(n)
	}
	away := mat.DenseCopyOf(at)
	if l.To != nil {
		away.Sub(at, l.To)
	}
	norm := mat.Norm(away, 2)
	loss += l.Penalty * norm * norm
	if g == nil {
		return loss
	}
	for _, p := range pulls {
		for q, i := range l.Rows {
			row := anchor.RawRowView(i)
			for j := range row {
				row[j] += p[j*k+q]
			}
		}
	}
	g.Scale(1/float64(n), tile.CrossProduct(l.u, anchor))
	away.Scale(2*l.Penalty, away)
	g.Add(g, away)
	return loss
}

// block is the sum of -log(p_i + 1e-12) over some rows. If pull is not nil, it writes the gradient by y_i to anchor,
// and adds the gradient by the references to pull, which is column-major like z.
func (l *neighbourLoss) block(from, to int, y *mat.Dense, z []float64, anchor *mat.Dense, pull []float64) float64 {
	k := len(l.Rows)
	kernel, u := make([]float64, k), make([]float64, k)
	loss := 0.0
	for i := from; i < to; i++ {
		yi := y.RawRowView(i)
		clear(u)
		for j, v := range yi {
			for q, w := range z[j*k:][:len(u)] {
				u[q] += (v - w) * (v - w)
			}
		}
		for q, s := range u {
			v := 1 / (1 + s/8)
			u[q], kernel[q] = v, (v*v)*(v*v)
		}
		if l.Slot[i] >= 0 {
			kernel[l.Slot[i]] = 0
		}
		own := l.own[l.y[i]]
		same, other := sum(kernel[own[0]:own[1]]), sum(kernel[:own[0]])+sum(kernel[own[1]:])
		all := same + other
		if all == 0 {
			continue // the row is the only one, or too far from all others for float64
		}
		p := same / all
		loss -= math.Log(p + 1e-12)
		if pull == nil {
			continue
		}
		// d(-log p)/ds = c K u/2 with c = ([same class] - p)/((p + 1e-12) sum K); ds/dy_i = 2 (y_i - y_j).
		c := 1 / ((p + 1e-12) * all)
		weigh(kernel[:own[0]], u, -p*c)
		weigh(kernel[own[0]:own[1]], u[own[0]:], (1-p)*c)
		weigh(kernel[own[1]:], u[own[1]:], -p*c)
		gi := anchor.RawRowView(i)
		for j, v := range yi {
			f, total := pull[j*k:][:len(kernel)], 0.0
			for q, w := range z[j*k:][:len(kernel)] {
				t := kernel[q] * (v - w)
				total += t
				f[q] -= t
			}
			gi[j] = total
		}
	}
	return loss
}

// sum is in four parts, side by side.
func sum(x []float64) float64 {
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x = x[4:] {
		s0, s1, s2, s3 = s0+x[0], s1+x[1], s2+x[2], s3+x[3]
	}
	for _, v := range x {
		s0 += v
	}
	return (s0 + s1) + (s2 + s3)
}

// weigh multiplies kernel values by c u.
func weigh(kernel, u []float64, c float64) {
	u = u[:len(kernel)]
	for q, v := range u {
		kernel[q] *= c * v
	}
}

// leaveOneOut is the share of reference rows whose nearest other reference has the same class.
func (l *neighbourLoss) leaveOneOut(ctx context.Context, at *mat.Dense) float64 {
	k := len(l.Rows)
	_, d := at.Dims()
	x := linalg.Pick(tile.Product(l.u, at), l.Rows).RawMatrix().Data
	near := fail.Must(score.Neighbors(ctx, x, k, x, k, d, 2))
	width := len(near) / k
	right := 0
	for q := range k {
		of := near[q*width : (q+1)*width]
		if i := slices.IndexFunc(of, func(j int) bool { return j != q }); i >= 0 &&
			l.y[l.Rows[of[i]]] == l.y[l.Rows[q]] {
			right++
		}
	}
	return float64(right) / float64(k)
}

// marginSpace is every column of the pencil of MFA, (X L^p X', X L X' + rho I),
// divided by the root of the mean within-class variance of its leading d.
func marginSpace(ctx context.Context, t *frame.Task) *mat.Dense {
	of := *t
	of.Method, of.Report = &margin.MFA, &model.Report{}
	of.Params = map[string]string{"k1": "5", "k2": "20", "penalty": "per-sample"}
	ratio := margin.MFARatio(ctx, &of)
	s := fail.Must(pencil.Solve(ctx, ratio.N, frame.RidgeMetric(t, ratio.D), pencil.Max, 0))
	if s.Rank < t.D {
		panic(fail.With(&pencil.RankError{Asked: t.D, Max: s.Rank}))
	}
	lead := s.Vectors.Slice(0, t.M, 0, t.D)
	var sw mat.Dense
	sw.Mul(t.Basis.Within, lead)
	variance := 0.0
	for j := range t.D {
		variance += mat.Dot(sw.ColView(j), s.Vectors.ColView(j)) / float64(t.D)
	}
	space := mat.DenseCopyOf(s.Vectors)
	if variance > 0 {
		space.Scale(1/math.Sqrt(variance), space)
	}
	return space
}
