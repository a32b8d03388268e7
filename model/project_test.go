package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// randomLinear is a linear model with means and scales of the given sizes.
func randomLinear(t testing.TB, m, d int, mean, scale float64) *Model {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(m), uint64(d)))
	mo := &Model{fitted: Content{Method: "test", Rows: 10, Features: names("f", m), Mean: make([]float64,
		m), Scale: make([]float64, m)},
		mapping: &mapping.Linear{D: d, Components: normals(r, m*d)}}
	for j := range m {
		mo.fitted.Mean[j] = mean * (1 + 0.1*r.NormFloat64())
		mo.fitted.Scale[j] = scale * (0.5 + r.Float64())
	}
	return seal(t, mo)
}

// randomViews is a model of one view a class with a window of n rows of x.
func randomViews(t testing.TB, m, d, classes int, x Rows, label []int) *Model {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(m), uint64(d+100*classes)))
	mo := randomLinear(t, m, 1, 1, 1)
	v := &mapping.Views{D: d, Components: normals(r, classes*m*d), Offset: normals(r, classes*d)}
	y, err := Content{Mean: mo.fitted.Mean, Scale: mo.fitted.Scale, Map: v}.ViewOutputs(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	v.SetWindow(y, label)
	return seal(t, &Model{fitted: Content{Method: "test", Rows: x.N, Features: mo.fitted.Features,
		Classes: names("c", classes), Mean: mo.fitted.Mean, Scale: mo.fitted.Scale},
		mapping: v})
}

func seal(t testing.TB, m *Model) *Model {
	t.Helper()
	m, err := m.seal()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(prefix, i)
	}
	return s
}

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// rowsOf are n rows around the model's mean, as float32 and the same values as float64.
func rowsOf(mo *Model, n int) (f32 []float32, f64 []float64) {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	f32 = make([]float32, n*mo.M())
	f64 = make([]float64, n*mo.M())
	for i := range f32 {
		j := i % mo.M()
		f32[i] = float32(mo.fitted.Mean[j] + mo.fitted.Scale[j]*r.NormFloat64())
		f64[i] = float64(f32[i])
	}
	return f32, f64
}

func rowMajor(x []float32, n, m int) Rows {
	return Rows{n, []Block{{F32: x, Cols: m, RowStride: m, ColStride: 1}}}
}

func project(t testing.TB, m *Model, rows Rows) []float32 {
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

// A row's bits depend only on the row and the model: not on the size of the batch, the row's index in it, its address,
// or the layout of its features.
func TestProjectRowAlone(t *testing.T) {
	for _, c := range []struct{ m, d, n int }{{784, 2, 8192}, {784, 9, 600}, {13, 3, 600}, {1, 1, 40}, {64, 10, 600},
		{33, 5, 100}} {
		mo := randomLinear(t, c.m, c.d, 10, 2)
		x, x64 := rowsOf(mo, c.n)
		whole := project(t, mo, rowMajor(x, c.n, c.m))
		for _, batch := range []int{1, 3, 32, 512} {
			for from := 0; from < c.n; from += max(batch, c.n/40) + 1 {
				n := min(batch, c.n-from)
				shift := make([]float32, n*c.m+3)[from%4:]
				copy(shift, x[from*c.m:(from+n)*c.m])
				got := project(t, mo, rowMajor(shift, n, c.m))
				if !sameBits(got, whole[from*c.d:(from+n)*c.d]) {
					t.Fatalf("m %d d %d: batch of %d from row %d differs from the whole", c.m, c.d, n, from)
				}
			}
		}
		colMajor := make([]float32, len(x))
		columns := Rows{N: c.n}
		for j := range c.m {
			for i := range c.n {
				colMajor[j*c.n+i] = x[i*c.m+j]
			}
			columns.Blocks = append(columns.Blocks, Block{F32: colMajor[j*c.n:], Cols: 1, RowStride: 1, ColStride: 1})
		}
		if !sameBits(project(t, mo, columns), whole) {
			t.Fatalf("m %d: %d columns differ from one row-major block", c.m, c.m)
		}
		strided := Rows{c.n, []Block{{F32: colMajor, Cols: c.m, RowStride: 1, ColStride: c.n}}}
		if !sameBits(project(t, mo, strided), whole) {
			t.Fatalf("m %d: column-major differs from row-major", c.m)
		}
		cut := c.m / 3 // three adjacent blocks, the last with the rows far apart
		three := Rows{c.n, []Block{{F32: x, Cols: cut, RowStride: c.m, ColStride: 1},
			{F32: x[cut:], Cols: 1, RowStride: c.m, ColStride: 1},
			{F32: x[cut+1:], Cols: c.m - cut - 1, RowStride: c.m, ColStride: 1}}}
		if c.m > 1 && !sameBits(project(t, mo, three), whole) {
			t.Fatalf("m %d: three blocks differ from one", c.m)
		}
		whole64 := project(t, mo, DenseRows(x64, c.n, c.m))
		if !sameBits(whole64, whole) {
			t.Fatalf("m %d: float64 rows of the same values differ", c.m)
		}
		one64 := project(t, mo, DenseRows(x64[(c.n-1)*c.m:], 1, c.m))
		if !sameBits(one64, whole64[(c.n-1)*c.d:]) {
			t.Fatalf("m %d: a float64 row differs alone", c.m)
		}
		col64 := make([]float64, len(x))
		for i, v := range colMajor {
			col64[i] = float64(v)
		}
		if !sameBits(project(t, mo, Rows{c.n, []Block{{F64: col64, Cols: c.m, RowStride: 1, ColStride: c.n}}}),
			whole64) {
			t.Fatalf("m %d: float64 column-major differs from row-major", c.m)
		}
		both := Rows{c.n, []Block{{F64: col64, Cols: cut, RowStride: 1, ColStride: c.n},
			{F32: colMajor[cut*c.n:], Cols: c.m - cut, RowStride: 1, ColStride: c.n}}}
		if !sameBits(project(t, mo, both), whole) {
			t.Fatalf("m %d: columns of float32 and float64 differ from a list", c.m)
		}
	}
}

// exact is y = ((x - mean)/scale) · A in float64.
func exact(mo *Model, x []float64) []float64 {
	m, d := mo.M(), mo.Dim()
	a := mo.Components()
	y := make([]float64, len(x)/m*d)
	z := make([]float64, len(x))
	if err := mo.ScaledTo(z, DenseRows(x, len(x)/m, m)); err != nil {
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

// relative is |y - want|/|want| over all values.
func relative(y []float32, want []float64) float64 {
	var diff, size float64
	for i, w := range want {
		diff += (float64(y[i]) - w) * (float64(y[i]) - w)
		size += w * w
	}
	return math.Sqrt(diff / size)
}

// Rows are centred before float32, so a large mean costs no precision.
func TestProjectLargeMean(t *testing.T) {
	for _, ratio := range []float64{0, 1, 1e2, 1e4, -1e6} {
		mo := randomLinear(t, 784, 4, ratio, 1)
		x, x64 := rowsOf(mo, 64)
		want := exact(mo, x64)
		y, y64 := project(t, mo, rowMajor(x, 64, 784)), project(t, mo, DenseRows(x64, 64, 784))
		if e := relative(y, want); !(e <= 5e-7) {
			t.Errorf("mean/sd %g: float32 rows are off by %.2g", ratio, e)
		}
		if e := relative(y64, want); !(e <= 5e-7) {
			t.Errorf("mean/sd %g: float64 rows are off by %.2g", ratio, e)
		}
	}
}

// Nor does a mean so large that adjacent float32 numbers at it are farther apart than the rows.
func TestProjectFarMean(t *testing.T) {
	for _, ratio := range []float64{1e5, 1e8, 1e10, -1e12} {
		mo := randomLinear(t, 100, 4, ratio, 1)
		r := rand.New(rand.NewPCG(1, 1))
		x := make([]float64, 50*100)
		for i := range x {
			x[i] = mo.fitted.Mean[i%100] + mo.fitted.Scale[i%100]*r.NormFloat64()
		}
		if e := relative(project(t, mo, DenseRows(x, 50, 100)), exact(mo, x)); !(e <= 5e-7) {
			t.Errorf("mean/sd %g: off by %.2g", ratio, e)
		}
	}
}

// Units of a feature that float32 products would lose or overflow change nothing.
func TestProjectExtremeScales(t *testing.T) {
	for _, scale := range []float64{1e-200, 1e-40, 1e-25, 1e25, 1e38, 1e200} {
		mo := randomLinear(t, 20, 3, 10*scale, scale)
		_, x64 := rowsOf(mo, 9)
		for i := range x64 {
			x64[i] = mo.fitted.Mean[i%20] + mo.fitted.Scale[i%20]*math.Sin(float64(i))
		}
		if e := relative(project(t, mo, DenseRows(x64, 9, 20)), exact(mo, x64)); !(e <= 5e-7) {
			t.Errorf("scale %g: off by %.2g", scale, e)
		}
	}
}

// A missing value is the model's mean, whatever the kind of missing and the layout.
func TestProjectMissing(t *testing.T) {
	for _, unit := range []bool{false, true} {
		mo := randomLinear(t, 30, 4, 3, 2)
		mo.fitted.Unit = unit
		mo = seal(t, mo)
		x, x64 := rowsOf(mo, 5)
		for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x[2*30+i], x64[2*30+i] = float32(v), v
		}
		y, y64 := project(t, mo, rowMajor(x, 5, 30)), project(t, mo, DenseRows(x64, 5, 30))
		if !sameBits(y[2*4:3*4], y64[2*4:3*4]) {
			t.Error("float32 and float64 differ on a row with missing values")
		}
		if e := relative(y, exact(mo, x64)); !(e <= 5e-7) {
			t.Errorf("unit %v: off by %.2g", unit, e)
		}
		if !unit { // the mean itself gives the same row
			for i := range 3 {
				x64[2*30+i] = mo.fitted.Mean[i]
			}
			want := project(t, mo, DenseRows(x64, 5, 30))
			for c := range 4 {
				if d := math.Abs(float64(y[8+c] - want[8+c])); !(d <= 1e-5) {
					t.Errorf("output %d is %g off the one at the mean", c, d)
				}
			}
		}
	}
}

// Suspects include all rows with values that are not finite or beyond float32, and for a linear model no other row, in
// any layout.
func TestProjectSuspects(t *testing.T) {
	const n, m = 700, 30
	linear, unit := randomLinear(t, m, 3, 5, 2), randomLinear(t, m, 3, 5, 2)
	unit.fitted.Unit = true
	unit = seal(t, unit)
	far := randomLinear(t, m, 3, 1e12, 1)
	wide := randomLinear(t, m, 3, 5, 2)
	wide.fitted.Float64 = true
	wide = seal(t, wide)
	x, x64 := rowsOf(linear, n)
	label := make([]int, n)
	for i := range label {
		label[i] = i % 2
	}
	views := randomViews(t, m, 2, 2, DenseRows(x64, n, m), label)
	bad := []int{0, 17, 511, 512, 699}
	for k, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.NaN(), math.Inf(1)} {
		x[bad[k]*m+7*k], x64[bad[k]*m+7*k] = float32(v), v
	}
	column := make([]float32, n*m)
	for i, v := range x {
		column[i%m*n+i/m] = v
	}
	beyond := slices.Clone(x64)
	beyond[20*m+3] = 1 << 127 * 2
	for name, c := range map[string]struct {
		model *Model
		rows  Rows
		want  []int // nil: all
	}{
		"list":    {linear, rowMajor(x, n, m), bad},
		"float64": {linear, DenseRows(x64, n, m), bad},
		"columns": {linear, Rows{n, []Block{{F32: column, Cols: m, RowStride: 1, ColStride: n}}}, bad},
		"blocks": {linear, Rows{n, []Block{{F32: x, Cols: 10, RowStride: m, ColStride: 1},
			{F64: x64[10:], Cols: m - 10, RowStride: m, ColStride: 1}}}, bad},
		"beyond float32": {linear, DenseRows(beyond, n, m), []int{0, 17, 20, 511, 512, 699}},
		"of length 1":    {unit, DenseRows(beyond, n, m), []int{0, 17, 20, 511, 512, 699}},
		"far":            {far, rowMajor(x, n, m), bad},
		"in float64":     {wide, rowMajor(x, n, m), nil},
		"views":          {views, rowMajor(x, n, m), nil},
	} {
		y := make([]float32, n*c.model.Dim())
		got, err := c.model.ProjectSuspects(y, c.rows)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == nil {
			c.want = linalg.Range(n)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: suspects are %v, want %v", name, got, c.want)
		}
		if !sameBits(y, project(t, c.model, c.rows)) {
			t.Errorf("%s: outputs differ from those of Project", name)
		}
	}
	if _, err := linear.ProjectSuspects(nil, rowMajor(x, n, m)); err == nil {
		t.Error("short dst: no error")
	}
}

// TestInstructionSets runs itself with fewer instructions than the processor has. The digest of a model that is made
// from projected rows is the same with all of them; so are outputs, if the processor fuses products and sums.
func TestInstructionSets(t *testing.T) {
	const n, m = 300, 20
	live, candidate := randomLinear(t, m, 3, 5, 2), randomLinear(t, m, 3, 5.5, 2)
	x, x64 := rowsOf(live, n)
	label := make([]int, n)
	for i := range label {
		label[i] = i % 3
	}
	turned, _, err := Align(t.Context(), candidate, live, DenseRows(x64, n, m), AlignRigid)
	if err != nil {
		t.Fatal(err)
	}
	digests := turned.Digest() + randomViews(t, m, 2, 3, DenseRows(x64, n, m), label).Digest()
	outputs := fmt.Sprintf("%x", project(t, live, rowMajor(x, n, m)))
	const asked = "EMBEDD_TEST_INSTRUCTIONS"
	if os.Getenv(asked) != "" {
		fmt.Println("digests", digests)
		fmt.Println("outputs", outputs)
		return
	}
	for _, off := range []string{"cpu.avx512f=off", "cpu.avx512f=off,cpu.avx2=off"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInstructionSets$")
		cmd.Env = append(os.Environ(), asked+"=1", "GODEBUG="+off)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", off, err)
		}
		if !strings.Contains(string(out), "digests "+digests+"\n") {
			t.Errorf("%s: digests are others", off)
		}
		if !strings.Contains(off, "avx2") && !strings.Contains(string(out), "outputs "+outputs+"\n") {
			t.Errorf("%s: outputs are others", off)
		}
	}
}

// An output that float32 cannot hold is an error that names the lowest such row.
func TestProjectOverflow(t *testing.T) {
	mo := randomLinear(t, 64, 2, 0, 1)
	n := 20000 // enough for several workers
	x := make([]float64, n*64)
	for _, i := range []int{15001, 16, 19999} {
		x[i*64+5] = 1e300
	}
	var rowErr *RowError
	err := mo.Project(make([]float32, n*2), DenseRows(x, n, 64))
	if !errors.As(err, &rowErr) || rowErr.Row != 16 {
		t.Fatalf("error is %v, want one of row 16", err)
	}
	x32 := make([]float32, 64)
	x32[3] = math.MaxFloat32
	mo2 := randomLinear(t, 64, 2, -1e38, 1e38) // x - mean leaves float32, the output does not
	y := project(t, mo2, rowMajor(x32, 1, 64))
	x64 := make([]float64, 64)
	x64[3] = math.MaxFloat32
	if e := relative(y, exact(mo2, x64)); !(e <= 5e-7) {
		t.Errorf("off by %.2g", e)
	}
}

// In a call without an error the projection allocates nothing.
func TestProjectAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	mo := randomLinear(t, 64, 8, 1, 1)
	for _, n := range []int{1, 100, 8192} {
		x, _ := rowsOf(mo, n)
		columns := Rows{n, []Block{{F32: x, Cols: 64, RowStride: 1, ColStride: n}}}
		y := make([]float32, n*8)
		for name, rows := range map[string]Rows{"list": rowMajor(x, n, 64), "columns": columns} {
			allocs := testing.AllocsPerRun(50, func() {
				if _, err := mo.ProjectSuspects(y, rows); err != nil {
					t.Fatal(err)
				}
			})
			if !(allocs < 1) {
				t.Errorf("%d rows, %s: %.1f allocations a call", n, name, allocs)
			}
		}
	}
}

func TestProjectRefuses(t *testing.T) {
	mo := randomLinear(t, 4, 2, 0, 1)
	good := make([]float32, 8)
	for name, rows := range map[string]Rows{
		"features": rowMajor(good, 2, 3),
		"short":    rowMajor(good[:7], 2, 4),
		"negative": {N: -1, Blocks: []Block{{F32: good, Cols: 4, RowStride: 4, ColStride: 1}}},
		"both":     {N: 1, Blocks: []Block{{F32: good, F64: make([]float64, 8), Cols: 4, RowStride: 4, ColStride: 1}}},
		"none":     {N: 1, Blocks: []Block{{Cols: 4, RowStride: 4, ColStride: 1}}},
		"overflow": {N: 2, Blocks: []Block{{F32: good, Cols: 4, RowStride: math.MaxInt, ColStride: math.MaxInt}}},
	} {
		if err := mo.Project(make([]float32, 8), rows); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := mo.Project(make([]float32, 3), rowMajor(good, 2, 4)); err == nil {
		t.Error("short dst: no error")
	}
	if err := mo.Project(nil, rowMajor(nil, 0, 4)); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// steps are normal scores with knots for each of m features.
func steps(r *rand.Rand, m, knots int) *mapping.Ranks {
	s := &mapping.Ranks{First: []float64{0}}
	for j := range m {
		value := slices.Sorted(slices.Values(normals(r, knots)))
		s.Value, s.Score = append(s.Value, value...), append(s.Score, value...)
		s.First = append(s.First, float64((j+1)*knots))
	}
	return s
}

// BenchmarkLandmarks compares a row with landmarks, and a sum of them with a linear map of features and of normal
// scores, with a row of a linear map, in turns, on one core.
func BenchmarkLandmarks(b *testing.B) {
	for _, c := range []struct{ n, m, d, landmarks, rank int }{{256, 64, 10, 300, 64}, {256, 64, 2, 300, 64},
		{256, 16, 2, 300, 16}, {256, 784, 10, 300, 300}, {256, 256, 8, 300, 256}, {1, 256, 8, 300, 256},
		{256, 256, 8, 300, 50}, {1, 256, 8, 300, 50}} {
		linear := randomLinear(b, c.m, c.d, 1, 1)
		x, _ := rowsOf(linear, c.n)
		r := rand.New(rand.NewPCG(1, 2))
		curved := linear.Content()
		curved.Map = &mapping.KernelMap{D: c.d, Rows: ofRank(r, c.landmarks, c.m, c.rank),
			Coefficients: normals(r, c.landmarks*c.d), Offset: make([]float64, c.d),
			K: mapping.Kernel{Name: "gauss", Param: []float64{2 * float64(c.m)}}}
		curved.Report.Convergence = Direct
		marks := must(New(curved))
		mixed, part := curved, *curved.Map.(*mapping.KernelMap)
		part.Offset = nil
		mixed.Map = &mapping.Sum{D: c.d, Offset: make([]float64, c.d), Linear: normals(r, c.m*c.d),
			Ranks: steps(r, c.m, 256), Ranked: normals(r, c.m*c.d), Kernel: &part}
		sum := must(New(mixed))
		y, rows := make([]float32, c.n*c.d), rowMajor(x, c.n, c.m)
		ctx := Limit(b.Context(), 1)
		b.Run(fmt.Sprintf("n=%d/m=%d/d=%d/landmarks=%d/rank=%d", c.n, c.m, c.d, c.landmarks, c.rank), func(b *testing.B) {
			least := [3]time.Duration{time.Hour, time.Hour, time.Hour}
			for b.Loop() {
				for i, mo := range []*Model{linear, marks, sum} {
					begin := time.Now()
					turns := 1
					if i == 0 {
						turns = 20
					}
					for range turns {
						if err := mo.ProjectContext(ctx, y, rows); err != nil {
							b.Fatal(err)
						}
					}
					least[i] = min(least[i], time.Since(begin)/time.Duration(c.n*turns))
				}
			}
			b.ReportMetric(float64(least[0].Nanoseconds()), "linear-ns/row")
			b.ReportMetric(float64(least[1].Nanoseconds()), "landmarks-ns/row")
			b.ReportMetric(float64(least[2].Nanoseconds()), "sum-ns/row")
			b.ReportMetric(float64(least[1])/float64(least[0]), "times")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// ofRank is n rows of m numbers, with variances near 1.
func ofRank(r *rand.Rand, n, m, rank int) []float64 {
	if rank >= min(n, m) {
		return normals(r, n*m)
	}
	var rows mat.Dense
	rows.Mul(mat.NewDense(n, rank, normals(r, n*rank)), mat.NewDense(rank, m, normals(r, rank*m)))
	rows.Scale(1/math.Sqrt(float64(rank)), &rows)
	return rows.RawMatrix().Data
}

func BenchmarkProject(b *testing.B) {
	for _, c := range []struct{ n, m, d int }{{1, 64, 8}, {256, 64, 8}, {1024, 256, 2}, {1024, 256, 32}, {256, 784, 2},
		{8192, 784, 2}, {8192, 784, 8}} {
		mo := randomLinear(b, c.m, c.d, 1, 1)
		x, x64 := rowsOf(mo, c.n)
		col := make([]float32, len(x))
		for i, v := range x {
			col[i%c.m*c.n+i/c.m] = v
		}
		y := make([]float32, c.n*c.d)
		for _, kind := range []struct {
			name string
			rows Rows
		}{
			{"f32", rowMajor(x, c.n, c.m)},
			{"f32col", Rows{c.n, []Block{{F32: col, Cols: c.m, RowStride: 1, ColStride: c.n}}}},
			{"f64", DenseRows(x64, c.n, c.m)},
		} {
			b.Run(fmt.Sprintf("%s/n=%d/m=%d/d=%d", kind.name, c.n, c.m, c.d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := mo.Project(y, kind.rows); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2*float64(c.n)*float64(c.m)*float64(c.d)*float64(b.N)/float64(b.Elapsed().Nanoseconds()),
					"GFLOP/s")
			})
		}
	}
}

// TestNoClassesOfALinearMap: a map that does not classify gives -1 for each row.
func TestNoClassesOfALinearMap(t *testing.T) {
	m := randomLinear(t, 3, 2, 0, 1)
	class := []int{7, 7}
	if err := m.ProjectClasses(t.Context(), make([]float32, 4), class, DenseRows(make([]float64, 6), 2, 3)); err != nil ||
		class[0] != -1 || class[1] != -1 {
		t.Errorf("classes %v, %v", class, err)
	}
}

// TestBadRowsAreNamed: an error names the block of rows, or the memory for outputs, and its size.
func TestBadRowsAreNamed(t *testing.T) {
	m := randomLinear(t, 4, 2, 0, 1)
	f32, f64, raw := make([]float32, 8), make([]float64, 8), make([]byte, 8)
	one := func(b Block) Rows { return Rows{N: 2, Blocks: []Block{b}} }
	of := func(change func(b *Block)) Rows {
		b := Block{F32: f32, Cols: 4, RowStride: 4, ColStride: 1}
		change(&b)
		return one(b)
	}
	for _, c := range []struct {
		rows Rows
		want string
	}{
		{of(func(*Block) {}), ""},
		{Rows{N: -1}, "rows: n is -1; it must not be negative"},
		{of(func(b *Block) { b.Cols = 3 }),
			"rows: 3 features, the model has 4; give the features it was fitted on, in its order"},
		{of(func(b *Block) { b.F64 = f64 }), "rows: block 0 has data of two types; give one of F32, F64 and Raw"},
		{of(func(b *Block) { b.Raw = raw }), "rows: block 0 has data of two types; give one of F32, F64 and Raw"},
		{of(func(b *Block) { b.F32, b.F64, b.Raw = nil, f64, raw }), "rows: block 0 has data of two types;"},
		{of(func(b *Block) { b.F32, b.Raw = nil, raw }), "rows: block 0 has raw numbers of format 0, which is unknown"},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawFloat16+1 }), "rows: block 0 has raw numbers of format"},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawInt8 }), ""},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawInt16 }),
			"rows: block 0 holds 4 values, too few for 2 rows x 4"},
		{of(func(b *Block) { b.RowStride = -4 }), "rows: block 0 has a negative size or stride"},
		{of(func(b *Block) { b.ColStride = -1 }), "rows: block 0 has a negative size or stride"},
		{Rows{N: 2, Blocks: []Block{{F32: f32, Cols: 5, RowStride: 1}, {Cols: -1}}},
			"rows: block 1 has a negative size or stride"},
		{of(func(b *Block) { b.RowStride = 5 }),
			"rows: block 0 holds 8 values, too few for 2 rows x 4 columns at strides 5 and 1"},
		{of(func(b *Block) { b.RowStride, b.ColStride = 1, 2 }), ""}, // the last one is number 1 + 3*2
		{of(func(b *Block) { b.RowStride, b.ColStride = 2, 2 }), "rows: block 0 holds 8 values, too few for 2 rows x 4"},
		{of(func(b *Block) { b.F32 = nil }), "rows: block 0 holds 0 values, too few"},
		{Rows{N: 2, Blocks: []Block{{Cols: 0}, {F32: f32, Cols: 4, RowStride: 4, ColStride: 1}, {Cols: 0}}}, ""},
	} {
		err := m.Project(make([]float32, 4), c.rows)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	rows := of(func(*Block) {})
	short := "project: dst holds 3 values, 2 rows x 2 outputs need 4"
	_, suspects := m.ProjectSuspects(make([]float32, 3), rows)
	for what, err := range map[string]error{"Project": m.Project(make([]float32, 3), rows), "ProjectSuspects": suspects,
		"ProjectClasses": m.ProjectClasses(t.Context(), make([]float32, 3), nil, rows)} {
		if err == nil || err.Error() != short {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := m.ScaledTo(make([]float64, 7), rows); err == nil ||
		err.Error() != "scale: dst holds 7 values, 2 rows x 4 features need 8" {
		t.Error(err)
	}
	if err := m.ScaledTo(nil, Rows{N: -1}); err == nil || err.Error() != "rows: n is -1; it must not be negative" {
		t.Error(err)
	}
	if _, err := m.Content().ViewOutputs(t.Context(), rows); err == nil ||
		err.Error() != "a map without views; give content whose map is views" {
		t.Error(err)
	}
	if got := (&RowError{3, "output 1 is large"}).Error(); got != "row 3: output 1 is large" {
		t.Error(got)
	}
	if got := (&DimError{Asked: 4, Max: 2, What: "rank 2"}).Error(); got != "dim 4 exceeds rank 2" {
		t.Error(got)
	}
}

// TestOutputsBeyondFloat32: the error is that of the first row, and names the output and its value.
func TestOutputsBeyondFloat32(t *testing.T) {
	m := randomLinear(t, 1, 1, 0, 1)
	m.mapping = &mapping.Linear{D: 1, Components: []float64{2}}
	m.fitted.Mean, m.fitted.Scale = []float64{0}, []float64{1}
	m = seal(t, m)
	err := m.Project(make([]float32, 3), DenseRows([]float64{1, 1e39, -2e39}, 3, 1))
	if want := "row 1: output 0 is 2e+39, which float32 cannot represent; look for a feature far outside the range of " +
		"the fit"; err == nil || err.Error() != want {
		t.Error(err)
	}
	y := make([]float32, 2)
	if err := m.Project(y, DenseRows([]float64{math.MaxFloat32 / 2, -math.MaxFloat32 / 2}, 2, 1)); err != nil ||
		y[0] != math.MaxFloat32 || y[1] != -math.MaxFloat32 {
		t.Errorf("the largest numbers: %v, %v", y, err)
	}
}
