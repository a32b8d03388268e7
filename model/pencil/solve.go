package pencil

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// Solution has the eigenpairs at the requested end of the spectrum of a pencil (N, D).
type Solution struct {
	Values  []float64  // the wanted eigenvalues, best first
	Vectors *mat.Dense // m x d: column j belongs to Values[j], a'(D + rho I)a = 1
	Rank    int        // the largest possible number of directions
	// Gap is the smallest relative distance between a wanted eigenvalue and its neighbour, including the first unwanted
	// one; +Inf if there is only one.
	Gap float64
	// Ties are runs of wanted columns [from, to) that share one eigenspace with each other or, if to is past the last
	// column, with unwanted ones. Within a tie the columns of least norm come first.
	Ties [][2]int
	// Residual is max |Z'(N a - lambda D a)| / |lambda|_max over the columns: the
	// equation checked with the matrices as given, in whitened coordinates.
	Residual float64
}

// Solve returns the d wanted eigenpairs of (N, D), all of them for d = 0. For Max, d is bounded by the numerical rank
// of N in the metric; for Min by the rank of the metric. It stops with the error of ctx; only a full decomposition is
// not interrupted.
func Solve(ctx context.Context, n mat.Symmetric, q *Metric, end End, d int) (_ *Solution, err error) {
	defer parallel.Recover(&err, "eigenvectors")
	if n.SymmetricDim() != q.m {
		return nil, fmt.Errorf("numerator of order %d, denominator of order %d", n.SymmetricDim(), q.m)
	}
	if q.rank == 0 {
		return nil, &RankError{Asked: d, Max: 0}
	}
	apply := func(a *mat.Dense) *mat.Dense { return tile.Times(ctx, symDense(n), a) }
	room := takeRoom()
	defer rooms.Put(room)
	return solveWhite(ctx, q.whitenSym(ctx, n, room), q, end, d, apply), nil
}

// solveWhite is Solve of s = Z'NZ.
func solveWhite(ctx context.Context, s *mat.SymDense, q *Metric, end End, d int,
	apply func(*mat.Dense) *mat.Dense) *Solution {
	if exp := farScale(s); exp != 0 {
		near := func(a *mat.Dense) *mat.Dense { return ldexp(apply(a), -exp) }
		sol := solveWhite(ctx, symLdexp(s, -exp), q, end, d, near)
		for i, v := range sol.Values {
			sol.Values[i] = math.Ldexp(v, exp)
		}
		return sol
	}
	type way func(context.Context, *mat.SymDense, *Metric, End, int, func(*mat.Dense) *mat.Dense) *Solution
	ways := []way{solveReduced}
	if n := s.SymmetricDim(); n > reducedOrder {
		ways = []way{solveFew, solveReduced}
	} else if n > fewOrder {
		ways = []way{solveReduced, solveFew}
	}
	for _, solve := range ways {
		fail.Check(ctx.Err())
		if sol := solve(ctx, s, q, end, d, apply); sol != nil {
			return sol
		}
	}
	fail.Check(ctx.Err())
	values, vectors := spectrum(s)
	return finish(ctx, q, values, vectors, end, d, apply)
}

// farScale is the exponent of the largest entry of s, if that is so far from 1 that squares, reciprocals or small
// entries would overflow or lose their digits; else 0.
func farScale(s *mat.SymDense) int {
	largest, n := 0.0, s.SymmetricDim()
	for i := range n {
		for _, v := range s.RawSymmetric().Data[i*s.RawSymmetric().Stride:][i:n] {
			if v = math.Abs(v); v > largest {
				largest = v
			}
		}
	}
	if _, exp := math.Frexp(largest); exp < -400 || exp > 400 {
		return exp
	}
	return 0
}

// symLdexp is s times a power of two.
func symLdexp(s *mat.SymDense, exp int) *mat.SymDense {
	n := s.SymmetricDim()
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, math.Ldexp(s.At(i, j), exp))
		}
	}
	return out
}

// ldexp multiplies a by a power of two, in place.
func ldexp(a *mat.Dense, exp int) *mat.Dense {
	a.Apply(func(_, _ int, v float64) float64 { return math.Ldexp(v, exp) }, a)
	return a
}

const (
	// fewOrder is the order from which products with the matrix are tried before a full decomposition, if a reduction
	// would lose the digits of the small end: they cost a sixth of it at order 256, a twentieth at 512, and check the
	// context.
	fewOrder = 128
	// reducedOrder is the order up to which a reduction to tridiagonal form costs less than products with the matrix,
	// even if values are well separated. Above it, it costs a fifth of them if they are not.
	reducedOrder = 640
)

// solveFew is Solve by products with the matrix, or nil if few fails or if the rank cannot be found that way.
func solveFew(ctx context.Context, s *mat.SymDense, q *Metric, end End, d int,
	apply func(*mat.Dense) *mat.Dense) *Solution {
	part := few(ctx, s, end, d)
	if part == nil {
		return nil
	}
	rank := partRank(ctx, s, end, part, d)
	if rank < d {
		return nil
	}
	return complete(ctx, q, part.all, part.vectors, q.rank, rank, part.Largest, d, apply)
}

var rooms sync.Pool // of *[]float64, for matrices that a call needs and does not return

func takeRoom() *[]float64 {
	if room, ok := rooms.Get().(*[]float64); ok {
		return room
	}
	return new([]float64)
}

// solveReduced is Solve from the tridiagonal form, or nil if most vectors are wanted, or if they cannot be found that
// way.
func solveReduced(ctx context.Context, s *mat.SymDense, q *Metric, end End, d int,
	apply func(*mat.Dense) *mat.Dense) *Solution {
	n := s.SymmetricDim()
	if d < 1 || n < 64 || 4*d > n {
		return nil
	}
	room := takeRoom()
	defer rooms.Put(room)
	r := reduce(ctx, s, room)
	if r == nil {
		return nil
	}
	least, values := r.best(end, d+1)
	largest, rank := r.size, n
	if end == Min && math.Abs(least) < 1e-6*largest {
		return nil // inverse iteration works for the largest; other algorithms keep the digits of the small end
	}
	if end == Max {
		rank = r.spectrum.above(float64(q.m) * eps * largest)
	}
	if d > rank {
		panic(fail.With(&RankError{Asked: d, Max: rank}))
	}
	count := d
	for linalg.Tied(values[count-1], values[count], n, largest) { // less than a quarter are wanted: there is a next one
		if count++; 4*count > n {
			return nil
		}
		if count == len(values) {
			_, values = r.best(end, 2*count)
		}
	}
	up := slices.Clone(values[:count])
	if end == Max {
		slices.Reverse(up)
	}
	vectors := r.vectors(up)
	if vectors == nil {
		return nil
	}
	if end == Max {
		_, vectors = reversed(up, vectors)
	}
	return complete(ctx, q, values[:count+1], vectors, n, rank, largest, d, apply)
}

// partRank is the rank that finish would count in the whole spectrum, 0 if only finish can find it.
func partRank(ctx context.Context, s *mat.SymDense, end End, part *Part, d int) int {
	m := s.SymmetricDim()
	if end == Min {
		return m
	}
	tol := float64(m) * eps * part.Largest
	if part.all[d-1] <= tol || part.smallest < -tol {
		return 0
	}
	c := mat.NewSymDense(m, nil)
	c.CopySym(s)
	if above(ctx, c, tol) {
		return m
	}
	c.CopySym(s)
	_, rank := pivoted(ctx, c, tol)
	return rank
}

// SolveLow is Solve at the Max end for N = G J G' given by its factors, G m x c with few columns and J symmetric (nil
// for the identity): a thin decomposition of order c instead of one of order m.
func SolveLow(ctx context.Context, g *mat.Dense, j mat.Symmetric, q *Metric, d int) (_ *Solution, err error) {
	defer parallel.Recover(&err, "eigenvectors")
	m, c := g.Dims()
	if m != q.m {
		return nil, fmt.Errorf("factor with %d rows, denominator of order %d", m, q.m)
	}
	if j != nil && j.SymmetricDim() != c {
		return nil, fmt.Errorf("factor with %d columns, inner matrix of order %d", c, j.SymmetricDim())
	}
	if q.rank == 0 || c == 0 {
		return nil, &RankError{Asked: d, Max: 0}
	}
	inner := func(x *mat.Dense) *mat.Dense {
		if j == nil {
			return x
		}
		return tile.Times(ctx, symDense(j), x)
	}
	apply := func(a *mat.Dense) *mat.Dense {
		var t, out mat.Dense
		t.Mul(g.T(), a)
		out.Mul(g, inner(&t))
		return &out
	}
	h := q.whiten(ctx, g)
	if c > q.rank { // with more columns than the rank N is not smaller
		ht := mat.DenseCopyOf(h.T())
		return solveWhite(ctx, fail.Must(tile.Gram(ctx, tile.Rows(ht), tile.Rows(inner(ht)))), q, Max, d, apply), nil
	}
	var svd mat.SVD
	fail.Check(finite(h))
	if !svd.Factorize(h, mat.SVDThin) {
		return nil, fmt.Errorf("singular value decomposition of %d x %d did not converge", q.rank, c)
	}
	s := svd.Values(nil)
	var left, right mat.Dense
	svd.UTo(&left)
	svd.VTo(&right)
	k := len(s)
	// H J H' = U (S V' J V S) U'.
	var core mat.Dense
	core.Mul(right.T(), inner(&right))
	small := mat.NewSymDense(k, nil)
	for a := range k {
		for b := a; b < k; b++ {
			small.SetSym(a, b, s[a]*s[b]*(core.At(a, b)+core.At(b, a))/2)
		}
	}
	values, w := spectrum(small)
	vectors := mat.NewDense(q.rank, k, nil)
	vectors.Mul(&left, w)
	return finish(ctx, q, values, vectors, Max, d, apply), nil
}

// finish selects the end, makes ties unique, returns to the given coordinates, fixes signs and checks the equation.
// values are descending.
func finish(ctx context.Context, q *Metric, values []float64, vectors *mat.Dense, end End, d int,
	apply func(*mat.Dense) *mat.Dense) *Solution {
	k := len(values)
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	rank := k
	if end == Max {
		rank = 0
		for rank < k && values[rank] > float64(q.m)*eps*largest {
			rank++
		}
	} else {
		values, vectors = reversed(values, vectors)
	}
	if d = cmp.Or(d, rank); d < 1 || d > rank {
		panic(fail.With(&RankError{Asked: d, Max: rank}))
	}
	return complete(ctx, q, values, vectors, k, rank, largest, d, apply)
}

// complete is finish for the leading pairs of a problem of the given order, best first, including the whole ties of
// the wanted ones.
func complete(ctx context.Context, q *Metric, values []float64, vectors *mat.Dense, order, rank int, largest float64,
	d int, apply func(*mat.Dense) *mat.Dense) *Solution {
	sol := &Solution{Rank: rank}
	sol.Ties = linalg.Ties(values, d, func(a, b float64) bool { return linalg.Tied(a, b, order, largest) })
	for _, run := range sol.Ties {
		makeUnique(q, vectors, run[0], run[1])
	}
	sol.Gap = leastGap(values, d, order, largest)
	sol.Values = append([]float64(nil), values[:d]...)
	sol.Vectors = q.Unwhiten(vectors.Slice(0, q.rank, 0, d))
	FixSigns(sol.Vectors)
	fail.Check(finite(sol.Vectors))
	if ctx.Value(noResidual{}) == nil {
		sol.Residual = residual(q, sol, largest, apply)
	}
	return sol
}

// makeUnique makes the basis of a tied eigenspace unique: the columns of least norm come first, which are the
// directions of most variance under the denominator (min a'a subject to a'Da = 1). Without a denominator every basis
// has the same norms, and the solver's own, which is deterministic, is kept.
func makeUnique(q *Metric, v *mat.Dense, from, to int) {
	if q.d == nil {
		return
	}
	t := v.Slice(0, q.rank, from, to)
	r := fail.Must(LeastNorm(q.Unwhiten(t)))
	var rotated mat.Dense
	rotated.Mul(t, r)
	for i := range q.rank {
		copy(v.RawRowView(i)[from:to], rotated.RawRowView(i))
	}
}

// LeastNorm returns the rotation R (c x c) of the columns of b (m x c) that makes them orthogonal, the columns of least
// norm first: the tie-break within an eigenspace. It is an error if b is not finite.
func LeastNorm(b *mat.Dense) (*mat.Dense, error) {
	var bb mat.SymDense
	bb.SymOuterK(1, b.T())
	_, r, err := eigen(&bb)
	return r, err
}

type noResidual struct{}

// WithoutResidual is a context in which Solve and SolveLow leave the residual 0. It is for cross-validation, which does
// not read the residual: computing it takes two products with the matrices of the problem.
func WithoutResidual(ctx context.Context) context.Context {
	return context.WithValue(ctx, noResidual{}, true)
}

func residual(q *Metric, s *Solution, largest float64, apply func(*mat.Dense) *mat.Dense) float64 {
	if largest == 0 {
		return 0
	}
	na, da := apply(s.Vectors), q.apply(s.Vectors)
	m, d := na.Dims()
	for i := range m {
		for j := range d {
			na.Set(i, j, na.At(i, j)-s.Values[j]*da.At(i, j))
		}
	}
	w := q.Whiten(na)
	worst := 0.0
	for j := range d {
		worst = max(worst, mat.Norm(w.ColView(j), 2))
	}
	return worst / largest
}
