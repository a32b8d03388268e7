package pencil

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

	"gonum.org/v1/gonum/mat"
)

// sparse is a symmetric matrix by rows for these tests.
type sparse struct {
	columns [][]int
	values  [][]float64
}

func newSparse(n int) *sparse {
	return &sparse{columns: make([][]int, n), values: make([][]float64, n)}
}

func (s *sparse) Order() int { return len(s.columns) }

func (s *sparse) Row(i int) ([]int, []float64) { return s.columns[i], s.values[i] }

func (s *sparse) Apply(ctx context.Context, dst, x *mat.Dense) {
	dst.Zero()
	for i, columns := range s.columns {
		row := dst.RawRowView(i)
		for p, c := range columns {
			v := s.values[i][p]
			for j, w := range x.RawRowView(c) {
				row[j] += v * w
			}
		}
	}
}

func (s *sparse) add(i, j int, v float64) {
	if p := slices.Index(s.columns[i], j); p >= 0 {
		s.values[i][p] += v
		return
	}
	s.columns[i] = append(s.columns[i], j)
	s.values[i] = append(s.values[i], v)
}

// join adds an edge of weight w to a Laplacian.
func (s *sparse) join(i, j int, w float64) {
	s.add(i, i, w)
	s.add(j, j, w)
	s.add(i, j, -w)
	s.add(j, i, -w)
}

// products hides the rows of an operator.
type products struct{ Operator }

// withSpectrum is a dense symmetric matrix with the given eigenvalues: a
// diagonal turned by reflections.
func withSpectrum(values []float64, seed uint64) *mat.SymDense {
	n := len(values)
	rng := rand.New(rand.NewPCG(seed, 7))
	a := mat.NewSymDense(n, nil)
	for i, v := range values {
		a.SetSym(i, i, v)
	}
	for range 3 {
		h := mat.NewVecDense(n, nil)
		for i := range n {
			h.SetVec(i, rng.NormFloat64())
		}
		h.ScaleVec(1/mat.Norm(h, 2), h)
		// H A H = A - 2 h w' - 2 w h', w = A h - (h'Ah) h.
		var w mat.VecDense
		w.MulVec(a, h)
		w.AddScaledVec(&w, -mat.Dot(h, &w), h)
		a.RankTwo(a, -2, h, &w)
	}
	return a
}

// sine is the sine of the largest angle between the spans of orthonormal columns.
func sine(a, b *mat.Dense) float64 {
	var c, r mat.Dense
	c.Mul(a.T(), b)
	r.Mul(a, &c)
	r.Sub(b, &r)
	var svd mat.SVD
	svd.Factorize(&r, mat.SVDNone)
	return svd.Values(nil)[0]
}

func ones(n int) *mat.Dense {
	x := mat.NewDense(n, 1, nil)
	for i := range n {
		x.Set(i, 0, 1)
	}
	return x
}

func spectrumOf(n int, f func(i int) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

var spectra = []struct {
	name   string
	values func(i, n int) float64
}{
	{"decaying", func(i, n int) float64 { return 1 / float64(i+1) }},
	{"graded", func(i, n int) float64 { return math.Pow(10, -8*float64(i)/float64(n)) }},
	{"indefinite", func(i, n int) float64 { return math.Cos(3 * float64(i)) }},
	{"clustered", func(i, n int) float64 { return 1/float64(i/3+1) + 1e-5*float64(i%3) }},
	{"flat", func(i, n int) float64 { return 1 + 1e-3*float64(i)/float64(n) }},
	{"even", func(i, n int) float64 { return float64(i) }},
}

func TestPartialAgreesWithFull(t *testing.T) {
	const n = 320
	for _, c := range spectra {
		values := spectrumOf(n, func(i int) float64 { return c.values(i, n) })
		s := withSpectrum(values, 3)
		up, vectors, err := eigen(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []End{Max, Min} {
			for _, d := range []int{1, 3, 12, 40} {
				p, err := Partial(context.Background(), Dense(s), end, d, nil)
				if err != nil {
					t.Errorf("%s end %d d %d: %v", c.name, end, d, err)
					continue
				}
				want := mat.NewDense(n, d, nil)
				worst, gap := 0.0, 0.0
				at := func(j int) int {
					if end == Max {
						return n - 1 - j
					}
					return j
				}
				for j := range d {
					worst = max(worst, math.Abs(p.Values[j]-up[at(j)]))
					want.SetCol(j, mat.Col(nil, at(j), vectors))
				}
				gap = math.Abs(up[at(d-1)] - up[at(d)])
				if worst > 1e-13*float64(n)*p.Largest {
					t.Errorf("%s end %d d %d: values differ by %g", c.name, end, d, worst)
				}
				if angle := sine(want, p.Vectors); angle > 1e-10+1e-14*float64(n)*p.Largest/gap {
					t.Errorf("%s end %d d %d: sine %g, gap %g", c.name, end, d, angle, gap)
				}
				if p.Residual > 1e-9*p.Largest {
					t.Errorf("%s end %d d %d: residual %g of %g", c.name, end, d, p.Residual, p.Largest)
				}
				if e := offIdentity(quadratic(identity(n), p.Vectors)); e > 1e-12 {
					t.Errorf("%s end %d d %d: vectors off orthonormal by %g", c.name, end, d, e)
				}
			}
		}
	}
}

func identity(n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 1)
	}
	return s
}

// roll is n points of a Swiss roll with the k nearest neighbours of each.
func roll(n, k int) (x *mat.Dense, near [][]int) {
	rng := rand.New(rand.NewPCG(uint64(n), 11))
	x = mat.NewDense(n, 3, nil)
	for i := range n {
		a := 1.5 * math.Pi * (1 + 2*rng.Float64())
		x.SetRow(i, []float64{a * math.Cos(a), 21 * rng.Float64(), a * math.Sin(a)})
	}
	return x, neighbours(x, k)
}

func neighbours(x *mat.Dense, k int) [][]int {
	n, m := x.Dims()
	near := make([][]int, n)
	for i := range n {
		dist := make([]float64, n)
		all := make([]int, n)
		for j := range n {
			all[j] = j
			for c := range m {
				d := x.At(i, c) - x.At(j, c)
				dist[j] += d * d
			}
		}
		dist[i] = math.Inf(1)
		slices.SortFunc(all, func(a, b int) int {
			if dist[a] < dist[b] {
				return -1
			} else if dist[a] > dist[b] {
				return 1
			}
			return a - b
		})
		near[i] = slices.Clone(all[:k])
	}
	return near
}

// lle is (I - W)'(I - W) of locally linear embedding (Roweis and Saul 2000).
func lle(x *mat.Dense, near [][]int) *sparse {
	n, m := x.Dims()
	out := newSparse(n)
	for i, js := range near {
		k := len(js)
		z := mat.NewDense(k, m, nil)
		for p, j := range js {
			for c := range m {
				z.Set(p, c, x.At(j, c)-x.At(i, c))
			}
		}
		var g mat.SymDense
		g.SymOuterK(1, z)
		tr := mat.Trace(&g)
		for p := range k {
			g.SetSym(p, p, g.At(p, p)+1e-3*tr)
		}
		var chol mat.Cholesky
		chol.Factorize(&g)
		w := mat.NewVecDense(k, nil)
		if err := chol.SolveVecTo(w, mat.NewVecDense(k, ones(k).RawMatrix().Data)); err != nil {
			panic(err)
		}
		w.ScaleVec(1/mat.Sum(w), w)
		// Row i of I - W adds its outer product.
		ids := append([]int{i}, js...)
		row := []float64{1}
		for p := range k {
			row = append(row, -w.AtVec(p))
		}
		for a, p := range ids {
			for b, q := range ids {
				out.add(p, q, row[a]*row[b])
			}
		}
	}
	return out
}

func symmetric(s *sparse) *mat.SymDense {
	out := mat.NewSymDense(s.Order(), nil)
	for i, columns := range s.columns {
		for p, c := range columns {
			out.SetSym(i, c, s.values[i][p])
		}
	}
	return out
}

// The wanted eigenvalues are 1e-10 of the largest here, where products alone stall.
func TestPartialSmallEndOfSwissRoll(t *testing.T) {
	const n = 600
	x, near := roll(n, 10)
	m := lle(x, near)
	up, vectors, err := eigen(symmetric(m))
	if err != nil {
		t.Fatal(err)
	}
	largest := up[n-1]
	if up[1]/largest > 1e-9 {
		t.Fatalf("the smallest wanted value is %g of the largest: the data do not test the small end", up[1]/largest)
	}
	for _, d := range []int{2, 10} {
		p, err := Partial(context.Background(), m, Min, d, ones(n))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Notes) > 0 {
			t.Errorf("d=%d: not by the first way: %v", d, p.Notes)
		}
		for j, v := range p.Values {
			if math.Abs(v-up[j+1]) > 1e-14*largest {
				t.Errorf("d=%d: value %d is %g, not %g", d, j, v, up[j+1])
			}
		}
		// What rounding of the size of the largest value leaves of the first vector.
		bound := 100 * eps * largest / (up[1] - up[0])
		if angle := sine(mat.DenseCopyOf(vectors.Slice(0, n, 1, d+1)), p.Vectors); angle > bound {
			t.Errorf("d=%d: sine %g, more than %g", d, angle, bound)
		}
		if p.Residual > 1e-14*largest {
			t.Errorf("d=%d: residual %g of %g", d, p.Residual, largest)
		}
		var along mat.Dense
		along.Mul(ones(n).T(), p.Vectors)
		if a := mat.Norm(&along, 2); a > 1e-10 {
			t.Errorf("d=%d: the constant vector is in the result: %g", d, a)
		}
	}
	// Without rows the operator has products only: those fail and the note says so.
	p, err := Partial(context.Background(), products{m}, Min, 2, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "products: not converged") {
		t.Errorf("notes %q do not say that products failed", p.Notes)
	}
	if math.Abs(p.Values[0]-up[1]) > 1e-13*largest {
		t.Errorf("in full: %g, not %g", p.Values[0], up[1])
	}
}

// ring is the Laplacian of n nodes in a ring, of a path without the last edge.
func ring(n int, closed bool) *sparse {
	l := newSparse(n)
	for i := range n - 1 {
		l.join(i, i+1, 1)
	}
	if closed {
		l.join(n-1, 0, 1)
	}
	return l
}

func TestPartialGraphsWithKnownSpectra(t *testing.T) {
	const n = 1500
	check := func(name string, p *Part, err error, value func(j int) float64) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for j, v := range p.Values {
			if math.Abs(v-value(j)) > 1e-14*4*10 {
				t.Errorf("%s: value %d is %.15g, not %.15g", name, j, v, value(j))
			}
		}
	}
	half := func(k int) float64 { s := math.Sin(float64(k) * math.Pi / (2 * n)); return 4 * s * s }
	p, err := Partial(context.Background(), ring(n, false), Min, 6, ones(n))
	check("path", p, err, func(j int) float64 { return half(j + 1) })
	if len(p.Ties) != 0 {
		t.Errorf("path: ties %v", p.Ties)
	}
	for j := range 6 {
		sign, worst := 0.0, 0.0
		for i := range n {
			want := math.Sqrt(2.0/n) * math.Cos(float64(j+1)*math.Pi*(float64(i)+0.5)/n)
			if sign == 0 {
				sign = math.Copysign(1, want*p.Vectors.At(i, j))
			}
			worst = max(worst, math.Abs(p.Vectors.At(i, j)-sign*want))
		}
		if worst > 1e-8 {
			t.Errorf("path: vector %d is %g off a cosine", j, worst)
		}
	}
	// Every value of a ring but the ends is double: an odd cut falls into a pair.
	pairs := func(j int) float64 { return half(2 * (j/2 + 1)) }
	p, err = Partial(context.Background(), ring(n, true), Min, 4, ones(n))
	check("ring, 4", p, err, pairs)
	if fmt.Sprint(p.Ties) != "[[0 2] [2 4]]" {
		t.Errorf("ring, 4: ties %v", p.Ties)
	}
	if p.Next < 2*p.Values[3]*0.99 {
		t.Errorf("ring, 4: next %g after %g", p.Next, p.Values[3])
	}
	p, err = Partial(context.Background(), ring(n, true), Min, 3, ones(n))
	check("ring, 3", p, err, pairs)
	if fmt.Sprint(p.Ties) != "[[0 2] [2 4]]" || p.Gap > 1e-8 {
		t.Errorf("ring, 3: the cut inside a pair is not reported: ties %v, gap %g", p.Ties, p.Gap)
	}
	// Two components: the second null vector is found where it is not given, and
	// not where it is.
	two := newSparse(n)
	for i := range n - 1 {
		if i != n/2-1 {
			two.join(i, i+1, 1)
		}
	}
	p, err = Partial(context.Background(), two, Min, 2, ones(n))
	half2 := func(k int) float64 { s := math.Sin(float64(k) * math.Pi / n); return 4 * s * s }
	check("two paths", p, err, func(j int) float64 { return half2(j) })
	known := mat.NewDense(n, 2, nil)
	for i := range n {
		known.Set(i, i/(n/2), 1)
	}
	p, err = Partial(context.Background(), two, Min, 2, known)
	check("two paths, known", p, err, func(int) float64 { return half2(1) })
}

// Eigenvalues that are 0 but for rounding have no distance to each other,
// whichever way finds them; those apart have theirs.
func TestPartialGapOfATieIsZero(t *testing.T) {
	for _, n := range []int{12, 300} { // in full; by an inverse
		paths := newSparse(n)
		for i := range n - 1 {
			if i%(n/4) != n/4-1 {
				paths.join(i, i+1, 1)
			}
		}
		// Of four paths, three eigenvalues are 0 besides that of the constant.
		for d := 1; d <= 3; d++ {
			p, err := Partial(context.Background(), paths, Min, d, ones(n))
			if err != nil {
				t.Fatal(err)
			}
			// Of d = 3 too: the cut is beside the tie, its columns are not.
			if len(p.Ties) != 1 || p.Ties[0][0] != 0 || p.Gap != 0 {
				t.Errorf("order %d, %d of three zeros: values %v, ties %v, gap %g, want 0", n, d, p.Values,
					p.Ties, p.Gap)
			}
		}
		// The values of one path are 4 sin^2(k pi / 2n).
		p, err := Partial(context.Background(), ring(n, false), Min, 1, ones(n))
		if err != nil {
			t.Fatal(err)
		}
		a, b := math.Sin(math.Pi/float64(2*n)), math.Sin(math.Pi/float64(n))
		if want := 1 - a*a/(b*b); math.Abs(p.Gap-want) > 1e-6 {
			t.Errorf("order %d: gap %g of a path, want %g", n, p.Gap, want)
		}
	}
}

// An eigenvalue of more copies than a block has vectors is found whole.
func TestPartialManyCopies(t *testing.T) {
	const n, d = 400, 30
	values := spectrumOf(n, func(i int) float64 {
		if i < 25 {
			return 2
		}
		return 1 / float64(i)
	})
	s := withSpectrum(values, 9)
	p, err := Partial(context.Background(), Dense(s), Max, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range p.Values {
		if math.Abs(v-values[j]) > 1e-13 {
			t.Errorf("value %d is %g, not %g", j, v, values[j])
		}
	}
	if fmt.Sprint(p.Ties) != "[[0 25]]" {
		t.Errorf("ties %v", p.Ties)
	}
	// The identity and zero: every vector is as good.
	for _, v := range []float64{1, 0} {
		p, err := Partial(context.Background(), Dense(withSpectrum(spectrumOf(n, func(int) float64 { return v }), 1)),
			Max, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Ties) != 1 || p.Ties[0][1] <= 3 || math.Abs(p.Values[2]-v) > 1e-14 {
			t.Errorf("all values %g: values %v, ties %v", v, p.Values, p.Ties)
		}
	}
}

func TestPartialIsTheSameForAnyProcessors(t *testing.T) {
	const n = 700
	x, near := roll(n, 8)
	m := lle(x, near)
	s := withSpectrum(spectrumOf(n, func(i int) float64 { return 1 / float64(i+1) }), 2)
	run := func(procs int) []*Part {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		var out []*Part
		for _, c := range []struct {
			m     Operator
			end   End
			known *mat.Dense
		}{{m, Min, ones(n)}, {Dense(s), Max, nil}, {Dense(s), Min, nil}} {
			p, err := Partial(context.Background(), c.m, c.end, 5, c.known)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	one, two := run(1), run(2)
	for i := range one {
		if !slices.Equal(one[i].Values, two[i].Values) || !mat.Equal(one[i].Vectors, two[i].Vectors) {
			t.Errorf("problem %d differs between 1 and 2 processors", i)
		}
	}
}

// counted ends ctx after some products.
type counted struct {
	Operator
	left   int
	cancel func()
}

func (c *counted) Apply(ctx context.Context, dst, x *mat.Dense) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	c.Operator.Apply(ctx, dst, x)
}

func TestPartialStopsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &counted{Operator: ring(3000, true), left: 20, cancel: cancel}
	if _, err := Partial(ctx, c, Min, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if c.left < -2 {
		t.Errorf("%d products after the end", -c.left)
	}
	env := newEnvelope(t.Context(), ring(3000, true))
	if err := env.factor(ctx, ring(3000, true), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("factor: error %v", err)
	}
}

func TestPartialRefuses(t *testing.T) {
	n := 200
	l := ring(n, true)
	slope := mat.NewDense(n, 1, nil)
	for i := range n {
		slope.Set(i, 0, float64(i))
	}
	twice := mat.NewDense(n, 2, nil)
	for i := range n {
		twice.SetRow(i, []float64{1, 2})
	}
	broken := ring(n, true)
	broken.values[3][0] = math.NaN()
	for _, c := range []struct {
		name  string
		m     Operator
		d     int
		known *mat.Dense
		says  string
	}{
		{"none", l, 0, nil, "0 directions asked"},
		{"too many", l, n, ones(n), "200 directions asked, the pencil has 199"},
		{"not an eigenvector", l, 2, slope, "no eigenvectors"},
		{"dependent", l, 2, twice, "rank 1"},
		{"wrong order", l, 2, ones(n - 1), "199 x 1"},
		{"zero", l, 2, mat.NewDense(n, 1, nil), "zero"},
		{"nan", broken, 2, nil, "not finite"},
		{"nan and known", broken, 2, ones(n), "not finite"},
	} {
		_, err := Partial(context.Background(), c.m, Min, c.d, c.known)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v does not say %q", c.name, err, c.says)
		}
	}
	if _, err := Partial(context.Background(), products{ring(2600, false)}, Min, 2, nil); err == nil ||
		!strings.Contains(err.Error(), "order 2600") {
		t.Errorf("products alone at the small end of a long path: error %v", err)
	}
}

// Small problems are decomposed in full, and known vectors stay out.
func TestPartialSmall(t *testing.T) {
	const n = 12
	p, err := Partial(context.Background(), ring(n, false), Min, n-1, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range p.Values {
		s := math.Sin(float64(j+1) * math.Pi / (2 * n))
		if math.Abs(v-4*s*s) > 1e-14*n {
			t.Errorf("value %d is %g, not %g", j, v, 4*s*s)
		}
	}
	if !math.IsNaN(p.Next) {
		t.Errorf("next %g where there is none", p.Next)
	}
	p, err = Partial(context.Background(), products{ring(n, false)}, Max, n-1, ones(n))
	if err != nil {
		t.Fatal(err)
	}
	if s := math.Sin(math.Pi / (2 * n)); math.Abs(p.Values[n-2]-4*s*s) > 1e-14*n {
		t.Errorf("last value %g: the known vector is in the result", p.Values[n-2])
	}
}

func TestEnvelopeSolves(t *testing.T) {
	x, near := roll(500, 6)
	for _, m := range []Entries{ring(130, true), lle(x, near), clusters(3, 1000),
		Dense(withSpectrum(spectrumOf(200, func(i int) float64 { return float64(i + 1) }), 4))} {
		n := m.Order()
		env := newEnvelope(t.Context(), m)
		order := slices.Clone(env.order)
		slices.Sort(order)
		for i, v := range order {
			if i != v {
				t.Fatalf("order %d: not a permutation", n)
			}
		}
		if err := env.factor(context.Background(), m, 0.1); err != nil {
			t.Fatal(err)
		}
		want, b := mat.NewDense(n, 7, nil), mat.NewDense(n, 7, nil)
		for i := range n {
			for j := range 7 {
				want.Set(i, j, math.Sin(float64(i*(j+1))))
			}
		}
		m.Apply(t.Context(), b, want)
		for i := range n {
			for j := range 7 {
				b.Set(i, j, b.At(i, j)+0.1*want.At(i, j))
			}
		}
		got := mat.NewDense(7, n, nil)
		env.solve(t.Context(), got, mat.DenseCopyOf(b.T()))
		if !mat.EqualApprox(got.T(), want, 1e-9) {
			t.Errorf("order %d: the solution is off", n)
		}
	}
	if env := newEnvelope(t.Context(), ring(1000, true)); env.bytes() > 1000*4*square*8 {
		t.Errorf("the envelope of a ring takes %g bytes: the order is not by levels", env.bytes())
	}
	if err := newEnvelope(t.Context(), ring(100, true)).factor(context.Background(), ring(100, true), -1); !errors.Is(err,
		ErrNotDefinite) {
		t.Errorf("an indefinite matrix: error %v", err)
	}
}

// TestFactorTakesWhatIsSaid: a factor is refused by what bytes says, so that is what it allocates, and little more.
func TestFactorTakesWhatIsSaid(t *testing.T) {
	m := ring(5000, true)
	env := newEnvelope(t.Context(), m)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := env.factor(t.Context(), m, 0.1); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took, said := float64(after.TotalAlloc-before.TotalAlloc), env.bytes()
	if took > 1.1*said {
		t.Errorf("it took %.1f MB, %.1f are said", took/1e6, said/1e6)
	}
}

// Solve takes the partial way for large m and small d; its answer is that of
// the full decomposition.
func TestSolveOfLargePencilsAgreesWithFull(t *testing.T) {
	const m = 300
	rng := rand.New(rand.NewPCG(8, 8))
	n := gram(rng, m, 400, func(j int) float64 { return 1 / math.Sqrt(float64(j+1)) })
	low := gram(rng, m, 40, even)
	den := gram(rng, m, 500, even)
	ridge, err := Ridge(den, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		n    *mat.SymDense
		q    *Metric
		end  End
	}{
		{"identity max", n, Identity(m), Max},
		{"identity min", n, Identity(m), Min},
		{"ridge max", n, ridge, Max},
		{"ridge min", n, ridge, Min},
		{"low rank max", low, ridge, Max},
	} {
		white := c.q.whitenSym(t.Context(), c.n)
		values, vectors, err := spectrum(white)
		if err != nil {
			t.Fatal(err)
		}
		apply := func(a *mat.Dense) *mat.Dense {
			var out mat.Dense
			out.Mul(c.n, a)
			return &out
		}
		for _, d := range []int{2, 10} {
			if few(t.Context(), white, c.end, d) == nil {
				t.Errorf("%s, d=%d: the partial way is not taken", c.name, d)
			}
			want, err := finish(c.q, values, vectors, c.end, d, apply)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Solve(t.Context(), c.n, c.q, c.end, d)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rank != want.Rank {
				t.Errorf("%s, d=%d: rank %d, not %d", c.name, d, got.Rank, want.Rank)
			}
			if math.Abs(got.Gap-want.Gap) > 1e-6*want.Gap {
				t.Errorf("%s, d=%d: gap %g, not %g", c.name, d, got.Gap, want.Gap)
			}
			if got.Residual > 1e-10 {
				t.Errorf("%s, d=%d: residual %g", c.name, d, got.Residual)
			}
			if !mat.EqualApprox(got.Vectors, want.Vectors, 1e-9*mat.Norm(want.Vectors, 2)) {
				t.Errorf("%s, d=%d: vectors differ", c.name, d)
			}
		}
	}
}

// clusters are count random graphs of size nodes each, of which single edges make one.
func clusters(count, size int) *sparse {
	rng := rand.New(rand.NewPCG(5, 25))
	m := newSparse(count * size)
	for c := range count {
		for i := range size {
			for range 6 {
				if j := rng.IntN(size); j != i {
					m.join(c*size+i, c*size+j, 1)
				}
			}
		}
		if c > 0 {
			m.join(c*size+rng.IntN(size), rng.IntN(c)*size+rng.IntN(size), 1e-3)
		}
	}
	return m
}

// Clusters that few edges join are factored one after the other: their work adds up.
func TestEnvelopeOfClusters(t *testing.T) {
	const count, size = 10, 500
	m := clusters(count, size)
	levels, env := envelopeOf(m, cuthillMcKee(m)), newEnvelope(t.Context(), m)
	order := slices.Clone(env.order)
	slices.Sort(order)
	for i, v := range order {
		if i != v {
			t.Fatal("not a permutation")
		}
	}
	t.Logf("%.2g flops, %.2g by levels; %.0f MB, %.0f", env.flops(), levels.flops(), env.bytes()/1e6, levels.bytes()/1e6)
	if env.flops() > 0.7*levels.flops() {
		t.Errorf("a factor takes %.2g flops, by levels %.2g", env.flops(), levels.flops())
	}
	dense := float64(count) * math.Pow(size, 3) / 3
	if env.flops() > 3*dense {
		t.Errorf("a factor takes %.2g flops, of each cluster by itself, in full, %.2g", env.flops(), dense)
	}
}

// What a few rows join stands behind all else: beside others of their squares they would fill what is between.
func TestEnvelopeHasABorder(t *testing.T) {
	const count, size = 6, 1500
	m, rng := clusters(count, size), rand.New(rand.NewPCG(6, 25))
	for range 40 {
		i := rng.IntN(count * size)
		if j := rng.IntN(count * size); j != i {
			m.join(i, j, 1e-3)
		}
	}
	ends := cuthillMcKee(m)
	slices.Reverse(ends)
	fronts, env := envelopeOf(m, frontOrder(m, ends)), newEnvelope(t.Context(), m)
	t.Logf("%.2g flops, %.2g without a border", env.flops(), fronts.flops())
	if env.flops() > 0.8*fronts.flops() {
		t.Errorf("a factor takes %.2g flops, without a border %.2g", env.flops(), fronts.flops())
	}
}

// TestScaleIsNoMatter: eigenvalues are a power of two times as large where the matrix is, vectors the same, as far as
// numbers reach; nothing waits for rounding that does not come. The last of the matrices have a space that a start
// exhausts, where the way by products needs new directions.
func TestScaleIsNoMatter(t *testing.T) {
	const n, d = 200, 5
	values := make([]float64, n)
	for i := range 140 {
		values[i] = 1 + float64(i)/140
	}
	// At the small end values are all zero behind the rank, and any basis is as good as another.
	lowRank := withSpectrum(values, 3)
	full := withSpectrum(spectrumOf(n, func(i int) float64 { return 1 + float64(i) }), 3)
	for _, c := range []struct {
		name string
		s    *mat.SymDense
		end  End
		same bool
	}{{"largest", full, Max, true}, {"smallest", full, Min, true}, {"largest of less rank", lowRank, Max, true},
		{"smallest of less rank", lowRank, Min, false}} {
		want, err := Solve(t.Context(), c.s, Identity(n), c.end, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, exp := range []int{-1066, -1030, -980, -600, -300, 70, 300, 600, 1000} {
			s := symLdexp(c.s, exp)
			got, err := Solve(t.Context(), s, Identity(n), c.end, d)
			if err != nil {
				t.Errorf("%s at 2^%d: %v", c.name, exp, err)
				continue
			}
			for i, v := range got.Values {
				e := math.Ldexp(v, -exp) - want.Values[i]
				if rounding := math.Ldexp(n, -1074-exp); math.Abs(e) > 1e-10*float64(n)+rounding {
					t.Errorf("%s at 2^%d: value %d is off by %g", c.name, exp, i, e)
				}
			}
			if off := sine(got.Vectors, want.Vectors); c.same && exp > -1000 && off > 1e-6 {
				t.Errorf("%s at 2^%d: the vectors are off by %g", c.name, exp, off)
			}
		}
	}
	// The operator itself, as it is: it is found, or refused.
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for _, scale := range []float64{5e-322, 1e-310, 1e-300, 1, 1e20, 1e300} {
		s := mat.NewSymDense(n, nil)
		for i := range n {
			s.SetSym(i, i, scale*float64(1+i%3))
		}
		p, err := Partial(ctx, Dense(s), Max, 2, nil)
		if ctx.Err() != nil {
			t.Fatalf("scale %g: no end in sight", scale)
		}
		if err == nil && math.Abs(p.Values[0]/scale-3) > 1e-2 || err != nil && scale >= 1e-300 && scale <= 1e20 {
			t.Errorf("scale %g: %v, error %v", scale, p, err)
		}
	}
}
