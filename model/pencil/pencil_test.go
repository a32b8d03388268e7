package pencil

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// gram is a random positive semidefinite matrix of order m and rank at most r,
// with column i scaled by scale(i).
func gram(rng *rand.Rand, m, r int, scale func(int) float64) *mat.SymDense {
	x := mat.NewDense(r, m, nil)
	for i := range r {
		for j := range m {
			x.Set(i, j, rng.NormFloat64()*scale(j))
		}
	}
	var s mat.SymDense
	s.SymOuterK(1/float64(r), x.T())
	return &s
}

func even(int) float64 { return 1 }

// quadratic is A'SA.
func quadratic(s mat.Symmetric, a *mat.Dense) *mat.Dense {
	var sa, out mat.Dense
	sa.Mul(s, a)
	out.Mul(a.T(), &sa)
	return &out
}

func offIdentity(a *mat.Dense) float64 {
	n, _ := a.Dims()
	worst := 0.0
	for i := range n {
		for j := range n {
			want := 0.0
			if i == j {
				want = 1
			}
			worst = max(worst, math.Abs(a.At(i, j)-want))
		}
	}
	return worst
}

func plus(s mat.Symmetric, rho float64) *mat.SymDense {
	out := mat.NewSymDense(s.SymmetricDim(), nil)
	out.CopySym(s)
	for i := range s.SymmetricDim() {
		out.SetSym(i, i, out.At(i, i)+rho)
	}
	return out
}

func TestSolveMeetsEquationConstraintAndCompetitors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m, d := 12, 4
	n := gram(rng, m, 9, even)
	full := gram(rng, m, 40, func(j int) float64 { return math.Pow(10, float64(j%4)) })
	flat := gram(rng, m, 7, even)
	ridge, err := Ridge(flat, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	cutFull, _ := Cut(full)
	cutFlat, _ := Cut(flat)
	for _, c := range []struct {
		name string
		q    *Metric
		den  mat.Symmetric
		end  End
	}{
		{"ridge max", ridge, plus(flat, 0.1), Max},
		{"cut max", cutFull, full, Max},
		{"cut min", cutFull, full, Min},
		{"deficient cut max", cutFlat, flat, Max},
		{"deficient cut min", cutFlat, flat, Min},
		{"identity max", Identity(m), plus(mat.NewSymDense(m, nil), 1), Max},
		{"identity min", Identity(m), plus(mat.NewSymDense(m, nil), 1), Min},
	} {
		s, err := Solve(t.Context(), n, c.q, c.end, d)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !(s.Residual <= 1e-10) {
			t.Errorf("%s: residual %g", c.name, s.Residual)
		}
		if e := offIdentity(quadratic(c.den, s.Vectors)); !(e <= 1e-9) {
			t.Errorf("%s: A'DA differs from I by %g", c.name, e)
		}
		best := mat.Trace(quadratic(n, s.Vectors))
		for range 100 {
			v := mat.NewDense(c.q.Rank(), d, nil)
			for i := range c.q.Rank() {
				for j := range d {
					v.Set(i, j, rng.NormFloat64())
				}
			}
			var qr mat.QR
			qr.Factorize(v)
			var o mat.Dense
			qr.QTo(&o)
			a := c.q.Unwhiten(o.Slice(0, c.q.Rank(), 0, d))
			got := mat.Trace(quadratic(n, a))
			if c.end == Max && !(got <= best+1e-9*math.Abs(best)) || c.end == Min && !(got >= best-1e-9*math.Abs(best)-1e-12) {
				t.Errorf("%s: a random feasible A has trace %g, the solution %g", c.name, got, best)
			}
		}
	}
}

func TestSolveLowEqualsSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	m, c := 15, 4
	d := gram(rng, m, 50, even)
	q, err := Ridge(d, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	g := mat.NewDense(m, c, nil)
	for i := range m {
		for k := range c {
			g.Set(i, k, rng.NormFloat64())
		}
	}
	j := mat.NewSymDense(c, nil)
	for a := range c {
		for b := a; b < c; b++ {
			j.SetSym(a, b, -1)
		}
		j.SetSym(a, a, 1)
	}
	for _, inner := range []mat.Symmetric{nil, j} {
		n := mat.NewSymDense(m, nil)
		if inner == nil {
			n.SymOuterK(1, g)
		} else {
			var gj, full mat.Dense
			gj.Mul(g, inner)
			full.Mul(&gj, g.T())
			for a := range m {
				for b := a; b < m; b++ {
					n.SetSym(a, b, (full.At(a, b)+full.At(b, a))/2)
				}
			}
		}
		want, err := Solve(t.Context(), n, q, Max, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SolveLow(t.Context(), g, inner, q, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Rank != want.Rank {
			t.Fatalf("rank %d, want %d", got.Rank, want.Rank)
		}
		for k := range want.Values {
			if !(math.Abs(got.Values[k]-want.Values[k]) <= 1e-10*want.Values[0]) {
				t.Errorf("eigenvalue %d is %g, want %g", k, got.Values[k], want.Values[k])
			}
		}
		if !mat.EqualApprox(got.Vectors, want.Vectors, 1e-8) {
			t.Errorf("columns differ")
		}
		if !(got.Residual <= 1e-10) {
			t.Errorf("residual %g", got.Residual)
		}
	}
}

func TestCutCountsDirectionsByTheirOwnScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	// Ten columns over twelve decades, one constant, one a copy.
	s := gram(rng, 12, 60, func(j int) float64 { return math.Pow(10, float64(j)-6) })
	for i := range 12 {
		s.SetSym(i, 4, 0)
	}
	for i := range 12 {
		if i != 7 {
			s.SetSym(i, 7, s.At(i, 3))
		}
	}
	s.SetSym(7, 7, s.At(3, 3))
	q, err := Cut(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Rank(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if q.Rank() != 10 || r != 10 {
		t.Errorf("rank %d by the cut, %d by pivots, want 10", q.Rank(), r)
	}
	v := mat.NewDense(10, 10, nil)
	for i := range 10 {
		v.Set(i, i, 1)
	}
	if e := offIdentity(quadratic(s, q.Unwhiten(v))); !(e <= 1e-8) {
		t.Errorf("Z'DZ differs from I by %g", e)
	}
}

func TestCutFormsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	d := gram(rng, 8, 30, even)
	n := gram(rng, 8, 30, even)
	short, err := Cut(d) // well conditioned: Cholesky
	if err != nil {
		t.Fatal(err)
	}
	if short.z != nil {
		t.Fatal("a well conditioned matrix took the eigendecomposition")
	}
	values, vectors, err := eigen(d)
	if err != nil {
		t.Fatal(err)
	}
	z := mat.NewDense(8, 8, nil)
	for i := range 8 {
		for j := range 8 {
			z.Set(i, j, vectors.At(i, j)/math.Sqrt(values[j]))
		}
	}
	long := &Metric{m: 8, rank: 8, d: d, z: z}
	a, err := Solve(t.Context(), n, short, Max, 3)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Solve(t.Context(), n, long, Max, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !mat.EqualApprox(a.Vectors, b.Vectors, 1e-9) {
		t.Errorf("columns differ")
	}
}

// A tied eigenspace has one basis, however the solver turned it.
func TestTiesAreSettledByNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	m := 9
	d := gram(rng, m, 40, func(j int) float64 { return 1 + float64(j) })
	q, err := Ridge(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	// N = D + b b': one direction above a tie of all others at 1.
	b := mat.NewVecDense(m, nil)
	for i := range m {
		b.SetVec(i, rng.NormFloat64())
	}
	n := mat.NewSymDense(m, nil)
	n.SymRankOne(d, 1, b)
	s, err := Solve(t.Context(), n, q, Max, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Ties) != 1 || s.Ties[0] != [2]int{1, m} {
		t.Fatalf("ties %v, want [[1 %d]]", s.Ties, m)
	}
	norm := func(a *mat.Dense, j int) float64 { return mat.Norm(a.ColView(j), 2) }
	for j := 2; j < 4; j++ {
		if !(norm(s.Vectors, j) >= norm(s.Vectors, j-1)) {
			t.Errorf("column %d has a smaller norm than column %d", j, j-1)
		}
	}
	// Rounding noise turns the solver's basis; the settled one stays.
	noisy := mat.NewSymDense(m, nil)
	for i := range m {
		for j := i; j < m; j++ {
			noisy.SetSym(i, j, n.At(i, j)*(1+1e-14*rng.NormFloat64()))
		}
	}
	again, err := Solve(t.Context(), noisy, q, Max, 4)
	if err != nil {
		t.Fatal(err)
	}
	if !mat.EqualApprox(s.Vectors, again.Vectors, 1e-8) {
		t.Errorf("a tie depends on rounding:\n%v\n%v", mat.Formatted(s.Vectors), mat.Formatted(again.Vectors))
	}
	if !(s.Gap <= 1e-6) {
		t.Errorf("gap %g with a tie in the wanted columns", s.Gap)
	}
}

func TestLinearSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	d := gram(rng, 7, 4, even)
	q, err := Ridge(d, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	b := mat.NewDense(7, 2, nil)
	for i := range 7 {
		b.Set(i, 0, rng.NormFloat64())
		b.Set(i, 1, rng.NormFloat64())
	}
	var back mat.Dense
	back.Mul(plus(d, 0.2), q.Solve(b))
	if !mat.EqualApprox(&back, b, 1e-10) {
		t.Errorf("(D + rho I) Solve(B) is not B")
	}
	if r := Rho(0.5, d, 4); !(math.Abs(r-0.5*mat.Trace(d)/4) <= 1e-15) {
		t.Errorf("rho %g", r)
	}
}

func TestSignRule(t *testing.T) {
	a := mat.NewDense(3, 3, []float64{
		1, -2, -5,
		-3, 2, 5 * (1 + 1e-14),
		2, 1, 0,
	})
	FixSigns(a)
	want := mat.NewDense(3, 3, []float64{
		-1, 2, 5,
		3, -2, -5 * (1 + 1e-14),
		-2, -1, 0,
	})
	if !mat.Equal(a, want) {
		t.Errorf("got\n%v", mat.Formatted(a))
	}
}

func TestErrorsCarryFigures(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	n := gram(rng, 6, 2, even)
	var rank *RankError
	if _, err := Solve(t.Context(), n, Identity(6), Max, 3); !errors.As(err, &rank) || rank.Max != 2 || rank.Asked != 3 {
		t.Errorf("3 directions of a rank 2 numerator: %v", err)
	}
	if _, err := Ridge(n, 0); !errors.Is(err, ErrNotDefinite) {
		t.Errorf("singular denominator without ridge: %v", err)
	}
	bad := mat.NewSymDense(2, []float64{1, 0, 0, math.NaN()})
	if _, err := Ridge(bad, 1); !errors.Is(err, ErrNotDefinite) {
		t.Errorf("NaN in the denominator: %v", err)
	}
	if _, err := Cut(bad); !errors.Is(err, ErrNotDefinite) {
		t.Errorf("NaN in the denominator: %v", err)
	}
	if _, err := Solve(t.Context(), bad, Identity(2), Max, 1); err == nil {
		t.Error("NaN in the numerator gave a solution")
	}
	if _, err := Ridge(n, -1); err == nil {
		t.Error("negative ridge accepted")
	}
	if _, err := Solve(t.Context(), n, Identity(5), Max, 1); err == nil {
		t.Error("orders 6 and 5 accepted")
	}
	q, err := Cut(mat.NewSymDense(3, nil))
	if err != nil || q.Rank() != 0 {
		t.Errorf("zero denominator: rank %v, %v", q, err)
	}
}

// TestCutTakesTheFactorOfAWellConditionedMatrix: up to a condition number of 1e10.
func TestCutTakesTheFactorOfAWellConditionedMatrix(t *testing.T) {
	for condition, want := range map[float64]bool{3e9: true, 3e10: false} {
		r := (condition - 1) / (condition + 1)
		q, err := Cut(mat.NewSymDense(2, []float64{1, r, r, 1}))
		if err != nil || q.Rank() != 2 || (q.u != nil) != want {
			t.Errorf("condition %g: rank %d, by a factor: %v, %v", condition, q.Rank(), q.u != nil, err)
		}
	}
}

// TestRefusedPencils: the error has the orders of the matrices, or the column and its second moment.
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
