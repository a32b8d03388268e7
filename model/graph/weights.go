package graph

import (
	"fmt"
	"math"
)

// Symmetry is how neighbour lists, which are not symmetric, become symmetric weights.
type Symmetry string

const (
	Union Symmetry = "union" // max(W, W'): an edge if either lists the other
	Sum   Symmetry = "sum"   // W + W': mutual neighbours count twice
)

// Weight is the weight of an edge between rows i and j whose squared distance is dist2. It must be symmetric in i and
// j.
type Weight func(i, j int, dist2 float64) float64

// Binary is weight 1 for every edge.
func Binary(i, j int, dist2 float64) float64 { return 1 }

// Length is the Euclidean length of the edge, for geodesics.
func Length(i, j int, dist2 float64) float64 { return math.Sqrt(dist2) }

// Heat is exp(-d^2/t). t = +Inf is Binary. t = 0 gives duplicates weight 1 and all others 0.
func Heat(t float64) Weight {
	return func(_, _ int, dist2 float64) float64 {
		if dist2 == 0 {
			return 1
		}
		return math.Exp(-dist2 / max(t, 0))
	}
}

// Weights is the n x n symmetric matrix of the edges that the lists make, each with its weight. Edges of weight 0 are
// stored too: a length may be 0.
func (nb *Neighbors) Weights(rule Symmetry, weight Weight) (*Matrix, error) {
	n := nb.Len()
	a := &Matrix{rows: n, cols: n, start: nb.start, index: nb.index, value: make([]float64, len(nb.index))}
	for i := range n {
		for p := nb.start[i]; p < nb.start[i+1]; p++ {
			if a.index[p] >= n {
				return nil, fmt.Errorf("weights: row %d lists row %d of %d; the lists of new rows have no symmetric form", i,
					a.index[p], n)
			}
			a.value[p] = weight(i, a.index[p], nb.dist2[p])
			if math.IsNaN(a.value[p]) || math.IsInf(a.value[p], 0) {
				return nil, fmt.Errorf("weights: edge (%d, %d) at squared distance %g has weight %g; choose another width", i,
					a.index[p], nb.dist2[p], a.value[p])
			}
		}
	}
	b := a.transposed()
	return merge(b.transposed(), b, rule) // twice transposed: columns ascend
}

// merge joins two matrices of the same shape whose rows ascend.
func merge(a, b *Matrix, rule Symmetry) (*Matrix, error) {
	both := math.Max
	switch rule {
	case Union:
	case Sum:
		both = func(v, w float64) float64 { return v + w }
	default:
		return nil, fmt.Errorf("unknown symmetry %q; the rules are union and sum", rule)
	}
	most := len(a.index) + len(b.index)
	out := &Matrix{rows: a.rows, cols: a.cols, start: make([]int, a.rows+1), index: make([]int, 0, most),
		value: make([]float64, 0, most)}
	for i := range a.rows {
		ai, av := a.Row(i)
		bi, bv := b.Row(i)
		for len(ai) > 0 || len(bi) > 0 {
			switch {
			case len(bi) == 0 || len(ai) > 0 && ai[0] < bi[0]:
				out.index, out.value = append(out.index, ai[0]), append(out.value, av[0])
				ai, av = ai[1:], av[1:]
			case len(ai) == 0 || bi[0] < ai[0]:
				out.index, out.value = append(out.index, bi[0]), append(out.value, bv[0])
				bi, bv = bi[1:], bv[1:]
			default:
				out.index, out.value = append(out.index, ai[0]), append(out.value, both(av[0], bv[0]))
				ai, av, bi, bv = ai[1:], av[1:], bi[1:], bv[1:]
			}
		}
		out.start[i+1] = len(out.index)
	}
	return out, nil
}
