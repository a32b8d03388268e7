package tile

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// levels are all kernels that this machine runs.
func levels() []int {
	var all []int
	for l := portable; l <= best(); l++ {
		all = append(all, l)
	}
	return all
}

func force(t *testing.T, l int) {
	t.Helper()
	before := level
	level = l
	t.Cleanup(func() { level = before })
}

func draw(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// TestAddIsTheProduct in all shapes around the borders of blocks and panels, within the error bound of its order of
// summation, without writing elsewhere.
func TestAddIsTheProduct(t *testing.T) {
	for _, l := range levels() {
		force(t, l)
		rng := rand.New(rand.NewPCG(1, 2))
		check := func(k, m, n int) {
			x, y := draw(rng, k*(m+1)), draw(rng, k*(n+1))
			stride := n + 3
			c := draw(rng, m*stride)
			was := slices.Clone(c)
			alpha := []float64{1, -1, 0.5}[rng.IntN(3)]
			upper := rng.IntN(2) == 0
			s := Sum{C: c, Stride: stride, Alpha: alpha, A: Dense(x, k, m, m+1), B: Dense(y, k, n, n+1), Upper: upper}
			given := slices.Clone(x)
			switch kind := rng.IntN(5); kind {
			case 0, 1: // by columns
				xt := make([]float64, m*k)
				s.A = Columns(xt, k, m, k)
				if kind == 1 {
					s.A.About = draw(rng, k)
				}
				for i := range k {
					for j := range m {
						xt[j*k+i] = x[i*(m+1)+j]
						if kind == 1 {
							x[i*(m+1)+j] -= s.A.About[i]
						}
					}
				}
			case 2:
				s.A = &Operand{K: k, M: m, Row: func(dst []float64, i int) { copy(dst, given[i*(m+1):][:m]) }}
			case 3:
				s.A = Dense(given, k, m, m+1)
				s.A.About = draw(rng, m)
				for i := range k {
					for j := range m {
						x[i*(m+1)+j] -= s.A.About[j]
					}
				}
			}
			if err := Add(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			for i := range m {
				for j := range stride {
					sum, size := 0.0, 0.0
					if j < n && !(upper && j < i) {
						for l := range k {
							sum += x[l*(m+1)+i] * y[l*(n+1)+j]
							size += math.Abs(x[l*(m+1)+i] * y[l*(n+1)+j])
						}
					}
					want, got := was[i*stride+j]+alpha*sum, c[i*stride+j]
					if !(math.Abs(got-want) <= float64(k+2)*0x1p-52*(size+math.Abs(want))) {
						t.Fatalf("level %d, %d x %d of %d rows, upper %v: (%d, %d) is %g, not %g", l, m, n, k, upper, i, j, got, want)
					}
				}
			}
		}
		for d := 1; d <= 70; d++ {
			check(1+rng.IntN(5), d, 1+rng.IntN(70))
			check(1+rng.IntN(5), 1+rng.IntN(70), d)
			check(d, 1+rng.IntN(30), 1+rng.IntN(30))
		}
		for _, k := range []int{Depth - 1, Depth, Depth + 1, 2 * Depth} {
			check(k, 9, 25)
		}
		check(3, stripRows+1, stripPanels*panel+1)
		check(0, 3, 4)
		check(2*packed/(190+130)+4*Depth, 130, 190) // more than is packed at a time
	}
}

// TestBitsDependOnNothingElse: not on the kernel, the cores, neighbouring columns, how much is packed at a time, or
// whether the other half is written.
func TestBitsDependOnNothingElse(t *testing.T) {
	const k, m = 2*Depth + 37, 61
	x := draw(rand.New(rand.NewPCG(3, 4)), k*m)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	sum := func(l, workers, from, to int, upper bool) []float64 {
		force(t, l)
		c := make([]float64, (to-from)*(to-from))
		o := Dense(x[from:], k, to-from, m)
		s := Sum{C: c, Stride: to - from, Alpha: -1, A: o, B: o, Upper: upper}
		other := Sum{C: slices.Clone(c), Stride: to - from, Alpha: 1, A: o, B: o}
		if err := Add(parallel.Limit(t.Context(), workers), s, other); err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := sum(best(), 1, 0, m, false)
	for _, l := range levels() {
		for _, workers := range []int{1, 2, 3} {
			for _, span := range [][2]int{{0, m}, {0, m - 1}, {5, m}, {17, 18}} {
				for _, upper := range []bool{false, true} {
					got := sum(l, workers, span[0], span[1], upper)
					side := span[1] - span[0]
					for i := range side {
						for j := range side {
							w := want[(i+span[0])*m+j+span[0]]
							if upper && j < i {
								w = 0
							}
							if g := got[i*side+j]; math.Float64bits(g) != math.Float64bits(w) {
								t.Fatalf("level %d, %d workers, columns %v, upper %v: (%d, %d) is %x, not %x", l, workers, span,
									upper, i, j, g, w)
							}
						}
					}
				}
			}
		}
	}
}

// TestWhatIsNotFinite affects only its row and column.
func TestWhatIsNotFinite(t *testing.T) {
	const k, m = 5, 30
	for _, l := range levels() {
		force(t, l)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x, c := draw(rand.New(rand.NewPCG(5, 6)), k*m), make([]float64, m*m)
			x[2*m+7] = bad
			o := Dense(x, k, m, m)
			if err := Add(t.Context(), Sum{C: c, Stride: m, Alpha: 1, A: o, B: o}); err != nil {
				t.Fatal(err)
			}
			for i, v := range c {
				if lost := math.IsNaN(v) || math.IsInf(v, 0); lost != (i/m == 7 || i%m == 7) {
					t.Errorf("level %d: with %g in column 7, (%d, %d) is %g", l, bad, i/m, i%m, v)
				}
			}
		}
	}
}

// BenchmarkGram compares X'X with gonum's product, in turns.
func BenchmarkGram(b *testing.B) {
	for _, shape := range [][2]int{{5000, 256}, {10000, 784}} {
		n, m := shape[0], shape[1]
		x := draw(rand.New(rand.NewPCG(7, 8)), n*m)
		c := make([]float64, m*m)
		for l := portable + 1; l <= best(); l++ {
			b.Run(fmt.Sprintf("%dx%d/level=%d", n, m, l), func(b *testing.B) {
				level = l
				defer func() { level = best() }()
				for b.Loop() {
					o := Dense(x, n, m, m)
					if err := Add(b.Context(), Sum{C: c, Stride: m, Alpha: 1, A: o, B: o, Upper: true}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)*float64(m)*float64(m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
			})
		}
		b.Run(fmt.Sprintf("%dx%d/gonum", n, m), func(b *testing.B) {
			for b.Loop() {
				gonum.Implementation{}.Dgemm(blas.Trans, blas.NoTrans, m, m, n, 1, x, m, x, m, 0, c, m)
			}
		})
	}
}

// TestTimes reads a symmetric matrix from its upper triangle alone.
func TestTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const n, d = 53, 5
	s, full := mat.NewSymDense(n, draw(rng, n*n)), mat.NewDense(n, n, nil)
	full.Copy(s)
	a := mat.NewDense(n, d, draw(rng, n*d))
	got := Times(t.Context(), s, a)
	var want mat.Dense
	want.Mul(full, a)
	if !mat.EqualApprox(got, &want, 1e-12) {
		t.Errorf("%v", got)
	}
}

// TestPanicIsAnError in any goroutine, and nothing waits for the work that it leaves undone.
func TestPanicIsAnError(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const k, m = 9 * Depth, 200
	x := draw(rand.New(rand.NewPCG(8, 4)), k*m)
	for _, at := range []int{0, Depth - 1, 3 * Depth, k - 1} {
		o := &Operand{K: k, M: m, At: func(i int) []float64 {
			if i == at {
				panic("on purpose")
			}
			return x[i*m : (i+1)*m]
		}}
		var p *parallel.Panic
		if err := Add(t.Context(), Sum{C: make([]float64, m*m), Stride: m, Alpha: 1, A: o, B: o}); !errors.As(err, &p) {
			t.Errorf("error %v at row %d", err, at)
		}
	}
}

// TestResultThatIsTooShort is an error before anything is written, since the kernels check no bounds.
func TestResultThatIsTooShort(t *testing.T) {
	const k, m, n = 3, 192, 96 // whole panels: nothing goes by way of the edge
	rng := rand.New(rand.NewPCG(8, 5))
	x, y := Dense(draw(rng, k*m), k, m, m), Dense(draw(rng, k*n), k, n, n)
	for _, l := range levels() {
		force(t, l)
		for _, have := range [][2]int{{m*n - 1, n}, {(m-3)*n + 5, n}, {0, n}, {m * n, n - 1}, {m * n, 0}, {m * n, -n}} {
			room := make([]float64, m*n)
			err := Add(t.Context(), Sum{C: room[:have[0]], Stride: have[1], Alpha: 1, A: x, B: y})
			changed := slices.ContainsFunc(room, func(v float64) bool { return v != 0 })
			var p *parallel.Panic
			if !errors.As(err, &p) || changed {
				t.Errorf("level %d: error %v of %d numbers, %d a row, changed %v", l, err, have[0], have[1], changed)
			}
		}
		last := make([]float64, (m-1)*(n+3)+n) // the last row may end where its numbers do
		if err := Add(t.Context(), Sum{C: last, Stride: n + 3, Alpha: 1, A: x, B: y}); err != nil {
			t.Error(err)
		}
	}
}

// TestTallProductsPackLittle: the packed memory grows neither with the rows of the result nor with its columns.
func TestTallProductsPackLittle(t *testing.T) {
	const n, m, d = 80_000, 784, 16
	tall, thin := Columns(nil, m, n, m), Dense(nil, m, d, d)
	for _, s := range []Sum{{Stride: d, A: tall, B: thin}, {Stride: n, A: thin, B: tall}} {
		s.C = make([]float64, n*d)
		if got := newPlan([]Sum{s}, 4).size * 8; got > 32<<20 {
			t.Errorf("%d x %d: %d MB are packed", s.A.M, s.B.M, got>>20)
		}
	}
}

// TestPartsHaveTheBitsOfTheWhole, of operands of all kinds.
func TestPartsHaveTheBitsOfTheWhole(t *testing.T) {
	const n, k, d = 2*widest + 37, Depth + 3, 5
	rng := rand.New(rand.NewPCG(9, 2))
	x, y := draw(rng, k*n), draw(rng, k*d)
	turned, about := make([]float64, n*k), draw(rng, n)
	for i := range k {
		for j := range n {
			turned[j*k+i] = x[i*n+j]
		}
	}
	for kind, part := range map[string]func(from, to int) *Operand{
		"rows": func(from, to int) *Operand {
			o := Dense(x[from:], k, to-from, n)
			o.About = about[from:to]
			return o
		},
		"columns": func(from, to int) *Operand {
			o := Columns(turned[from*k:], k, to-from, k)
			o.About = about[:k]
			return o
		},
		"written rows": func(from, to int) *Operand {
			return &Operand{K: k, M: to - from, Row: func(dst []float64, i int) { copy(dst, x[i*n+from:i*n+to]) }}
		},
	} {
		right, whole, pieces := Dense(y, k, d, d), make([]float64, n*d), make([]float64, n*d)
		wide := make([]float64, d*n)
		sums := []Sum{{C: whole, Stride: d, Alpha: 1, A: part(0, n), B: right},
			{C: wide, Stride: n, Alpha: 1, A: right, B: part(0, n)}}
		for from := 0; from < n; from += 1000 {
			to := min(from+1000, n)
			sums = append(sums, Sum{C: pieces[from*d:], Stride: d, Alpha: 1, A: part(from, to), B: right})
		}
		if err := Add(t.Context(), sums...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(whole, pieces) {
			t.Errorf("%s: a result of many rows differs from one of few", kind)
		}
		for i := range wide {
			if wide[i] != pieces[i%n*d+i/n] {
				t.Fatalf("%s: a result of many columns differs from one of few rows", kind)
			}
		}
	}
}

// BenchmarkTwo is X'Y of two matrices.
func BenchmarkTwo(b *testing.B) {
	for _, shape := range [][2]int{{5000, 256}, {10000, 784}} {
		n, m := shape[0], shape[1]
		x, y := draw(rand.New(rand.NewPCG(7, 8)), n*m), draw(rand.New(rand.NewPCG(8, 8)), n*m)
		c := make([]float64, m*m)
		b.Run(fmt.Sprintf("%dx%d", n, m), func(b *testing.B) {
			for b.Loop() {
				s := Sum{C: c, Stride: m, Alpha: 1, A: Dense(x, n, m, m), B: Dense(y, n, m, m)}
				if err := Add(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*float64(n*m*m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}

// TestPlanOfATallSum: a stage packs at most 1 MB, and a unit of work multiplies at most six panels.
func TestPlanOfATallSum(t *testing.T) {
	const blocks = 43
	tall := &Operand{K: Depth * blocks, M: panel, Row: func([]float64, int) {}}
	p := newPlan([]Sum{{Stride: panel, A: tall, B: tall}}, 1)
	if len(p.stages) != 3 { // 21 blocks of 256 rows of 24 numbers each, and a cache line
		t.Errorf("%d blocks are packed in %d stages, want 3", blocks, len(p.stages))
	}
	left, right := Dense(nil, 1, stripRows, stripRows), Dense(nil, 1, 13*panel, 13*panel)
	p = newPlan([]Sum{{C: make([]float64, stripRows*13*panel), Stride: 13 * panel, A: left, B: right}}, 1)
	if got := p.stages[0].strips.Load(); got != 3 {
		t.Errorf("13 panels are multiplied in %d units, want 3", got)
	}
}
