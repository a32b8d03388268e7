package pencil

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

const (
	// inverseShift is the shift of the factored matrix over its norm: large compared with rounding errors of the factor,
	// and smaller than any difference between distinct eigenvalues.
	inverseShift = 1e-12
)

// budget is the number of products worth trying before a factor is made: about a third of its time, with a flop on
// sparse rows and thin blocks counted as eight.
func (p *partial) budget(rows Entries, env *envelope) int {
	product := 2*float64(entriesOf(rows)) + 8*float64(p.n*basisSize(p.d+1, blockSize(p.d)))
	return int(env.flops() / 3 / (8 * product))
}

// inverse is Lanczos with (M + shift I)^-1 (Ericsson and Ruhe 1980), whose largest values are well separated where the
// smallest of M are tiny, followed by a Rayleigh-Ritz step with M itself, which makes the values as exact as products
// of M.
func (p *partial) inverse(rows Entries, env *envelope) *Part {
	if p.largest == 0 {
		p.measure()
	}
	norm := p.largest
	if norm == 0 {
		panic(fail.With(fmt.Errorf("%w: the matrix is zero", ErrNotDefinite)))
	}
	shift := inverseShift * norm
	env.factor(p.ctx, rows, shift)
	solve := func(dst, x *mat.Dense) { env.solve(p.ctx, dst, x) }
	found := p.stages(&krylov{ctx: p.ctx, n: p.n, apply: solve, null: p.null, limit: max(600, 40*(p.d+1)),
		// A backward error E of the factor turns v into mu (M + shift I)^-1 E v.
		noise: func(mu, outside, largest float64) float64 {
			return max(16*eps*norm*math.Abs(mu*outside), 4*eps*largest)
		},
		tied: func(a, b, _ float64) bool { return linalg.Tied(1/a, 1/b, p.n, norm) },
	})
	// One more step of inverse iteration removes rounding errors along large eigenvalues.
	b, _ := found.vectors.Dims()
	x := mat.NewDense(b, p.n, nil)
	for i, mu := range found.values {
		if !(mu > 0) {
			panic(fail.With(fmt.Errorf("%w: an eigenvalue of the inverse is %g", ErrNotDefinite, mu)))
		}
		row, src := x.RawRowView(i), found.vectors.RawRowView(i)
		for j := range row {
			row[j] = src[j] / mu
		}
	}
	solve(x, mat.DenseCopyOf(x))
	p.products += b
	k := &krylov{ctx: p.ctx, n: p.n, null: p.null}
	k.clean(x, nil)
	k.orthonormal(x, nil, 0, nil)
	values, vectors := p.rayleighRitz(x)
	return p.judge(values, vectors)
}

// stages runs k for the wanted pairs. If the values are far apart, rounding errors relative to the first value hide
// the last ones: the pairs found first are then projected out, and k runs again for the others.
func (p *partial) stages(k *krylov) *ritz {
	const apart = 1e-3 // of the first value: pairs below it are found in another run
	out := &ritz{vectors: new(mat.Dense)}
	for {
		found := p.lanczos(k, p.d-len(out.values))
		take := 1
		for take < len(found.values) && found.values[take] >= apart*found.values[0] {
			take++
		}
		last := len(out.values)+take >= p.d
		if last {
			take = len(found.values)
		}
		taken := rowsView(found.vectors, 0, take)
		out.values = append(out.values, found.values[:take]...)
		if out.vectors.IsEmpty() {
			out.vectors = mat.DenseCopyOf(taken)
		} else {
			all := new(mat.Dense)
			all.Stack(out.vectors, taken)
			out.vectors = all
		}
		if last {
			return out
		}
		k.null = out.vectors
		if p.null != nil {
			k.null = new(mat.Dense)
			k.null.Stack(p.null, out.vectors)
		}
	}
}

// rayleighRitz is the best approximation of M in the span of the orthonormal rows of x: values, best first, and
// vectors as rows.
func (p *partial) rayleighRitz(x *mat.Dense) ([]float64, *mat.Dense) {
	b, _ := x.Dims()
	y := mat.NewDense(b, p.n, nil)
	p.apply(y, x)
	h := project(p.ctx, mat.DenseCopyOf(y), x)
	values, s := spectrum(linalg.Symmetric(h))
	if p.end == Min {
		values, s = reversed(values, s)
	}
	var vectors mat.Dense
	vectors.Mul(s.T(), x)
	return values, &vectors
}
