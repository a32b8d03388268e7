package graph

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Sums on several cores have the same bits as on one.
func TestSumsDoNotDependOnCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	x := normals(rand.New(rand.NewPCG(17, 5)), 900, 140)
	var results [2][]mat.Matrix
	for i, cores := range []int{1, 4} {
		runtime.GOMAXPROCS(cores)
		nb := mustNearest(t, x, 6)
		w := mustWeights(t, nb, Union, Heat(nb.MeanNearest()))
		sparse, err := LaplacianForm(ctx, x, w)
		if err != nil {
			t.Fatal(err)
		}
		dense, err := LaplacianForm(ctx, x, mat.DenseCopyOf(w))
		if err != nil {
			t.Fatal(err)
		}
		lle, err := Barycentric(ctx, x, x, nb, 1e-3)
		if err != nil {
			t.Fatal(err)
		}
		tangents, err := Tangents(ctx, x, nb.Patches()[:40], EnergyDim(0.95))
		if err != nil {
			t.Fatal(err)
		}
		geodesics, err := Geodesics(ctx, mustWeights(t, nb, Union, Length))
		if err != nil {
			t.Fatal(err)
		}
		product := mat.NewDense(900, 140, nil)
		w.Apply(ctx, product, x)
		results[i] = []mat.Matrix{sparse, dense, lle, tangents[39].Basis, geodesics, product}
	}
	for k, a := range results[0] {
		if !mat.Equal(a, results[1][k]) {
			t.Errorf("result %d differs between one worker and four", k)
		}
	}
}

// BenchmarkForms measures the parts of a linear fit after the search, each also as a ratio to a product of n x m by m x
// m in the same run.
func BenchmarkForms(b *testing.B) {
	const n, m, k = 5000, 256, 10
	x := normals(rand.New(rand.NewPCG(18, 5)), n, m)
	nb := mustNearest(b, x, k)
	w := mustWeights(b, nb, Union, Heat(nb.MeanNearest()))
	raw := x.RawMatrix()
	out := make([]float64, n*m)
	begin := time.Now()
	linalg.BLAS.Dgemm(blas.NoTrans, blas.NoTrans, n, m, m, 1, raw.Data, m, raw.Data, m, 0, out, m)
	dgemm := time.Since(begin)
	run := func(name string, f func() error) {
		b.Run(name+"/n=5000/m=256/k=10", func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(dgemm), "dgemm")
		})
	}
	run("laplacian", func() error { _, err := LaplacianForm(ctx, x, w); return err })
	run("degree", func() error { _, err := DegreeForm(ctx, x, w.Degrees()); return err })
	run("barycentric", func() error { _, err := Barycentric(ctx, x, x, nb, 1e-3); return err })
	run("tangents", func() error { _, err := Tangents(ctx, x, nb.Patches(), FixedDim(2)); return err })
}

// TestViewsOfRows: rows with gaps between them, a dense symmetric matrix and no queries are read as any other.
func TestViewsOfRows(t *testing.T) {
	all := mat.NewDense(3, 3, []float64{0, 5, 9, 1, 7, 9, 4, 6, 9})
	view := all.Slice(0, 3, 0, 1).(*mat.Dense)
	nb := mustNearest(t, view, 2)
	if index, d := nb.Row(0); !slices.Equal(index, []int{1, 2}) || !slices.Equal(d, []float64{1, 16}) {
		t.Errorf("neighbours %v at %v", index, d)
	}
	s := mat.NewSymDense(2, []float64{1, 2, 2, 5})
	f, err := WeightForm(ctx, mat.NewDense(2, 1, []float64{3, 4}), s)
	if err != nil || f.At(0, 0) != 9+2*2*12+5*16 {
		t.Errorf("the form is %g, %v", f.At(0, 0), err)
	}
	if l, err := LaplacianForm(ctx, mat.NewDense(2, 1, []float64{3, 4}), s); err != nil || l.At(0, 0) != 2 {
		t.Errorf("the form of the Laplacian is %g, %v", l.At(0, 0), err)
	}
	n, p, err := FromDS(ctx, mat.NewDense(2, 1, []float64{3, 5}), s, mat.NewDense(2, 2, []float64{0, 3, 3, 0}))
	if err != nil || n.At(0, 0) != 8 || p.At(0, 0) != 12 {
		t.Errorf("the pencil is %g and %g, %v", n.At(0, 0), p.At(0, 0), err)
	}
}
