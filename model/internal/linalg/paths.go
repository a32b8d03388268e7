package linalg

import (
	"math"
	"math/bits"
)

// Paths is the scratch of shortest paths in a graph, by buckets of lengths (Meyer and Sanders 2003): the rows of a
// bucket are processed in any order, and again if the path to one of them becomes shorter. The length of a path is
// summed from its start, as in Dijkstra's algorithm, and the smallest is the same in any order.
type Paths struct {
	start   []int
	to      []int32
	edge    []float64
	done    []float64 // length of the path to a row when its edges were processed
	buckets [][]int32 // circular; no edge is longer than the circle
	scale   float64   // buckets per unit of length
}

const (
	bucketsOfEdge = 4       // buckets that an edge of mean length crosses: few rows are processed twice
	mostBuckets   = 1 << 12 // that the longest edge crosses
)

// NewPaths is for the graph in which row i has the edges start[i] to start[i+1]: their other ends, and their lengths.
// The caller must have checked that lengths are finite and not negative, and that ends are rows: with others it panics,
// or does not end.
func NewPaths(start []int, to []int32, edge []float64) *Paths {
	s := &Paths{start: start, to: to, edge: edge, done: make([]float64, len(start)-1)}
	sum, longest := 0.0, 0.0
	for _, v := range edge {
		sum += v / float64(len(edge))
		longest = max(longest, v)
	}
	if longest > 0x1p-1000 { // else all are in one bucket
		s.scale = min(bucketsOfEdge/sum, mostBuckets/longest)
	}
	s.buckets = make([][]int32, 1<<bits.Len(uint(longest*s.scale)+2))
	return s
}

// From sets length to the lengths of the shortest paths to all rows from a point that is at the given squared distances
// from some of them.
func (s *Paths) From(length []float64, rows []int, squares []float64) {
	for j := range length {
		length[j], s.done[j] = math.Inf(1), math.Inf(1)
	}
	waiting, around := 0, len(s.buckets)-1
	shorten := func(j int32, to float64) {
		if to < length[j] {
			length[j] = to
			b := &s.buckets[int(to*s.scale)&around]
			*b = append(*b, j)
			waiting++
		}
	}
	for c, i := range rows {
		shorten(int32(i), math.Sqrt(squares[c]))
	}
	for now := 0; waiting > 0; now++ {
		at := now & around
		for p := 0; p < len(s.buckets[at]); p++ {
			waiting--
			v := s.buckets[at][p]
			d := length[v]
			if d >= s.done[v] {
				continue // it was shorter when processed before
			}
			s.done[v] = d
			from, to := s.start[v], s.start[v+1]
			edge := s.edge[from:to]
			for q, j := range s.to[from:to] {
				shorten(j, d+edge[q])
			}
		}
		s.buckets[at] = s.buckets[at][:0]
	}
}
