package model

import (
	"fmt"
	"math"
)

// nystrom extends Laplacian eigenmaps: y_k(x) = sum_j p_j(x) y_k(j) / (1 - lambda_k),
// p the normalised row that x would have in the weights (Bengio et al. 2004,
// Out-of-sample extensions, section 3). x is joined to its k nearest rows and,
// as the weights are the union of both directions, to the rows that have it
// among their own k nearest.
type nystrom struct {
	training
	lambda []float64 // d eigenvalues of L v = lambda D v
	reach  []float64 // n: squared distance of each row to its k-th neighbour
	k      int
	rate   float64 // weights are exp(-rate |x - x_j|^2); 0: binary
}

// minDenominator is the least |1 - lambda_k|: below it the rule has no figures left.
const minDenominator = 1e-3

func (e *nystrom) kind() string { return "nystrom" }

func (e *nystrom) check(m, classes int) error {
	if err := e.training.check(m, classes); err != nil {
		return err
	}
	switch n := e.n(); {
	case len(e.lambda) != e.d || len(e.reach) != n:
		return fmt.Errorf("%d numbers in lambda and %d in reach, %d and %d are needed", len(e.lambda), len(e.reach), e.d, n)
	case e.k < 1 || e.k > n:
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.k, n, n)
	case !(e.rate >= 0):
		return fmt.Errorf("the rate of the weights is %g; it must not be negative", e.rate)
	}
	return extensible(e.lambda)
}

// extensible says whether the rule's denominators are large enough.
func extensible(lambda []float64) error {
	for c, l := range lambda {
		if !(math.Abs(1-l) >= minDenominator) {
			return fmt.Errorf("eigenvalue %d is %g; within %g of 1 an embedding cannot be extended to other rows; ask for fewer dimensions", c, l, minDenominator)
		}
	}
	return nil
}

func (e *nystrom) arrays() []array {
	return e.with(array{"lambda", []int{e.d}, e.lambda}, array{"reach", []int{e.n()}, e.reach},
		array{"neighbors", []int{1}, []float64{float64(e.k)}}, array{"rate", []int{1}, []float64{e.rate}})
}

func rebuildNystrom(arrays []array) (mapping, error) {
	t, rest, err := rebuildTraining("nystrom", arrays, []string{"lambda", "reach", "neighbors", "rate"}, []int{1, 1, 1, 1})
	if err != nil {
		return nil, err
	}
	k, err := count(rest[2])
	if err != nil {
		return nil, err
	}
	rate, err := number(rest[3])
	return &nystrom{t, rest[0].data, rest[1].data, k, rate}, err
}

// number is the one number of an array.
func number(a array) (float64, error) {
	if len(a.data) != 1 {
		return 0, fmt.Errorf("%d numbers in %s, 1 is needed", len(a.data), a.name)
	}
	return a.data[0], nil
}

// count is the one number of an array, an integer of at least 0.
func count(a array) (int, error) {
	v, err := number(a)
	if err != nil {
		return 0, err
	}
	return whole(a.name, v, math.MaxInt32)
}

// whole is an integer in [0, limit).
func whole(name string, v, limit float64) (int, error) {
	if !(v >= 0 && v < limit) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s holds %g; it must be an integer from 0 and below %g", name, v, limit)
	}
	return int(v), nil
}

func (e *nystrom) placer(m int) (placer, error) {
	return &nystromPlacer{e, newIndex(&e.training, m, e.k)}, nil
}

type nystromPlacer struct {
	*nystrom
	*index
}

func (p *nystromPlacer) workspace() *workspace {
	w := p.index.workspace()
	w.near, w.near2 = make([]int, 0, p.n()), make([]float64, 0, p.n())
	return w
}

func (p *nystromPlacer) place(dst, z []float64, w *workspace) error {
	zero, err := p.nearest(z, w)
	if err != nil {
		return err
	}
	if zero {
		p.put(dst, w.at[0])
		return nil
	}
	// A tie goes to the neighbour that was there before, so reach is exclusive.
	w.near, w.near2 = w.near[:0], w.near2[:0]
	for i, r := range p.reach {
		if p.below(w, i) < r {
			if d := squaredDistance(z, p.rows[i*p.m:(i+1)*p.m]); d < r {
				w.near, w.near2 = append(w.near, i), append(w.near2, d)
			}
		}
	}
	for c, i := range w.at {
		if !(w.dist[c] < p.reach[i]) {
			w.near, w.near2 = append(w.near, i), append(w.near2, w.dist[c])
		}
	}
	if math.Exp(-p.rate*w.dist[0]) == 0 {
		p.put(dst, w.at[0]) // no weight is left: where the nearest row is
		return nil
	}
	p.average(dst, w, p.rate, w.dist[0])
	for c, l := range p.lambda {
		dst[c] /= 1 - l
	}
	return nil
}

// average is the mean of the embedding of the near rows by their heat weights,
// which are taken relative to that of the nearest one.
func (t *training) average(dst []float64, w *workspace, rate, nearest float64) {
	clear(dst)
	sum := 0.0
	for c, i := range w.near {
		v := math.Exp(-rate * (w.near2[c] - nearest))
		sum += v
		for j, y := range t.embedding[i*t.d : (i+1)*t.d] {
			dst[j] += v * y
		}
	}
	for j := range dst {
		dst[j] /= sum
	}
}
