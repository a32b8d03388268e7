package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const tolerance = 1e-12

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// farthest is the largest difference between the entries of two matrices.
func farthest(a, b mat.Matrix) (worst float64) {
	rows, cols := a.Dims()
	for i := range rows {
		for j := range cols {
			worst = max(worst, math.Abs(a.At(i, j)-b.At(i, j)))
		}
	}
	return worst
}

// TestSums compares the sums of vectors of every length up to 20 with their definition.
func TestSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 21 {
		a, b := random(rng, n), random(rng, n)
		dot, distance, norm := 0.0, 0.0, 0.0
		for i := range n {
			dot += a[i] * b[i]
			distance += (a[i] - b[i]) * (a[i] - b[i])
			norm += a[i] * a[i]
		}
		if got := Dot(a, b); !(math.Abs(got-dot) <= tolerance) {
			t.Errorf("%d numbers: product %v, want %v", n, got, dot)
		}
		if got := SquaredDistance(a, b); !(math.Abs(got-distance) <= tolerance) {
			t.Errorf("%d numbers: distance %v, want %v", n, got, distance)
		}
		want := math.Sqrt(norm)
		if n == 0 {
			want = 1
		}
		if got := RowNorm(a); !(math.Abs(got-want) <= tolerance) {
			t.Errorf("%d numbers: norm %v, want %v", n, got, want)
		}
		for i := range n {
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				c := slices.Clone(a)
				c[i] = v
				if AllFinite(c) || !AllFinite(a) {
					t.Errorf("%v at %d of %d is finite", v, i, n)
				}
			}
		}
	}
}

// TestNormOfExtremes: squares that are not float64 do not matter, and values that are not finite do not count.
func TestNormOfExtremes(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{3e200, 4e200}, 5e200}, {[]float64{3e-200, 4e-200}, 5e-200}, {[]float64{3, math.NaN(), 4}, 5},
		{[]float64{0, 0}, 1}, {[]float64{math.Inf(1)}, 1}, {[]float64{-2}, 2},
		{[]float64{3e150, math.Inf(-1), -4e150}, 5e150},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		if got := RowNorm(c.x); !(math.Abs(got/c.want-1) <= tolerance) {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
	}
	for v, want := range map[float64]bool{math.MaxFloat64: true, -math.MaxFloat64: true, 0: true, math.Inf(1): false,
		math.Inf(-1): false} {
		if IsFinite(v) != want {
			t.Errorf("%v is finite: %v", v, !want)
		}
	}
	if IsFinite(math.NaN()) {
		t.Error("NaN is finite")
	}
}

func TestOrderStatistics(t *testing.T) {
	for _, c := range []struct {
		sorted []float64
		want   float64
	}{{[]float64{5}, 5}, {[]float64{1, 2}, 1.5}, {[]float64{1, 2, 9}, 2}, {[]float64{1, 2, 4, 9}, 3}} {
		if got := Median(c.sorted); got != c.want {
			t.Errorf("the median of %v is %v", c.sorted, got)
		}
	}
	if got := Mean(2, 3, func(i int) []float64 { return [][]float64{{1, 2, 3}, {5, 0, -3}}[i] }); !slices.Equal(got,
		[]float64{3, 1, 0}) {
		t.Errorf("the mean is %v", got)
	}
	if got := Range(3); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("a range of 3 is %v", got)
	}
	for n, want := range map[int]int{0: 0, 1: 16, 16: 16, 17: 32} {
		if got := Pad(n); got != want {
			t.Errorf("%d is padded to %d", n, got)
		}
	}
}

func TestMatrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 21 {
		for d := 1; d < 6; d++ {
			a := random(rng, n*d)
			at := Transpose(a, d)
			for i := range n {
				for j := range d {
					if at[j*n+i] != a[i*d+j] {
						t.Fatalf("%d x %d: entry %d, %d is another", n, d, i, j)
					}
				}
			}
		}
	}
	a := mat.NewDense(3, 3, random(rng, 9))
	var want mat.Dense
	want.Add(a, a.T())
	want.Scale(0.5, &want)
	s := Symmetric(a)
	if !(farthest(s, &want) <= tolerance) {
		t.Error("the symmetric part is another")
	}
	b := mat.NewDense(3, 2, random(rng, 6))
	want = mat.Dense{}
	want.Product(b.T(), s, b)
	if !(farthest(Congruence(s, b), &want) <= tolerance) {
		t.Error("the congruence is another")
	}
	f := []float64{2, -3, 0.5}
	want = mat.Dense{}
	want.Product(mat.NewDiagDense(3, f), s, mat.NewDiagDense(3, f))
	if scaled := ScaleSym(s, f); !(farthest(scaled, &want) <= tolerance) {
		t.Error("the scaled matrix is another")
	}
	picked := Pick(a, []int{2, 0, 2})
	if picked.At(0, 1) != a.At(2, 1) || picked.At(1, 2) != a.At(0, 2) || picked.At(2, 0) != a.At(2, 0) {
		t.Error("other rows are picked")
	}
	means := ColumnMeans(b)
	for j, m := range means {
		if !(math.Abs(m-(b.At(0, j)+b.At(1, j)+b.At(2, j))/3) <= tolerance) {
			t.Errorf("the mean of column %d is %v", j, m)
		}
	}
	if i := Identity(3); !(farthest(i, mat.NewDiagDense(3, []float64{1, 1, 1})) == 0) {
		t.Error("the identity is another")
	}
	if c := Constant(2); c.At(0, 0) != 1 || c.At(1, 0) != 1 {
		t.Error("the constant column is another")
	}
	before := b.At(1, 1)
	ScaleColumn(b, 1, -2)
	if b.At(1, 1) != -2*before || b.At(1, 0) != rowOf(b, 1)[0] {
		t.Error("another column is scaled")
	}
}

func rowOf(a *mat.Dense, i int) []float64 { return a.RawRowView(i) }

// TestComplement: the columns are orthonormal, and orthogonal to the unit vector.
func TestComplement(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for k := 2; k < 8; k++ {
		for _, first := range []float64{-1, 0, 1, -1e9, 1e9} { // the last two: near an axis
			u := random(rng, k)
			u[0] = first * math.Abs(u[0])
			floats.Scale(1/floats.Norm(u, 2), u)
			b := Complement(u)
			if rows, cols := b.Dims(); rows != k || cols != k-1 {
				t.Fatalf("%d x %d", rows, cols)
			}
			var gram, off mat.Dense
			gram.Mul(b.T(), b)
			off.Mul(b.T(), mat.NewDense(k, 1, u))
			if !(farthest(&gram, Identity(k-1)) <= tolerance) || !(mat.Norm(&off, 2) <= tolerance) {
				t.Errorf("the complement of %v is not one", u)
			}
		}
	}
}

// TestCholeskySolves: a system with a positive definite matrix is solved; one that is not is refused, also where it is
// only singular.
func TestCholeskySolves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for k := 1; k < 8; k++ {
		x := mat.NewDense(k+3, k, random(rng, k*(k+3)))
		var a mat.Dense
		a.Mul(x.T(), x)
		want := random(rng, k)
		var b mat.VecDense
		b.MulVec(&a, mat.NewVecDense(k, want))
		got := slices.Clone(b.RawVector().Data)
		if !Cholesky(slices.Clone(a.RawMatrix().Data), got) || !(floats.Distance(got, want, 2) <= 1e-6) {
			t.Errorf("order %d: %v, want %v", k, got, want)
		}
	}
	for name, a := range map[string][]float64{"singular": {1, 1, 1, 1}, "indefinite": {1, 2, 2, 1}, "zero": {0, 0, 0, 0},
		"not a number": {math.NaN(), 0, 0, 1}} {
		if Cholesky(a, []float64{1, 1}) {
			t.Errorf("a matrix that is %s is solved", name)
		}
	}
}

// TestDistanceBoundIsBelow: the bound from a float32 product is at most the squared distance, and close to it.
func TestDistanceBoundIsBelow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	const m = 32
	bound := NewDistanceBound(m)
	for range 2000 {
		a, b := random(rng, m), random(rng, m)
		if rng.IntN(2) == 0 { // close to each other
			copy(b, a)
			b[0] += 1e-3 * rng.NormFloat64()
		}
		var product float32
		for i := range a {
			product += float32(a[i]) * float32(b[i])
		}
		got, want := bound.Below(Dot(a, a), Dot(b, b), product), SquaredDistance(a, b)
		if !(got <= want) || !(want-got <= 1e-3) {
			t.Fatalf("the bound of %v is %v", want, got)
		}
	}
}

// TestAligned: numbers start on a cache line, and the buffer has no more room than that needs.
func TestAligned(t *testing.T) {
	for n := range 40 {
		if x := Aligned(n); len(x) != n || cap(x) != n {
			t.Errorf("%d numbers: length %d, capacity %d", n, len(x), cap(x))
		}
		var buffer []float64
		data := AlignedIn(&buffer, n)
		at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
		if n > 0 && at%64 != 0 || len(data) != n || len(buffer) != n+8 {
			t.Errorf("%d numbers at %x, %d in a buffer of %d", n, at, len(data), len(buffer))
		}
	}
}

// TestSelect: every order of few values, and values with ties, give what sorting gives.
func TestSelect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 200; n++ {
		v := make([]float64, n)
		for round := range 20 {
			for i := range v {
				switch round % 4 {
				case 0:
					v[i] = r.NormFloat64()
				case 1:
					v[i] = float64(r.IntN(4))
				case 2:
					v[i] = float64(i)
				default: // the middle is the largest
					v[i] = -math.Abs(float64(i - n/2))
				}
			}
			sorted := slices.Sorted(slices.Values(v))
			k := r.IntN(n)
			if got := Select(slices.Clone(v), k); got != sorted[k] {
				t.Fatalf("value %d of %v is %g, want %g", k, v, got, sorted[k])
			}
			if got, want := Median(v), (sorted[(n-1)/2]+sorted[n/2])/2; got != want {
				t.Fatalf("the median of %v is %g, want %g", sorted, got, want)
			}
		}
	}
}

// TestDistanceBoundByItsFormula, of 10 numbers.
func TestDistanceBoundByItsFormula(t *testing.T) {
	b := NewDistanceBound(10)
	if b.Relative != 26*0x1p-24+0x1p-20+10*0x1p-50 || b.Absolute != 52*0x1p-126 {
		t.Errorf("%+v", b)
	}
	b = DistanceBound{Relative: 0.25, Absolute: 2}
	for what, c := range map[string][2]float64{
		"below": {b.Below(8, 4, 1.5), 12 - 3 - 3 - 2}, "half": {b.Half(8), 3}, "lowest": {b.Lowest(8, 5), 3 - 1 - 2.5},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %g, want %g", what, c[0], c[1])
		}
	}
}

// TestPivotedFactor: F F' = S, for a matrix without full rank and down to a share of the largest diagonal entry.
func TestPivotedFactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	x := mat.NewDense(5, 3, random(rng, 15))
	var s mat.SymDense
	s.SymOuterK(1, x)
	var product mat.Dense
	f, _ := PivotedFactor(&s, 1e-12)
	if _, r := f.Dims(); r != 3 {
		t.Fatalf("rank %d", r)
	}
	if product.Mul(f, f.T()); !(farthest(&product, &s) <= tolerance) {
		t.Error("the product is another matrix")
	}
	even := mat.NewSymDense(3, []float64{4, 0, 0, 0, 1, 0, 0, 0, 2})
	for share, want := range map[float64]int{0.2: 3, 0.3: 2, 0.6: 1} {
		f, chol := PivotedFactor(even, share)
		if _, r := f.Dims(); r != want || chol.Rank() != want {
			t.Errorf("%d columns above %g of the largest entry, want %d", r, share, want)
		}
	}
	if f, chol := PivotedFactor(mat.NewSymDense(2, nil), 0.1); f != nil || chol != nil {
		t.Error("the factor of zero is not nil")
	}
}

// TestOrthonormalize keeps the span of the leading columns.
func TestOrthonormalize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	a := mat.NewDense(5, 2, random(rng, 10))
	first, second := mat.Col(nil, 0, a), mat.Col(nil, 1, a)
	Orthonormalize(a)
	var gram mat.Dense
	if gram.Mul(a.T(), a); !(farthest(&gram, Identity(2)) <= tolerance) {
		t.Error("columns are not orthonormal")
	}
	p, q := mat.Col(nil, 0, a), mat.Col(nil, 1, a)
	if !(math.Abs(math.Abs(Dot(p, first))-floats.Norm(first, 2)) <= tolerance) {
		t.Error("the first column has another direction")
	}
	rest := floats.Norm(second, 2)
	if !(math.Abs(math.Hypot(Dot(p, second), Dot(q, second))-rest) <= tolerance) {
		t.Error("the second column is not in the span")
	}
}

// TestTies: a run of tied values that begins among the first ones is found to its end; sets are in the order of their
// first members.
func TestTies(t *testing.T) {
	values := []float64{9, 5, 5, 4, 3, 3, 3, 1}
	equal := func(a, b float64) bool { return a == b }
	for d, want := range map[int][][2]int{1: nil, 2: {{1, 3}}, 5: {{1, 3}, {4, 7}}, 8: {{1, 3}, {4, 7}}} {
		if got := Ties(values, d, equal); !slices.Equal(got, want) {
			t.Errorf("%d values: %v, want %v", d, got, want)
		}
	}
	for _, c := range []struct {
		a, b    float64
		k       int
		largest float64
		want    bool
	}{
		{1, 1 + 0.9e-6, 1, 1, true}, {1, 1 + 1.1e-6, 1, 1, false}, {-1, -1 - 0.9e-6, 1, 1, true},
		{0, 0.9e-9, 100, 1e3, true}, {0, 1.1e-9, 100, 1e3, false}, {1e-9, -1e-9, 1, 1, false},
	} {
		if Tied(c.a, c.b, c.k, c.largest) != c.want || Tied(c.b, c.a, c.k, c.largest) != c.want {
			t.Errorf("%+v", c)
		}
	}
	got := Sets(7, func(join func(i, j int)) { join(5, 1); join(6, 5); join(3, 0); join(0, 3) })
	if want := []int{0, 1, 2, 0, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("sets %v, want %v", got, want)
	}
	a := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if TransposeSquare(a, 3); !slices.Equal(a, []float64{1, 4, 7, 2, 5, 8, 3, 6, 9}) {
		t.Errorf("the transpose is %v", a)
	}
	for n := range 40 {
		times := make([]int, n*n)
		AboveDiagonal(n, func(i, from, to int) {
			for j := from; j < to; j++ {
				times[i*n+j]++
			}
		})
		for at, count := range times {
			if above := at/n < at%n; above && count != 1 || !above && count != 0 {
				t.Fatalf("order %d: entry (%d, %d) comes %d times", n, at/n, at%n, count)
			}
		}
	}
}

// TestMean: the mean has the bits of a sum of quotients, in the order of the rows.
func TestMean(t *testing.T) {
	const m = 11
	for _, n := range []int{1, 2, 3, 64, 100} {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		rows, want := make([][]float64, n), make([]float64, m)
		for i := range rows {
			for j := range m {
				v := r.NormFloat64() * math.Ldexp(1, 1020-205*j) // some are almost infinite, some denormal
				rows[i] = append(rows[i], v)
				want[j] += v / float64(n)
			}
		}
		if got := Mean(n, m, func(i int) []float64 { return rows[i] }); !slices.Equal(got, want) {
			t.Errorf("mean of %d rows is %v, want %v", n, got, want)
		}
	}
}
