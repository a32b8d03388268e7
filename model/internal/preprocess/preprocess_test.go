package preprocess

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// Products of the features of landmarks are the kernel, exactly if every row is a landmark.
func TestLandmarksSpanTheKernel(t *testing.T) {
	var third []int
	for i := 0; i < 150; i += 3 {
		third = append(third, i)
	}
	data := fixture.Dataset(t, "iris").Subset(third)
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := DrawLandmarks(t.Context(), p, Kernels{Count: data.N, Width: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	phi, err := s.Data(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	x := mat.NewDense(phi.N, phi.M, phi.X)
	var gram mat.Dense
	gram.Mul(x, x.T())
	for i := range data.N {
		for j := range data.N {
			d := 0.0
			for k := range data.M {
				v := (data.X[i*data.M+k] - data.X[j*data.M+k]) / s.scale[k]
				d += v * v
			}
			if want := math.Exp(-d / s.kernel.Param[0]); !(math.Abs(gram.At(i, j)-want) <= 1e-6) {
				t.Fatalf("rows %d and %d: product %g, kernel %g", i, j, gram.At(i, j), want)
			}
		}
	}
}

// Landmarks of many correlated features are stored as rows of a low rank, which changes little of their dot products,
// also if there is an outlier among them. Others are stored as they are.
func TestLandmarksAreCompressed(t *testing.T) {
	const n, m = 200, 128
	r := rand.New(rand.NewPCG(1, 2))
	of := func(rank int, noise float64) []float64 {
		basis, rows := make([]float64, rank*m), make([]float64, n*m)
		for i := range basis {
			basis[i] = r.NormFloat64()
		}
		for i := range n {
			for k := range rank {
				weight := r.NormFloat64()
				for j := range m {
					rows[i*m+j] += weight * basis[k*m+j]
				}
			}
			for j := range m {
				rows[i*m+j] += noise * r.NormFloat64()
			}
		}
		return rows
	}
	correlated := of(12, 0.3)
	outlier := slices.Clone(correlated)
	for j := range m {
		outlier[3*m+j] = 1e9 * r.NormFloat64()
	}
	distance := 2 * linalg.Dot(correlated, correlated) / n
	for name, rows := range map[string][]float64{"correlated": correlated, "one far away": outlier,
		"fewer than features": correlated[:100*m]} {
		n := len(rows) / m
		got := mat.NewDense(n, m, compress(t.Context(), slices.Clone(rows), m, distance, 1))
		var svd mat.SVD
		if !svd.Factorize(got, mat.SVDNone) {
			t.Fatalf("%s: no singular values", name)
		}
		if rank := svd.Rank(1e-13); rank < 12 || rank > mapping.MaxRank(n, m) {
			t.Errorf("%s: rank %d", name, rank)
		}
		for i := 4; i < n; i++ { // not the outlier
			row, other := got.RawRowView(i), rows[i*m:(i+1)*m]
			if lost := linalg.SquaredDistance(row, other) / linalg.Dot(other, other); !(lost < 0.02) {
				t.Fatalf("%s: row %d loses %.3g", name, i, lost)
			}
		}
	}
	if got := compress(t.Context(), slices.Clone(correlated), m, distance, 64); !slices.Equal(got, correlated) {
		t.Error("narrow kernels: landmarks are others")
	}
	large := slices.Clone(correlated)
	large[7] = 1e200
	moved := slices.Clone(correlated) // by outliers in the mean: the part that is the same in all is the largest
	for i := range moved {
		moved[i] += 100
	}
	inUnit := func(unit float64) []float64 {
		rows := slices.Clone(correlated)
		for i := range rows {
			rows[i] *= unit
		}
		return rows
	}
	for name, rows := range map[string][]float64{"independent": of(1, 1e3), "zero": make([]float64, n*m),
		"beyond squares": large, "moved": moved, "tiny": inUnit(1e-100), "subnormal products": inUnit(1e-160),
		"huge": inUnit(1e100)} {
		apart := distance
		if name != "moved" {
			apart = math.MaxFloat64 / n
		}
		if got := compress(t.Context(), slices.Clone(rows), m, apart, 1); !slices.Equal(got, rows) {
			t.Errorf("%s: landmarks are others", name)
		}
	}
}

// TestRankOfLandmarks: what is dropped of all dot products is, in root mean square, at most an eightieth of the mean
// squared length, divided by the width if that is above 1. Rows longer than the median count as if they were as long.
func TestRankOfLandmarks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{201, 101} {
		const m = 128
		z := mat.NewDense(n, m, nil)
		for i := range n {
			for j := range m {
				z.Set(i, j, r.NormFloat64()*math.Pow(0.8, float64(j))*float64(1+i%2))
			}
		}
		var sizes []float64
		for i := range n {
			sizes = append(sizes, mat.Norm(z.RowView(i), 2))
		}
		slices.Sort(sizes)
		weighed := mat.DenseCopyOf(z)
		for i := range n {
			if size := mat.Norm(z.RowView(i), 2); size > sizes[n/2] {
				floats.Scale(sizes[n/2]/size, weighed.RawRowView(i))
			}
		}
		var svd mat.SVD
		if !svd.Factorize(weighed, mat.SVDNone) {
			t.Fatal("no singular values")
		}
		values, all := svd.Values(nil), 0.0
		for _, v := range values {
			all += v * v
		}
		for width, share := range map[float64]float64{0.1: 1. / 80, 1: 1. / 80, 4: 1. / 320} {
			want, dropped := len(values), 0.0
			for ; want > 0; want-- {
				if dropped += math.Pow(values[want-1], 4); math.Sqrt(dropped) > share*all {
					break
				}
			}
			got := compress(t.Context(), slices.Clone(z.RawMatrix().Data), m, math.MaxFloat64/1e3, width)
			if !svd.Factorize(mat.NewDense(n, m, got), mat.SVDNone) || svd.Rank(1e-13) != want {
				t.Errorf("%d rows, width %g: rank %d, want %d", n, width, svd.Rank(1e-13), want)
			}
		}
	}
}

// Of equal rows only one is a landmark while there are others, and the seed selects them.
func TestLandmarksAreDrawn(t *testing.T) {
	d := fixture.Synthetic(5, 60, 3, 2)
	for i := 20; i < d.N; i++ {
		copy(d.X[i*d.M:(i+1)*d.M], d.X[i%2*d.M:])
	}
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{1, 2, 7, 20, 25, 60, 90} {
		pick := draw(p, count, 1)
		equal := 0
		for _, r := range pick {
			if r >= 20 {
				equal++
			}
		}
		want := min(count, d.N)
		if len(pick) != want || equal > max(2, want-20+2) {
			t.Errorf("%d of %d landmarks, %d of them among the equal rows", len(pick), count, equal)
		}
	}
	if slices.Equal(draw(p, 8, 1), draw(p, 8, 2)) {
		t.Error("another seed draws the same rows")
	}
}

// The width of the kernels is the median distance of all of some hundred rows.
func TestBandwidthIsOfAllRows(t *testing.T) {
	for n, every := range map[int]int{150: 1, 3000: 3} { // at most 1,000, evenly spaced
		d := fixture.Synthetic(5, n, 3, 2)
		for i := range d.N {
			for j := range d.M {
				d.X[i*d.M+j] += float64(i % 3 * (i % 7)) // other rows have another width
			}
		}
		p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := DrawLandmarks(t.Context(), p, Kernels{Count: 10, Width: 1, Scale: model.ScaleNone}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var x []float64
		for i := 0; i < d.N; i += every {
			for j, v := range d.X[i*d.M : (i+1)*d.M] {
				x = append(x, v-l.mean[j])
			}
		}
		k, err := mapping.NewKernel(t.Context(), "gauss", x, d.M, nil)
		if err != nil || !(math.Abs(k.Param[0]-l.kernel.Param[0]) <= 1e-12*k.Param[0]) {
			t.Errorf("%d rows: the width is %g, of every row that counts %v (%v)", n, l.kernel.Param[0], k, err)
		}
	}
}

// TestLandmarksMapInBoundedMemory: however many rows are mapped, some hundred are held at once.
func TestLandmarksMapInBoundedMemory(t *testing.T) {
	d := fixture.Synthetic(5, 60, 20, 2)
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := DrawLandmarks(t.Context(), p, Kernels{Count: 40}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := slices.Repeat([][]float64{d.X[:d.M]}, 5000)
	dst := make([]float64, len(rows)*l.Dim())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = l.Map(t.Context(), dst, rows)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 2<<20 {
		t.Errorf("%d bytes, %v", took, err)
	}
}

// There are never more landmarks than requested, for any number and sizes of classes.
func TestLandmarksOfManyClasses(t *testing.T) {
	d := fixture.Synthetic(5, 60, 3, 2)
	d.Classes = nil
	for i := range d.N { // 30 rows of the first, one each of 30 others
		d.Y[i] = max(0, i-29)
	}
	for c := range 31 {
		d.Classes = append(d.Classes, fmt.Sprint(c))
	}
	p, err := frame.Prepare(t.Context(), d, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{1, 2, 10, 30, 31, 32, 40, 59, 60, 90} {
		of := map[int]bool{}
		pick := draw(p, count, 1)
		for _, r := range pick {
			of[p.Y[r]] = true
		}
		if len(pick) != min(count, d.N) || len(of) != min(count, 31) {
			t.Errorf("%d of %d landmarks, of %d classes", len(pick), count, len(of))
		}
	}
	for _, count := range []int{1, 2, 10} {
		l, err := DrawLandmarks(t.Context(), p, Kernels{Count: count}, 0)
		if err != nil || l.Len() != count || l.Dim() > count {
			t.Errorf("%d landmarks: %v", count, err)
		}
	}
}

// Many values have few knots.
func TestFewKnots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 3000)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	ranks, y := normalScores(x, 1), make([]float64, 1)
	if n := len(ranks.Value); n > 256 || n < 256*9/10 {
		t.Errorf("%d knots", n)
	}
	for _, v := range []float64{-2, -0.5, 0, 1, 2} {
		y[0] = v
		if ranks.Apply(y); !(math.Abs(y[0]-v) <= 0.15) {
			t.Errorf("the normal score of the normal %g is %g", v, y[0])
		}
	}
}

// rankScores are the normal scores of values, computed from their definition.
func rankScores(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		below := 0.0
		for _, other := range x {
			switch {
			case other < v:
				below++
			case other == v:
				below += 0.5
			}
		}
		out[i] = math.Sqrt2 * math.Erfinv(2*below/float64(len(x))-1)
	}
	return out
}

// Knots are spaced by rows: if most rows have few values and few rows have many, each row has nearly its score among
// all rows, also next to a value that a third of the rows have.
func TestKnotsAreOfRows(t *testing.T) {
	const n = 3000
	x := make([]float64, n)
	for i := range x {
		switch {
		case i < 400:
			x[i] = math.Exp(float64(i/20) / 2)
		case i < 1400:
			x[i] = 1e5
		default:
			x[i] = 1e6 + float64(i)
		}
	}
	want, ranks, y := rankScores(x), normalScores(x, 1), make([]float64, 1)
	if len(ranks.Value) > 256 {
		t.Errorf("%d knots", len(ranks.Value))
	}
	quantile := func(score float64) float64 { return (1 + math.Erf(score/math.Sqrt2)) / 2 }
	for i, v := range x {
		y[0] = v
		if ranks.Apply(y); !(math.Abs(quantile(y[0])-quantile(want[i])) <= 0.01) {
			t.Fatalf("row %d is at %g of the rows, by its score at %g", i, quantile(want[i]), quantile(y[0]))
		}
	}
}
