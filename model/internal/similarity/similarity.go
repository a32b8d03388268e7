// Package similarity learns the similarities of rows that LEnewS and related methods embed.
package similarity

import (
	"context"
	"fmt"
	"math"
	"slices"

	transposes "gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Learning a similarity from rows, instead of using the weights of a neighbourhood graph:
//
//	min J(W) = |X - X W|^2 + alpha |W - S|^2 + beta sum W   over W = W' >= 0, W_ii = 0
//
// where X are the rows as columns, G = X'X (or a kernel), and S a heat similarity. J decreases at every multiplicative
// step, which keeps symmetry, sign and the zero diagonal: algorithms 1 and 2 of the LEnewS paper, similar to the rules
// of nonnegative matrix factorisation (Ding, Li and Jordan, IEEE TPAMI 32, 2010). If G has no negative entry, the step
// of algorithm 2 needs one product and makes about twice the progress per flop. Otherwise algorithm 1 is used, which
// needs W G+ and W G-: with many more rows than features the second follows from the first, because W G is cheap.

// Learned is the learned similarity and the course of the learning.
type Learned struct {
	W          *mat.Dense
	Start, End float64 // J at the start and at the end
	Zero       float64 // J of W = 0
	Steps      int
	Converged  bool    // the last step changed J less than the tolerance; otherwise the limit of steps ended it
	Gradient   float64 // max |W o grad J| / max |grad J|: the optimality condition for W >= 0
}

// Rule is the problem without its rows.
type Rule struct {
	Alpha, Beta float64
	Steps       int
	Tolerance   float64 // of the relative change of J
	Signed      bool    // use algorithm 1 for any G
	// SumToOne starts at rows of W that sum to 1, not at weights of 1 as the paper does. The optimum is the same; from
	// weights of 1 some hundred steps of algorithm 1 do not get near it, because each shrinks all weights only a
	// little.
	SumToOne bool
}

// Width returns the width 2r = sigma min_i max_j d_ij^2 of the heat similarity exp(-d^2/2r) of the LEnewS paper.
// squared has the d_ij^2, n x n.
func Width(squared *mat.Dense, sigma float64) float64 {
	n, _ := squared.Dims()
	least := math.Inf(1)
	for i := range n {
		least = min(least, slices.Max(squared.RawRowView(i)))
	}
	return sigma * least
}

// MeanNearest is the mean over rows of the squared distance to the nearest other row.
func MeanNearest(squared *mat.Dense) float64 {
	n, _ := squared.Dims()
	mean := 0.0
	for i := range n {
		least := math.Inf(1)
		for j, d := range squared.RawRowView(i) {
			if i != j {
				least = min(least, d)
			}
		}
		mean += least / float64(n)
	}
	return mean
}

// Heat is S: exp(-rate d^2), rate = 1/width, zero on the diagonal. squared is n x n.
func Heat(squared *mat.Dense, width float64) (s *mat.Dense, rate float64) {
	n, _ := squared.Dims()
	if width > 0 {
		rate = min(1/width, math.MaxFloat64)
	}
	s = mat.NewDense(n, n, nil)
	for i := range n {
		row, d := s.RawRowView(i), squared.RawRowView(i)
		for j := range row {
			if i != j {
				row[j] = math.Exp(-rate * d[j])
			}
		}
	}
	return s, rate
}

// SquaredDistances returns the squared distances of the rows, n x n. Equal rows have exact zeros, because differences
// are used where products cancel.
func SquaredDistances(ctx context.Context, x *mat.Dense) *mat.Dense {
	n, m := x.Dims()
	out := mat.NewDense(n, n, nil)
	flat := mat.DenseCopyOf(x).RawMatrix().Data
	fail.Check(parallel.Each(ctx, n, func(i int) {
		for j := range i {
			d := linalg.SquaredDistance(flat[i*m:(i+1)*m], flat[j*m:(j+1)*m])
			out.Set(i, j, d)
			out.Set(j, i, d)
		}
	}))
	return out
}

// Learn finds the similarity. g and s are n x n and symmetric; s has a zero diagonal. report is called with the share
// that is done.
func (r Rule) Learn(ctx context.Context, g, s *mat.Dense, report func(float64)) *Learned {
	n, _ := g.Dims()
	scale := 0.0
	signed := r.Signed
	for i := range n {
		for _, v := range g.RawRowView(i) {
			scale = max(scale, math.Abs(v))
			signed = signed || v < 0
		}
	}
	if !(scale <= 1e150) {
		panic(fail.With(fmt.Errorf("the largest product of two of the %d rows is %.3g, more than 1e150; scale the features",
			n, scale)))
	}
	first := 1.0
	if r.SumToOne {
		first = 1 / float64(n-1)
	}
	w := mat.NewDense(n, n, nil)
	for i := range n {
		row := w.RawRowView(i)
		for j := range row {
			if i != j {
				row[j] = first
			}
		}
	}
	wp := mat.NewDense(n, n, nil)
	plus, minus, wm, thin := g, (*mat.Dense)(nil), (*mat.Dense)(nil), (*mat.Dense)(nil)
	if signed {
		wm, thin = mat.NewDense(n, n, nil), thinFactor(g)
		plus, minus = mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		for i := range n {
			p, q := plus.RawRowView(i), minus.RawRowView(i)
			for j, v := range g.RawRowView(i) {
				p[j], q[j] = max(v, 0), max(-v, 0)
			}
		}
	}
	byPlus, byMinus := &IncrementalProduct{G: plus}, &IncrementalProduct{G: minus}
	out := &Learned{W: w}
	previous := math.Inf(1)
	for step := 0; ; step++ {
		byPlus.Of(ctx, wp, w)
		switch {
		case !signed:
		case thin != nil:
			subtractThin(wm, wp, w, thin)
		default:
			byMinus.Of(ctx, wm, w)
		}
		j := r.Objective(g, s, w, wp, wm)
		if step == 0 {
			norm := mat.Norm(s, 2)
			out.Start, out.Zero = j, mat.Trace(g)+r.Alpha*norm*norm
		}
		out.End, out.Steps = j, step
		out.Converged = math.Abs(previous-j) <= r.Tolerance*math.Abs(j)
		if step >= r.Steps || out.Converged {
			out.Gradient = r.optimality(g, s, w, wp, wm)
			return out
		}
		previous = j
		report(float64(step) / float64(r.Steps))
		r.Step(ctx, plus, minus, s, w, wp, wm)
	}
}

// thinFactor is F (n x r) with G = F F' up to rounding if G has a rank r so far below n that products with F are
// cheaper; else nil. Products of rows have the rank of the features.
func thinFactor(g *mat.Dense) *mat.Dense {
	n, _ := g.Dims()
	f, chol := linalg.PivotedFactor(linalg.Symmetric(g), float64(n)*0x1p-52)
	if f == nil || chol.Rank() > n/4 {
		return nil
	}
	return f
}

// subtractThin is wm = W G- from wp = W G+: wp - W G, with W G = (W F) F'.
func subtractThin(wm, wp, w, f *mat.Dense) {
	var wf mat.Dense
	wf.Mul(w, f)
	wm.Mul(&wf, f.T())
	n, _ := w.Dims()
	for i := range n {
		minus, plus := wm.RawRowView(i), wp.RawRowView(i)
		for j, v := range minus {
			minus[j] = max(0, plus[j]-v)
		}
	}
}

// IncrementalProduct is W G for a W that changes slowly: in float64 at every sixteenth step, and between those with the
// product of the change added. That is in float32, twice as fast, and its error is a share of the change: about 1e-8
// of the product while weights change by some percent per step, less as they converge.
type IncrementalProduct struct {
	G      *mat.Dense
	w, Out *mat.Dense // of the last step in float64
	steps  int

	stride      int       // of rows in float32, padded as those of a kernel
	g32, change []float32 // G and the change, over their largest
	scale       float64   // of G
}

// CheapProduct is the order below which every product is in float64.
const CheapProduct = 200

func (p *IncrementalProduct) Of(ctx context.Context, dst, w *mat.Dense) {
	const fresh = 16 // steps from one product in float64 to the next
	n, _ := w.Dims()
	if n < CheapProduct {
		multiplySquare(ctx, dst, w, p.G)
		return
	}
	if p.w == nil {
		p.w, p.Out = mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		p.stride = (n + linalg.Lane - 1) / linalg.Lane * linalg.Lane
		p.g32, p.change = linalg.Aligned(n*p.stride), linalg.Aligned(n*p.stride)
		p.scale = p.round(p.g32, p.G)
	}
	p.steps++
	if p.steps%fresh == 1 {
		multiplySquare(ctx, dst, w, p.G)
		p.w.Copy(w)
		p.Out.Copy(dst)
		return
	}
	dst.Sub(w, p.w)
	scale := p.scale * p.round(p.change, dst)
	const band = 32 // rows of G that stay in the cache
	fail.Check(parallel.Each(ctx, (n+band-1)/band, func(b int) {
		for i := 0; i < n && ctx.Err() == nil; i++ {
			change := p.change[i*p.stride : (i+1)*p.stride]
			row, last := dst.RawRowView(i), p.Out.RawRowView(i)
			for j := b * band; j < min(n, (b+1)*band); j++ {
				moved := linalg.BLAS.Sdot(p.stride, change, 1, p.g32[j*p.stride:(j+1)*p.stride], 1)
				row[j] = max(0, last[j]+scale*float64(moved))
			}
		}
	}))
}

// round sets dst to a over its largest magnitude, which it returns.
func (p *IncrementalProduct) round(dst []float32, a *mat.Dense) float64 {
	n, _ := a.Dims()
	largest := 0.0
	for i := range n {
		for _, v := range a.RawRowView(i) {
			largest = max(largest, math.Abs(v))
		}
	}
	scale := max(largest, math.SmallestNonzeroFloat64)
	for i := range n {
		row := dst[i*p.stride:]
		for j, v := range a.RawRowView(i) {
			row[j] = float32(v / scale)
		}
	}
	return largest
}

// multiplySquare is dst = a b of n x n matrices, b symmetric: it multiplies rows with rows, which is gonum's fastest
// product. It works in bands of rows, so that a cancelled fit does not wait for all of it.
func multiplySquare(ctx context.Context, dst, a, b *mat.Dense) {
	const band = 256 // rows between two looks at the context
	n, _ := a.Dims()
	for from := 0; from < n; from += band {
		fail.Check(ctx.Err())
		to := min(from+band, n)
		rows, out := a.Slice(from, to, 0, n).(*mat.Dense), dst.Slice(from, to, 0, n).(*mat.Dense)
		blas64.Gemm(transposes.NoTrans, transposes.Trans, 1, rows.RawMatrix(), b.RawMatrix(), 0, out.RawMatrix())
	}
}

// Objective is J = tr G - 2 tr(G W) + tr(W G W) + alpha |W - S|^2 + beta sum W, with W G = wp - wm.
func (r Rule) Objective(g, s, w, wp, wm *mat.Dense) float64 {
	n, _ := g.Dims()
	sum := 0.0
	for i := range n {
		row, product := w.RawRowView(i), wp.RawRowView(i)
		heat := s.RawRowView(i)
		part := g.At(i, i) - 2*product[i]
		var negative []float64
		if wm != nil {
			negative = wm.RawRowView(i)
			part += 2 * negative[i]
		}
		for j, v := range row {
			wg := product[j]
			if negative != nil {
				wg -= negative[j]
			}
			d := v - heat[j]
			part += wg*v + r.Alpha*d*d + r.Beta*v
		}
		sum += part
	}
	return sum
}

// Step is one multiplicative update, in place; both triangles get the same numbers.
func (r Rule) Step(ctx context.Context, plus, minus, s, w, wp, wm *mat.Dense) {
	n, _ := w.Dims()
	err := parallel.Each(ctx, n, func(i int) {
		for j := range i {
			v := w.At(i, j)
			if v == 0 {
				continue
			}
			// Algorithm 2: W <- W 2(G + alpha S) / (W G + G W + 2 alpha W + beta).
			above, below := 2*(plus.At(i, j)+r.Alpha*s.At(i, j)), wp.At(i, j)+wp.At(j, i)+2*r.Alpha*v
			if minus != nil { // algorithm 1, eq. 7: the square root of the same with the signs apart
				above, below = wm.At(i, j)+wm.At(j, i)+above, below+2*minus.At(i, j)
			}
			if below += r.Beta; !(below > 0) {
				continue // beta = 0 and no terms: keep it
			}
			share := above / below
			if minus != nil {
				share = math.Sqrt(share)
			}
			// Only this goroutine writes the lower triangle; the upper one is filled later.
			w.Set(i, j, v*share)
		}
	})
	for i := range n {
		for j := range i {
			w.Set(j, i, w.At(i, j))
		}
	}
	fail.Check(err)
}

// optimality is max |W o grad J| over max |grad J|: zero where W is optimal.
func (r Rule) optimality(g, s, w, wp, wm *mat.Dense) float64 {
	n, _ := w.Dims()
	complementary, largest := 0.0, 0.0
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			product := wp.At(i, j) + wp.At(j, i)
			if wm != nil {
				product -= wm.At(i, j) + wm.At(j, i)
			}
			gradient := product - 2*g.At(i, j) + 2*r.Alpha*(w.At(i, j)-s.At(i, j)) + r.Beta
			complementary = max(complementary, math.Abs(gradient*w.At(i, j)))
			largest = max(largest, math.Abs(gradient))
		}
	}
	if largest == 0 {
		return 0
	}
	return complementary / largest
}
