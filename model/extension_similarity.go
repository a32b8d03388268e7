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
// is the only one for alpha > 0; descend gets there sooner, and takes kernels with
// negative values too.
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

func (e *similarityMap) placer(m int) (placer, error) {
	p := &similarityPlacer{similarityMap: e, index: newIndex(&e.training, m, 1), ready: e.k.ready(e.rows, m)}
	// The linear kernel is the product of the rows themselves, with m numbers in
	// place of n.
	p.factor, p.linear = p.ready.rows, true
	if e.k.name != "linear" {
		g, err := e.k.gram(e.rows, m)
		if err != nil {
			return nil, err
		}
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
	return p, nil
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
	width := len(p.factor) / p.n()
	w.row = make([]float64, p.m+5*p.n()+2*width)
	if p.direct(width) {
		w.gram = make([]float64, width*width+width)
	}
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
	x, q := w.row[:p.m], similarityProblem{}
	q.over(w.row[p.m:], n, len(p.factor)/n)
	q.gram = w.gram
	norm := p.ready.take(x, z)
	for i := range n {
		s := math.Exp(-p.rate * squaredDistance(z, p.rows[i*p.m:(i+1)*p.m]))
		q.target[i] = p.ready.at(x, norm, i) + p.alpha*s - p.beta/2
	}
	if err := p.descend(&q); err != nil {
		return err
	}
	sum := 0.0
	clear(dst)
	for i, v := range q.weight {
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

// descend finds the weights: sweeps of coordinate descent from 0 find which are
// above 0, conjugate gradients solve for those, and again without what
// reaches 0 (after More and Toraldo, SIAM J. Optim. 1, 1991, who find them by
// projected gradients). Coordinate descent alone needs many thousand sweeps where
// products are large beside alpha. With the weights it keeps the product G weight,
// or, of the linear kernel, X weight.
//
// Where alpha is small beside the products, rounding can keep weights moving at
// the minimum until the rounds are over. The slope there, some 1e-10, tells that
// from weights that are not at the minimum, which are an error.
func (p *similarityPlacer) descend(q *similarityProblem) error {
	const rounds, sweeps, tolerance, enough = 100, 10, 1e-9, 1e-6
	clear(q.weight)
	clear(q.product)
	solved := false
	for range rounds {
		for range sweeps {
			moved, largest := p.sweep(q)
			if moved <= tolerance*largest {
				if solved {
					return nil
				}
				break
			}
			solved = false
		}
		for solved = false; !solved; { // each time fewer are above 0
			solved = p.conjugate(q)
		}
	}
	if off := p.slope(q); !(off <= enough) {
		return fmt.Errorf("the similarities of a row are not found in %d rounds: a slope of %.2g is left, of their largest target; fit with a larger alpha than %g", rounds, off, p.alpha)
	}
	return nil
}

// slope is how far the weights are from their minimum: the largest derivative of
// one above 0, or that would fall from 0, as a share of the largest target.
func (p *similarityPlacer) slope(q *similarityProblem) float64 {
	worst, largest := 0.0, math.SmallestNonzeroFloat64
	for i, v := range q.weight {
		s := p.times(q.product, i) + p.alpha*v - q.target[i]
		if v > 0 {
			s = -math.Abs(s)
		}
		worst, largest = max(worst, -s), max(largest, math.Abs(q.target[i]))
	}
	return worst / largest
}

// similarityProblem is that of one row, and the memory to solve it.
type similarityProblem struct {
	target, weight         []float64 // n
	product, image         []float64 // of weight and search
	residual, search, step []float64 // n
	gram                   []float64 // of the features, and a vector; nil: see direct
}

func (q *similarityProblem) over(row []float64, n, width int) {
	for _, v := range []*[]float64{&q.target, &q.weight, &q.residual, &q.search, &q.step} {
		*v, row = row[:n], row[n:]
	}
	q.product, q.image = row[:width], row[width:2*width]
}

// sweep takes every weight in turn to its minimum, the others held; moved is the
// largest change.
func (p *similarityPlacer) sweep(q *similarityProblem) (moved, largest float64) {
	for i, v := range q.weight {
		curvature := p.diagonal[i] + p.alpha
		if !(curvature > 0) {
			continue
		}
		next := max(0, v+(q.target[i]-p.times(q.product, i)-p.alpha*v)/curvature)
		if step := next - v; step != 0 {
			q.weight[i] = next
			p.add(q.product, i, step)
			moved = max(moved, math.Abs(step))
		}
		largest = max(largest, next)
	}
	return moved, largest
}

// add adds v times column i to a product.
func (p *similarityPlacer) add(product []float64, i int, v float64) {
	for j, g := range p.factor[i*len(product) : (i+1)*len(product)] {
		product[j] += v * g
	}
}

// times is entry i of G times the vector that the product is of.
func (p *similarityPlacer) times(product []float64, i int) float64 {
	if p.linear {
		return dot(p.factor[i*len(product):(i+1)*len(product)], product)
	}
	return product[i]
}

// conjugate moves the weights above 0 toward their minimum, the others held at 0.
// It says whether they got there before any of them reached 0.
func (p *similarityPlacer) conjugate(q *similarityProblem) bool {
	const most, tolerance = 500, 1e-20
	clear(q.step)
	size, norm := 0.0, 0.0
	for i, v := range q.weight {
		q.residual[i] = 0
		if v > 0 {
			q.residual[i] = q.target[i] - p.times(q.product, i) - p.alpha*v
			size += q.target[i] * q.target[i]
			norm += q.residual[i] * q.residual[i]
		}
	}
	copy(q.search, q.residual)
	if norm > tolerance*size && p.newton(q) {
		norm = 0
	}
	for k := 0; k < most && norm > tolerance*size; k++ {
		p.multiply(q.image, q.search)
		curvature := 0.0
		for i, v := range q.search {
			if v != 0 {
				curvature += v * (p.times(q.image, i) + p.alpha*v)
			}
		}
		if !(curvature > 0) {
			break
		}
		length, before := norm/curvature, norm
		norm = 0
		for i, v := range q.weight {
			if v > 0 {
				q.step[i] += length * q.search[i]
				q.residual[i] -= length * (p.times(q.image, i) + p.alpha*q.search[i])
				norm += q.residual[i] * q.residual[i]
			}
		}
		for i, v := range q.residual {
			q.search[i] = v + norm/before*q.search[i]
		}
	}
	// All that would pass 0 stop there, if that is better than the start; else they
	// move until the first one does, which always is.
	before := p.value(q, q.weight, q.product)
	part := 1.0
	for i, v := range q.step {
		q.search[i] = max(0, q.weight[i]+v)
		if v < 0 {
			part = min(part, -q.weight[i]/v)
		}
	}
	p.multiply(q.image, q.search)
	if part < 1 && !(p.value(q, q.search, q.image) < before) {
		for i, v := range q.step {
			q.search[i] = max(0, q.weight[i]+part*v)
			if v < 0 && -q.weight[i]/v <= part {
				q.search[i] = 0 // not its rounding
			}
		}
		p.multiply(q.image, q.search)
	}
	copy(q.weight, q.search)
	copy(q.product, q.image)
	return part == 1
}

// direct says whether the linear kernel of so many features is better solved by a
// factor of their order: (X'X + alpha I)^-1 = (I - X'(X X' + alpha I)^-1 X)/alpha,
// which needs an alpha that rounding does not swallow.
func (p *similarityPlacer) direct(features int) bool {
	return p.linear && features <= 300 && p.alpha > 1e-8*floatMax(p.diagonal)
}

// newton sets step to that from the weights above 0 to their minimum, and says
// whether it did.
func (p *similarityPlacer) newton(q *similarityProblem) bool {
	if q.gram == nil {
		return false
	}
	m := len(q.product)
	gram, b := q.gram[:m*m], q.gram[m*m:]
	clear(q.gram)
	for j := range m {
		gram[j*m+j] = p.alpha
	}
	for i, v := range q.weight {
		if v == 0 {
			continue
		}
		x := p.factor[i*m : (i+1)*m]
		for j, a := range x {
			b[j] += a * q.residual[i]
			row := gram[j*m : j*m+j+1]
			for k, c := range x[:j+1] {
				row[k] += a * c
			}
		}
	}
	if !cholesky(gram, b) {
		return false
	}
	for i, v := range q.weight {
		if v > 0 {
			q.step[i] = (q.residual[i] - dot(p.factor[i*m:(i+1)*m], b)) / p.alpha
		}
	}
	return true
}

// multiply sets product to that of G, or X, and some weights.
func (p *similarityPlacer) multiply(product, weight []float64) {
	clear(product)
	for i, v := range weight {
		if v != 0 {
			p.add(product, i, v)
		}
	}
}

// value is half the criterion.
func (p *similarityPlacer) value(q *similarityProblem, weight, product []float64) float64 {
	sum := 0.0
	for i, v := range weight {
		if v != 0 {
			sum += v * ((p.times(product, i)+p.alpha*v)/2 - q.target[i])
		}
	}
	return sum
}
