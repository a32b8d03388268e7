package graph

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// Geodesics are the lengths of the shortest paths between all rows of a graph whose weights are lengths (see Length),
// n x n. A graph of several components is a *DisconnectedError; connect its lists first.
func Geodesics(ctx context.Context, lengths *Matrix) (*mat.SymDense, error) {
	return GeodesicsIn(ctx, lengths, make([]float64, lengths.rows*lengths.rows))
}

// GeodesicsIn is Geodesics in the given memory, n x n numbers. It leaves the lower triangle as it is.
func GeodesicsIn(ctx context.Context, lengths *Matrix, room []float64) (*mat.SymDense, error) {
	n := lengths.rows
	if n != lengths.cols {
		return nil, fmt.Errorf("geodesics: %d x %d lengths; give a square matrix", n, lengths.cols)
	}
	if len(room) != n*n {
		return nil, fmt.Errorf("geodesics: memory for %d numbers, and %d rows need %d", len(room), n, n*n)
	}
	for i := range n {
		index, value := lengths.Row(i)
		for p, v := range value {
			if !(v >= 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("geodesics: edge (%d, %d) has length %g; lengths are finite and not negative", i,
					index[p], v)
			}
		}
	}
	if part := joined(n, lengths.Row); parts(part) > 1 {
		return nil, disconnected(part)
	}
	out := mat.NewSymDense(n, room)
	raw := out.RawSymmetric()
	order := lengths.breadthFirst()
	// The sum along a path depends on the end it starts at. The row of the lower end counts, so that the result is
	// symmetric.
	return out, parallel.NewPool(func(p *parallel.Pool) {
		s := &paths{lengths: lengths, dist: make([]float64, n*tile.RelaxWidth), isWaiting: make([]bool, n)}
		for from, to, ok := p.Next(); ok; from, to, ok = p.Next() {
			s.find(order[from:to])
			const together = 64 // rows of dist that stay in the cache
			for first := 0; first < n; first += together {
				for c, i := range order[from:to] {
					for j := max(i, first); j < min(first+together, n); j++ {
						raw.Data[i*raw.Stride+j] = s.dist[j*tile.RelaxWidth+c]
					}
				}
			}
		}
	}).Run(ctx, parallel.Workers(ctx), n, tile.RelaxWidth)
}

// breadthFirst returns the rows of a connected graph in the order of a breadth-first search from row 0.
func (a *Matrix) breadthFirst() []int {
	order, seen := make([]int, 1, a.rows), make([]bool, a.rows)
	seen[0] = true
	for at := 0; at < len(order); at++ {
		index, _ := a.Row(order[at])
		for _, j := range index {
			if !seen[j] {
				seen[j] = true
				order = append(order, j)
			}
		}
	}
	return order
}

// paths computes the lengths of shortest paths from several rows at once, by the algorithm of Bellman and Ford. The
// length of a path is summed from its start, so the smallest one does not depend on the order of updates.
type paths struct {
	lengths       *Matrix
	dist          []float64 // from each source to row 0, then to row 1, ...
	waiting, next []int     // rows to update: a neighbour has become nearer
	isWaiting     []bool
}

// find sets dist to the lengths of the paths from up to tile.RelaxWidth sources. It is fastest if these are near each
// other.
func (s *paths) find(sources []int) {
	for k := range s.dist {
		s.dist[k] = math.Inf(1)
	}
	for c, i := range sources {
		s.dist[i*tile.RelaxWidth+c] = 0
		s.touch(i)
	}
	for len(s.next) > 0 {
		s.waiting, s.next = s.next, s.waiting[:0]
		for _, i := range s.waiting {
			s.isWaiting[i] = false
			index, value := s.lengths.Row(i)
			if tile.Relax(s.dist[i*tile.RelaxWidth:][:tile.RelaxWidth], index, value, s.dist) {
				s.touch(i)
			}
		}
	}
}

// touch adds the neighbours of row i to the rows to update.
func (s *paths) touch(i int) {
	index, _ := s.lengths.Row(i)
	for _, j := range index {
		if !s.isWaiting[j] {
			s.isWaiting[j] = true
			s.next = append(s.next, j)
		}
	}
}
