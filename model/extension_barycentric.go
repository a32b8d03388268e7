package model

import (
	"fmt"
	"math"
)

// barycentric extends locally linear embedding: the weights, of sum 1, that
// best reconstruct x from its k nearest rows are applied to their embedding
// (Saul and Roweis 2003, section 6.1).
type barycentric struct {
	training
	k       int
	regular float64 // times the trace of the local Gram matrix, on its diagonal
}

// maxNeighbors bounds the k x k Gram matrix of a row.
const maxNeighbors = 1024

func (e *barycentric) kind() string { return "barycentric" }

func (e *barycentric) check(m, classes int) error {
	if err := e.training.check(m, classes); err != nil {
		return err
	}
	if n := e.n(); e.k < 1 || e.k > min(n, maxNeighbors) {
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.k, n, min(n, maxNeighbors))
	}
	if !(e.regular > 0) {
		return fmt.Errorf("the regulariser is %g; it must be positive", e.regular)
	}
	return nil
}

func (e *barycentric) arrays() []array {
	return e.with(array{"neighbors", []int{1}, []float64{float64(e.k)}}, array{"regular", []int{1}, []float64{e.regular}})
}

func rebuildBarycentric(arrays []array) (mapping, error) {
	t, rest, err := rebuildTraining("barycentric", arrays, []string{"neighbors", "regular"}, []int{1, 1})
	if err != nil {
		return nil, err
	}
	k, err := count(rest[0])
	if err != nil {
		return nil, err
	}
	regular, err := number(rest[1])
	return &barycentric{t, k, regular}, err
}

func (e *barycentric) placer(m int) (placer, error) {
	return &barycentricPlacer{e, newIndex(&e.training, m, e.k)}, nil
}

type barycentricPlacer struct {
	*barycentric
	*index
}

func (p *barycentricPlacer) workspace() *workspace {
	w := p.index.workspace()
	k := p.index.k
	w.gram, w.row = make([]float64, k*k), make([]float64, k*(p.m+1))
	return w
}

func (p *barycentricPlacer) place(dst, z []float64, w *workspace) error {
	zero, err := p.nearest(z, w)
	if err != nil {
		return err
	}
	if zero {
		p.put(dst, w.at[0])
		return nil
	}
	k := p.index.k
	weight, diff := w.row[:k], w.row[k:]
	// Differences relative to the farthest, so that no product leaves float64.
	scale := 1 / math.Sqrt(w.dist[k-1])
	if !isFinite(scale) {
		scale = 1
	}
	for a, i := range w.at {
		x := p.rows[i*p.m : (i+1)*p.m]
		for j, v := range z {
			diff[a*p.m+j] = (v - x[j]) * scale
		}
	}
	trace := 0.0
	for a := range k {
		for b := range a + 1 {
			w.gram[a*k+b] = dot(diff[a*p.m:(a+1)*p.m], diff[b*p.m:(b+1)*p.m])
		}
		trace += w.gram[a*k+a]
	}
	for a := range k {
		w.gram[a*k+a] += p.regular * trace
		weight[a] = 1
	}
	if !cholesky(w.gram, weight) {
		p.put(dst, w.at[0]) // the distances underflow: the nearest row is as good as x
		return nil
	}
	sum := 0.0
	for _, v := range weight {
		sum += v
	}
	clear(dst)
	for a, i := range w.at {
		for c, y := range p.embedding[i*p.d : (i+1)*p.d] {
			dst[c] += weight[a] / sum * y
		}
	}
	return nil
}

// cholesky solves A x = b in place, A given by its lower triangle, and says
// whether A is positive definite.
func cholesky(a, b []float64) bool {
	k := len(b)
	for i := range k {
		for j := range i + 1 {
			v := a[i*k+j]
			for l := range j {
				v -= a[i*k+l] * a[j*k+l]
			}
			if i != j {
				a[i*k+j] = v / a[j*k+j]
			} else if a[i*k+i] = math.Sqrt(v); !(v > 0) {
				return false
			}
		}
	}
	for i := range k {
		for l := range i {
			b[i] -= a[i*k+l] * b[l]
		}
		b[i] /= a[i*k+i]
	}
	for i := k - 1; i >= 0; i-- {
		for l := i + 1; l < k; l++ {
			b[i] -= a[l*k+i] * b[l]
		}
		b[i] /= a[i*k+i]
	}
	return true
}
