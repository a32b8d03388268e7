package graph

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// Geodesics are the lengths of the shortest paths between all rows of a graph whose weights are lengths (see Length),
// n x n. A graph of several components is a *DisconnectedError; connect its lists first.
func Geodesics(ctx context.Context, lengths *Matrix) (*mat.SymDense, error) {
	n := lengths.rows
	if n != lengths.cols {
		return nil, fmt.Errorf("geodesics: %d x %d lengths; give a square matrix", n, lengths.cols)
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
	out := mat.NewSymDense(n, nil)
	raw := out.RawSymmetric()
	// The sum along a path depends on the end it starts at. The row of the lower end counts, so that the result is
	// symmetric.
	return out, parallel.NewPool(func(p *parallel.Pool) {
		s := newShortest(lengths)
		for i, _, ok := p.Next(); ok; i, _, ok = p.Next() {
			s.from(i)
			copy(raw.Data[i*raw.Stride+i:i*raw.Stride+n], s.dist[i:])
		}
	}).Run(ctx, parallel.Workers(ctx), n, 1)
}

// shortest is the scratch of shortest paths from one row, by buckets of lengths (Meyer and Sanders 2003): those of a
// bucket are processed in any order, and again if one of them becomes shorter. The length of a path is summed from its
// start, as in Dijkstra's algorithm, and the smallest is the same in any order.
type shortest struct {
	start   []int
	to      []int32
	length  []float64
	dist    []float64
	done    []float64 // dist when the edges of the row were processed
	buckets [][]int32 // circular; no edge is longer than the circle
	scale   float64   // buckets per unit of length
}

const (
	bucketsOfEdge = 4       // buckets that an edge of mean length crosses: few rows are processed twice
	mostBuckets   = 1 << 12 // that the longest edge crosses
)

func newShortest(a *Matrix) *shortest {
	s := &shortest{start: a.start, to: make([]int32, len(a.index)), length: a.value, dist: make([]float64, a.rows),
		done: make([]float64, a.rows)}
	sum, longest := 0.0, 0.0
	for p, j := range a.index {
		s.to[p] = int32(j)
		sum += a.value[p] / float64(len(a.index))
		longest = max(longest, a.value[p])
	}
	if longest > 0x1p-1000 { // else all are in one bucket
		s.scale = min(bucketsOfEdge/sum, mostBuckets/longest)
	}
	s.buckets = make([][]int32, 1<<bits.Len(uint(longest*s.scale)+2))
	return s
}

// from sets dist to the lengths of the shortest paths from row i.
func (s *shortest) from(i int) {
	for j := range s.dist {
		s.dist[j], s.done[j] = math.Inf(1), math.Inf(1)
	}
	s.dist[i] = 0
	s.buckets[0] = append(s.buckets[0], int32(i))
	around := len(s.buckets) - 1
	for now, waiting := 0, 1; waiting > 0; now++ {
		at := now & around
		for p := 0; p < len(s.buckets[at]); p++ {
			waiting--
			v := s.buckets[at][p]
			d := s.dist[v]
			if d >= s.done[v] {
				continue // it was shorter when processed before
			}
			s.done[v] = d
			from, to := s.start[v], s.start[v+1]
			length := s.length[from:to]
			for q, j := range s.to[from:to] {
				if reached := d + length[q]; reached < s.dist[j] {
					s.dist[j] = reached
					b := &s.buckets[int(reached*s.scale)&around]
					*b = append(*b, j)
					waiting++
				}
			}
		}
		s.buckets[at] = s.buckets[at][:0]
	}
}
