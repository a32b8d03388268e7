package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// Data is what a fit sees. It is only read.
type Data struct {
	X        []float64 // n x m row-major; NaN is a missing value
	N, M     int
	Y        []int    // index into Classes of each row, -1 for no label; nil: none has one
	Classes  []string // names, in any order; the model lists them as given
	Features []string // m names; nil: x0, x1, ...
}

// Scale says how features are scaled before the method sees them.
type Scale string

const (
	Standard Scale = "standard" // unit variance; the default
	MinMax   Scale = "minmax"   // unit range
	Unit     Scale = "unit"     // each row divided by its Euclidean norm
	None     Scale = "none"
)

// Config is how to fit.
type Config struct {
	Method string
	Dim    int               // outputs of a row, d; 0: the method's default; AutoDim: by cross-validation
	Scale  Scale             // "": Standard
	Params map[string]string // of the method, by name; see Method.Params
	Seed   uint64            // for methods that draw; the same seed gives the same model
	// Progress, where set, is called from the fitting goroutine with the phase
	// and the share of it that is done, in [0, 1].
	Progress func(phase string, done float64)

	choice *Choice // what Auto and AutoDim were settled to

	memo *memo // of an evaluation, which fits the same rows more than once
}

// DimError reports more outputs asked for than the rows allow. A caller that
// wants as many as there are fits again with Max.
type DimError struct {
	Asked, Max int
	what       string
}

func (e *DimError) Error() string {
	return fmt.Sprintf("dim %d exceeds %s", e.Asked, e.what)
}

// Validate checks everything that can be checked without rows.
func (c Config) Validate() error {
	_, _, err := c.resolve()
	return err
}

func (c Config) resolve() (*Method, map[string]string, error) {
	m, err := lookup(c.Method)
	if err != nil {
		return nil, nil, err
	}
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	params, err := m.resolve(c.Params)
	return m, params, err
}

// check is what holds whatever the method.
func (c Config) check() error {
	switch c.Scale {
	case "", Standard, MinMax, Unit, None:
	default:
		return fmt.Errorf("unknown scale %q; give one of standard, minmax, unit, none", c.Scale)
	}
	if c.Dim < 0 && c.Dim != AutoDim {
		return fmt.Errorf("dim is %d; give at least 1, 0 for the method's default, or %d (AutoDim) for the best by cross-validation", c.Dim, AutoDim)
	}
	return nil
}

// Fit learns a model from rows. The same rows in the same order with the same
// configuration give the same digest. Methods that need labels use the
// labelled rows only. The model of Auto bears the name of the method that was
// chosen; its parameter auto, and the report, say so. A cancelled ctx ends the fit with its error.
func Fit(ctx context.Context, d *Data, c Config) (_ *Model, err error) {
	defer parallel.Recover(&err, c.Method)
	if c.Method == Auto || c.Dim == AutoDim {
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return choose(ctx, d, c)
	}
	return fitSettled(ctx, d, c)
}

// fitSettled is Fit of a method and a dimension that are settled.
func fitSettled(ctx context.Context, d *Data, c Config) (*Model, error) {
	method, params, err := c.resolve()
	if err != nil {
		return nil, err
	}
	return fitMethod(ctx, method, params, d, c)
}

func fitMethod(ctx context.Context, method *Method, params map[string]string, d *Data, c Config) (*Model, error) {
	report := c.begin(params)
	end := report.phase("prepare")
	rows, err := prepare(d, method.Supervised, c.Scale == Unit, report)
	if err != nil {
		return nil, err
	}
	end()
	t := &task{method: method, params: params, d: c.Dim, seed: c.Seed, scaling: c.Scale, progress: c.Progress, report: report, memo: c.memo}
	t.say("statistics", 0)
	end = report.phase("statistics")
	if err := t.load(ctx, rows); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	end()
	m, err := t.run(ctx, d.Features, d.Classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	return m, nil
}

// FitMoments learns a model from statistics alone, for methods whose Streaming
// is "moments". It gives the model that Fit gives on the same rows, within
// rounding, where the ridge is a number or oas; ridge=auto means oas here,
// since no rows are kept to validate on. For the same reason Auto is lda, or
// pairacc for more than C-1 dimensions, or pca without labels, and AutoDim the method's default.
// Scale is standard or none.
func FitMoments(ctx context.Context, s *moments.Set, features, classes []string, c Config) (_ *Model, err error) {
	defer parallel.Recover(&err, c.Method)
	method, params, err := c.resolve()
	if err == nil && s != nil && (c.Method == Auto || c.Dim == AutoDim) {
		chooseByMoments(s, &c)
		method, params, err = c.resolve()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("%s: no statistics given", method.Name)
	case method.Streaming != "moments":
		return nil, fmt.Errorf("%s: needs the rows; fit it from a window", method.Name)
	case c.Scale == MinMax || c.Scale == Unit:
		return nil, fmt.Errorf("%s: scale %s needs the rows; give standard or none", method.Name, c.Scale)
	case method.secondByClass && !s.PerClass():
		return nil, fmt.Errorf("%s: needs second moments by class; make the set with them", method.Name)
	case features != nil && len(features) != s.M():
		return nil, fmt.Errorf("%s: %d feature names for %d features", method.Name, len(features), s.M())
	}
	if s.Classes() > len(classes) && method.Supervised {
		return nil, fmt.Errorf("%s: statistics of %d classes, names of %d", method.Name, s.Classes(), len(classes))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := c.begin(params)
	t := &task{method: method, params: params, d: c.Dim, seed: c.Seed, scaling: c.Scale, progress: c.Progress, report: report}
	end := report.phase("statistics")
	if method.Supervised {
		report.Unlabelled = int(math.Round(s.Count(-1)))
	}
	sum, err := s.Summary(method.Supervised)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	if err := t.summarise(sum, nil, sum.Weight); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	if t.columns, err = pencil.Rank(t.stat.total); err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	end()
	m, err := t.run(ctx, features, classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method.Name, err)
	}
	return m, nil
}

// prepared is the rows a fit uses: finite, divided by their norm where asked.
type prepared struct {
	x    []float64 // n x m
	n, m int
	y    []int    // class of each row; nil for methods without labels
	of   []string // class names
	data *Data    // where the rows come from
	at   []int    // index of each row there
}

// prepare checks the data, leaves out what a supervised method cannot use and
// imputes missing values by the mean of the present ones.
func prepare(d *Data, supervised, unit bool, report *Report) (*prepared, error) {
	switch {
	case d == nil:
		return nil, fmt.Errorf("data: none given")
	case d.N < 0 || d.M < 1 || len(d.X) != d.N*d.M:
		return nil, fmt.Errorf("data: %d values are not %d rows x %d features", len(d.X), d.N, d.M)
	case d.Y != nil && len(d.Y) != d.N:
		return nil, fmt.Errorf("data: %d labels for %d rows", len(d.Y), d.N)
	case d.Features != nil && len(d.Features) != d.M:
		return nil, fmt.Errorf("data: %d feature names for %d features", len(d.Features), d.M)
	}
	m := d.M
	p := &prepared{m: m, of: d.Classes, data: d, x: make([]float64, 0, len(d.X))}
	for i := range d.N {
		c := -1
		if d.Y != nil {
			c = d.Y[i]
		}
		if c < -1 || c >= len(d.Classes) {
			return nil, fmt.Errorf("data: row %d has class %d of %d", i, c, len(d.Classes))
		}
		if supervised {
			if c < 0 {
				report.Unlabelled++
				continue
			}
			p.y = append(p.y, c)
		}
		p.x = append(p.x, d.X[i*m:(i+1)*m]...)
		p.at = append(p.at, i)
		p.n++
	}
	if p.n < 2 {
		kind := "rows"
		if supervised {
			kind = "labelled rows"
		}
		return nil, fmt.Errorf("data: %d %s (of %d rows); a fit needs at least 2", p.n, kind, d.N)
	}
	for k, v := range p.x {
		if math.IsInf(v, 0) {
			return nil, fmt.Errorf("data: row %d, feature %s is %g; leave the row out or make the value missing (NaN)", p.at[k/m], featureName(d.Features, k%m), v)
		}
	}
	if unit {
		for i := range p.n {
			row := p.x[i*m : (i+1)*m]
			norm := rowNorm(row)
			for j := range row {
				row[j] /= norm
			}
		}
	}
	return p, p.impute(d.Features, report)
}

func (p *prepared) impute(features []string, report *Report) error {
	missing := make([]int, p.m)
	for k, v := range p.x {
		if math.IsNaN(v) {
			missing[k%p.m]++
			report.Imputed++
		}
	}
	if report.Imputed == 0 {
		return nil
	}
	for j, k := range missing {
		if k == p.n {
			return fmt.Errorf("data: feature %s has no value in any of %d rows; leave it out", featureName(features, j), p.n)
		}
		if k == 0 {
			continue
		}
		mean := 0.0
		for i := range p.n {
			if v := p.x[i*p.m+j]; !math.IsNaN(v) {
				mean += v / float64(p.n-k)
			}
		}
		for i := range p.n {
			if at := i*p.m + j; math.IsNaN(p.x[at]) {
				p.x[at] = mean
			}
		}
	}
	report.note(fmt.Sprintf("%d missing values were replaced by the mean of their feature", report.Imputed))
	return nil
}

func featureName(names []string, j int) string {
	if j < len(names) {
		return fmt.Sprintf("%q", names[j])
	}
	return fmt.Sprintf("%d", j)
}

// run resolves the dimension and the ridge, fits, and makes the model.
func (t *task) run(ctx context.Context, features, classes []string) (*Model, error) {
	if t.method.Supervised && t.stat.classes() < 2 {
		return nil, fmt.Errorf("only one class in %g labelled rows; it needs at least 2", t.stat.n)
	}
	if t.columns == 0 {
		return nil, fmt.Errorf("no feature varies over %g rows", t.stat.n)
	}
	t.report.Rows = int(math.Round(t.stat.n))
	t.report.Rank = t.columns
	t.report.Constant = t.stat.constant
	if t.stat.constant > 0 {
		t.report.note(fmt.Sprintf("%d of %d features are constant and carry nothing", t.stat.constant, len(t.stat.mean)))
	}
	single := 0
	for _, n := range t.stat.counts {
		if n == 1 {
			single++
		}
	}
	if single > 0 {
		t.report.note(fmt.Sprintf("%d of %d classes have one row: they count by their mean alone", single, t.stat.classes()))
	}
	if err := t.settleDim(); err != nil {
		return nil, err
	}
	if err := t.settleRidge(ctx); err != nil {
		return nil, err
	}
	t.say("fit", 0)
	end := t.report.phase("fit")
	sol, err := t.solve(ctx)
	if err != nil {
		return nil, err
	}
	end()
	t.say("fit", 1)
	t.report.Eigenvalues = sol.eigenvalues
	t.report.Informative = sol.informative
	if t.report.Choice != nil {
		t.report.Choice.Dim = sol.d
	}
	return t.model(sol, features, classes)
}

// model makes the model of a solution.
func (t *task) model(sol *solution, features, classes []string) (*Model, error) {
	mapping, wide := sol.mapping, false
	if mapping == nil {
		l := &linear{d: sol.d, components: t.unreduce(sol.components, sol.d)}
		wide = cancellation(mat.NewDense(len(t.stat.mean), l.d, l.components), t.stat.total, t.basis) > maxCancellation
		mapping = l
	}
	if s := t.spread(sol); s > 0 && (s < leastSpread || s > mostSpread) {
		return nil, fmt.Errorf("the outputs vary by %.3g, which float32 cannot hold; scale the features, or multiply them by a constant", s)
	}
	if features == nil {
		features = make([]string, len(t.stat.mean))
		for j := range features {
			features[j] = fmt.Sprintf("x%d", j)
		}
	}
	m := &Model{
		method: t.method.Name, params: t.params, features: slices.Clone(features), rows: t.report.Rows,
		unit: t.scaling == Unit, wide: wide, mean: t.stat.mean, scale: t.stat.scale,
		mapping: mapping, eigenvalues: sol.eigenvalues, rank: sol.informative, report: *t.report,
	}
	if t.method.Supervised {
		m.classes = slices.Clone(classes)
	}
	return m.seal()
}

// Outputs are float32. Some orders of magnitude are left for rows unlike those
// of the fit.
const (
	leastSpread = 1e-34
	mostSpread  = 1e34
)

// spread is the largest standard deviation of an output of a linear map, or the
// largest value that an embedding has; 0 for other maps, whose outputs have a
// scale of their own.
func (t *task) spread(sol *solution) float64 {
	largest := 0.0
	if sol.mapping != nil {
		if e, ok := sol.mapping.(interface{ values() []float64 }); ok {
			for _, v := range e.values() {
				largest = max(largest, math.Abs(v))
			}
		}
		return largest
	}
	a := mat.NewDense(t.m, sol.d, sol.components)
	var sa mat.Dense
	sa.Mul(t.stat.total, a)
	for c := range sol.d {
		largest = max(largest, math.Sqrt(max(mat.Dot(a.ColView(c), sa.ColView(c)), 0)))
	}
	return largest
}

// settleDim replaces dimension 0 by the method's default and holds d to its bound.
func (t *task) settleDim() error {
	bound, what := t.method.bound(t)
	if t.d == 0 {
		t.free = true
		t.d = t.method.dim(t)
		if t.d > bound {
			t.report.note(fmt.Sprintf("the default dim %d was clamped to %s", t.d, t.explain(what, bound)))
			t.d = bound
		}
	}
	if t.d > bound {
		return &DimError{Asked: t.d, Max: bound, what: t.explain(what, bound)}
	}
	return nil
}

func (t *task) explain(what string, bound int) string {
	return fmt.Sprintf("%s; n=%g, m=%d", fmt.Sprintf(what, bound), t.stat.n, len(t.stat.mean))
}

// solve runs the method. A bound that is not known before the criterion is shows
// only here: class means that lie on a line, for one.
func (t *task) solve(ctx context.Context) (*solution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sol, err := t.method.fit(ctx, t)
	var rank *pencil.RankError
	var bound *DimError
	switch {
	case errors.As(err, &rank) && rank.Max < 1:
		return nil, fmt.Errorf("the criterion has no direction (n=%g, m=%d): what it divides by is zero, or what it compares coincides, as class means or neighbours do; give more rows, or others", t.stat.n, len(t.stat.mean))
	case errors.As(err, &rank):
		bound = &DimError{Asked: t.d, Max: rank.Max, what: t.explain("rank %d of the criterion", rank.Max)}
	case !errors.As(err, &bound):
		return sol, err
	}
	if !t.free {
		return nil, bound
	}
	t.report.note(fmt.Sprintf("the default dim %d was clamped to %s", t.d, bound.what))
	t.d = bound.Max
	return t.method.fit(ctx, t)
}

func (t *task) say(phase string, done float64) {
	if t.progress != nil {
		t.progress(phase, done)
	}
}

// expand takes columns back to the scaled features: V a.
func (t *task) expand(a *mat.Dense) *mat.Dense {
	if t.basis == nil {
		return a
	}
	m, _ := t.basis.Dims()
	_, d := a.Dims()
	full := mat.NewDense(m, d, nil)
	full.Mul(t.basis, a)
	return full
}

// unreduce is expand with signs fixed among the features.
func (t *task) unreduce(a []float64, d int) []float64 {
	c := mat.DenseCopyOf(t.expand(mat.NewDense(t.m, d, a)))
	pencil.FixSigns(c)
	return c.RawMatrix().Data
}
