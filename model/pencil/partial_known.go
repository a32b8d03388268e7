package pencil

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// knownRows is an orthonormal basis, as rows, of the columns of known.
func knownRows(n int, known *mat.Dense) (*mat.Dense, error) {
	if known == nil {
		return nil, nil
	}
	rows, q := known.Dims()
	if rows != n || q > n {
		return nil, fmt.Errorf("known vectors are %d x %d, the operator has order %d", rows, q, n)
	}
	if err := finite(known); err != nil {
		return nil, fmt.Errorf("known vectors: %w", err)
	}
	b := Orthonormal(alone, known, 1e-10)
	if b == nil {
		return nil, errors.New("known vectors are zero")
	}
	if _, r := b.Dims(); r < q {
		return nil, fmt.Errorf("known vectors have rank %d, not %d: give an independent set", r, q)
	}
	return mat.DenseCopyOf(b.T()), nil
}

// checkKnown refuses known vectors that are not eigenvectors: projecting them out would change the problem.
func (p *partial) checkKnown() error {
	if p.null == nil {
		return nil
	}
	q, _ := p.null.Dims()
	y := mat.NewDense(q, p.n, nil)
	p.apply(y, p.null)
	project(p.ctx, y, p.null)
	left := maxAbs(y)
	if left == 0 {
		return nil
	}
	if p.largest == 0 && p.free >= krylovOrder(1, 4) {
		if err := p.measure(); err != nil {
			return err
		}
	}
	scale := p.largest
	if scale == 0 {
		scale = operatorNorm(p.ctx, p.m)
	}
	if !(left <= 1e-9*scale) {
		return fmt.Errorf("known vectors are not eigenvectors: M moves them by %.2g, its largest value is %.4g",
			left, scale)
	}
	return nil
}
