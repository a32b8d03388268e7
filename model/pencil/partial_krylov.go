package pencil

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// krylov finds the largest eigenvalues of a symmetric operator by thick-restart block Lanczos (Wu and Simon 2000; Zhou
// and Saad 2008) with full orthogonalisation. A block of b vectors finds up to b copies of a multiple eigenvalue,
// which graphs with symmetries have and a single vector misses, and reads a matrix from memory once for b products.
//
// Vectors are rows here, so that their inner products are contiguous.
type krylov struct {
	ctx   context.Context
	n     int
	apply func(dst, x *mat.Dense) // dst = A x for each row of x; both b x n
	null  *mat.Dense              // orthonormal rows to stay orthogonal to, or nil
	block int
	limit int // the most products with A
	// noise is the size of a residual at eigenvalue theta that rounding errors in A leave outside of the wanted space,
	// where outside is the first value beyond it and largest the largest magnitude found.
	noise func(theta, outside, largest float64) float64
	tied  func(a, b, largest float64) bool
}

// tieReserve is the number of values beyond the wanted ones that are computed to find the end of a tie that the cut
// falls into.
const tieReserve = 16

// ritz is the result of a run.
type ritz struct {
	values   []float64  // descending: the wanted, those tied with the last of them, and one more
	vectors  *mat.Dense // rows
	products int
	largest  float64 // the largest |Ritz value|
	least    float64 // the least Ritz value
	// converged: the wanted pairs, and the next value, have converged.
	converged bool
	worst     float64 // the largest estimated residual of the wanted
}

// basisSize is the number of basis vectors for want pairs with blocks of b.
func basisSize(want, b int) int { return max(2*want+4*b, 10*b, 40) }

// krylovOrder is the smallest dimension for d pairs with blocks of b: a basis close to the whole space is more
// expensive than a full decomposition.
func krylovOrder(d, b int) int { return 2 * basisSize(d+1+tieReserve, b) }

// run finds the d largest pairs and the first value after them. The space must have dimension krylovOrder or more. If
// the limit is reached, converged is false and the pairs are the best ones found.
func (k *krylov) run(d int) *ritz {
	b, want := k.block, d+1
	size := basisSize(want, b)
	rng := rand.New(rand.NewPCG(uint64(k.n), 0x9e3779b97f4a7c15)) // seeded by the order only

	// Rows below have are the basis whose products are in t; the b rows from have on are the next block.
	basis := mat.NewDense(size+b, k.n, nil)
	t := mat.NewDense(size+b, size+b, nil)
	w := mat.NewDense(b, k.n, nil)
	start := rowsView(basis, 0, b)
	for i := range b {
		row := start.RawRowView(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
	}
	k.clean(start, nil)
	k.orthonormal(start, nil, 0, rng)
	out := &ritz{}
	have, checked := 0, 0
	for {
		fail.Check(k.ctx.Err())
		k.apply(w, rowsView(basis, have, have+b))
		out.products += b
		scale := maxAbs(w)
		if math.IsNaN(scale) || math.IsInf(scale, 0) {
			panic(fail.With(fmt.Errorf("a product with the operator of order %d is not finite", k.n)))
		}
		c := k.against(w, rowsView(basis, 0, have+b))
		for i := range have + b {
			for j := range b {
				t.Set(i, have+j, c.At(i, j))
				t.Set(have+j, i, c.At(i, j))
			}
		}
		rest := k.orthonormal(w, rowsView(basis, 0, have+b), 16*eps*max(out.largest, scale), rng)
		have += b
		rowsView(basis, have, have+b).Copy(w)
		if have+b <= size && have-checked < max(2*b, size/4) {
			continue
		}
		checked = have

		values, s := spectrum(linalg.Symmetric(t.Slice(0, have, 0, have).(*mat.Dense)))
		out.largest = max(out.largest, math.Abs(values[0]), math.Abs(values[have-1]))
		out.least = min(out.least, values[have-1])
		if have > want {
			residual := residuals(rest, s, have)
			for want < min(d+1+tieReserve, have-b) && k.tied(values[want-2], values[want-1], out.largest) {
				want++
			}
			out.converged, out.worst = k.convergence(values, residual, want, out.largest)
		}
		stop := out.converged || out.products >= k.limit
		if !stop && have+b <= size {
			continue
		}
		// Thick restart: some pairs beyond the wanted speed up the rest (Wu and Simon 2000, section 4).
		keep := min(have, want)
		if !stop {
			if larger := basisSize(want, b); larger > size {
				size = larger
				basis, t = grown(basis, size+b, k.n), mat.NewDense(size+b, size+b, nil)
			}
			keep = min(have-b, want+(size-want)/3)
		}
		kept := mat.NewDense(keep, k.n, nil)
		kept.Mul(s.Slice(0, have, 0, keep).T(), rowsView(basis, 0, have))
		if stop {
			out.values, out.vectors = values[:keep], kept
			return out
		}
		rowsView(basis, 0, keep).Copy(kept)
		rowsView(basis, keep, keep+b).Copy(w)
		t.Zero()
		for i := range keep {
			t.Set(i, i, values[i])
		}
		have, checked = keep, keep
	}
}

// residuals are |A v - theta v| of all Ritz pairs s: only the last block has a part outside of the basis, with
// coordinates rest.
func residuals(rest, s *mat.Dense, have int) []float64 {
	b, _ := rest.Dims()
	var out mat.Dense
	out.Mul(rest, s.Slice(have-b, have, 0, have))
	norms := make([]float64, have)
	for i := range norms {
		norms[i] = mat.Norm(out.ColView(i), 2)
	}
	return norms
}

// convergence reports whether the first want-1 pairs have converged, relative to their distance from the last one, and
// their worst residual.
func (k *krylov) convergence(values, residual []float64, want int, largest float64) (bool, float64) {
	outside := values[want-1]
	ok, worst := true, 0.0
	for i := range want - 1 {
		// The angle to the wanted space is the residual over the distance to the rest.
		aim := max(1e-11*(values[i]-outside), k.noise(values[i], outside, largest))
		ok = ok && residual[i] <= aim
		worst = max(worst, residual[i])
	}
	gap := values[want-2] - outside
	return ok && residual[want-1] <= max(1e-3*gap, k.noise(outside, outside, largest)), worst
}

// against removes the parts of the rows of w along the null vectors and along the orthonormal rows of v, twice, and
// returns the coordinates along v.
func (k *krylov) against(w, v *mat.Dense) *mat.Dense {
	total := project(k.ctx, w, v)
	if k.null != nil {
		project(k.ctx, w, k.null)
	}
	total.Add(total, project(k.ctx, w, v))
	if k.null != nil {
		project(k.ctx, w, k.null)
	}
	return total
}

// project removes V'Vw from the rows of w and returns Vw', rows of v by rows of w.
func project(ctx context.Context, w, v *mat.Dense) *mat.Dense {
	r, _ := v.Dims()
	b, n := w.Dims()
	c := mat.NewDense(r, b, nil)
	const tile = 16 // rows of a task
	split(ctx, (r+tile-1)/tile, r*b*n, func(i int) {
		from, to := i*tile, min(r, i*tile+tile)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, rowsOf(v, from, to), w.RawMatrix(), 0, rowsOf(c, from, to))
	})
	const span = 512 // columns of a task
	split(ctx, (n+span-1)/span, r*b*n, func(i int) {
		from, to := i*span, min(n, i*span+span)
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, c.RawMatrix(), columnsOf(v, from, to), 1, columnsOf(w, from, to))
	})
	return c
}

// orthonormal makes the rows of w orthonormal, and orthogonal to the rows of v and to the null vectors. It returns the
// coordinates (rows of w squared) of the old rows in the new ones. A row with norm tiny or less counts as zero and is
// replaced by a random one with coordinates zero. It gives up if rng is nil, or if the random row comes out as zero
// too, which happens if earlier rows are not finite.
func (k *krylov) orthonormal(w, v *mat.Dense, tiny float64, rng *rand.Rand) *mat.Dense {
	b, n := w.Dims()
	c := mat.NewDense(b, b, nil)
	for i := range b {
		row := rowsView(w, i, i+1)
		x := blas64.Vector{N: n, Data: w.RawRowView(i), Inc: 1}
		replaced, least := false, tiny
		for try := 0; ; try++ {
			fail.Check(k.ctx.Err())
			before := blas64.Nrm2(x)
			for range 2 {
				for j := range i {
					y := blas64.Vector{N: n, Data: w.RawRowView(j), Inc: 1}
					dot := blas64.Dot(x, y)
					blas64.Axpy(-dot, y, x)
					if !replaced {
						c.Set(j, i, c.At(j, i)+dot)
					}
				}
			}
			norm := blas64.Nrm2(x)
			if !(norm > least) {
				if replaced || rng == nil {
					panic(fail.With(fmt.Errorf("%w: row %d of a block of order %d has norm %g", errShort, i, n, norm)))
				}
				// The space of the start is exhausted: continue with a new direction. Its length, about the square root
				// of n, is unrelated to the scale of the operator.
				replaced = true
				least = 0x1p-20
				for j := range n {
					x.Data[j] = rng.NormFloat64()
				}
				k.clean(row, v)
				continue
			}
			// Cancellation brings removed parts back.
			if norm < 0.1*before && try < 3 {
				k.clean(row, v)
				continue
			}
			if !replaced {
				c.Set(i, i, norm)
			}
			blas64.Scal(1/norm, x)
			break
		}
	}
	return c
}

// clean is against without coordinates, for v that may be nil.
func (k *krylov) clean(w, v *mat.Dense) {
	for range 2 {
		if v != nil {
			project(k.ctx, w, v)
		}
		if k.null != nil {
			project(k.ctx, w, k.null)
		}
	}
}
