package pencil

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Part is the wanted end of the spectrum of an operator.
type Part struct {
	Values  []float64  // d eigenvalues, best first
	Vectors *mat.Dense // n x d, orthonormal, signs fixed
	// Next is the first eigenvalue after the wanted ones, NaN if there is none.
	Next float64
	// Gap and Ties are as in Solution: a tie past the last column means that the cut falls into a cluster, and other
	// vectors are as good as these. Gap is 0 if there is a tie.
	Gap  float64
	Ties [][2]int
	// Largest is the largest |eigenvalue|, or a lower bound close to it.
	Largest float64
	// Residual is max |M v - lambda v| over the columns, with products of M itself.
	Residual float64
	// Products counts the vectors that M, or its inverse, was applied to. Notes say why the first algorithm failed, if it
	// did.
	Products int
	Notes    []string

	all      []float64  // the values found, including those beyond the wanted
	vectors  *mat.Dense // their vectors as columns
	smallest float64    // at the Max end: the least value found, or 0
}

// SmallestBound is an upper bound of the smallest eigenvalue and close to it, if that is negative and the pairs are of
// the Max end; 0 if no negative one was found.
func (p *Part) SmallestBound() float64 { return p.smallest }

// Partial returns the d eigenpairs of m at one end, and no others, by thick-restart block Lanczos: on m itself or, at
// the Min end of Entries, on the inverse of m plus a tiny shift by a Cholesky factor. known has eigenvectors as
// columns (n x q, independent, nil for none) that are not wanted, such as the constant vector of a graph Laplacian;
// they are projected out.
//
// The result satisfies |M v - lambda v| <= 1e-3 times the distance of lambda to the nearest eigenvalue outside its
// tie. If that cannot be reached, small problems are decomposed in full and Notes say so; large ones are an error. The
// result does not depend on the number of processors. Partial stops with the error of ctx, except that a full
// decomposition is not interrupted. That is of order 2500 at most, and takes 9 n^3 operations: about a minute.
func Partial(ctx context.Context, m Operator, end End, d int, known *mat.Dense) (_ *Part, err error) {
	defer parallel.Recover(&err, "eigenvectors")
	n := m.Order()
	null := knownRows(n, known)
	free := n
	if null != nil {
		free -= null.RawMatrix().Rows
	}
	if d < 1 || d > free {
		return nil, &RankError{Asked: d, Max: free}
	}
	p := &partial{ctx: ctx, m: m, n: n, end: end, d: d, free: free, null: null}
	p.checkKnown()
	algorithms := p.algorithms()
	if n <= fullOrder {
		algorithms = append(algorithms, algorithm{"full", p.full})
	}
	return p.find(algorithms)
}

// partial is one call of Partial.
type partial struct {
	ctx      context.Context
	m        Operator
	n        int
	end      End
	d        int
	free     int        // dimension without the known vectors
	null     *mat.Dense // the known vectors as orthonormal rows, or nil
	brief    bool       // give up before a full decomposition would cost as much
	floor    float64    // residual that no algorithm can get below
	largest  float64
	products int
	notes    []string
}

// algorithm is one way to compute the wanted pairs.
type algorithm struct {
	name string
	run  func() *Part
}

// try runs the algorithm and returns the error that it fails with.
func (a algorithm) try() (_ *Part, err error) {
	defer fail.Catch(&err)
	return a.run(), nil
}

// algorithms are those other than a full decomposition, in the order of their cost.
func (p *partial) algorithms() []algorithm {
	if p.free < krylovOrder(p.d, blockSize(p.d)) {
		return nil
	}
	direct := func(limit int) algorithm {
		return algorithm{"products", func() *Part { return p.direct(limit) }}
	}
	limit := 2 * p.n
	if p.brief {
		limit = p.n
	}
	alone := direct(limit)
	rows, ok := p.m.(Entries)
	if !ok || p.end == Max {
		return []algorithm{alone}
	}
	env := newEnvelope(p.ctx, rows)
	inverse := algorithm{"inverse", func() *Part { return p.inverse(rows, env) }}
	switch {
	case env.flops() <= cheapFactor:
		return []algorithm{inverse, alone}
	case env.bytes() <= FactorBytes:
		return []algorithm{direct(p.budget(rows, env)), inverse}
	}
	p.notes = append(p.notes, fmt.Sprintf("inverse: a factor of order %d would take %.0f MB, more than %d", p.n,
		env.bytes()/1e6, FactorBytes/1000000))
	return []algorithm{alone}
}

// find tries the algorithms in turn.
func (p *partial) find(algorithms []algorithm) (*Part, error) {
	for _, a := range algorithms {
		part, err := a.try()
		if err == nil {
			part.Notes, part.Products = p.notes, p.products
			return part, nil
		}
		if p.ctx.Err() != nil {
			return nil, p.ctx.Err()
		}
		if !errors.Is(err, errShort) && !errors.Is(err, ErrNotDefinite) {
			return nil, err
		}
		p.notes = append(p.notes, fmt.Sprintf("%s: %v", a.name, err))
	}
	fix := "give a smaller dimension"
	if p.n > fullOrder {
		fix = fmt.Sprintf("give a smaller dimension, or at most %d rows, which are decomposed in full", fullOrder)
	}
	return nil, fmt.Errorf("%w: %d eigenvectors of an operator of order %d (%s); %s", errShort, p.d, p.n,
		strings.Join(p.notes, "; "), fix)
}

// blockSize is the number of products computed together for d pairs.
func blockSize(d int) int { return min(max(d+1, 4), 8) }

// direct is Lanczos with m itself, with at most limit products.
func (p *partial) direct(limit int) *Part {
	sign := 1.0
	if p.end == Min {
		sign = -1
	}
	k := p.plain()
	k.limit = limit
	k.apply = func(dst, x *mat.Dense) {
		p.apply(dst, x)
		dst.Scale(sign, dst)
	}
	found := p.lanczos(k, p.d)
	p.largest = max(p.largest, found.largest)
	values := make([]float64, len(found.values))
	for i, v := range found.values {
		values[i] = sign * v
	}
	part := p.judge(values, found.vectors)
	part.smallest = found.least
	return part
}

// plain is Lanczos for m.
func (p *partial) plain() *krylov {
	return &krylov{ctx: p.ctx, n: p.n, apply: p.apply, null: p.null,
		noise: func(_, _, largest float64) float64 { return 4 * eps * largest },
		tied:  func(a, b, largest float64) bool { return linalg.Tied(a, b, p.n, largest) }}
}

// lanczos runs k for d pairs, and again with a larger block if the first may have missed copies: a block of b finds at
// most b of one eigenvalue.
func (p *partial) lanczos(k *krylov, d int) *ritz {
	for k.block = blockSize(d); ; k.block = d + 1 {
		q := 0
		if k.null != nil {
			q, _ = k.null.Dims()
		}
		if p.n-q < krylovOrder(d, k.block) {
			panic(fail.With(fmt.Errorf("%w: blocks of %d do not fit", errShort, k.block)))
		}
		found := k.run(d)
		p.products += found.products
		if !found.converged {
			panic(fail.With(fmt.Errorf("%w after %d products, residual %.2g of the largest value", errShort, found.products,
				found.worst/found.largest)))
		}
		longest := 1
		for _, run := range linalg.Ties(found.values[:d], d, func(a, b float64) bool { return k.tied(a, b, found.largest) }) {
			longest = max(longest, run[1]-run[0])
		}
		if longest < k.block || k.block > d {
			return found
		}
	}
}

// apply is m for vectors as rows.
func (p *partial) apply(dst, x *mat.Dense) {
	b, n := x.Dims()
	in, out := mat.DenseCopyOf(x.T()), mat.NewDense(n, b, nil)
	p.m.Apply(p.ctx, out, in)
	dst.Copy(out.T())
}

// measure sets largest from a short Lanczos run: both ends of the spectrum converge first.
func (p *partial) measure() {
	k := p.plain()
	k.block, k.limit = 4, 40
	found := k.run(1)
	p.products += found.products
	p.largest = max(p.largest, found.largest)
}

// judge computes the residuals of the found pairs (rows, best first, the last one or more beyond the wanted) with
// products of m, and accepts or refuses them.
func (p *partial) judge(values []float64, rows *mat.Dense) *Part {
	part := p.part(values, mat.DenseCopyOf(rows.T()))
	wanted := rowsView(rows, 0, p.d)
	y := mat.NewDense(p.d, p.n, nil)
	p.apply(y, wanted)
	for i := range p.d {
		row, v := y.RawRowView(i), wanted.RawRowView(i)
		for j := range row {
			row[j] -= values[i] * v[j]
		}
		r := blas64.Nrm2(blas64.Vector{N: p.n, Data: row, Inc: 1})
		part.Residual = max(part.Residual, r)
		gap := math.Inf(1)
		for _, v := range values {
			if !linalg.Tied(v, values[i], p.n, p.largest) {
				gap = min(gap, math.Abs(v-values[i]))
			}
		}
		if math.IsInf(gap, 1) {
			gap = p.largest // a single tie has nothing to be confused with
		}
		if !(r <= max(1e-3*gap, p.floor) && r <= 1e-8*p.largest) {
			panic(fail.With(fmt.Errorf("%w: residual %.2g of eigenvalue %d (%.4g), gap %.2g, largest value %.4g", errShort,
				r, i, values[i], gap, p.largest)))
		}
	}
	return part
}

// part is the result for values, best first, with their vectors as columns.
func (p *partial) part(values []float64, vectors *mat.Dense) *Part {
	out := &Part{Values: append([]float64(nil), values[:p.d]...), Next: math.NaN(),
		Largest: p.largest, all: values, vectors: vectors}
	if len(values) > p.d {
		out.Next = values[p.d]
	}
	out.Ties = linalg.Ties(values, p.d, func(a, b float64) bool { return linalg.Tied(a, b, p.n, p.largest) })
	out.Gap = leastGap(values, p.d, p.n, p.largest)
	out.Vectors = mat.DenseCopyOf(vectors.Slice(0, p.n, 0, p.d))
	FixSigns(out.Vectors)
	return out
}

// few is the end of the spectrum of s for Solve, or nil if the full decomposition is better: for small s, if the cut
// falls into a tie whose other vectors are needed, and for a small end below the accuracy of a factor, whose digits
// the full decomposition keeps.
func few(ctx context.Context, s *mat.SymDense, end End, d int) *Part {
	n := s.SymmetricDim()
	if d < 1 || n < krylovOrder(d, blockSize(d)) {
		return nil
	}
	p := &partial{ctx: ctx, m: Dense(s), n: n, end: end, d: d, free: n, brief: true}
	part, err := p.find(p.algorithms())
	if err != nil {
		return nil // the full decomposition reports what is wrong with s
	}
	if t := len(part.Ties); t > 0 && part.Ties[t-1][1] == len(part.all) {
		return nil
	}
	if end == Min && math.Abs(part.all[0]) < 1e3*inverseShift*part.Largest {
		return nil
	}
	return part
}

// knownRows is an orthonormal basis, as rows, of the columns of known.
func knownRows(n int, known *mat.Dense) *mat.Dense {
	if known == nil {
		return nil
	}
	rows, q := known.Dims()
	if rows != n || q > n {
		panic(fail.With(fmt.Errorf("known vectors are %d x %d, the operator has order %d", rows, q, n)))
	}
	if err := finite(known); err != nil {
		panic(fail.With(fmt.Errorf("known vectors: %w", err)))
	}
	b := Orthonormal(alone, known, 1e-10)
	if b == nil {
		panic(fail.With(errors.New("known vectors are zero")))
	}
	if _, r := b.Dims(); r < q {
		panic(fail.With(fmt.Errorf("known vectors have rank %d, not %d: give an independent set", r, q)))
	}
	return mat.DenseCopyOf(b.T())
}

// checkKnown refuses known vectors that are not eigenvectors: projecting them out would change the problem.
func (p *partial) checkKnown() {
	if p.null == nil {
		return
	}
	q, _ := p.null.Dims()
	y := mat.NewDense(q, p.n, nil)
	p.apply(y, p.null)
	project(p.ctx, y, p.null)
	left := maxAbs(y)
	if left == 0 {
		return
	}
	if p.largest == 0 && p.free >= krylovOrder(1, 4) {
		p.measure()
	}
	scale := p.largest
	if scale == 0 {
		scale = mat.Norm(allOf(p.ctx, p.m), 2)
	}
	if !(left <= 1e-9*scale) {
		panic(fail.With(fmt.Errorf("known vectors are not eigenvectors: M moves them by %.2g, its largest value is %.4g",
			left, scale)))
	}
}

// fullOrder is the largest order that is decomposed in full if the partial algorithms fail: about a minute and 400 MB.
const fullOrder = 2500

// full decomposes all of m, with the known vectors moved past the other end.
func (p *partial) full() *Part {
	fail.Check(p.ctx.Err())
	s := mat.NewSymDense(p.n, allOf(p.ctx, p.m).RawMatrix().Data) // by its upper triangle
	if p.null != nil {
		away := 4 * mat.Norm(s, 1)
		if p.end == Max {
			away = -away
		}
		q, _ := p.null.Dims()
		for i := range q {
			s.SymRankOne(s, away, p.null.RowView(i))
		}
	}
	values, vectors := spectrum(s)
	if p.end == Min {
		values, vectors = reversed(values, vectors)
	}
	values = values[:p.free]
	for _, v := range values {
		p.largest = max(p.largest, math.Abs(v))
	}
	// Pairs that are closer than rounding errors cannot be separated better than this.
	p.floor = float64(p.n) * eps * p.largest
	part := p.judge(values, mat.DenseCopyOf(vectors.Slice(0, p.n, 0, p.free).T()))
	if p.end == Max {
		part.smallest = min(values[p.free-1], 0)
	}
	return part
}
