package graph

import (
	"math/rand/v2"
	"runtime"
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
