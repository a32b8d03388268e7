package fit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/mapping"
)

// Rows and outputs as the tests of this package look at them.

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func rowMajor(x []float32, n, m int) model.Rows {
	return model.Rows{N: n, Blocks: []model.Block{{F32: x, Cols: m, RowStride: m, ColStride: 1}}}
}

func project(t testing.TB, m *model.Model, rows model.Rows) []float32 {
	t.Helper()
	y := make([]float32, rows.N*m.Dim())
	if err := m.Project(y, rows); err != nil {
		t.Fatal(err)
	}
	return y
}

func sameBits(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func fileOf(t testing.TB, m *model.Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := model.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// trainingOf returns the rows of the fit that a map stores, nil if it stores none.
func trainingOf(m model.Mapping) *mapping.Training {
	switch e := m.(type) {
	case *mapping.Nystrom:
		return &e.Training
	case *mapping.Barycentric:
		return &e.Training
	case *mapping.Geodesic:
		return &e.Training
	case *mapping.Tangent:
		return &e.Training
	case *mapping.SimilarityMap:
		return &e.Training
	}
	return nil
}

// worstColumn returns the largest error of a column relative to the column's standard deviation.
func worstColumn(y []float32, want []float64, d int) float64 {
	worst := 0.0
	for c := range d {
		var col []float64
		largest := 0.0
		for i := c; i < len(want); i += d {
			col = append(col, want[i])
			largest = max(largest, math.Abs(float64(y[i])-want[i]))
		}
		worst = max(worst, largest/stat.StdDev(col, nil))
	}
	return worst
}

// rotation is an orthogonal d x d matrix.
func rotation(seed uint64, d int) *mat.Dense {
	var qr mat.QR
	qr.Factorize(mat.NewDense(d, d, normals(rand.New(rand.NewPCG(seed, 1)), d*d)))
	var q mat.Dense
	qr.QTo(&q)
	return &q
}

// exact is y = ((x - mean)/scale) A in float64.
func exact(mo *model.Model, x []float64) []float64 {
	m, d := mo.M(), mo.Dim()
	a := mo.Components()
	y := make([]float64, len(x)/m*d)
	z := make([]float64, len(x))
	if err := mo.ScaledTo(z, model.DenseRows(x, len(x)/m, m)); err != nil {
		panic(err)
	}
	for i := range len(x) / m {
		for j := range m {
			for c := range d {
				y[i*d+c] += z[i*m+j] * a[j*d+c]
			}
		}
	}
	return y
}

func centred(y *mat.Dense) *mat.Dense {
	n, d := y.Dims()
	c := mat.DenseCopyOf(y)
	for j := range d {
		mean := mat.Sum(y.ColView(j)) / float64(n)
		for i := range n {
			c.Set(i, j, y.At(i, j)-mean)
		}
	}
	return c
}
