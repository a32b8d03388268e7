package tangent

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/pencil"
)

// Part is one diagonal block of S3, factored: Z Z' is the inverse of S3 + a I, or the pseudo-inverse of S3.
type Part struct {
	patches []int
	Metric  *pencil.Metric // Z by Cholesky; nil if S3 is zero
	Null    *mat.Dense     // orthonormal columns that Z Z' is zero on, or nil
}

// outside is b without its part in the null columns.
func (p *Part) outside(b *mat.Dense) *mat.Dense {
	if p.Null == nil {
		return b
	}
	var inner, out mat.Dense
	inner.Mul(p.Null.T(), b)
	out.Mul(p.Null, &inner)
	out.Sub(b, &out)
	return &out
}

// Half is Z'b.
func (p *Part) Half(b *mat.Dense) *mat.Dense {
	if p.Metric == nil {
		return nil
	}
	return p.Metric.Whiten(p.outside(b))
}

// Solve is Z Z'b.
func (p *Part) Solve(b *mat.Dense) *mat.Dense {
	if p.Metric == nil {
		r, c := b.Dims()
		return mat.NewDense(r, c, nil)
	}
	return p.outside(p.Metric.Solve(p.outside(b)))
}

// Factor factors S3 + ridge I or, for ridge 0, the pseudo-inverse of S3, part by part.
func (f *Form) Factor(ctx context.Context, ridge float64) []Part {
	position := make([]int, len(f.S3))
	linked := make([][]Link, len(f.S3))
	for _, l := range f.Links {
		linked[l.P] = append(linked[l.P], l)
	}
	var parts []Part
	for _, patches := range f.parts() {
		fail.Check(ctx.Err())
		size := 0
		for _, p := range patches {
			position[p] = size
			size += f.Start[p+1] - f.Start[p]
		}
		s := mat.NewSymDense(size, nil)
		for _, p := range patches {
			for a := range f.S3[p].SymmetricDim() {
				for b := a; b < f.S3[p].SymmetricDim(); b++ {
					s.SetSym(position[p]+a, position[p]+b, f.S3[p].At(a, b))
				}
			}
			for _, l := range linked[p] {
				r, c := l.S3.Dims()
				for a := range r {
					for b := range c {
						s.SetSym(position[p]+a, position[l.Q]+b, l.S3.At(a, b))
					}
				}
			}
		}
		part := Part{patches: patches}
		var err error
		if ridge > 0 {
			part.Metric, err = pencil.Ridge(s, ridge)
		} else {
			part.Metric, part.Null, err = PseudoInverse(ctx, s)
		}
		if err != nil {
			panic(fail.With(fmt.Errorf("tangent vectors: %w", err)))
		}
		parts = append(parts, part)
	}
	return parts
}

// tangentCut is the share of the largest eigenvalue of S3 up to which an eigenvalue counts as zero.
const tangentCut = 1e-10

// PseudoInverse factors the pseudo-inverse of S3: a Cholesky factor and, if there are any, the eigenvectors of values
// below the cut. S3 has few of those, and they are the leading ones of its inverse.
func PseudoInverse(ctx context.Context, s *mat.SymDense) (*pencil.Metric, *mat.Dense, error) {
	n := s.SymmetricDim()
	bound := 0.0 // the largest row sum is at least the largest eigenvalue
	for i := range n {
		sum := 0.0
		for j := range n {
			sum += math.Abs(s.At(i, j))
		}
		bound = max(bound, sum)
	}
	if bound == 0 {
		return nil, nil, nil
	}
	if n > 300 {
		q, null, err := deflated(ctx, s, bound)
		if err == nil || ctx.Err() != nil {
			return q, null, err
		}
	}
	all, err := pencil.Solve(ctx, s, pencil.Identity(n), pencil.Min, n)
	if err != nil {
		return nil, nil, err
	}
	cut := tangentCut * all.Values[n-1]
	from := 0
	for from < n && all.Values[from] <= cut {
		from++
	}
	if from == 0 {
		q, err := pencil.Ridge(s, 0)
		return q, nil, err
	}
	// Adding 1 on the null space, which is projected out, makes the matrix definite.
	null := mat.DenseCopyOf(all.Vectors.Slice(0, n, 0, from))
	whole := mat.NewSymDense(n, nil)
	whole.SymOuterK(all.Values[n-1], null)
	whole.AddSym(whole, s)
	q, err := pencil.Ridge(whole, 0)
	return q, null, err
}

// deflated is PseudoInverse for large S3: the small eigenvalues are the largest of its inverse, with a shift far below
// the cut if S3 is singular.
func deflated(ctx context.Context, s *mat.SymDense, bound float64) (*pencil.Metric, *mat.Dense, error) {
	n := s.SymmetricDim()
	shift := 0.0
	q, err := pencil.Ridge(s, 0)
	if errors.Is(err, pencil.ErrNotDefinite) {
		shift = 1e-4 * tangentCut * bound
		q, err = pencil.Ridge(s, shift)
	}
	if err != nil {
		return nil, nil, err
	}
	for d := 1; ; d = min(4*d, n) {
		part, err := pencil.Partial(ctx, inverse{q}, pencil.Max, d, nil)
		if err != nil {
			return nil, nil, err
		}
		cut := tangentCut * bound
		from := 0
		for from < d && 1/part.Values[from]-shift <= cut {
			from++
		}
		switch {
		case from == 0:
			return q, nil, nil
		case from < d:
			return q, mat.DenseCopyOf(part.Vectors.Slice(0, n, 0, from)), nil
		case d >= n/8:
			return nil, nil, fmt.Errorf("more than %d of %d eigenvalues are zero", d, n)
		}
	}
}

// inverse is the operator of a factored matrix's inverse.
type inverse struct{ q *pencil.Metric }

func (o inverse) Order() int { return o.q.Columns() }

func (o inverse) Apply(_ context.Context, dst, x *mat.Dense) { dst.Copy(o.q.Solve(x)) }
