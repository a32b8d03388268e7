package mapping

import (
	"fmt"
	"math"
)

// Nystrom extends Laplacian eigenmaps: y_k(x) = sum_j p_j(x) y_k(j) / (1 - lambda_k), p the normalised row that x would
// have in the weights (Bengio et al. 2004, Out-of-sample extensions, section 3). x is joined to its k nearest rows and,
// because the weights are the union of both directions, to the rows that would have it among their own k nearest.
type Nystrom struct {
	Training
	Lambda []float64 // d eigenvalues of L v = lambda D v
	Reach  []float64 // n: squared distance of each row to its k-th neighbour
	K      int
	Rate   float64 // weights are exp(-rate |x - x_j|^2); 0: binary
}

func (e *Nystrom) Kind() string { return "nystrom" }

func (e *Nystrom) Check(m, classes int) error {
	if err := e.Training.Check(m, classes); err != nil {
		return err
	}
	switch n := e.Len(); {
	case len(e.Lambda) != e.D || len(e.Reach) != n:
		return fmt.Errorf("%d numbers in lambda and %d in reach, %d and %d are needed", len(e.Lambda),
			len(e.Reach), e.D, n)
	case e.K < 1 || e.K > n:
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.K, n, n)
	case !(e.Rate >= 0):
		return fmt.Errorf("the rate of the weights is %g; it must not be negative", e.Rate)
	}
	return extensible(e.Lambda)
}

func (e *Nystrom) Arrays() []Array {
	return e.with(Array{"lambda", []int{e.D}, e.Lambda}, Array{"reach", []int{e.Len()}, e.Reach},
		Array{"neighbors", []int{1}, []float64{float64(e.K)}}, Array{"rate", []int{1}, []float64{e.Rate}})
}

func rebuildNystrom(arrays []Array) Map {
	t, rest := rebuildTraining("nystrom", arrays, []string{"lambda", "reach", "neighbors", "rate"},
		[]int{1, 1, 1, 1})
	k := count(rest[2])
	return &Nystrom{t, rest[0].Data, rest[1].Data, k, number(rest[3])}
}

func (e *Nystrom) Extension(m int) (Extension, error) {
	return &nystromExtension{e, newIndex(&e.Training, m, e.K, e.Reach)}, nil
}

type nystromExtension struct {
	*Nystrom
	*index
}

func (p *nystromExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	return p.each(dst, z, n, w, p.place)
}

func (p *nystromExtension) place(dst, _ []float64, w *Workspace) error {
	// A tie goes to the existing neighbour, so reach is exclusive.
	for c, i := range w.Nearest {
		if !(w.dist[c] < p.Reach[i]) {
			w.near, w.near2 = append(w.near, i), append(w.near2, w.dist[c])
		}
	}
	if math.Exp(-p.Rate*w.dist[0]) == 0 {
		p.put(dst, w.Nearest[0]) // all weights underflow: use the nearest row
		return nil
	}
	p.average(dst, w, p.Rate, w.dist[0])
	for c, l := range p.Lambda {
		dst[c] /= 1 - l
	}
	return nil
}
