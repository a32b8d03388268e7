package frame

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// chunk is the number of rows between two checks of the context.
const chunk = 8192

// Load loads rows: it chooses the coordinates, computes the statistics, and keeps the rows in X if the method needs
// them.
func (t *Task) Load(ctx context.Context, p *Rows) (err error) {
	defer fail.Catch(&err)
	t.Rows = p
	t.loadStatistics(ctx, p)
	if t.Method.Samples() {
		t.sample(ctx, p)
	}
	return nil
}

// LoadSums loads moments of rows that were not kept.
func (t *Task) LoadSums(ctx context.Context, s *moments.Set) (err error) {
	defer fail.Catch(&err)
	t.Sums = s
	sum := fail.Must(s.Summary(t.Method.Supervised))
	t.Summarise(ctx, sum, nil, sum.Weight)
	t.Columns = fail.Must(pencil.Rank(ctx, t.Basis.Total))
	return nil
}

func (t *Task) loadStatistics(ctx context.Context, p *Rows) {
	// Without centring, the mean counts too, and it is not in the space that the centred rows span. A method that does
	// not read the rows needs a basis of them only if they are much fewer than features: making it costs more time and
	// memory than matrices of not many more features than rows. Without a ridge, a denominator may be definite only in
	// that space.
	ridge, err := strconv.ParseFloat(t.Params["ridge"], 64)
	wide := p.N < p.M && (t.Method.Samples() || 5*p.N < 3*p.M || err == nil && ridge == 0)
	if wide && t.Params["origin"] != "none" {
		t.loadWide(ctx, p)
		return
	}
	var read []float64
	block := func(from, to int) []float64 {
		if p.IsStored() {
			read = slices.Grow(read[:0], (to-from)*p.M)
			return p.read(read[:(to-from)*p.M], from)
		}
		return p.X[from*p.M : to*p.M]
	}
	t.Summarise(ctx, summaryOf(t, p, func() *moments.Summary {
		return gather(ctx, p.N, p.M, p.Y, t.Method.SecondByClass, block)
	}), p, float64(p.N))
	t.Columns = fail.Must(pencil.Rank(ctx, t.Basis.Total))
}

// gather computes the moments of n rows of m numbers. block returns some of them, until its next call.
func gather(ctx context.Context, n, m int, y []int, byClass bool, block func(from, to int) []float64) *moments.Summary {
	set := moments.New(m, byClass)
	some := min(n, 1024) // a mean of these, because moments about it avoid cancellation
	fail.Check(set.SetShift(linalg.Mean(some, m, func(i int) []float64 { return block(i*n/some, i*n/some+1) })))
	for from := 0; from < n; from += chunk {
		fail.Check(ctx.Err())
		to := min(from+chunk, n)
		var part []int
		if y != nil {
			part = y[from:to]
		}
		fail.Check(set.Add(ctx, block(from, to), part))
	}
	return fail.Must(set.Summary(y != nil))
}

// Summarise turns a summary of the unscaled features into scaled scatters, in the memory of the summary. p is nil if
// there are no rows.
func (t *Task) Summarise(ctx context.Context, s *moments.Summary, p *Rows, n float64) {
	m := len(s.Mean)
	variance := make([]float64, m)
	for j := range m {
		if variance[j] = s.Total.At(j, j); !linalg.IsFinite(variance[j]) || !linalg.IsFinite(s.Mean[j]) {
			panic(fail.With(errTooLarge(j)))
		}
	}
	scale, constant, low := t.Scales(s.Mean, variance, n, p)
	sc := &BasisScatters{N: s.Weight}
	inverse := make([]float64, m)
	for j := range m {
		if !constant[j] {
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
		sc.withinFromTotal(ctx)
	}
	t.Basis, t.Units, t.M = sc, &Units{s.Mean, scale, low, constant}, m
}

// Scales is the divisor of each feature, and which features are constant: those whose variance is within the rounding
// error of the mean, as scikit-learn's StandardScaler decides it. They keep scale 1.
func (t *Task) Scales(mean, variance []float64, n float64, p *Rows) (scale []float64, constant []bool, low []float64) {
	const eps = 0x1p-52 // of float64
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
	low, high = slices.Clone(p.X[:p.M]), slices.Clone(p.X[:p.M])
	for i := range p.N {
		for j, v := range p.X[i*p.M : (i+1)*p.M] {
			if v < low[j] { // faster than min, which also checks for NaN
				low[j] = v
			}
			if v > high[j] {
				high[j] = v
			}
		}
	}
	return low, high
}

// loadWide loads fewer rows than features: it expresses the rows in an orthonormal basis of the space that they span,
// so that no matrix is m x m.
func (t *Task) loadWide(ctx context.Context, p *Rows) {
	mean, variance := p.Spread()
	for j := range variance {
		if !linalg.IsFinite(variance[j]) || !linalg.IsFinite(mean[j]) {
			panic(fail.With(errTooLarge(j)))
		}
	}
	scale, constant, low := t.Scales(mean, variance, float64(p.N), p)
	t.Units = &Units{mean, scale, low, constant}
	x := t.FeatureRows()
	basis := rowSpace(ctx, x, variance, scale, constant)
	fail.Check(ctx.Err())
	if basis == nil { // nothing varies; Run reports it
		t.Basis = &BasisScatters{N: float64(p.N), Counts: make([]float64, len(p.ByClass()))}
		t.Units = &Units{Mean: mean, Scale: scale}
		return
	}
	_, r := basis.Dims()
	x = tile.Multiply(ctx, x, basis)
	sum := gather(ctx, p.N, r, p.Y, t.Method.SecondByClass,
		func(from, to int) []float64 { return x.RawMatrix().Data[from*r : to*r] })
	plain := *t
	plain.Scaling = model.ScaleNone
	plain.Summarise(ctx, sum, nil, 0)
	t.Basis, t.M, t.axes, t.Columns = plain.Basis, r, basis, r
}

// rowSpace is an orthonormal basis (m x rank) of the space that the centred rows of x span, nil if nothing varies. The
// rank is decided on columns of unit variance, as pencil.Cut decides it, so that each feature counts by its own scale.
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
	// Pivots are singular values: square roots of what Cut compares.
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

// sample sets X, the scaled and centred rows. They are always in a basis of full rank, so that no method sees a
// direction without variance. The remaining directions keep their scale.
func (t *Task) sample(ctx context.Context, p *Rows) {
	if t.Columns == 0 {
		return // nothing varies; Run reports it
	}
	x := mat.NewDense(p.N, p.M, Grown(&ScratchOf(t).samples, p.N*p.M))
	fail.Check(parallel.Each(ctx, p.N, func(i int) {
		row := x.RawRowView(i)
		copy(row, p.X[i*p.M:])
		tile.Standardise(row, t.Units.Mean, t.Units.Scale)
	}))
	if t.axes == nil && t.Columns < t.M {
		t.cutRank(ctx)
	}
	t.X = x
	if t.axes != nil {
		t.X = tile.Multiply(ctx, x, t.axes)
	}
	if t.shared != nil {
		t.shared.x = t.X
	}
}

// cutRank expresses the statistics in an orthonormal basis of the range of the total scatter.
func (t *Task) cutRank(ctx context.Context) {
	cut := fail.Must(pencil.Cut(t.Basis.Total))
	r := cut.Rank()
	// S_t Z spans the range of S_t, and the equilibration of the cut has made Z well conditioned.
	var span mat.Dense
	span.Mul(t.Basis.Total, cut.Unwhiten(linalg.Identity(r)))
	basis := pencil.Orthonormal(ctx, &span, 0)
	if basis == nil {
		panic(fail.With(fmt.Errorf("the total scatter of rank %d has no basis", r)))
	}
	_, r = basis.Dims()
	reduce := func(s *mat.SymDense) *mat.SymDense {
		if s == nil {
			return nil
		}
		var half, full mat.Dense
		half.Mul(basis.T(), s)
		full.Mul(&half, basis)
		return linalg.Symmetric(&full)
	}
	s := *t.Basis
	s.Total, s.Within = reduce(s.Total), reduce(s.Within)
	if s.Means != nil {
		k, _ := s.Means.Dims()
		means := mat.NewDense(k, r, nil)
		means.Mul(s.Means, basis)
		s.Means = means
	}
	t.Basis, t.axes, t.M, t.Columns = &s, basis, r, r
}

// Capped is the task on at most limit of its rows, evenly spaced and stratified by class; the scaling stays that of
// all rows. Methods whose cost grows with the square or the cube of the rows use it, and the report mentions it.
func (t *Task) Capped(limit int) *Task {
	if t.Rows.N <= limit {
		return t
	}
	pick := Spaced(linalg.Range(t.Rows.N), limit)
	if t.Rows.Y != nil {
		pick = t.Rows.Stratified(limit)
	}
	t.Report.Note(fmt.Sprintf("%d of %d rows were used, evenly spaced: the cost grows too fast with the rows",
		len(pick), t.Rows.N))
	c := *t
	c.Rows = t.Rows.Subset(pick)
	c.X = linalg.Pick(t.X, pick)
	return &c
}

func errTooLarge(feature int) error {
	return fmt.Errorf("feature %d is too large: its second moment exceeds float64; divide it by a constant",
		feature)
}
