package pencil

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
)

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
