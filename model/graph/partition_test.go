package graph

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func checkPartition(t *testing.T, name string, patches [][]int, n, limit int) {
	t.Helper()
	seen := make([]bool, n)
	for _, rows := range patches {
		if len(rows) >= limit || len(rows) < 2 && n > 1 {
			t.Errorf("%s: a patch of %d rows, limit %d", name, len(rows), limit)
		}
		for _, i := range rows {
			if seen[i] {
				t.Errorf("%s: row %d is in two patches", name, i)
			}
			seen[i] = true
		}
	}
	for i, s := range seen {
		if !s {
			t.Errorf("%s: row %d is in no patch", name, i)
		}
	}
}

// Zhou and Sun report 65 patches of a Swiss roll of 2000 rows with k' = 31 and
// M = 48.
func TestPartitionOfTheSwissRoll(t *testing.T) {
	x, _ := swissRoll(rand.New(rand.NewPCG(14, 5)), 2000)
	patches, err := Partition(ctx, x, 31, 48)
	if err != nil {
		t.Fatal(err)
	}
	checkPartition(t, "roll", patches, 2000, 48)
	t.Logf("%d patches", len(patches))
	if len(patches) < 55 || len(patches) > 75 {
		t.Errorf("%d patches, about 65 are known", len(patches))
	}
}

// Separate groups, duplicates, lines with an outlier and small inputs all give
// partitions.
func TestPartitionCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 5))
	outlier := mat.NewDense(30, 1, nil)
	for i := range 29 {
		outlier.Set(i, 0, float64(i))
	}
	outlier.Set(29, 0, 1e6)
	duplicates := mat.NewDense(60, 2, nil)
	for i := range 60 {
		duplicates.SetRow(i, []float64{float64(i % 3), 0})
	}
	for name, c := range map[string]struct {
		x        *mat.Dense
		k, limit int
	}{
		"groups":     {clusters(r, 3, 30, 4), 4, 10},
		"outlier":    {outlier, 2, 5},
		"duplicates": {duplicates, 3, 8},
		"equal":      {mat.NewDense(20, 3, nil), 6, 4},
		"four":       {normals(r, 4, 2), 1, 4},
		"one":        {normals(r, 1, 2), 6, 10},
		"small":      {normals(r, 9, 2), 6, 10},
		"normal":     {normals(r, 200, 8), 6, 10},
	} {
		patches, err := Partition(ctx, c.x, c.k, c.limit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n, _ := c.x.Dims()
		// The level with a ratio closest to 1 is not always the last one.
		checkPartition(t, name, patches, n, n+1)
	}
}

// The smallest k is the one that trying k, k+2, ... finds.
func TestConnectedTriesInSteps(t *testing.T) {
	x := clusters(rand.New(rand.NewPCG(16, 5)), 2, 15, 2)
	got, err := connected(ctx, x, 3)
	if err != nil {
		t.Fatal(err)
	}
	k := 3
	for ; ; k += 2 {
		if c := mustNearest(t, x, k).Components(); c[29] == 0 {
			break
		}
	}
	if index, _ := got.Row(0); len(index) != k {
		t.Errorf("k grew to %d, want %d", len(index), k)
	}
}

// TestConnectedSearchesFewNeighbours: a graph that five neighbours connect takes no memory for all pairs of rows.
func TestConnectedSearchesFewNeighbours(t *testing.T) {
	x := normals(rand.New(rand.NewPCG(16, 6)), 1500, 2)
	for i := range 4 {
		x.Set(i, 0, x.At(i, 0)+100) // three neighbours are among these four rows
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := connected(ctx, x, 3)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if index, _ := got.Row(0); len(index) != 5 || after.TotalAlloc-before.TotalAlloc > 8<<20 {
		t.Errorf("%d neighbours, %d bytes", len(index), after.TotalAlloc-before.TotalAlloc)
	}
}

// TestAccompany: a patch of one row gets the nearest free row along the manifold, the first of equally near ones, and
// none if no row is free or it has two.
func TestAccompany(t *testing.T) {
	lengths := mat.NewSymDense(4, []float64{0, 3, 2, 2, 3, 0, 1, 1, 2, 1, 0, 1, 2, 1, 1, 0})
	for _, c := range []struct {
		rows []int
		free []bool
		want int // the row that is added; -1: none
	}{
		{[]int{0}, []bool{false, true, true, true}, 2}, {[]int{0}, []bool{false, true, false, false}, 1},
		{[]int{0}, []bool{false, false, false, false}, -1}, {[]int{0, 1}, []bool{false, false, true, true}, -1},
	} {
		s := &growingPatch{rows: c.rows, d: &splitter{geodesic: lengths, ratio: lengths, free: c.free}}
		s.d.accompany(s, []int{0, 1, 2, 3})
		if added := s.rows[len(c.rows):]; len(added) > 1 || (len(added) == 1) != (c.want >= 0) ||
			len(added) == 1 && added[0] != c.want {
			t.Errorf("%+v: rows %v", c, added)
		}
	}
}

// TestSmallestPartition: fewer rows than the limit, which is at least 4, are one patch.
func TestSmallestPartition(t *testing.T) {
	line := func(n int) *mat.Dense {
		x := mat.NewDense(n, 1, nil)
		for i := range n {
			x.Set(i, 0, float64(i*i))
		}
		return x
	}
	for _, c := range []struct{ n, limit, want int }{{1, 1, 1}, {3, 1, 1}, {3, 4, 1}, {5, 6, 1}} {
		p, err := Partition(ctx, line(c.n), 1, c.limit)
		if err != nil || len(p) != c.want || len(p[0]) != c.n {
			t.Errorf("%d rows, limit %d: %v, %v", c.n, c.limit, p, err)
		}
	}
	if got := (Tangent{Singular: []float64{2, 1}}); got.Dim() != 2 {
		t.Error("two directions are another dimension")
	}
	if EnergyDim(2)([]float64{3, 1}) != 2 || EnergyDim(0.75)([]float64{3, 1}) != 1 {
		t.Error("the share of the variance is another")
	}
}
