package model

import (
	"fmt"
	"math"
)

// similarityMap extends an embedding of learned similarities W: a new row's own
// similarities are learned with those of the fit held, then averaged as
// Laplacian eigenmaps averages them (see nystrom). They are the w >= 0 that
// minimises
//
//	w'(G + alpha I) w - 2 w'(g + alpha s - beta/2)
//
// with G the kernel of the rows of the fit, g that of x and them, and
// s = exp(-rate |x - x_j|^2). The multiplicative update
// w <- w (g + alpha s) / ((G + alpha I) w + beta/2) has the same minimum, which
// is the only one for alpha > 0; coordinate descent gets there sooner, and takes
// kernels with negative values too.
type similarityMap struct {
	training
	lambda            []float64 // d eigenvalues of L v = lambda D v
	alpha, beta, rate float64
	k                 kernelFunction
}

// maxSimilar bounds the n x n kernel of the rows, which the file does not hold,
// and the time of a row.
const maxSimilar = 2000

func (e *similarityMap) kind() string { return "similarity" }

func (e *similarityMap) check(m, classes int) error {
	if err := e.training.check(m, classes); err != nil {
		return err
	}
	switch {
	case e.n() > maxSimilar:
		return fmt.Errorf("%d rows; a map by learned similarities has at most %d", e.n(), maxSimilar)
	case len(e.lambda) != e.d:
		return fmt.Errorf("%d numbers in lambda, %d are needed", len(e.lambda), e.d)
	case !(e.alpha >= 0 && e.beta >= 0 && e.rate >= 0):
		return fmt.Errorf("alpha %g, beta %g, rate %g; none may be negative", e.alpha, e.beta, e.rate)
	}
	if err := extensible(e.lambda); err != nil {
		return err
	}
	return e.k.check(m)
}

func (e *similarityMap) arrays() []array {
	return append(e.with(array{"lambda", []int{e.d}, e.lambda}, array{"alpha", []int{1}, []float64{e.alpha}},
		array{"beta", []int{1}, []float64{e.beta}}, array{"rate", []int{1}, []float64{e.rate}}), e.k.arrays()...)
}

func rebuildSimilarity(arrays []array) (mapping, error) {
	const own = 6 // before the kernel's
	t, rest, err := rebuildTraining("similarity", arrays[:min(own, len(arrays))], []string{"lambda", "alpha", "beta", "rate"}, []int{1, 1, 1, 1})
	if err != nil {
		return nil, err
	}
	e := &similarityMap{training: t, lambda: rest[0].data}
	for i, v := range []*float64{&e.alpha, &e.beta, &e.rate} {
		if *v, err = number(rest[i+1]); err != nil {
			return nil, err
		}
	}
	e.k, err = rebuildKernelFunction(arrays[own:])
	return e, err
}

func (e *similarityMap) placer(m int) placer {
	p := &similarityPlacer{similarityMap: e, index: newIndex(&e.training, m, 1), ready: e.k.ready(e.rows, m)}
	// The linear kernel is the product of the rows themselves, with m numbers in
	// place of n.
	p.factor, p.linear = p.ready.rows, true
	if e.k.name != "linear" {
		g := e.k.gram(e.rows, m)
		p.factor, p.linear = make([]float64, 0, e.n()*e.n()), false
		for i := range e.n() {
			for j := range e.n() {
				p.factor = append(p.factor, g.At(i, j))
			}
		}
	}
	p.diagonal = make([]float64, e.n())
	for i := range p.diagonal {
		p.diagonal[i] = p.ready.at(p.ready.rows[i*m:(i+1)*m], p.ready.norm[i], i)
	}
	return p
}

type similarityPlacer struct {
	*similarityMap
	*index
	ready    *readyKernel
	linear   bool
	factor   []float64 // the rows, or G itself
	diagonal []float64 // of G
}

// cost counts the sweeps over the rows, some tens of them.
func (p *similarityPlacer) cost() int { return 10 * p.n() }

func (p *similarityPlacer) workspace() *workspace {
	w := p.index.workspace()
	w.row = make([]float64, p.m+2*p.n()+len(p.factor)/p.n())
	return w
}

func (p *similarityPlacer) place(dst, z []float64, w *workspace) error {
	zero, err := p.nearest(z, w)
	if err != nil {
		return err
	}
	if zero {
		p.put(dst, w.at[0])
		return nil
	}
	n := p.n()
	x, target, weight, product := w.row[:p.m], w.row[p.m:p.m+n], w.row[p.m+n:p.m+2*n], w.row[p.m+2*n:]
	norm := p.ready.take(x, z)
	for i := range n {
		s := math.Exp(-p.rate * squaredDistance(z, p.rows[i*p.m:(i+1)*p.m]))
		target[i] = p.ready.at(x, norm, i) + p.alpha*s - p.beta/2
	}
	p.descend(target, weight, product)
	sum := 0.0
	clear(dst)
	for i, v := range weight {
		sum += v
		for c, y := range p.embedding[i*p.d : (i+1)*p.d] {
			dst[c] += v * y
		}
	}
	if !(sum > 0) {
		p.put(dst, w.at[0]) // similar to none: where the nearest row is
		return nil
	}
	for c, l := range p.lambda {
		dst[c] /= sum * (1 - l)
	}
	return nil
}

// descend finds the weights by coordinate descent from 0. Most of them stay 0, so
// that sweeps go over the others until they have settled, and one over all says
// whether that is the answer (Friedman, Hastie and Tibshirani 2010).
// Along with the weights it keeps the product G weight, or, of the linear kernel,
// X weight.
func (p *similarityPlacer) descend(target, weight, product []float64) {
	const sweeps, tolerance = 1000, 1e-9
	some := false // a sweep over the weights above 0 alone
	width := len(product)
	clear(weight)
	clear(product)
	for range sweeps {
		moved, largest := 0.0, 0.0
		for i, v := range weight {
			curvature := p.diagonal[i] + p.alpha
			if !(curvature > 0) || some && v == 0 {
				continue
			}
			column := p.factor[i*width : (i+1)*width]
			var at float64
			if p.linear {
				at = dot(column, product)
			} else {
				at = product[i]
			}
			next := max(0, v+(target[i]-at-p.alpha*v)/curvature)
			if step := next - v; step != 0 {
				weight[i] = next
				for j, g := range column {
					product[j] += step * g
				}
				moved = max(moved, math.Abs(step))
			}
			largest = max(largest, next)
		}
		settled := moved <= tolerance*largest
		if settled && !some {
			return
		}
		some = !settled
	}
}
