package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
)

// everyPair returns what Neighbors promises: all distances, sorted, ties by index.
func everyPair(ref []float64, refN int, query []float64, queryN, dim, k int) []int {
	var out []int
	for q := range queryN {
		dist := make([]float64, refN)
		at := make([]int, refN)
		for j := range refN {
			at[j] = j
			for i := range dim {
				d := ref[j*dim+i] - query[q*dim+i]
				dist[j] += d * d
			}
		}
		slices.SortStableFunc(at, func(a, b int) int {
			switch {
			case dist[a] < dist[b]:
				return -1
			case dist[a] > dist[b]:
				return 1
			}
			return 0
		})
		out = append(out, at[:min(k, refN)]...)
	}
	return out
}

// The fast search returns what comparing every pair returns: with near ties, exact ties, duplicates, and means that are
// large compared with the differences.
func TestNeighborsEqualEveryPair(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{1, 2, 11, 12, 40, 100} {
		for name, gen := range map[string]func() float64{
			"normal":   r.NormFloat64,
			"integers": func() float64 { return float64(r.IntN(3)) },
			"far":      func() float64 { return 1e8 + r.NormFloat64() },
			"near tie": func() float64 { return 1 + 1e-9*float64(r.IntN(3)) },
			"same":     func() float64 { return 5 },
			"tiny":     func() float64 { return 1e-170 * r.NormFloat64() },
			"large":    func() float64 { return 1e150 * r.NormFloat64() },
			"mixed":    func() float64 { return math.Pow(10, float64(r.IntN(12)-6)) * r.NormFloat64() },
		} {
			refN, queryN := 300, 70
			x := make([]float64, (refN+queryN)*dim)
			for i := range x {
				x[i] = gen()
			}
			ref, query := x[:refN*dim], x[refN*dim:]
			copy(query[:5*dim], ref[100*dim:105*dim]) // five queries are references
			for _, k := range []int{1, 5} {
				want := everyPair(ref, refN, query, queryN, dim, k)
				if got, err := Neighbors(t.Context(), ref, refN, query, queryN, dim, k); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s, dim %d, k %d: differs from every pair", name, dim, k)
				}
			}
		}
	}
	if got, err := Neighbors(t.Context(), []float64{1, 2}, 2, []float64{1.9}, 1, 1, 5); err != nil ||
		!slices.Equal(got, []int{1, 0}) {
		t.Errorf("k over the references: %v", got)
	}
	if got, err := Nearest(t.Context(), nil, 0, []float64{1}, 1, 1); err != nil || len(got) != 0 {
		t.Errorf("no references: %v", got)
	}
}

// A vote goes to the most frequent class, a tie to the class of the nearest.
func TestCorrectNN(t *testing.T) {
	ref, y := []float64{0, 1, 2, 10, 11}, []int{0, 1, 1, 0, 0}
	for _, c := range []struct{ k, class int }{{1, 0}, {2, 0}, {3, 1}, {4, 0}, {5, 0}, {9, 0}} {
		if got, err := CorrectNN(t.Context(), ref, y, []float64{-1}, []int{c.class}, 1, c.k); err != nil || got != 1 {
			t.Errorf("k %d: the vote is not %d", c.k, c.class)
		}
	}
}

func BenchmarkNearest(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ n, d int }{{1000, 2}, {1000, 10}, {1000, 64}, {4649, 256}} {
		ref, query := normals(r, c.n*c.d), normals(r, c.n*c.d)
		b.Run(fmt.Sprintf("n=%d/d=%d", c.n, c.d), func(b *testing.B) {
			for b.Loop() {
				fail.Must(Nearest(b.Context(), ref, c.n, query, c.n, c.d))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n)/float64(c.n), "ns/pair")
		})
	}
}

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// TestWrongShapes: slices that are not rows of the given size, and classes out of range, are errors.
func TestWrongShapes(t *testing.T) {
	two := []float64{1, 2}
	for _, c := range []struct{ refN, queryN, dim int }{{3, 2, 1}, {2, 3, 1}, {2, 2, 0}, {2, 2, -1}, {1 << 62, 1, 4}} {
		if _, err := Neighbors(t.Context(), two, c.refN, two, c.queryN, c.dim, 1); err == nil {
			t.Errorf("neighbours of %+v: no error", c)
		}
	}
	for _, k := range []int{0, -1} {
		if _, err := CorrectNN(t.Context(), two, []int{0, 1}, two, []int{0, 1}, 1, k); err == nil {
			t.Errorf("the vote of %d neighbours: no error", k)
		}
	}
	right, err := CorrectRowsNN(t.Context(), nil, nil, two, []int{0, 1}, 1, 3)
	if err != nil || slices.Contains(right, true) {
		t.Errorf("without references: %v, %v", right, err)
	}
	for _, c := range []struct {
		classes      []int
		queries, dim int
		all          int
	}{{[]int{0, 1}, 1, 0, 2}, {nil, 1, 1, 2}, {[]int{0}, 1, 1, 2}, {[]int{0, 2}, 1, 1, 2}, {[]int{0, -1}, 1, 1, 2},
		{[]int{0}, 1, 2, 2}} {
		if _, err := Linear(two, c.classes, two[:c.queries], c.dim, c.all); err == nil {
			t.Errorf("linear classifier of %+v: no error", c)
		}
	}
	if class, err := Linear(two, []int{0, 1}, nil, 1, 2); err != nil || len(class) != 0 {
		t.Errorf("no queries: %v (%v)", class, err)
	}
	d := &model.Data{N: 2, M: 1, X: two, Y: []int{0, 1}}
	for _, m := range []*model.Model{nil, {}} {
		_, outputs := Outputs(t.Context(), m, d)
		if _, err := Correct(t.Context(), m, d, d, 1); err == nil || outputs == nil {
			t.Errorf("no model: %v, %v", err, outputs)
		}
	}
	if _, err := Correct(t.Context(), nil, nil, nil, 1); err == nil {
		t.Error("no data: no error")
	}
}
