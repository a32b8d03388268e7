package graph

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Geodesics are the lengths of the shortest paths between all rows of a graph
// whose weights are lengths (see Length): n x n, by Dijkstra from each row on
// all cores. A graph of several components is a *DisconnectedError; connect its
// lists first.
func Geodesics(ctx context.Context, lengths *Matrix) (*mat.SymDense, error) {
	n := lengths.rows
	out := mat.NewSymDense(n, nil)
	raw := out.RawSymmetric()
	// The sum along a path depends on the end it begins at. The row of the lower
	// end counts, so that the result is symmetric.
	err := paths(ctx, lengths, n, func(i int) int { return i }, func(i int, dist []float64) {
		copy(raw.Data[i*raw.Stride+i:i*raw.Stride+n], dist[i:])
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// GeodesicsFrom are the lengths of the shortest paths from each of the sources
// to all rows, len(sources) x n. Conditions are those of Geodesics.
func GeodesicsFrom(ctx context.Context, lengths *Matrix, sources []int) (*mat.Dense, error) {
	if len(sources) == 0 || slices.Min(sources) < 0 || slices.Max(sources) >= lengths.rows {
		return nil, fmt.Errorf("geodesics: sources %v are not rows of 0 to %d", sources, lengths.rows-1)
	}
	out := mat.NewDense(len(sources), lengths.rows, nil)
	err := paths(ctx, lengths, len(sources), func(i int) int { return sources[i] }, func(i int, dist []float64) {
		out.SetRow(i, dist)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// paths runs Dijkstra from count sources and hands each result to take, which
// must not keep it.
func paths(ctx context.Context, lengths *Matrix, count int, source func(i int) int,
	take func(i int, dist []float64)) error {
	if lengths.rows != lengths.cols {
		return fmt.Errorf("geodesics: %d x %d lengths; give a square matrix", lengths.rows, lengths.cols)
	}
	for i := range lengths.rows {
		index, value := lengths.Row(i)
		for p, v := range value {
			if !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("geodesics: edge (%d, %d) has length %g; lengths are finite and not negative", i,
					index[p], v)
			}
		}
	}
	part := label(lengths.rows, func(join func(i, j int)) {
		for i := range lengths.rows {
			index, _ := lengths.Row(i)
			for _, j := range index {
				join(i, j)
			}
		}
	})
	if parts(part) > 1 {
		return disconnected(part)
	}
	return each(ctx, count, 8, func() func(from, to int) {
		s := newShortest(lengths)
		return func(from, to int) {
			for i := from; i < to; i++ {
				s.from(source(i))
				take(i, s.dist)
			}
		}
	})
}

// shortest is the scratch of Dijkstra's algorithm: a heap of rows, four
// children to a parent, that knows where each row is. Numbers that are read
// together lie together.
type shortest struct {
	start []int
	edges []step
	dist  []float64
	heap  []reached
	place []int32 // in the heap; outside
}

type step struct {
	length float64
	to     int32
}

type reached struct {
	dist float64
	row  int32
}

const outside = -1

func newShortest(a *Matrix) *shortest {
	s := &shortest{start: a.start, edges: make([]step, len(a.index)), dist: make([]float64, a.rows),
		heap: make([]reached, 0, a.rows), place: make([]int32, a.rows)}
	for p, j := range a.index {
		s.edges[p] = step{a.value[p], int32(j)}
	}
	return s
}

// from sets dist to the lengths of the shortest paths from row i.
func (s *shortest) from(i int) {
	for j := range s.dist {
		s.dist[j], s.place[j] = math.Inf(1), outside
	}
	s.dist[i] = 0
	s.heap = append(s.heap[:0], reached{0, int32(i)})
	for len(s.heap) > 0 {
		v, n := s.heap[0], len(s.heap)-1
		last := s.heap[n]
		s.heap = s.heap[:n]
		if n > 0 {
			s.down(last)
		}
		for _, e := range s.edges[s.start[v.row]:s.start[v.row+1]] {
			// A row that has left the heap is never reached shorter, lengths being
			// not negative, so it does not come back.
			d := v.dist + e.length
			if d < s.dist[e.to] {
				s.dist[e.to] = d
				at := s.place[e.to]
				if at == outside {
					at = int32(len(s.heap))
					s.heap = append(s.heap, reached{})
				}
				s.up(reached{d, e.to}, at)
			}
		}
	}
}

// up moves w towards the root, from place i.
func (s *shortest) up(w reached, i int32) {
	for i > 0 {
		parent := (i - 1) / 4
		u := s.heap[parent]
		if u.dist <= w.dist {
			break
		}
		s.heap[i], s.place[u.row] = u, i
		i = parent
	}
	s.heap[i], s.place[w.row] = w, i
}

// down moves w from the root towards the leaves.
func (s *shortest) down(w reached) {
	i, n := int32(0), int32(len(s.heap))
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		child := first
		for c := first + 1; c < min(first+4, n); c++ {
			if s.heap[c].dist < s.heap[child].dist {
				child = c
			}
		}
		u := s.heap[child]
		if u.dist >= w.dist {
			break
		}
		s.heap[i], s.place[u.row] = u, i
		i = child
	}
	s.heap[i], s.place[w.row] = w, i
}
