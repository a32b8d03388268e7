package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"
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
	r := takeEdgeRoom()
	defer r.release()
	out := &Matrix{}
	return out, r.weigh(out, nb, rule, weight)
}

// LaplacianForm is [LaplacianForm] of [Neighbors.Weights], which are made in memory that later calls reuse.
func (nb *Neighbors) LaplacianForm(ctx context.Context, x *mat.Dense, rule Symmetry, weight Weight) (*mat.SymDense,
	error) {
	r := takeEdgeRoom()
	defer r.release()
	if err := r.weigh(&r.weights, nb, rule, weight); err != nil {
		return nil, err
	}
	return LaplacianForm(ctx, x, &r.weights)
}

// edgeRoom is memory in which lists become symmetric weights.
type edgeRoom struct {
	value                     []float64 // of the lists
	reversed, sorted, weights Matrix
}

var edgeRooms sync.Pool // of *edgeRoom

func takeEdgeRoom() *edgeRoom {
	if r, ok := edgeRooms.Get().(*edgeRoom); ok {
		return r
	}
	return &edgeRoom{}
}

func (r *edgeRoom) release() {
	if 16*(cap(r.reversed.index)+cap(r.sorted.index)+cap(r.weights.index)) <= maxPooled {
		edgeRooms.Put(r)
	}
}

// weigh sets out to the weights of lists, in its memory if that is enough.
func (r *edgeRoom) weigh(out *Matrix, nb *Neighbors, rule Symmetry, weight Weight) error {
	n := nb.Len()
	if weight == nil {
		return errors.New("weights: no function of the weights is given; Binary gives each edge 1")
	}
	r.value = slices.Grow(r.value[:0], len(nb.index))[:len(nb.index)]
	a := Matrix{rows: n, cols: n, start: nb.start, index: nb.index, value: r.value}
	for i := range n {
		for p := nb.start[i]; p < nb.start[i+1]; p++ {
			if a.index[p] >= n {
				return fmt.Errorf("weights: row %d lists row %d of %d; the lists of new rows have no symmetric form", i,
					a.index[p], n)
			}
			a.value[p] = weight(i, a.index[p], nb.dist2[p])
			if math.IsNaN(a.value[p]) || math.IsInf(a.value[p], 0) {
				return fmt.Errorf("weights: edge (%d, %d) at squared distance %g has weight %g; choose another width", i,
					a.index[p], nb.dist2[p], a.value[p])
			}
		}
	}
	a.transposeTo(&r.reversed)
	r.reversed.transposeTo(&r.sorted) // columns ascend
	return merge(out, &r.sorted, &r.reversed, rule)
}

// merge sets out to the sum or maximum of two matrices of the same shape whose rows ascend.
func merge(out, a, b *Matrix, rule Symmetry) error {
	both := math.Max
	switch rule {
	case Union:
	case Sum:
		both = func(v, w float64) float64 { return v + w }
	default:
		return fmt.Errorf("unknown symmetry %q; the rules are union and sum", rule)
	}
	out.rows, out.cols = a.rows, a.cols
	out.resize(len(a.index) + len(b.index))
	out.start[0], out.index, out.value = 0, out.index[:0], out.value[:0]
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
	return nil
}
