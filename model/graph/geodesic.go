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
func paths(ctx context.Context, lengths *Matrix, count int, source func(i int) int, take func(i int, dist []float64)) error {
	if lengths.rows != lengths.cols {
		return fmt.Errorf("geodesics: %d x %d lengths; give a square matrix", lengths.rows, lengths.cols)
	}
	for i := range lengths.rows {
		index, value := lengths.Row(i)
		for p, v := range value {
			if !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("geodesics: edge (%d, %d) has length %g; lengths are finite and not negative", i, index[p], v)
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
	if slices.Max(part) > 0 {
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
// children to a parent, that knows where each row is.
type shortest struct {
	start, index []int32
	length       []float64
	dist         []float64
	heap, place  []int32
}

func newShortest(a *Matrix) *shortest {
	s := &shortest{start: make([]int32, len(a.start)), index: make([]int32, len(a.index)), length: a.value,
		dist: make([]float64, a.rows), heap: make([]int32, 0, a.rows), place: make([]int32, a.rows)}
	for i, v := range a.start {
		s.start[i] = int32(v)
	}
	for i, v := range a.index {
		s.index[i] = int32(v)
	}
	return s
}

// from sets dist to the lengths of the shortest paths from row i.
func (s *shortest) from(i int) {
	const outside = -1
	for j := range s.dist {
		s.dist[j], s.place[j] = math.Inf(1), outside
	}
	s.dist[i] = 0
	s.heap = append(s.heap[:0], int32(i))
	s.place[i] = 0
	for len(s.heap) > 0 {
		v := s.heap[0]
		last := s.heap[len(s.heap)-1]
		s.heap = s.heap[:len(s.heap)-1]
		if len(s.heap) > 0 {
			s.down(last)
		}
		for p := s.start[v]; p < s.start[v+1]; p++ {
			// A row that has left the heap is never reached shorter, lengths being
			// not negative, so it does not come back.
			w, d := s.index[p], s.dist[v]+s.length[p]
			if d < s.dist[w] {
				s.dist[w] = d
				if s.place[w] == outside {
					s.place[w] = int32(len(s.heap))
					s.heap = append(s.heap, w)
				}
				s.up(w)
			}
		}
	}
}

// up moves row w, at its place, towards the root.
func (s *shortest) up(w int32) {
	i, d := s.place[w], s.dist[w]
	for i > 0 {
		parent := (i - 1) / 4
		u := s.heap[parent]
		if s.dist[u] <= d {
			break
		}
		s.heap[i], s.place[u] = u, i
		i = parent
	}
	s.heap[i], s.place[w] = w, i
}

// down puts row w at the root and moves it towards the leaves.
func (s *shortest) down(w int32) {
	i, d, n := int32(0), s.dist[w], int32(len(s.heap))
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		child, least := first, s.dist[s.heap[first]]
		for c := first + 1; c < min(first+4, n); c++ {
			if e := s.dist[s.heap[c]]; e < least {
				child, least = c, e
			}
		}
		if least >= d {
			break
		}
		u := s.heap[child]
		s.heap[i], s.place[u] = u, i
		i = child
	}
	s.heap[i], s.place[w] = w, i
}
