package pencil

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/tile"
)

// TestCountsAtAValue: a value counts as below itself, in each of the four places, and above is the rest.
func TestCountsAtAValue(t *testing.T) {
	s := newSturm([]float64{1, 2, 3}, []float64{0, 0})
	if got := s.below([together]float64{0.25, 0.5, 0.75, 0.2}); got != [together]int{1, 2, 3, 0} {
		t.Errorf("%v are below", got)
	}
	if got := s.below([together]float64{0.2, 0.75, 0.5, 0.25}); got != [together]int{0, 3, 2, 1} {
		t.Errorf("%v are below", got)
	}
	for v, want := range map[float64]int{0.9: 3, 1: 2, 2: 1, 2.5: 1, 3: 0} {
		if got := s.above(v); got != want {
			t.Errorf("%d are above %g", got, v)
		}
	}
	if got := s.values([]int{2, 0, 1, 1, 0}); len(got) != 5 || !(math.Abs(got[0]-3) <= 1e-15) ||
		!(math.Abs(got[1]-1) <= 1e-15) || !(math.Abs(got[3]-2) <= 1e-15) || !(math.Abs(got[4]-1) <= 1e-15) {
		t.Errorf("values %v", got)
	}
}

// TestRefusedPencils: errors have the orders, the column and its second moment.
func TestRefusedPencils(t *testing.T) {
	two, inf := mat.NewSymDense(2, []float64{1, 0, 0, 2}), math.Inf(1)
	known := func(v ...float64) func() error {
		return func() error {
			_, err := Partial(t.Context(), Dense(two), Max, 1, mat.NewDense(2, len(v)/2, v))
			return err
		}
	}
	for want, call := range map[string]func() error{
		"numerator of order 2, denominator of order 3": func() error {
			_, err := Solve(t.Context(), two, Identity(3), Max, 1)
			return err
		},
		"factor with 2 rows, denominator of order 3": func() error {
			_, err := SolveLow(t.Context(), mat.NewDense(2, 1, nil), nil, Identity(3), 1)
			return err
		},
		"4 directions requested, the pencil has 0": func() error {
			_, err := Solve(t.Context(), two, &Metric{m: 2}, Max, 4)
			return err
		},
		"5 directions requested, the pencil has 0": func() error {
			_, err := SolveLow(t.Context(), mat.NewDense(2, 1, nil), nil, &Metric{m: 2}, 5)
			return err
		},
		"ridge -0.5 is not a finite number >= 0": func() error { _, err := Ridge(two, -0.5); return err },
		"ridge NaN is not a finite number >= 0":  func() error { _, err := Ridge(two, math.NaN()); return err },
		"ridge +Inf is not a finite number >= 0": func() error { _, err := Ridge(two, inf); return err },
		"denominator is not positive definite: order 2, trace 3, ridge 0.25": func() error {
			_, err := Ridge(mat.NewSymDense(2, []float64{1, 5, 5, 2}), 0.25)
			return err
		},
		"denominator is not positive definite: column 1 has second moment +Inf": func() error {
			_, err := Cut(mat.NewSymDense(2, []float64{1, 0, 0, inf}))
			return err
		},
		"denominator is not positive definite: entry (0, 1) is +Inf": func() error {
			_, err := Rank(t.Context(), mat.NewSymDense(2, []float64{1, inf, inf, 2}))
			return err
		},
		"known vectors: entry (1, 0) is NaN": known(1, math.NaN()),
		"known vectors are zero":             known(0, 0),
		"known vectors have rank 1, not 2":   known(1, 2, 1, 2),
		"known vectors are not eigenvectors": known(1, 1),
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for s, want := range map[*mat.SymDense]int{mat.NewSymDense(2, nil): 0, two: 2,
		mat.NewSymDense(2, []float64{1, 2, 2, 4}): 1} {
		if got, err := Rank(t.Context(), s); err != nil || got != want {
			t.Errorf("rank %d, want %d: %v", got, want, err)
		}
	}
	if r := Rho(0.5, two, 0); r != 0 {
		t.Errorf("rho %g without columns", r)
	}
	if r := Rho(0.5, two, 3); r != 0.5 {
		t.Errorf("rho %g", r)
	}
}

// TestTiesAtTheCut: values that are tied with the last wanted one are found together, or the whole spectrum is; a
// numerator of lower rank has no more directions.
func TestTiesAtTheCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 7))
	const n = 80
	for _, c := range []struct {
		copies, d int // of the value 5, below 9
		by        bool
	}{{3, 2, true}, {9, 2, true}, {18, 4, true}, {30, 3, false}} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i) / n
			if i >= n-1-c.copies {
				values[i] = 5
			}
		}
		values[n-1] = 9
		s := withValues(rng, values)
		apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), s, a) }
		sol := solveReduced(t.Context(), s, Identity(n), Max, c.d, apply)
		if (sol != nil) != c.by {
			t.Errorf("%d copies, %d wanted: a reduction gives %v", c.copies, c.d, sol != nil)
		}
		sol, err := Solve(t.Context(), s, Identity(n), Max, c.d)
		if err != nil {
			t.Fatal(err)
		}
		if want := [][2]int{{1, 1 + c.copies}}; !slices.Equal(sol.Ties, want) || sol.Gap != 0 ||
			!(math.Abs(sol.Values[0]-9) <= 1e-12) || !(math.Abs(sol.Values[c.d-1]-5) <= 1e-12) || !(sol.Residual <= 1e-12) {
			t.Errorf("%d copies, %d wanted: ties %v, gap %g, values %v", c.copies, c.d, sol.Ties, sol.Gap, sol.Values)
		}
	}
	low := make([]float64, n)
	low[3], low[40] = 2, 1
	var rank *RankError
	if _, err := Solve(t.Context(), withValues(rng, low), Identity(n), Max, 5); !errors.As(err, &rank) ||
		rank.Asked != 5 ||
		rank.Max != 2 {
		t.Errorf("5 directions of rank 2: %v", err)
	}
}

// TestRankOfAPart: of the pairs at the large end, the rank is that of the whole matrix.
func TestRankOfAPart(t *testing.T) {
	const n = 60
	diagonal := func(f func(i int) float64) *mat.SymDense {
		s := mat.NewSymDense(n, nil)
		for i := range n {
			s.SetSym(i, i, f(i))
		}
		return s
	}
	full := diagonal(func(i int) float64 { return 1 })
	low := diagonal(func(i int) float64 { return float64(max(0, 7-i)) })
	tol := n * eps * 7
	for what, c := range map[string]struct {
		s    *mat.SymDense
		end  End
		part *Part
		want int
	}{
		"all":                {full, Max, &Part{Largest: 1, all: []float64{1, 1}}, n},
		"seven":              {low, Max, &Part{Largest: 7, all: []float64{7, 6}}, 7},
		"the small end":      {low, Min, &Part{Largest: 7, all: []float64{0, 0}}, n},
		"a value of 0":       {low, Max, &Part{Largest: 7, all: []float64{7, tol}}, 0},
		"just above 0":       {low, Max, &Part{Largest: 7, all: []float64{7, 1.01 * tol}}, 7},
		"negative values":    {low, Max, &Part{Largest: 7, all: []float64{7, 6}, smallest: -1.01 * tol}, 0},
		"negative by chance": {low, Max, &Part{Largest: 7, all: []float64{7, 6}, smallest: -tol}, 7},
	} {
		if got := partRank(t.Context(), c.s, c.end, c.part, 2); got != c.want {
			t.Errorf("%s: rank %d, want %d", what, got, c.want)
		}
	}
}

// TestVectorsThatAreNotAccurate are refused: by 64 rounding errors for each row in the equation, or in a product.
func TestVectorsThatAreNotAccurate(t *testing.T) {
	const n = 10
	r := &reduced{n: n, diag: make([]float64, n), next: make([]float64, n-1), size: 10}
	for i := range r.diag {
		r.diag[i] = float64(i + 1)
	}
	const tol = 64 * n * eps
	axes := func(change func(v *mat.Dense)) *mat.Dense {
		v := mat.NewDense(2, n, nil)
		v.Set(0, 3, 1)
		v.Set(1, 6, 1)
		change(v)
		return v
	}
	same := func(*mat.Dense) {}
	for what, c := range map[string]struct {
		v      *mat.Dense
		values []float64
		want   bool
	}{
		"exact":               {axes(same), []float64{4, 7}, true},
		"a value a bit off":   {axes(same), []float64{4, 7 + 0.9*tol*10}, true},
		"a value off":         {axes(same), []float64{4, 7 + 1.1*tol*10}, false},
		"a product a bit off": {axes(func(v *mat.Dense) { v.Set(1, 3, 0.9*tol) }), []float64{4, 7}, true},
		"a product off":       {axes(func(v *mat.Dense) { v.Set(1, 3, 1.1*tol) }), []float64{4, 7}, false},
		"no number":           {axes(func(v *mat.Dense) { v.Set(1, 3, math.NaN()) }), []float64{4, 7}, false},
	} {
		if r.good(c.v, c.values) != c.want {
			t.Errorf("%s: %v", what, !c.want)
		}
	}
	r.next[5] = 1 // the vectors of the diagonal are not those of this matrix
	if r.good(axes(same), []float64{4, 7}) {
		t.Error("a matrix with an entry next to the diagonal has unit vectors")
	}
	r.next[5], r.next[6] = 0, 1
	if r.good(axes(same), []float64{4, 7}) {
		t.Error("an entry behind the value is not seen")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if reduce(ctx, mat.NewSymDense(3, nil), new([]float64)) != nil {
		t.Error("a reduction does not end with its context")
	}
}

// TestOrders: by the diagonal, equal entries in their order; and the sizes of blocks and bases.
func TestOrders(t *testing.T) {
	values, v := reversed([]float64{3, 2, 1}, mat.NewDense(1, 3, []float64{7, 8, 9}))
	if !slices.Equal(values, []float64{1, 2, 3}) || !slices.Equal(v.RawRowView(0), []float64{9, 8, 7}) {
		t.Errorf("%v, %v", values, v)
	}
	s := mat.NewSymDense(4, nil)
	for i, d := range []float64{3, 1, 3, 2} {
		s.SetSym(i, i, d)
	}
	if got := grade(s); !slices.Equal(got, []int{1, 3, 0, 2}) {
		t.Errorf("order %v", got)
	}
	if values, v := spectrum(new(mat.SymDense)); len(values) != 0 || !v.IsEmpty() {
		t.Error("a matrix of order 0 has values")
	}
	for d, want := range map[int]int{1: 4, 3: 4, 4: 5, 7: 8, 20: 8} {
		if got := blockSize(d); got != want {
			t.Errorf("blocks of %d for %d pairs, want %d", got, d, want)
		}
	}
	for _, c := range [][3]int{{1, 4, 40}, {3, 4, 40}, {20, 4, 56}, {1, 8, 80}, {30, 8, 92}} {
		if got := basisSize(c[0], c[1]); got != c[2] {
			t.Errorf("%d pairs in blocks of %d: a basis of %d, want %d", c[0], c[1], got, c[2])
		}
	}
	if got := krylovOrder(2, 4); got != 2*(2*(2+1+16)+4*4) {
		t.Errorf("order %d", got)
	}
}

// TestReducedOrders: a reduction serves matrices of order 64 or more, for up to a quarter of the values.
func TestReducedOrders(t *testing.T) {
	for _, c := range []struct {
		n, d int
		want bool
	}{{64, 16, true}, {64, 17, false}, {63, 3, false}, {64, 1, true}, {64, 0, false}} {
		s := mat.NewSymDense(c.n, nil)
		for i := range c.n {
			s.SetSym(i, i, float64(i+1))
		}
		apply := func(a *mat.Dense) *mat.Dense { return tile.Times(t.Context(), s, a) }
		if got := solveReduced(t.Context(), s, Identity(c.n), Max, c.d, apply); (got != nil) != c.want {
			t.Errorf("%d values of order %d: %v", c.d, c.n, !c.want)
		}
	}
}

// TestOrderOfDenseMatrices: with more than a quarter of the entries the order stays; a path is put in its own order.
func TestOrderOfDenseMatrices(t *testing.T) {
	const n = 12
	path := newSparse(n)
	place := func(i int) int { return i * 5 % n } // of the i-th row of the path
	for i := range n - 1 {
		path.join(place(i), place(i+1), 1)
	}
	order := cuthillMcKee(path)
	for i := range n {
		if order[i] != place(i) && order[i] != place(n-1-i) {
			t.Errorf("row %d of the path is %d: %v", i, order[i], order)
		}
	}
	count := 0
	for i := range n {
		columns, _ := path.Row(i)
		count += len(columns)
	}
	for i := 0; count <= n*n/4; i++ { // up to just above a quarter
		path.join(place(i), place(i+3), 1)
		count += 2
	}
	if order := cuthillMcKee(path); !slices.IsSorted(order) {
		t.Errorf("%d entries of %d: %v", count, n*n, order)
	}
}

// TestConvergenceOfIterations: a residual is at most 1e-11 of the distance to what is not wanted, or 1e-3 of the gap
// for the first value beyond, or the noise.
func TestConvergenceOfIterations(t *testing.T) {
	for _, c := range []struct {
		residual []float64
		noise    float64
		want     bool
		worst    float64
	}{
		{[]float64{4.9e-11, 1.9e-11, 1.9e-3}, 0, true, 4.9e-11}, {[]float64{5.1e-11, 0, 0}, 0, false, 5.1e-11},
		{[]float64{0, 2.1e-11, 0}, 0, false, 2.1e-11}, {[]float64{0, 0, 2.1e-3}, 0, false, 0},
		{[]float64{0.9, 0.5, 0.9}, 1, true, 0.9}, {[]float64{0.9, 0.5, 1.1}, 1, false, 0.9},
	} {
		k := &krylov{noise: func(_, outside, largest float64) float64 {
			if outside != 5 || largest != 10 {
				t.Errorf("noise next to %g, of %g", outside, largest)
			}
			return c.noise
		}}
		ok, worst := k.settled([]float64{10, 7, 5}, c.residual, 3, 10)
		if ok != c.want || worst != c.worst {
			t.Errorf("residuals %v, noise %g: %v, worst %g", c.residual, c.noise, ok, worst)
		}
	}
	if got := residuals(mat.NewDense(1, 1, []float64{3}), mat.NewDense(2, 2, []float64{9, 9, 2, -4}),
		2); !slices.Equal(got,
		[]float64{6, 12}) {
		t.Errorf("residuals %v", got)
	}
}

// TestJudgement: a residual of at most 1e-8 of the largest value, and of 1e-3 of the gap or what no algorithm gets
// below.
func TestJudgement(t *testing.T) {
	for _, c := range []struct {
		values     []float64 // of the matrix, with 0
		off, floor float64   // part of the first vector along the value of 0
		want       bool
	}{
		{[]float64{4, 1}, 0.9e-8, 0, true}, {[]float64{4, 1}, 1.1e-8, 0, false}, {[]float64{4, 1}, 1.1e-8, 1, false},
		{[]float64{1 + 4e-6, 1}, 3.5e-9, 0, true}, {[]float64{1 + 4e-6, 1}, 4.5e-9, 0, false},
		{[]float64{1 + 4e-6, 1}, 4.5e-9, 5e-9, true}, {[]float64{1, 1}, 0.9e-8, 0, true}, {[]float64{1, 1}, 1.1e-8, 0, false},
	} {
		s := mat.NewSymDense(3, []float64{c.values[0], 0, 0, 0, c.values[1], 0, 0, 0, 0})
		p := &partial{ctx: t.Context(), m: Dense(s), n: 3, end: Max, d: 1, free: 3, floor: c.floor, largest: c.values[0]}
		rows := mat.NewDense(2, 3, []float64{1, 0, c.off, 0, 1, 0})
		part, err := algorithm{"judge", func() *Part { return p.judge(c.values, rows) }}.try()
		if (err == nil) != c.want || err != nil && !errors.Is(err, errShort) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && (!(math.Abs(part.Residual-c.values[0]*c.off) <= 1e-15) || part.Next != c.values[1] ||
			part.Largest != c.values[0]) {
			t.Errorf("%+v: %+v", c, part)
		}
	}
}

// TestBudgetOfProducts: a third of the time of a factor, with 2 flops for an entry, and 8 for a number of the basis and
// for a flop.
func TestBudgetOfProducts(t *testing.T) {
	const n, d = 300, 2
	m := ring(n, true)
	p := &partial{ctx: t.Context(), m: m, n: n, end: Min, d: d, free: n}
	env := newEnvelope(p.ctx, m)
	product := 2*float64(3*n) + 8*float64(n*40)
	if got, want := p.budget(m, env), int(env.flops()/3/(8*product)); got != want || entriesOf(m) != 3*n {
		t.Errorf("%d products, want %d; %d entries", got, want, entriesOf(m))
	}
}
