package graph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// swissRoll returns n rows in three dimensions, with their two parameters, angle and height.
func swissRoll(r *rand.Rand, n int) (x, parameters *mat.Dense) {
	x, parameters = mat.NewDense(n, 3, nil), mat.NewDense(n, 2, nil)
	for i := range n {
		t, h := 1.5*math.Pi*(1+2*r.Float64()), 21*r.Float64()
		x.SetRow(i, []float64{t * math.Cos(t), h, t * math.Sin(t)})
		// The length of the spiral along the roll, not the angle.
		parameters.SetRow(i, []float64{(t*math.Sqrt(1+t*t) + math.Asinh(t)) / 2, h})
	}
	return x, parameters
}

// Geodesics are the distances of Floyd and Warshall, with zero lengths and ties, and have the bits of paths from the
// lower end alone.
func TestGeodesicsEqualAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 5))
	for trial, n := range []int{5, 31, 32, 33, 47, 64, 65, 96, 110, 124} {
		x := normals(r, n, 2)
		if trial%2 == 0 {
			for i := range n {
				x.SetRow(i, []float64{float64(r.IntN(6)), float64(r.IntN(6))})
			}
		}
		nb, _, err := mustNearest(t, x, 4).Connect(ctx, x, Connect)
		if err != nil {
			t.Fatal(err)
		}
		lengths := mustWeights(t, nb, Union, Length)
		want := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				want.Set(i, j, math.Inf(1))
			}
			index, value := lengths.Row(i)
			for p, j := range index {
				want.Set(i, j, value[p])
			}
			want.Set(i, i, 0)
		}
		for k := range n {
			for i := range n {
				for j := range n {
					want.Set(i, j, min(want.At(i, j), want.At(i, k)+want.At(k, j)))
				}
			}
		}
		got, err := GeodesicsIn(ctx, lengths, slices.Repeat([]float64{math.NaN()}, n*n)) // used memory
		if err != nil || !near(got, want, 1e-12) {
			t.Fatalf("trial %d: differs from all pairs, %v", trial, err)
		}
		ends := make([]int32, len(lengths.index))
		for p, j := range lengths.index {
			ends[p] = int32(j)
		}
		alone, row := linalg.NewPaths(lengths.start, ends, lengths.value), make([]float64, n)
		for i := range n {
			alone.From(row, []int{i}, []float64{0})
			if !slices.Equal(row[i:], got.RawSymmetric().Data[i*n+i:(i+1)*n]) {
				t.Fatalf("trial %d: row %d differs from that of one source", trial, i)
			}
		}
	}
}

// With lengths of all sizes, also zero and denormal, no edge makes a distance shorter.
func TestGeodesicsSettle(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 6))
	const n = 300
	for name, length := range map[string]func() float64{
		"even":     func() float64 { return 1 + r.Float64() },
		"spread":   func() float64 { return math.Exp(40 * (r.Float64() - 0.5)) },
		"zeros":    func() float64 { return float64(r.IntN(2)) * r.Float64() },
		"denormal": func() float64 { return 5e-324 * float64(r.IntN(9)) },
		"huge":     func() float64 { return 1e300 * r.Float64() },
	} {
		w := mat.NewDense(n, n, nil)
		for i := range n {
			for range 4 {
				w.Set(i, r.IntN(n), -1)
			}
			w.Set(i, (i+1)%n, -1)
		}
		var edges []entry
		for i := range n {
			for j := i + 1; j < n; j++ {
				if w.At(i, j) < 0 || w.At(j, i) < 0 {
					edges = append(edges, entry{int32(i), int32(j), length()})
				}
			}
		}
		lengths := assemble(n, edges)
		got, err := Geodesics(ctx, lengths)
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range n { // from row 0: all sums begin there
			least := math.Inf(1)
			if i == 0 {
				least = 0
			}
			index, value := lengths.Row(i)
			for p, j := range index {
				least = min(least, got.At(0, j)+value[p])
			}
			if got.At(0, i) != least {
				t.Fatalf("%s: row %d is at %g, and its neighbours reach it at %g", name, i, got.At(0, i), least)
			}
		}
	}
}

func TestGeodesicsRefuse(t *testing.T) {
	x := clusters(rand.New(rand.NewPCG(9, 5)), 2, 12, 2)
	lengths := mustWeights(t, mustNearest(t, x, 3), Union, Length)
	var apart *DisconnectedError
	if _, err := Geodesics(ctx, lengths); !errors.As(err, &apart) || !slices.Equal(apart.Sizes, []int{12, 12}) {
		t.Errorf("two components: %v", err)
	}
	negative, err := FromDense(mat.NewDense(2, 2, []float64{0, -1, -1, 0}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Geodesics(ctx, negative); err == nil {
		t.Error("negative lengths gave no error")
	}
}

// Geodesics follow the roll: unlike Euclidean distances, they agree with distances on the unrolled sheet.
func TestGeodesicsUnrollTheSwissRoll(t *testing.T) {
	x, sheet := swissRoll(rand.New(rand.NewPCG(10, 5)), 800)
	nb := mustNearest(t, x, 10)
	g, err := Geodesics(ctx, mustWeights(t, nb, Union, Length))
	if err != nil {
		t.Fatal(err)
	}
	off, euclid, pairs := 0.0, 0.0, 0.0
	for i := range 800 {
		for j := range i {
			flat := math.Sqrt(squared(sheet.RawRowView(i), sheet.RawRowView(j)))
			if flat > 20 {
				off += math.Abs(g.At(i, j)/flat - 1)
				euclid += math.Abs(math.Sqrt(squared(x.RawRowView(i), x.RawRowView(j)))/flat - 1)
				pairs++
			}
		}
	}
	if !(off/pairs <= 0.06) || !(euclid/pairs >= 0.4) {
		t.Errorf("geodesics are off by %g of the distance on the sheet, Euclidean ones by %g", off/pairs, euclid/pairs)
	}
}

func BenchmarkGeodesics(b *testing.B) {
	for _, n := range []int{2000, 5000} {
		x, _ := swissRoll(rand.New(rand.NewPCG(10, 5)), n)
		lengths := mustWeights(b, mustNearest(b, x, 10), Union, Length)
		b.Run(fmt.Sprintf("n=%d/k=10", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Geodesics(ctx, lengths); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
