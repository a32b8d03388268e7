package mapping

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// SimilarityMap extends an embedding of learned similarities W: the similarities of a new row are learned while those
// of the fit stay fixed, then averaged as in Nystrom. They are the w >= 0 that minimises
//
//	w'(G + alpha I) w - 2 w'(g + alpha s - beta/2)
//
// where G is the kernel matrix of the rows of the fit, g their kernels with x, and s = exp(-rate |x - x_j|^2). The
// multiplicative update w <- w (g + alpha s) / ((G + alpha I) w + beta/2) has the same minimum, the only one for
// alpha > 0; descend is faster, and works for kernels with negative values too.
type SimilarityMap struct {
	Training
	Lambda            []float64 // d eigenvalues of L v = lambda D v
	Alpha, Beta, Rate float64
	K                 Kernel
}

// MaxSimilar bounds the n x n kernel matrix of the rows, which the file does not store, and the time per row.
const MaxSimilar = 2000

func (e *SimilarityMap) Kind() string { return "similarity" }

func (e *SimilarityMap) Check(m, classes int) error {
	if err := e.Training.Check(m, classes); err != nil {
		return err
	}
	switch {
	case e.Len() > MaxSimilar:
		return fmt.Errorf("%d rows; a map by learned similarities has at most %d", e.Len(), MaxSimilar)
	case len(e.Lambda) != e.D:
		return fmt.Errorf("%d numbers in lambda, %d are needed", len(e.Lambda), e.D)
	case !(e.Alpha >= 0 && e.Beta >= 0 && e.Rate >= 0):
		return fmt.Errorf("alpha %g, beta %g, rate %g; none may be negative", e.Alpha, e.Beta, e.Rate)
	}
	if err := extensible(e.Lambda); err != nil {
		return err
	}
	return e.K.Check(m)
}

func (e *SimilarityMap) Arrays() []Array {
	return append(e.with(Array{"lambda", []int{e.D}, e.Lambda}, Array{"alpha", []int{1}, []float64{e.Alpha}},
		Array{"beta", []int{1}, []float64{e.Beta}}, Array{"rate", []int{1}, []float64{e.Rate}}), e.K.Arrays()...)
}

func rebuildSimilarity(arrays []Array) Map {
	const own = 6 // before the kernel's
	t, rest := rebuildTraining("similarity", arrays[:min(own, len(arrays))],
		[]string{"lambda", "alpha", "beta", "rate"}, []int{1, 1, 1, 1})
	e := &SimilarityMap{Training: t, Lambda: rest[0].Data}
	for i, v := range []*float64{&e.Alpha, &e.Beta, &e.Rate} {
		*v = number(rest[i+1])
	}
	e.K = rebuildKernel(arrays[own:])
	return e
}

func (e *SimilarityMap) Extension(m int) (Extension, error) {
	p := &SimilarityExtension{SimilarityMap: e, index: newIndex(&e.Training, m, 1, nil), Ready: e.K.Ready(e.Rows, m)}
	// The linear kernel is the product of the rows themselves, with m numbers instead of n.
	p.factor, p.linear = p.Ready.Rows, true
	if e.K.Name != "linear" {
		g, err := e.K.Gram(parallel.Limit(context.Background(), 1), e.Rows, m) // inside a fit, or inside Read
		if err != nil {
			return nil, err
		}
		p.factor, p.linear = make([]float64, 0, e.Len()*e.Len()), false
		for i := range e.Len() {
			for j := range e.Len() {
				p.factor = append(p.factor, g.At(i, j))
			}
		}
	}
	p.diagonal = make([]float64, e.Len())
	for i := range p.diagonal {
		p.diagonal[i] = p.Ready.At(p.Ready.Rows[i*m:(i+1)*m], p.Ready.norm[i], i)
	}
	return p, nil
}

// SimilarityExtension learns the similarities of new rows.
type SimilarityExtension struct {
	*SimilarityMap
	*index
	Ready    *readyKernel
	linear   bool
	factor   []float64 // if linear the rows X, since G = X X'; otherwise the kernel matrix G
	diagonal []float64 // of G
}

// Cost counts the sweeps over the rows, some tens of them.
func (p *SimilarityExtension) Cost() int { return 10 * p.Len() }

func (p *SimilarityExtension) Workspace() *Workspace {
	w := p.index.Workspace()
	width := len(p.factor) / p.Len()
	w.Row = make([]float64, p.m+5*p.Len()+2*width)
	if p.direct(width) {
		w.Gram = make([]float64, width*width+width)
	}
	return w
}

func (p *SimilarityExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	return p.each(dst, z, n, w, p.place)
}

func (p *SimilarityExtension) place(dst, z []float64, w *Workspace) error {
	n := p.Len()
	x, q := w.Row[:p.m], SimilarityProblem{}
	q.Over(w.Row[p.m:], n, len(p.factor)/n)
	q.Gram = w.Gram
	norm := p.Ready.Take(x, z)
	for i := range n {
		s := math.Exp(-p.Rate * linalg.SquaredDistance(z, p.Rows[i*p.m:(i+1)*p.m]))
		q.Target[i] = p.Ready.At(x, norm, i) + p.Alpha*s - p.Beta/2
	}
	if err := p.Descend(&q); err != nil {
		return err
	}
	sum := 0.0
	clear(dst)
	for i, v := range q.Weight {
		sum += v
		for c, y := range p.Embedding[i*p.D : (i+1)*p.D] {
			dst[c] += v * y
		}
	}
	if !(sum > 0) {
		p.put(dst, w.Nearest[0]) // similar to no row: use the nearest one
		return nil
	}
	for c, l := range p.Lambda {
		dst[c] /= sum * (1 - l)
	}
	return nil
}

// Descend finds the weights: sweeps of coordinate descent from 0 find which are above 0, conjugate gradients solve for
// those, and again without those that reach 0 (after Moré and Toraldo, SIAM J. Optim. 1, 1991, who find them by
// projected gradients). Coordinate descent alone needs many thousand sweeps if products are large compared with alpha.
// It also computes the product G weight or, for the linear kernel, X weight.
//
// Small moves alone do not show the minimum: if alpha is small compared with the products, weights are large, and a
// move is small next to the largest of them although the slope is not. Rounding errors can keep weights moving until
// the last round; they are an error only if the slope is not small then.
func (p *SimilarityExtension) Descend(q *SimilarityProblem) error {
	const (
		rounds    = 100  // after which a slope that is not small is an error
		sweeps    = 10   // of a round; more or fewer change the time alone
		tolerance = 1e-9 // of moves over the largest weight; a smaller one changes the time alone
		enough    = 1e-6 // slope at the minimum, as a share of the largest target
	)
	clear(q.Weight)
	clear(q.Product)
	solved := false
	for range rounds {
		for range sweeps {
			moved, largest := p.sweep(q)
			if moved <= tolerance*largest {
				if solved && p.Slope(q) <= enough {
					return nil
				}
				break
			}
			solved = false
		}
		for solved = false; !solved; { // fewer are above 0 each time
			solved = p.conjugate(q)
		}
	}
	if off := p.Slope(q); !(off <= enough) {
		return fmt.Errorf("the similarities of a row did not converge in %d rounds: "+
			"the slope is %.2g of the largest target; fit with a larger alpha than %g", rounds, off, p.Alpha)
	}
	return nil
}

// Slope is the distance of the weights from their minimum: the largest derivative of one above 0, or of one that would
// leave 0, as a share of the largest target.
func (p *SimilarityExtension) Slope(q *SimilarityProblem) float64 {
	worst, largest := 0.0, math.SmallestNonzeroFloat64
	for i, v := range q.Weight {
		s := p.times(q.Product, i) + p.Alpha*v - q.Target[i]
		if v > 0 {
			s = -math.Abs(s)
		}
		worst, largest = max(worst, -s), max(largest, math.Abs(q.Target[i]))
	}
	return worst / largest
}

// SimilarityProblem is the problem of one row, and the memory to solve it.
type SimilarityProblem struct {
	Target, Weight         []float64 // n
	Product, image         []float64 // of weight and search
	residual, search, step []float64 // n
	Gram                   []float64 // of the features, and a vector; nil: see direct
}

// Over makes the slices of the problem in row.
func (q *SimilarityProblem) Over(row []float64, n, width int) {
	for _, v := range []*[]float64{&q.Target, &q.Weight, &q.residual, &q.search, &q.step} {
		*v, row = row[:n], row[n:]
	}
	q.Product, q.image = row[:width], row[width:2*width]
}

// sweep moves each weight in turn to its minimum while the others stay; moved is the largest change.
func (p *SimilarityExtension) sweep(q *SimilarityProblem) (moved, largest float64) {
	for i, v := range q.Weight {
		curvature := p.diagonal[i] + p.Alpha
		if !(curvature > 0) {
			continue
		}
		next := max(0, v+(q.Target[i]-p.times(q.Product, i)-p.Alpha*v)/curvature)
		if step := next - v; step != 0 {
			q.Weight[i] = next
			p.add(q.Product, i, step)
			moved = max(moved, math.Abs(step))
		}
		largest = max(largest, next)
	}
	return moved, largest
}

// add adds v times column i to a product.
func (p *SimilarityExtension) add(product []float64, i int, v float64) {
	for j, g := range p.factor[i*len(product) : (i+1)*len(product)] {
		product[j] += v * g
	}
}

// times is entry i of G times the vector that the product is of.
func (p *SimilarityExtension) times(product []float64, i int) float64 {
	if p.linear {
		return linalg.Dot(p.factor[i*len(product):(i+1)*len(product)], product)
	}
	return product[i]
}

// conjugate moves the weights above 0 toward their minimum while the others stay 0. It reports whether they reached it
// before any of them reached 0.
func (p *SimilarityExtension) conjugate(q *SimilarityProblem) bool {
	const (
		most      = 500   // steps of a call
		tolerance = 1e-20 // of the squared residual, as a share of the squared target
	)
	clear(q.step)
	size, norm := 0.0, 0.0
	for i, v := range q.Weight {
		q.residual[i] = 0
		if v > 0 {
			q.residual[i] = q.Target[i] - p.times(q.Product, i) - p.Alpha*v
			size += q.Target[i] * q.Target[i]
			norm += q.residual[i] * q.residual[i]
		}
	}
	copy(q.search, q.residual)
	if norm > tolerance*size && p.newton(q) {
		norm = 0
	}
	for k := 0; k < most && norm > tolerance*size; k++ {
		p.Multiply(q.image, q.search)
		curvature := 0.0
		for i, v := range q.search {
			if v != 0 {
				curvature += v * (p.times(q.image, i) + p.Alpha*v)
			}
		}
		if !(curvature > 0) {
			break
		}
		length, before := norm/curvature, norm
		norm = 0
		for i, v := range q.Weight {
			if v > 0 {
				q.step[i] += length * q.search[i]
				q.residual[i] -= length * (p.times(q.image, i) + p.Alpha*q.search[i])
				norm += q.residual[i] * q.residual[i]
			}
		}
		for i, v := range q.residual {
			q.search[i] = v + norm/before*q.search[i]
		}
	}
	// Weights that would become negative are set to 0, if that is better than the start. Otherwise all weights move until
	// the first one reaches 0, which is always better.
	before := p.value(q, q.Weight, q.Product)
	part := 1.0
	for i, v := range q.step {
		q.search[i] = max(0, q.Weight[i]+v)
		if v < 0 {
			part = min(part, -q.Weight[i]/v)
		}
	}
	p.Multiply(q.image, q.search)
	if part < 1 && !(p.value(q, q.search, q.image) < before) {
		for i, v := range q.step {
			q.search[i] = max(0, q.Weight[i]+part*v)
			if v < 0 && -q.Weight[i]/v <= part {
				q.search[i] = 0 // without rounding error
			}
		}
		p.Multiply(q.image, q.search)
	}
	copy(q.Weight, q.search)
	copy(q.Product, q.image)
	return part == 1
}

// direct reports whether the linear kernel of this many features is solved faster by a factor of their order: (X'X +
// alpha I)^-1 = (I - X'(X X' + alpha I)^-1 X)/alpha, which needs an alpha well above rounding error.
func (p *SimilarityExtension) direct(features int) bool {
	return p.linear && features <= 300 && p.Alpha > 1e-8*slices.Max(p.diagonal)
}

// newton sets step to the one from the weights above 0 to their minimum, and reports whether it could.
func (p *SimilarityExtension) newton(q *SimilarityProblem) bool {
	if q.Gram == nil {
		return false
	}
	m := len(q.Product)
	gram, b := q.Gram[:m*m], q.Gram[m*m:]
	clear(q.Gram)
	for j := range m {
		gram[j*m+j] = p.Alpha
	}
	for i, v := range q.Weight {
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
	if !linalg.Cholesky(gram, b) {
		return false
	}
	for i, v := range q.Weight {
		if v > 0 {
			q.step[i] = (q.residual[i] - linalg.Dot(p.factor[i*m:(i+1)*m], b)) / p.Alpha
		}
	}
	return true
}

// Multiply sets product to that of G, or X, and weights.
func (p *SimilarityExtension) Multiply(product, weight []float64) {
	clear(product)
	for i, v := range weight {
		if v != 0 {
			p.add(product, i, v)
		}
	}
}

// value is half the criterion.
func (p *SimilarityExtension) value(q *SimilarityProblem, weight, product []float64) float64 {
	sum := 0.0
	for i, v := range weight {
		if v != 0 {
			sum += v * ((p.times(product, i)+p.Alpha*v)/2 - q.Target[i])
		}
	}
	return sum
}
