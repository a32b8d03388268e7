package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPathsEqualEveryEdge compares the lengths with those that no edge shortens any more, of graphs with edges that are
// equal, 0 or far longer than the others, and from several rows that are far apart.
func TestPathsEqualEveryEdge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for name, draw := range map[string]func() float64{
		"even":       rng.Float64,
		"equal":      func() float64 { return 1 },
		"some zero":  func() float64 { return float64(rng.IntN(2)) },
		"all zero":   func() float64 { return 0 },
		"orders":     func() float64 { return math.Pow(10, float64(rng.IntN(18)-9)) },
		"very short": func() float64 { return math.Ldexp(rng.Float64(), -1040) },
		"very long":  func() float64 { return math.Ldexp(1+rng.Float64(), 1018) },
	} {
		const n, count = 40, 3
		start, to, edge := []int{0}, []int32{}, []float64{}
		for range n {
			for range count {
				to, edge = append(to, int32(rng.IntN(n))), append(edge, draw())
			}
			start = append(start, len(to))
		}
		p, got := NewPaths(start, to, edge), make([]float64, n)
		for _, from := range []map[int]float64{{3: 0}, {7: 1, 20: 1e6}, {1: 1e4, 2: 1e4, 30: 2}, {}} {
			want, rows, squares := slices.Repeat([]float64{math.Inf(1)}, n), []int{}, []float64{}
			for i, d := range from {
				rows, squares, want[i] = append(rows, i), append(squares, d*d), d
			}
			for range n { // each pass is right for paths of one edge more
				for i := range n {
					for e := start[i]; e < start[i+1]; e++ {
						want[to[e]] = min(want[to[e]], want[i]+edge[e])
					}
				}
			}
			if p.From(got, rows, squares); !slices.Equal(got, want) {
				t.Errorf("%s, from %v: %v, want %v", name, from, got, want)
			}
		}
	}
}

// TestBucketsAreFew: an edge of mean length crosses four buckets, and the longest one 4,096 at most, so that one edge
// among many short ones takes no more memory.
func TestBucketsAreFew(t *testing.T) {
	const n = 5000
	start, to, edge := []int{0}, []int32{}, []float64{}
	for i := range n {
		start, to, edge = append(start, i+1), append(to, int32((i+1)%n)), append(edge, 1)
	}
	if got := len(NewPaths(start, to, edge).buckets); got != 8 {
		t.Errorf("%d buckets for equal edges, want the power of two above 4", got)
	}
	edge[0] = 1e9
	if got := len(NewPaths(start, to, edge).buckets); got != 8192 {
		t.Errorf("%d buckets for a long edge, want the power of two above 4,096", got)
	}
}
