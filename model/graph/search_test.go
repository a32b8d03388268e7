package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

var ctx = context.Background()

func normals(r *rand.Rand, n, m int) *mat.Dense {
	x := mat.NewDense(n, m, nil)
	for i := range n {
		for j := range m {
			x.Set(i, j, r.NormFloat64())
		}
	}
	return x
}

// everyPair returns what the search promises: all distances, sorted, ties by index.
func everyPair(x *mat.Dense, i, k int, take func(j int) bool) (index []int, dist2 []float64) {
	n, _ := x.Dims()
	d := make([]float64, n)
	for j := range n {
		if j != i && take(j) {
			index = append(index, j)
			d[j] = squared(x.RawRowView(i), x.RawRowView(j))
		}
	}
	slices.SortStableFunc(index, func(a, b int) int {
		switch {
		case d[a] < d[b]:
			return -1
		case d[a] > d[b]:
			return 1
		}
		return 0
	})
	index = index[:min(k, len(index))]
	for _, j := range index {
		dist2 = append(dist2, d[j])
	}
	return index, dist2
}

// The fast search returns what comparing every pair returns, over all rows and by class: with near ties, exact ties,
// duplicates, means that are large compared with the differences, and classes of one row.
func TestNearestEqualsEveryPair(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range []int{1, 3, 12, 40} {
		for name, gen := range map[string]func() float64{
			"normal":   r.NormFloat64,
			"integers": func() float64 { return float64(r.IntN(3)) },
			"far":      func() float64 { return 1e8 + r.NormFloat64() },
			"near tie": func() float64 { return 1 + 1e-9*float64(r.IntN(3)) },
			"same":     func() float64 { return 5 },
			"tiny":     func() float64 { return 1e-170 * r.NormFloat64() },
			"mixed":    func() float64 { return math.Pow(10, float64(r.IntN(12)-6)) * r.NormFloat64() },
		} {
			n, k := 301, 6
			x, y := mat.NewDense(n, m, nil), make([]int, n)
			for i := range n {
				y[i] = r.IntN(3)
				for j := range m {
					x.Set(i, j, gen())
				}
			}
			y[7], y[11] = 3, 4 // alone in their classes
			all, err := Nearest(ctx, x, k)
			if err != nil {
				t.Fatal(err)
			}
			same, other, err := NearestByClass(ctx, x, y, k, k+1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				for kind, c := range map[string]struct {
					nb   *Neighbors
					k    int
					take func(j int) bool
				}{
					"all":   {all, k, func(int) bool { return true }},
					"same":  {same, k, func(j int) bool { return y[j] == y[i] }},
					"other": {other, k + 1, func(j int) bool { return y[j] != y[i] }},
				} {
					index, dist2 := everyPair(x, i, c.k, c.take)
					gotIndex, gotDist := c.nb.Row(i)
					if !slices.Equal(index, gotIndex) || !slices.Equal(dist2, gotDist) {
						t.Fatalf("%s, m %d, %s, row %d: %v, every pair gives %v", name, m, kind, i, gotIndex, index)
					}
				}
			}
		}
	}
}

// The result is the same on one core and on all, and tiles of every number of blocks cover all pairs.
func TestNearestDoesNotDependOnCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, n := range []int{256, 257, 700, 1000, 1100} {
		x := normals(rand.New(rand.NewPCG(5, uint64(n))), n, 13)
		many, err := Nearest(ctx, x, 5)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GOMAXPROCS(1)
		one, _ := Nearest(ctx, x, 5)
		runtime.GOMAXPROCS(4)
		queries, err := NearestTo(ctx, x, x, 6)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(many.index, one.index) || !slices.Equal(many.dist2, one.dist2) {
			t.Errorf("n %d: four workers and one disagree", n)
		}
		for i := range n {
			want, _ := many.Row(i)
			if got, _ := queries.Row(i); got[0] != i || !slices.Equal(got[1:], want) {
				t.Fatalf("n %d, row %d: as a query %v, as a row %v", n, i, got, want)
			}
		}
	}
}

func TestNearestOfFewRows(t *testing.T) {
	nb, err := Nearest(ctx, mat.NewDense(1, 2, []float64{1, 2}), 3)
	if index, _ := nb.Row(0); err != nil || len(index) != 0 {
		t.Errorf("one row has neighbours %v, %v", index, err)
	}
	nb, err = Nearest(ctx, mat.NewDense(3, 1, []float64{0, 1, 5}), 9)
	if index, _ := nb.Row(2); err != nil || !slices.Equal(index, []int{1, 0}) {
		t.Errorf("k over the rows: %v, %v", index, err)
	}
	for want, x := range map[string]*mat.Dense{
		"row 1, column 0 is NaN": mat.NewDense(2, 1, []float64{1, math.NaN()}),
		"divide the rows":        mat.NewDense(2, 1, []float64{1e200, -1e200}),
	} {
		if _, err := Nearest(ctx, x, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	x := mat.NewDense(2, 1, nil)
	for _, bad := range []func() error{
		func() error { _, err := Nearest(ctx, new(mat.Dense), 1); return err },
		func() error { _, err := Nearest(ctx, x, 0); return err },
		func() error { _, _, err := NearestByClass(ctx, x, []int{1}, 1, 1); return err },
		func() error { _, err := NearestTo(ctx, x, mat.NewDense(1, 2, nil), 1); return err },
		func() error { _, err := NearestTo(ctx, new(mat.Dense), x, 1); return err },
	} {
		if err := bad(); err == nil {
			t.Error("no rows, no neighbours or other columns gave no error")
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Nearest(done, normals(rand.New(rand.NewPCG(1, 1)), 50, 2), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search gave %v", err)
	}
}

// The bounds are correct, and tight enough to avoid nearly all distances: of a row's candidates few more remain than
// are nearest.
func TestBoundsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{1, 2, 12, 64, 784} {
		const k = 5
		ref, query := normals(r, 400, dim).RawMatrix().Data, normals(r, 50, dim).RawMatrix().Data
		s := &search{ref: ref, query: query, dim: dim, same: newLists(50, k)}
		b, err := newBlocks(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		var w comparison
		b.block(&w, 0, 50, 0, 400)
		left := 0
		for q := range 50 {
			if b.same.prune(q); b.same.count[q] < k {
				t.Fatalf("dim %d: %d of %d nearest rows are left", dim, b.same.count[q], k)
			}
			for _, c := range b.same.found[q*b.same.room:][:b.same.count[q]] {
				left++
				d := b.unit * squared(query[q*dim:(q+1)*dim], ref[int(c.at)*dim:][:dim])
				norms := b.query.norm[q] + b.ref.norm[c.at]
				if !(float64(c.low) <= d && d <= float64(c.high)) || !(float64(c.high-c.low) <= 1e-4*norms) {
					t.Fatalf("dim %d: distance %g is bounded by %g and %g", dim, d, c.low, c.high)
				}
			}
		}
		if left > 50*(k+1) {
			t.Errorf("dim %d: %d distances for %d rows", dim, left, 50*k)
		}
	}
}

// TestBoundIsNotMinusZero: a number that is compared by its bits is never negative, also if float32 rounds it to zero.
func TestBoundIsNotMinusZero(t *testing.T) {
	for _, sum := range []float64{-1, -1e-30, -1e-60, math.Copysign(0, -1), 0} {
		_, high := interval(sum-1e-70, 1e-70)
		if math.Float32bits(high) != 0 {
			t.Errorf("%g: the upper bound is %g, of bits %x", sum, high, math.Float32bits(high))
		}
	}
}

// Few queries, and rows whose squares float32 cannot hold, are answered without products.
func TestWithoutProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, c := range []struct {
		queries int
		size    float64
	}{{1, 1}, {3, 1}, {4, 1}, {40, 1}, {40, 1e150}, {40, 1e-150}} {
		ref, query := normals(r, 2000, 3), normals(r, c.queries, 3)
		ref.Scale(c.size, ref)
		query.Scale(c.size, query)
		nb, err := NearestTo(ctx, ref, query, 7)
		if err != nil {
			t.Fatal(err)
		}
		for q := range c.queries {
			x := mat.NewDense(2001, 3, nil)
			x.Copy(ref)
			x.SetRow(2000, query.RawRowView(q))
			want, _ := everyPair(x, 2000, 7, func(int) bool { return true })
			if got, _ := nb.Row(q); !slices.Equal(got, want) {
				t.Fatalf("%d queries of size %g: %v, not %v", c.queries, c.size, got, want)
			}
		}
	}
}

// A width is never 0, and a row that is alone in its class does not change it.
func TestWidths(t *testing.T) {
	x := mat.NewDense(5, 1, []float64{0, 1, 3, 6, 10})
	nb, err := Nearest(ctx, x, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := nb.MeanNearest(), (1.+1+4+9+16)/5; got != want {
		t.Errorf("mean squared nearest distance %g, want %g", got, want)
	}
	if s := nb.LocalScale(nil); !slices.Equal(s, []float64{3, 2, 3, 4, 7}) {
		t.Errorf("local scales %v", s)
	}
	same, err := Nearest(ctx, mat.NewDense(4, 1, nil), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(same.MeanNearest(), 1) {
		t.Error("equal rows have a finite width")
	}
	// Two pairs of duplicates far apart: the only distances are 0 and 10.
	pairs, err := Nearest(ctx, mat.NewDense(4, 1, []float64{0, 0, 10, 10}), 2)
	if err != nil {
		t.Fatal(err)
	}
	if pairs.MeanNearest() != 100 {
		t.Errorf("width %g among duplicates, want 100", pairs.MeanNearest())
	}
}

// BenchmarkNearest reports the ratio to a product of the same shape in the same run: n x m times m x n by gonum in
// float64, of which a tenth is measured.
func BenchmarkNearest(b *testing.B) {
	for _, c := range []struct{ n, m, k int }{{5000, 3, 10}, {5000, 256, 10}, {10000, 256, 10}} {
		x := normals(rand.New(rand.NewPCG(3, 4)), c.n, c.m)
		raw := x.RawMatrix()
		part := make([]float64, c.n/10*c.n)
		begin := time.Now()
		linalg.BLAS.Dgemm(blas.NoTrans, blas.Trans, c.n/10, c.n, c.m, 1, raw.Data, c.m, raw.Data, c.m, 0, part, c.n)
		dgemm := 10 * time.Since(begin)
		b.Run(fmt.Sprintf("n=%d/m=%d/k=%d", c.n, c.m, c.k), func(b *testing.B) {
			for b.Loop() {
				if _, err := Nearest(ctx, x, c.k); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(dgemm), "dgemm")
		})
	}
}

// TestDiagonals: every pair of blocks occurs once, and consecutive pairs along a diagonal share no block, so that
// workers do not wait.
func TestDiagonals(t *testing.T) {
	for count := 1; count < 40; count++ {
		seen, meets := map[[2]int]bool{}, 0
		order := diagonals(count)
		for at, p := range order {
			i, j := min(p[0], p[1]), max(p[0], p[1])
			if seen[[2]int{i, j}] || j >= count {
				t.Fatalf("%d blocks: pair %v came before, or is none", count, p)
			}
			seen[[2]int{i, j}] = true
			if at > 0 {
				if q := order[at-1]; p[0] == q[0] || p[0] == q[1] || p[1] == q[0] || p[1] == q[1] {
					meets++
				}
			}
		}
		if len(seen) != count*(count+1)/2 {
			t.Fatalf("%d blocks: %d pairs, not %d", count, len(seen), count*(count+1)/2)
		}
		if meets > 2*count {
			t.Errorf("%d blocks: %d of %d pairs have a block of the one before", count, meets, len(order))
		}
	}
}

// TestLocalScaleOfDuplicates: a row with duplicates has a thousandth of the median of its class, not 0.
func TestLocalScaleOfDuplicates(t *testing.T) {
	x := mat.NewDense(7, 1, []float64{0, 0, 10, 20, 30, 33, 36})
	nb, err := Nearest(ctx, x, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The distances to the nearest row are 0, 0, 10, 10, 3, 3, 3: of all rows the median is 3.
	for _, c := range []struct {
		y    []int
		want []float64
	}{
		{nil, []float64{0.003, 0.003, 10, 10, 3, 3, 3}},
		{[]int{0, 1, 0, 1, 1, 1, 0}, []float64{0.003, 0.003, 10, 10, 3, 3, 3}},
		{[]int{0, 1, 0, 0, 0, 1, 1}, []float64{0.01, 0.003, 10, 10, 3, 3, 3}},
	} {
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12 }
		if got := nb.LocalScale(c.y); !slices.EqualFunc(got, c.want, near) {
			t.Errorf("classes %v: %v, want %v", c.y, got, c.want)
		}
	}
}

// TestBlocksFitTheCache: the points on each side of a block take 256 KB at most, or one panel, and eight panels.
func TestBlocksFitTheCache(t *testing.T) {
	for dim, want := range map[int]int{100: 384, 784: 48} {
		x := contiguous(normals(rand.New(rand.NewPCG(1, 2)), 5, dim))
		b, err := newBlocks(t.Context(), &search{ref: x, query: x, dim: dim, self: true})
		if err != nil || b.side != want {
			t.Errorf("%d columns: %d points, %v; want %d", dim, b.side, err, want)
		}
	}
}

// TestFewQueriesPackNothing: three rows are compared with references that are not copied.
func TestFewQueriesPackNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ref, query := normals(r, 2000, 64), normals(r, 3, 64)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := NearestTo(ctx, ref, query, 1); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<16 {
		t.Errorf("a search for 3 rows allocates %d bytes; the references have %d", got, 2000*64*8)
	}
}

// TestSearchMemoryIsBounded: the memory of a search of very many rows is not kept for the next one, however few numbers
// the rows have.
func TestSearchMemoryIsBounded(t *testing.T) {
	ref, query := mat.NewDense(8, 1, nil), mat.NewDense(150_000, 1, nil) // 45 MB of candidates
	for i := range 8 {
		ref.Set(i, 0, float64(i))
	}
	if _, err := NearestTo(t.Context(), ref, query, 1); err != nil {
		t.Fatal(err)
	}
	for m, ok := memories.Get().(*searchMemory); ok; m, ok = memories.Get().(*searchMemory) {
		if n := m.bytes(); n > 32<<20 {
			t.Errorf("%d bytes are kept", n)
		}
	}
}

// TestDistancesThatOverflow: a distance that overflows is infinite, for one row and for four at a time.
func TestDistancesThatOverflow(t *testing.T) {
	inf := math.Inf(1)
	far := []float64{inf, 0}
	if squared(far, far) != inf || squared([]float64{1, 2}, []float64{4, 6}) != 25 {
		t.Error("infinite rows are at a distance")
	}
	near := []float64{1, 1}
	if d := squaredFour(far, [4][]float64{far, near, far, near}); d != [4]float64{inf, inf, inf, inf} {
		t.Errorf("distances %v", d)
	}
	if d := squaredFour(near, [4][]float64{near, {2, 1}, {1, 4}, {0, 3}}); d != [4]float64{0, 1, 9, 5} {
		t.Errorf("distances %v", d)
	}
}
