package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// task is one fit as its method sees it: statistics and rows in scaled
// coordinates, with the rank cut in front already done where rows are fewer
// than features.
type task struct {
	method   *Method
	params   map[string]string
	d        int  // outputs; settled before the method runs
	free     bool // d was the method's choice
	seed     uint64
	scaling  Scale
	progress func(string, float64)
	report   *Report
	memo     *memo // nil: nothing is shared with other fits

	rows *prepared  // nil when fitting from statistics
	x    *mat.Dense // n x m samples in the task's coordinates, for methods that look at rows; see sample
	stat *scatters
	m    int // columns of stat: the features, or the columns of basis
	// basis (features x m) spans the scaled rows, orthonormal, where rows are
	// fewer than features; nil otherwise. A direction outside it has no variance.
	basis *mat.Dense
	// columns is the numeric rank of the total scatter: the number of columns
	// after the rank cut in front, which ridges are measured by.
	columns int
	ridge   float64 // relative ridge r, settled before the method runs

	criterion   *criterion   // of maximize, once it is built
	kernelSpace *kernelSpace // of a kernel form, once it is built
}

// scatters are the statistics of a task in its coordinates, about the mean.
type scatters struct {
	n           float64 // rows, or their weight
	mean, scale []float64
	low         []float64 // least value of each feature, for minmax alone
	constant    int       // features without variance
	counts      []float64
	class       []int // index among the given classes of each present one
	means       *mat.Dense
	total       *mat.SymDense   // S_t
	within      *mat.SymDense   // S_w, nil without labels
	second      []*mat.SymDense // sum of x x' of each present class, where asked for
}

// classes is the number of classes that have rows.
func (s *scatters) classes() int { return len(s.counts) }

// betweenFactor is G with G G' = S_b: columns sqrt(n_c/n) (mu_c - mu).
func (s *scatters) betweenFactor() *mat.Dense {
	k, m := s.means.Dims()
	g := mat.NewDense(m, k, nil)
	for c := range k {
		f := math.Sqrt(s.counts[c] / s.n)
		for j, v := range s.means.RawRowView(c) {
			g.Set(j, c, f*v)
		}
	}
	return g
}

// chunk is the number of rows between two looks at the context.
const chunk = 8192

// load takes rows in: it settles the scaling, reduces where rows are fewer than
// features, gathers the statistics, and keeps the samples where the method looks
// at them.
func (t *task) load(ctx context.Context, p *prepared) error {
	t.rows = p
	if err := t.loadStatistics(ctx, p); err != nil {
		return err
	}
	if t.method.samples {
		return t.sample(ctx, p)
	}
	return nil
}

func (t *task) loadStatistics(ctx context.Context, p *prepared) error {
	// Without centring the mean counts too, and it lies outside the space that
	// the centred rows span.
	if p.n < p.m && t.params["origin"] != "none" {
		return t.loadWide(ctx, p)
	}
	sum, err := gather(ctx, p.x, p.m, p.y, t.method.secondByClass)
	if err != nil {
		return err
	}
	if err := t.summarise(sum, p, float64(p.n)); err != nil {
		return err
	}
	t.columns, err = pencil.Rank(t.stat.total)
	return err
}

func gather(ctx context.Context, x []float64, m int, y []int, byClass bool) (*moments.Summary, error) {
	n := len(x) / m
	set := moments.New(m, byClass)
	mean := make([]float64, m)
	for i := range n {
		for j, v := range x[i*m : (i+1)*m] {
			mean[j] += v / float64(n)
		}
	}
	if err := set.SetShift(mean); err != nil {
		return nil, err
	}
	for from := 0; from < n; from += chunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := min(from+chunk, n)
		var part []int
		if y != nil {
			part = y[from:to]
		}
		if err := set.Add(x[from*m:to*m], part, nil); err != nil {
			return nil, err
		}
	}
	return set.Summary(y != nil)
}

// summarise turns a summary in the features' own units into scaled scatters. p
// is nil when there are no rows.
func (t *task) summarise(s *moments.Summary, p *prepared, n float64) error {
	m := len(s.Mean)
	variance := make([]float64, m)
	for j := range m {
		if variance[j] = s.Total.At(j, j); !isFinite(variance[j]) || !isFinite(s.Mean[j]) {
			return fmt.Errorf("feature %d is too large: its second moment leaves the range of float64; divide it by a constant", j)
		}
	}
	scale, constant, low := t.scales(s.Mean, variance, n, p)
	sc := &scatters{n: s.Weight, mean: s.Mean, low: low, scale: make([]float64, m)}
	inverse := make([]float64, m)
	for j := range m {
		sc.scale[j] = scale[j]
		if constant[j] {
			sc.constant++
		} else {
			inverse[j] = 1 / scale[j]
		}
	}
	sc.total = scaleSym(s.Total, inverse)
	for c, count := range s.Counts {
		if count > 0 && t.method.Supervised {
			sc.counts = append(sc.counts, count)
			sc.class = append(sc.class, c)
		}
	}
	if k := len(sc.counts); k > 0 {
		sc.means = mat.NewDense(k, m, nil)
		for i, c := range sc.class {
			row := sc.means.RawRowView(i)
			for j, v := range s.Means.RawRowView(c) {
				row[j] = v * inverse[j]
			}
			if s.Second != nil {
				sc.second = append(sc.second, scaleSym(s.Second[c], inverse))
			}
		}
		sc.withinFromTotal()
	}
	t.stat, t.m = sc, m
	return nil
}

// withinFromTotal sets S_w = S_t - S_b. What is left of a diagonal entry below
// rounding is taken for zero, so that a class of equal rows has no variance.
func (s *scatters) withinFromTotal() {
	m := s.total.SymmetricDim()
	s.within = mat.NewSymDense(m, nil)
	s.within.CopySym(s.total)
	s.within.SymRankK(s.within, -1, s.betweenFactor())
	for j := range m {
		if s.within.At(j, j) <= 256*0x1p-52*s.total.At(j, j) {
			for i := range m {
				s.within.SetSym(i, j, 0)
			}
		}
	}
}

func scaleSym(s *mat.SymDense, f []float64) *mat.SymDense {
	m := len(f)
	out := mat.NewSymDense(m, nil)
	for i := range m {
		for j := i; j < m; j++ {
			out.SetSym(i, j, f[i]*s.At(i, j)*f[j])
		}
	}
	return out
}

// scales is the divisor of each feature, and which features are constant: their
// variance is what rounding of the mean leaves, as scikit-learn's
// StandardScaler decides it. Those keep scale 1.
func (t *task) scales(mean, variance []float64, n float64, p *prepared) (scale []float64, constant []bool, low []float64) {
	const eps = 0x1p-52
	m := len(mean)
	scale, constant = make([]float64, m), make([]bool, m)
	var high []float64
	if t.scaling == MinMax {
		low, high = ranges(p)
	}
	for j := range m {
		scale[j] = 1
		noise := n * mean[j] * eps
		if variance[j] <= n*eps*variance[j]+noise*noise {
			constant[j] = true
			continue
		}
		switch t.scaling {
		case Standard, "":
			scale[j] = math.Sqrt(variance[j])
		case MinMax:
			scale[j] = high[j] - low[j]
		}
	}
	return scale, constant, low
}

func ranges(p *prepared) (low, high []float64) {
	low = append([]float64(nil), p.x[:p.m]...)
	high = append([]float64(nil), p.x[:p.m]...)
	for i := range p.n {
		for j, v := range p.x[i*p.m : (i+1)*p.m] {
			low[j], high[j] = min(low[j], v), max(high[j], v)
		}
	}
	return low, high
}

// loadWide is load for fewer rows than features: the rows are expressed in an
// orthonormal basis of the space they span, so that nothing is m x m.
func (t *task) loadWide(ctx context.Context, p *prepared) error {
	variance := make([]float64, p.m)
	mean := make([]float64, p.m)
	for i := range p.n {
		for j, v := range p.x[i*p.m : (i+1)*p.m] {
			mean[j] += v / float64(p.n)
		}
	}
	for i := range p.n {
		for j, v := range p.x[i*p.m : (i+1)*p.m] {
			variance[j] += (v - mean[j]) * (v - mean[j]) / float64(p.n)
		}
	}
	for j := range variance {
		if !isFinite(variance[j]) || !isFinite(mean[j]) {
			return fmt.Errorf("feature %d is too large: its second moment leaves the range of float64; divide it by a constant", j)
		}
	}
	scale, constant, low := t.scales(mean, variance, float64(p.n), p)
	x := mat.NewDense(p.n, p.m, nil)
	for i := range p.n {
		row := x.RawRowView(i)
		for j, v := range p.x[i*p.m : (i+1)*p.m] {
			if !constant[j] {
				row[j] = (v - mean[j]) / scale[j]
			}
		}
	}
	basis := rowSpace(x, variance, scale, constant)
	if err := ctx.Err(); err != nil {
		return err
	}
	if basis == nil { // nothing varies; run says so
		t.stat = &scatters{n: float64(p.n), mean: mean, scale: scale}
		t.countClasses(p)
		return nil
	}
	_, r := basis.Dims()
	var reduced mat.Dense
	reduced.Mul(x, basis)
	sum, err := gather(ctx, reduced.RawMatrix().Data, r, p.y, t.method.secondByClass)
	if err != nil {
		return err
	}
	plain := *t
	plain.scaling = None
	if err := plain.summarise(sum, nil, 0); err != nil {
		return err
	}
	t.stat, t.m, t.basis, t.columns = plain.stat, r, basis, r
	t.stat.mean, t.stat.scale, t.stat.low, t.stat.constant = mean, scale, low, 0
	for _, c := range constant {
		if c {
			t.stat.constant++
		}
	}
	return nil
}

func (t *task) countClasses(p *prepared) {
	seen := map[int]bool{}
	for _, c := range p.y {
		if !seen[c] {
			seen[c] = true
			t.stat.counts = append(t.stat.counts, 1)
		}
	}
}

// rowSpace is an orthonormal basis (m x rank) of the space that the centred rows
// of x span, nil where nothing varies. The rank is decided on columns of unit
// variance, as pencil.Cut decides it, so that a feature counts by its own scale.
func rowSpace(x *mat.Dense, variance, scale []float64, constant []bool) *mat.Dense {
	n, m := x.Dims()
	even := mat.NewDense(m, n, nil)
	one := true
	deviation := make([]float64, m) // in scaled units
	for j := range m {
		if constant[j] {
			continue
		}
		deviation[j] = math.Sqrt(variance[j]) / scale[j]
		one = one && math.Abs(deviation[j]-1) < 1e-12
		row := even.RawRowView(j)
		for i := range n {
			row[i] = x.At(i, j) / deviation[j]
		}
	}
	// Pivots are singular values, roots of what the cut is on.
	basis := pencil.Orthonormal(even, math.Sqrt(float64(m)*0x1p-52))
	if basis == nil || one {
		return basis
	}
	for j := range m {
		row := basis.RawRowView(j)
		for k := range row {
			row[k] *= deviation[j]
		}
	}
	return pencil.Orthonormal(basis, 0)
}

// origin is the point that Origin=none leaves uncentred rows about, as the mean
// minus it in scaled coordinates: zero for standard scaling, which centres.
func (t *task) origin() []float64 {
	v := make([]float64, len(t.stat.mean))
	for j, mean := range t.stat.mean {
		switch t.scaling {
		case None, Unit:
			v[j] = mean
		case MinMax:
			v[j] = (mean - t.stat.low[j]) / t.stat.scale[j]
		}
	}
	return v
}

// solved makes a solution of a pencil's and puts its evidence in the report.
func (t *task) solved(s *pencil.Solution, informative int) *solution {
	if !math.IsInf(s.Gap, 0) {
		gap := s.Gap
		t.report.Gap = &gap
	}
	t.report.Ties = s.Ties
	t.report.Residual = s.Residual
	_, d := s.Vectors.Dims()
	return &solution{components: mat.DenseCopyOf(s.Vectors).RawMatrix().Data, d: d,
		eigenvalues: s.Values, informative: informative}
}
