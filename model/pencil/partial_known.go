package pencil

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
)

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
