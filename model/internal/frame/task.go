package frame

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// Task is one fit as its method sees it: statistics and rows in scaled
// coordinates, with the rank cut in front already done where rows are fewer
// than features.
type Task struct {
	Method   *Method
	Params   map[string]string
	D        int  // outputs; settled before the method runs
	Free     bool // d was the method's choice
	Pad      bool // outputs that the criterion does not decide are directions of variance
	padTo    int  // outputs, where the criterion decides fewer
	Seed     uint64
	Scaling  model.Scale
	Progress func(string, float64)
	Report   *model.Report
	Memo     *Memo // nil: nothing is shared with other fits

	Rows *Rows        // nil when fitting from statistics
	Sums *moments.Set // of rows that nobody kept; nil when fitting from rows
	X    *mat.Dense   // n x m samples in the task's coordinates, for methods that look at rows; see sample
	Stat *scatters
	M    int // columns of stat: the features, or the columns of basis
	// basis (features x m) spans the scaled rows, orthonormal, where rows are
	// fewer than features; nil otherwise. A direction outside it has no variance.
	basis *mat.Dense
	// columns is the numeric rank of the total scatter: the number of columns
	// after the rank cut in front, which ridges are measured by.
	Columns int
	Ridge   float64 // relative ridge r, settled before the method runs
	Share   float64 // of the variance in front of the method, settled with the ridge

	criterion *criterion // of maximize, once it is built
	Kept      any        // what a method keeps for all ridges
}

// scatters are the statistics of a task in its coordinates, about the mean.
type scatters struct {
	N           float64 // rows, or their weight
	Mean, Scale []float64
	low         []float64 // least value of each feature, for minmax alone
	constant    int       // features without variance
	Counts      []float64
	Class       []int // index among the given classes of each present one
	Means       *mat.Dense
	Total       *mat.SymDense   // S_t
	Within      *mat.SymDense   // S_w, nil without labels
	Second      []*mat.SymDense // sum of x x' of each present class, where asked for
}

// Classes is the number of classes that have rows.
func (s *scatters) Classes() int { return len(s.Counts) }

// BetweenFactor is G with G G' = S_b: columns sqrt(n_c/n) (mu_c - mu).
func (s *scatters) BetweenFactor() *mat.Dense {
	k, m := s.Means.Dims()
	g := mat.NewDense(m, k, nil)
	for c := range k {
		f := math.Sqrt(s.Counts[c] / s.N)
		for j, v := range s.Means.RawRowView(c) {
			g.Set(j, c, f*v)
		}
	}
	return g
}

// chunk is the number of rows between two looks at the context.
const chunk = 8192

// Load takes rows in: it settles the scaling, reduces where rows are fewer than
// features, gathers the statistics, and keeps the samples where the method looks
// at them.
func (t *Task) Load(ctx context.Context, p *Rows) error {
	t.Rows = p
	if err := t.loadStatistics(ctx, p); err != nil {
		return err
	}
	if t.Method.Samples {
		return t.sample(ctx, p)
	}
	return nil
}

// LoadSums is Load of the statistics of rows that nobody kept.
func (t *Task) LoadSums(ctx context.Context, s *moments.Set) error {
	t.Sums = s
	sum, err := s.Summary(t.Method.Supervised)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	if err := cmp.Or(t.Summarise(ctx, sum, nil, sum.Weight), ctx.Err()); err != nil {
		return err
	}
	t.Columns, err = pencil.Rank(ctx, t.Stat.Total)
	return err
}

func (t *Task) loadStatistics(ctx context.Context, p *Rows) error {
	// Without centring the mean counts too, and it lies outside the space that
	// the centred rows span.
	if p.N < p.M && t.Params["origin"] != "none" {
		return t.loadWide(ctx, p)
	}
	sum, err := gather(ctx, p.X, p.M, p.Y, t.Method.SecondByClass)
	if err != nil {
		return err
	}
	if err := cmp.Or(t.Summarise(ctx, sum, p, float64(p.N)), ctx.Err()); err != nil {
		return err
	}
	t.Columns, err = pencil.Rank(ctx, t.Stat.Total)
	return err
}

func gather(ctx context.Context, x []float64, m int, y []int, byClass bool) (*moments.Summary, error) {
	n := len(x) / m
	set := moments.New(m, byClass)
	if err := set.SetShift(near(x, m)); err != nil {
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
		if err := set.Add(ctx, x[from*m:to*m], part, nil); err != nil {
			return nil, err
		}
	}
	return set.Summary(y != nil)
}

// near is the mean of some rows of m numbers, evenly spaced: moments about it lose no digits.
func near(x []float64, m int) []float64 {
	n := len(x) / m
	mean, some := make([]float64, m), min(n, 1024)
	for i := range some {
		for j, v := range x[i*n/some*m:][:m] {
			mean[j] += v / float64(some)
		}
	}
	return mean
}

// Summarise turns a summary in the features' own units into scaled scatters, in
// the summary's own memory. p is nil when there are no rows.
func (t *Task) Summarise(ctx context.Context, s *moments.Summary, p *Rows, n float64) error {
	m := len(s.Mean)
	variance := make([]float64, m)
	for j := range m {
		if variance[j] = s.Total.At(j, j); !linalg.IsFinite(variance[j]) || !linalg.IsFinite(s.Mean[j]) {
			return fmt.Errorf("feature %d is too large: its second moment leaves the range of float64; divide it by a constant", j)
		}
	}
	scale, constant, low := t.Scales(s.Mean, variance, n, p)
	sc := &scatters{N: s.Weight, Mean: s.Mean, low: low, Scale: make([]float64, m)}
	inverse := make([]float64, m)
	for j := range m {
		sc.Scale[j] = scale[j]
		if constant[j] {
			sc.constant++
		} else {
			inverse[j] = 1 / scale[j]
		}
	}
	sc.Total = linalg.ScaleSym(s.Total, inverse)
	for c, count := range s.Counts {
		if count > 0 && t.Method.Supervised {
			sc.Counts = append(sc.Counts, count)
			sc.Class = append(sc.Class, c)
		}
	}
	if k := len(sc.Counts); k > 0 {
		sc.Means = mat.NewDense(k, m, nil)
		for i, c := range sc.Class {
			row := sc.Means.RawRowView(i)
			for j, v := range s.Means.RawRowView(c) {
				row[j] = v * inverse[j]
			}
			if s.Second != nil {
				sc.Second = append(sc.Second, linalg.ScaleSym(s.Second[c], inverse))
			}
		}
		if err := sc.withinFromTotal(ctx); err != nil {
			return err
		}
	}
	t.Stat, t.M = sc, m
	return nil
}

// withinFromTotal sets S_w = S_t - S_b. What is left of a diagonal entry below
// rounding is taken for zero, so that a class of equal rows has no variance.
func (s *scatters) withinFromTotal(ctx context.Context) error {
	m := s.Total.SymmetricDim()
	s.Within = mat.NewSymDense(m, nil)
	s.Within.CopySym(s.Total)
	g := mat.DenseCopyOf(s.BetweenFactor().T()).RawMatrix()
	o := tile.Dense(g.Data, g.Rows, g.Cols, g.Stride)
	if err := tile.Add(ctx, tile.Sum{C: s.Within.RawSymmetric().Data, Stride: m, Alpha: -1, A: o, B: o,
		Upper: true}); err != nil {
		return err
	}
	for j := range m {
		if s.Within.At(j, j) <= 256*0x1p-52*s.Total.At(j, j) {
			for i := range m {
				s.Within.SetSym(i, j, 0)
			}
		}
	}
	return nil
}

// Scales is the divisor of each feature, and which features are constant: their
// variance is what rounding of the mean leaves, as scikit-learn's
// StandardScaler decides it. Those keep scale 1.
func (t *Task) Scales(mean, variance []float64, n float64, p *Rows) (scale []float64, constant []bool, low []float64) {
	const eps = 0x1p-52
	m := len(mean)
	scale, constant = make([]float64, m), make([]bool, m)
	var high []float64
	if t.Scaling == model.ScaleMinMax {
		low, high = ranges(p)
	}
	for j := range m {
		scale[j] = 1
		noise := n * mean[j] * eps
		if variance[j] <= n*eps*variance[j]+noise*noise {
			constant[j] = true
			continue
		}
		switch t.Scaling {
		case model.ScaleStandard, model.ScaleAuto, "":
			scale[j] = math.Sqrt(variance[j])
		case model.ScaleMinMax:
			scale[j] = high[j] - low[j]
		}
	}
	return scale, constant, low
}

func ranges(p *Rows) (low, high []float64) {
	low = append([]float64(nil), p.X[:p.M]...)
	high = append([]float64(nil), p.X[:p.M]...)
	for i := range p.N {
		for j, v := range p.X[i*p.M : (i+1)*p.M] {
			low[j], high[j] = min(low[j], v), max(high[j], v)
		}
	}
	return low, high
}

// loadWide is load for fewer rows than features: the rows are expressed in an
// orthonormal basis of the space they span, so that nothing is m x m.
func (t *Task) loadWide(ctx context.Context, p *Rows) error {
	variance := make([]float64, p.M)
	mean := make([]float64, p.M)
	for i := range p.N {
		for j, v := range p.X[i*p.M : (i+1)*p.M] {
			mean[j] += v / float64(p.N)
		}
	}
	for i := range p.N {
		for j, v := range p.X[i*p.M : (i+1)*p.M] {
			variance[j] += (v - mean[j]) * (v - mean[j]) / float64(p.N)
		}
	}
	for j := range variance {
		if !linalg.IsFinite(variance[j]) || !linalg.IsFinite(mean[j]) {
			return fmt.Errorf("feature %d is too large: its second moment leaves the range of float64; divide it by a constant", j)
		}
	}
	scale, constant, low := t.Scales(mean, variance, float64(p.N), p)
	x := mat.NewDense(p.N, p.M, nil)
	for i := range p.N {
		row := x.RawRowView(i)
		for j, v := range p.X[i*p.M : (i+1)*p.M] {
			if !constant[j] {
				row[j] = (v - mean[j]) / scale[j]
			}
		}
	}
	basis := rowSpace(ctx, x, variance, scale, constant)
	if err := ctx.Err(); err != nil {
		return err
	}
	if basis == nil { // nothing varies; run says so
		t.Stat = &scatters{N: float64(p.N), Mean: mean, Scale: scale}
		t.countClasses(p)
		return nil
	}
	_, r := basis.Dims()
	reduced := tile.Multiply(ctx, x, basis)
	sum, err := gather(ctx, reduced.RawMatrix().Data, r, p.Y, t.Method.SecondByClass)
	if err != nil {
		return err
	}
	plain := *t
	plain.Scaling = model.ScaleNone
	if err := plain.Summarise(ctx, sum, nil, 0); err != nil {
		return err
	}
	t.Stat, t.M, t.basis, t.Columns = plain.Stat, r, basis, r
	t.Stat.Mean, t.Stat.Scale, t.Stat.low, t.Stat.constant = mean, scale, low, 0
	for _, c := range constant {
		if c {
			t.Stat.constant++
		}
	}
	return nil
}

func (t *Task) countClasses(p *Rows) {
	seen := map[int]bool{}
	for _, c := range p.Y {
		if !seen[c] {
			seen[c] = true
			t.Stat.Counts = append(t.Stat.Counts, 1)
		}
	}
}

// rowSpace is an orthonormal basis (m x rank) of the space that the centred rows
// of x span, nil where nothing varies. The rank is decided on columns of unit
// variance, as pencil.Cut decides it, so that a feature counts by its own scale.
func rowSpace(ctx context.Context, x *mat.Dense, variance, scale []float64, constant []bool) *mat.Dense {
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
	basis := pencil.Orthonormal(ctx, even, math.Sqrt(float64(m)*0x1p-52))
	if basis == nil || one {
		return basis
	}
	for j := range m {
		row := basis.RawRowView(j)
		for k := range row {
			row[k] *= deviation[j]
		}
	}
	return pencil.Orthonormal(ctx, basis, 0)
}

// Origin is the point that Origin=none leaves uncentred rows about, as the mean
// minus it in scaled coordinates: zero for standard scaling, which centres.
func (t *Task) Origin() []float64 {
	v := make([]float64, len(t.Stat.Mean))
	for j, mean := range t.Stat.Mean {
		switch t.Scaling {
		case model.ScaleNone, model.ScaleUnit:
			v[j] = mean
		case model.ScaleMinMax:
			v[j] = (mean - t.Stat.low[j]) / t.Stat.Scale[j]
		}
	}
	return v
}
