package model

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// Nearest returns, for each of queryN rows, the index of the nearest of refN
// reference rows by Euclidean distance, ties to the lower index. Rows are
// row-major with dim numbers, all finite. There must be at least one reference.
func Nearest(ref []float64, refN int, query []float64, queryN, dim int) []int {
	return Neighbors(ref, refN, query, queryN, dim, 1)
}

// Neighbors returns the indices of the k nearest references of each query,
// queryN x k row-major, nearest first, ties to the lower index. k is cut to
// refN. The answer is that of comparing the sums of squared differences in
// float64, one pair after the other; it is found faster on all cores.
func Neighbors(ref []float64, refN int, query []float64, queryN, dim, k int) []int {
	k = min(k, refN)
	s := &search{ref: ref[:refN*dim], query: query[:queryN*dim], dim: dim, k: k, found: make([]int, queryN*k)}
	if k < 1 {
		return s.found
	}
	if dim >= filterDim {
		s.filter = newFilter(ref, query, dim)
	}
	workers := 1
	if float64(refN)*float64(queryN)*float64(dim) > parallel {
		workers = min(runtime.GOMAXPROCS(0), (queryN+queryBlock-1)/queryBlock)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range max(workers, 1) {
		wait.Go(func() {
			for {
				from := int(next.Add(queryBlock)) - queryBlock
				if from >= queryN {
					return
				}
				s.block(from, min(from+queryBlock, queryN), refN)
			}
		})
	}
	wait.Wait()
	return s.found
}

const (
	queryBlock = 32  // queries that share a pass over a block of references
	refBlock   = 256 // references that stay in cache meanwhile
	filterDim  = 12  // from here on a float32 product is cheaper than the distance
)

// search is one call of Neighbors.
type search struct {
	ref, query []float64
	dim, k     int
	filter     *filter // nil: every distance is computed
	found      []int
}

// block finds the neighbours of the queries from to to. References come in
// ascending order for each query, so a later one must be nearer to count.
func (s *search) block(from, to, refN int) {
	dist := make([]float64, (to-from)*s.k) // of the k found so far, ascending
	for i := range dist {
		dist[i] = math.Inf(1)
	}
	for r := 0; r < refN; r += refBlock {
		end := min(r+refBlock, refN)
		for q := from; q < to; q++ {
			best, at := dist[(q-from)*s.k:(q-from+1)*s.k], s.found[q*s.k:(q+1)*s.k]
			j := r
			for ; j < min(s.k, end); j++ {
				s.insert(best[:j+1], at, j, s.distance(q, j))
			}
			b, limit := s.query[q*s.dim:(q+1)*s.dim], best[s.k-1]
			for ; j < end; j++ {
				if s.filter != nil && s.filter.below(q, j) > limit {
					continue
				}
				sum := 0.0
				for i, v := range s.ref[j*s.dim:][:len(b)] {
					d := v - b[i]
					sum += d * d
				}
				if sum < limit {
					s.insert(best, at, j, sum)
					limit = best[s.k-1]
				}
			}
		}
	}
}

// insert puts reference j at its place among the found, in the place of the last.
func (s *search) insert(best []float64, at []int, j int, d float64) {
	i := len(best) - 1
	for ; i > 0 && d < best[i-1]; i-- {
		best[i], at[i] = best[i-1], at[i-1]
	}
	best[i], at[i] = d, j
}

func (s *search) distance(q, j int) float64 {
	var sum float64
	b := s.query[q*s.dim : (q+1)*s.dim]
	for i, v := range s.ref[j*s.dim : (j+1)*s.dim] {
		d := v - b[i]
		sum += d * d
	}
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return sum
}

// filter bounds distances from below by |q|^2 + |r|^2 - 2 q.r with the product
// in float32, of rows that are centred at the mean reference (a large mean
// would swallow the differences) and scaled to at most 1 (nothing overflows).
type filter struct {
	ref, query         []float32 // stride numbers a row
	refNorm, queryNorm []float64 // Euclidean, of the scaled rows
	stride             int
	unscale            float64 // squared distances of the rows over those of the scaled ones
	relative, absolute float64 // bounds of the error of a product
}

func newFilter(ref, query []float64, dim int) *filter {
	mean := make([]float64, dim)
	n := float64(len(ref) / dim)
	for i, v := range ref {
		mean[i%dim] += v / n
	}
	largest := 0.0
	for _, x := range [][]float64{ref, query} {
		for i, v := range x {
			largest = max(largest, math.Abs(v-mean[i%dim]))
		}
	}
	_, exp := math.Frexp(largest)
	if !isFinite(largest) || exp < -400 || exp > 400 {
		return nil // their squares leave float64; the distances decide as they are
	}
	scale := math.Ldexp(1, -exp)
	f := &filter{stride: (dim + lane - 1) / lane * lane, unscale: 1 / (scale * scale)}
	// A dot product of n float32 terms, rounded to float32 before, is off by at
	// most (n + 2) u |q||r| to first order (Higham 2002, eq. 3.5), u = 2^-24, and
	// by the smallest float32 for each term that underflows.
	f.relative = float64(f.stride+8) * 0x1p-24
	f.absolute = float64(f.stride+8) * 0x1p-126
	f.ref, f.refNorm = f.load(ref, mean, dim, scale)
	f.query, f.queryNorm = f.load(query, mean, dim, scale)
	return f
}

func (f *filter) load(x, mean []float64, dim int, scale float64) ([]float32, []float64) {
	n := len(x) / dim
	rows, norm := aligned(n*f.stride), make([]float64, n)
	for i := range n {
		z := rows[i*f.stride:]
		for j, v := range x[i*dim : (i+1)*dim] {
			d := (v - mean[j]) * scale
			z[j] = float32(d)
			norm[i] += d * d
		}
		norm[i] = math.Sqrt(norm[i])
	}
	return rows, norm
}

// below is at most the squared distance of query q and reference j.
func (f *filter) below(q, j int) float64 {
	dot := blas.Sdot(f.stride, f.ref[j*f.stride:(j+1)*f.stride], 1, f.query[q*f.stride:(q+1)*f.stride], 1)
	a, b := f.queryNorm[q], f.refNorm[j]
	// (1e-12: the norms, the difference from the mean, and this line itself.)
	err := 2*(f.relative*a*b+f.absolute) + 1e-12*(a+b)*(a+b)
	return ((a-b)*(a-b) + 2*(a*b-float64(dot)) - err) * f.unscale
}

// CorrectNN counts the queries whose class the vote of their k nearest
// references gives: the class with most of the k, ties to the class of the
// nearest among the tied. refY and queryY are the classes, k x dim as in Neighbors.
func CorrectNN(ref []float64, refY []int, query []float64, queryY []int, dim, k int) int {
	k = min(k, len(refY))
	at := Neighbors(ref, len(refY), query, len(queryY), dim, k)
	votes := map[int]int{}
	correct := 0
	for i, y := range queryY {
		clear(votes)
		most := 0
		for _, j := range at[i*k : (i+1)*k] {
			votes[refY[j]]++
			most = max(most, votes[refY[j]])
		}
		for _, j := range at[i*k : (i+1)*k] {
			if votes[refY[j]] == most {
				if refY[j] == y {
					correct++
				}
				break
			}
		}
	}
	return correct
}

// Accuracy1NN is the share of queries whose nearest reference has their class.
func Accuracy1NN(ref []float64, refY []int, query []float64, queryY []int, dim int) (float64, error) {
	switch {
	case len(refY) == 0 || len(queryY) == 0:
		return 0, fmt.Errorf("accuracy: %d references and %d queries; give at least one of each", len(refY), len(queryY))
	case dim < 1 || len(ref) != len(refY)*dim || len(query) != len(queryY)*dim:
		return 0, fmt.Errorf("accuracy: %d and %d numbers are not %d and %d rows of %d", len(ref), len(query), len(refY), len(queryY), dim)
	}
	return float64(CorrectNN(ref, refY, query, queryY, dim, 1)) / float64(len(queryY)), nil
}
