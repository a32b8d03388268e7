package mapping

import (
	"fmt"
	"math"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Barycentric extends locally linear embedding: the weights, of sum 1, that best reconstruct x from its k nearest rows
// are applied to the embedding of these (Saul and Roweis 2003, section 6.1).
type Barycentric struct {
	Training
	K       int
	Regular float64 // times the trace of the local Gram matrix, on its diagonal
}

// maxNeighbors bounds the k x k Gram matrix of a row.
const maxNeighbors = 1024

func (e *Barycentric) Kind() string { return "barycentric" }

func (e *Barycentric) Check(m, classes int) error {
	if err := e.Training.Check(m, classes); err != nil {
		return err
	}
	if n := e.Len(); e.K < 1 || e.K > min(n, maxNeighbors) {
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.K, n, min(n, maxNeighbors))
	}
	if !(e.Regular > 0) {
		return fmt.Errorf("the regulariser is %g; it must be positive", e.Regular)
	}
	return nil
}

func (e *Barycentric) Arrays() []Array {
	return e.with(Array{"neighbors", []int{1}, []float64{float64(e.K)}},
		Array{"regular", []int{1}, []float64{e.Regular}})
}

func rebuildBarycentric(arrays []Array) Map {
	t, rest := rebuildTraining("barycentric", arrays, []string{"neighbors", "regular"}, []int{1, 1})
	k := count(rest[0])
	return &Barycentric{t, k, number(rest[1])}
}

func (e *Barycentric) Extension(m int) (Extension, error) {
	return &barycentricExtension{e, newIndex(&e.Training, m, e.K, nil)}, nil
}

type barycentricExtension struct {
	*Barycentric
	*index
}

func (p *barycentricExtension) Workspace() *Workspace {
	w := p.index.Workspace()
	k := p.index.K
	w.Gram, w.Row = make([]float64, k*k), make([]float64, k*(p.m+1))
	return w
}

func (p *barycentricExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	return p.each(dst, z, n, w, p.place)
}

func (p *barycentricExtension) place(dst, z []float64, w *Workspace) error {
	k := p.index.K
	weight, diff := w.Row[:k], w.Row[k:]
	// Differences relative to the farthest, so that no product overflows.
	scale := 1 / math.Sqrt(w.dist[k-1])
	if !linalg.IsFinite(scale) {
		scale = 1
	}
	for a, i := range w.Nearest {
		x := p.Rows[i*p.m : (i+1)*p.m]
		for j, v := range z {
			diff[a*p.m+j] = (v - x[j]) * scale
		}
	}
	trace := 0.0
	for a := range k {
		for b := range a + 1 {
			w.Gram[a*k+b] = linalg.Dot(diff[a*p.m:(a+1)*p.m], diff[b*p.m:(b+1)*p.m])
		}
		trace += w.Gram[a*k+a]
	}
	for a := range k {
		w.Gram[a*k+a] += p.Regular * trace
		weight[a] = 1
	}
	if !linalg.Cholesky(w.Gram, weight) {
		p.put(dst, w.Nearest[0]) // the distances underflow: the nearest row equals x
		return nil
	}
	sum := 0.0
	for _, v := range weight {
		sum += v
	}
	clear(dst)
	for a, i := range w.Nearest {
		for c, y := range p.Embedding[i*p.D : (i+1)*p.D] {
			dst[c] += weight[a] / sum * y
		}
	}
	return nil
}
