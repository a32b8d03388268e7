package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// ridgeRule is how a method chooses the relative ridge r of its denominator
// D + rho I, rho = r tr(D)/columns.
type ridgeRule struct {
	of    func(*scatters) *mat.SymDense // what the shrinkage is estimated on
	grid  []float64                     // candidates of ridge=auto; nil: auto is oas
	floor func(d int) float64           // of oas at dimension d; nil: 0
	// without is the ridge of auto where no cross-validation is possible; 0: oas.
	without float64
}

func (r *ridgeRule) least(d int) float64 {
	if r.floor == nil {
		return 0
	}
	return r.floor(d)
}

// oasRidge stands for the shrinkage estimate in a grid.
const oasRidge = -1

func withinScatter(s *scatters) *mat.SymDense { return s.within }
func totalScatter(s *scatters) *mat.SymDense  { return s.total }

// oas is the oracle approximating shrinkage of a covariance S of n rows, in the
// form of scikit-learn (the formula printed in Chen, Wiesel, Eldar and Hero
// 2010, eq. 23, differs): s and the relative ridge r = s/(1-s) in [1e-6, 10].
func oas(s *mat.SymDense, n float64, columns int) (shrinkage, r float64) {
	p := float64(columns)
	trace, square := 0.0, 0.0
	for i := range s.SymmetricDim() {
		d := s.At(i, i)
		trace += d
		square += d * d
		for j := i + 1; j < s.SymmetricDim(); j++ {
			square += 2 * s.At(i, j) * s.At(i, j)
		}
	}
	if columns == 1 || trace == 0 {
		return 0, 1e-6
	}
	q, u := square/(p*p), trace/p
	denominator := (n + 1) * (q - u*u/p)
	shrinkage = 1
	if denominator > 0 {
		shrinkage = min(1, (q+u*u)/denominator)
	}
	if shrinkage == 1 {
		return 1, 10
	}
	return shrinkage, min(max(shrinkage/(1-shrinkage), 1e-6), 10)
}

// ridgeMetric factors D + rho I at the task's ridge.
func (t *task) ridgeMetric(d *mat.SymDense) (*pencil.Metric, error) {
	if !(mat.Trace(d) > 0) {
		return nil, fmt.Errorf("no class has two different rows (n=%g, %d classes): the within-class scatter is zero; give more rows a class", t.stat.n, t.stat.classes())
	}
	rho := pencil.Rho(t.ridge, d, t.columns)
	if t.report.Ridge != nil {
		t.report.Ridge.Absolute = rho
	}
	return t.factor(d, rho)
}

// factor is pencil.Ridge with the cure in its error.
func (t *task) factor(d *mat.SymDense, rho float64) (*pencil.Metric, error) {
	q, err := pencil.Ridge(d, rho)
	if errors.Is(err, pencil.ErrNotDefinite) {
		return nil, fmt.Errorf("%w; raise the ridge (%g)", err, t.ridge)
	}
	return q, err
}

// settleRidge sets t.ridge by the method's rule and reports it.
func (t *task) settleRidge(ctx context.Context) error {
	rule := t.method.ridge
	if rule == nil {
		return nil
	}
	word := t.params["ridge"]
	if r, err := strconv.ParseFloat(word, 64); err == nil {
		t.ridge = r
		t.report.Ridge = &Ridge{Relative: r, Columns: t.columns, Rule: "fixed"}
		return nil
	}
	s, r := oas(rule.of(t.stat), t.stat.n, t.columns)
	t.ridge = max(r, rule.least(t.d))
	t.report.Ridge = &Ridge{Relative: t.ridge, Columns: t.columns, Rule: "oas", Shrinkage: &s}
	if word == "oas" || rule.grid == nil || t.rows == nil {
		return nil
	}
	defer t.report.phase("ridge")()
	scores, err := t.validateRidges(ctx, rule.grid)
	if err != nil {
		return err
	}
	if scores == nil {
		if rule.without > 0 {
			t.ridge = rule.without
			t.report.Ridge = &Ridge{Relative: t.ridge, Columns: t.columns, Rule: "fixed"}
		}
		t.report.note(fmt.Sprintf("ridge %.3g without cross-validation: fewer than 2 classes have the 3 rows that it needs, or no fold can be fitted", t.ridge))
		return nil
	}
	// Ties go to the larger ridge.
	best := -1
	for i, c := range scores {
		if c.OAS {
			scores[i].Ridge = t.ridge
		}
		if best < 0 || c.Correct > scores[best].Correct ||
			(c.Correct == scores[best].Correct && scores[i].Ridge > scores[best].Ridge) {
			best = i
		}
	}
	t.ridge = scores[best].Ridge
	t.report.Ridge = &Ridge{Relative: t.ridge, Columns: t.columns, Rule: "cv", Shrinkage: &s, Scores: scores}
	return nil
}

// validateRidges scores each ridge of the grid by 3-fold cross-validation at
// dimension t.d; scaling, rank cut and shrinkage are refitted in each fold. nil
// where too few classes have the rows for it.
func (t *task) validateRidges(ctx context.Context, grid []float64) ([]RidgeScore, error) {
	pick, fold := folds(t.rows, maxValidated, 3, 0)
	if fold == nil {
		return nil, nil
	}
	scores := make([]RidgeScore, len(grid))
	for i, r := range grid {
		scores[i] = RidgeScore{Ridge: r, OAS: r == oasRidge}
	}
	parts, errs := make([][]RidgeScore, 3), make([]error, 3)
	err := parallel.Each(ctx, len(parts), func(f int) {
		parts[f] = slices.Clone(scores)
		train, test := heldOut(pick, fold, f)
		errs[f] = t.validateFold(ctx, parts[f], train, test)
	})
	if err != nil {
		return nil, err
	}
	t.say("ridge", 1)
	scored := false
	for f, part := range parts {
		if errs[f] != nil {
			t.report.note(fmt.Sprintf("ridge: fold %d of 3 cannot be fitted and was left out: %v", f+1, errs[f]))
			continue
		}
		scored = true
		for i := range scores {
			scores[i].Correct += part[i].Correct
			scores[i].Scored += part[i].Scored
		}
	}
	if !scored {
		return nil, nil
	}
	return scores, nil
}

// errFlatFold reports training rows of a fold that are all equal.
var errFlatFold = errors.New("no feature varies among its training rows")

// validateFold adds to the scores of each ridge those of one fold. It runs beside
// the other folds, so it reports no progress.
func (t *task) validateFold(ctx context.Context, scores []RidgeScore, train, test []int) error {
	ft := &task{method: t.method, params: t.params, seed: t.seed, scaling: t.scaling, report: &Report{}}
	if err := ft.load(ctx, t.rows.subset(train)); err != nil {
		return err
	}
	if ft.columns == 0 {
		return errFlatFold
	}
	bound, _ := ft.method.bound(ft)
	_, shrunk := oas(t.method.ridge.of(ft.stat), ft.stat.n, ft.columns)
	for i := range scores {
		ft.d, ft.free = min(t.d, bound), true
		ft.ridge = scores[i].Ridge
		if scores[i].OAS {
			ft.ridge = max(shrunk, t.method.ridge.least(ft.d))
		}
		sol, err := ft.solve(ctx)
		if err != nil {
			return err
		}
		correct, err := ft.score(sol, t.rows, train, test)
		if err != nil {
			return err
		}
		scores[i].Correct += correct
		scores[i].Scored += len(test)
	}
	return nil
}

// score counts the test rows whose nearest training row is of their class.
func (t *task) score(sol *solution, p *prepared, train, test []int) (int, error) {
	if sol.mapping != nil {
		m, err := t.model(sol, nil, p.of)
		if err != nil {
			return 0, err
		}
		return m.Correct(p.dataOf(train), p.dataOf(test), 1)
	}
	a := t.unreduce(sol.components, sol.d)
	ref, query := t.embed(a, sol.d, p, train), t.embed(a, sol.d, p, test)
	nearest, err := Nearest(ref, len(train), query, len(test), sol.d)
	if err != nil {
		return 0, err
	}
	correct := 0
	for i, j := range nearest {
		if p.y[train[j]] == p.y[test[i]] {
			correct++
		}
	}
	return correct, nil
}

// dataOf is some of the rows, as they were given.
func (p *prepared) dataOf(rows []int) *Data {
	d := &Data{N: len(rows), M: p.m, Classes: p.of, X: make([]float64, 0, len(rows)*p.m)}
	for _, r := range rows {
		at := p.at[r]
		d.X = append(d.X, p.data.X[at*p.m:(at+1)*p.m]...)
		d.Y = append(d.Y, p.y[r])
	}
	return d
}

// embed is ((x - mean)/scale) . A of some rows.
func (t *task) embed(a []float64, d int, p *prepared, rows []int) []float64 {
	x := mat.NewDense(len(rows), p.m, nil)
	for i, r := range rows {
		dst := x.RawRowView(i)
		for j, v := range p.x[r*p.m : (r+1)*p.m] {
			dst[j] = v - t.stat.mean[j]
		}
	}
	w := mat.NewDense(p.m, d, slices.Clone(a))
	for j, s := range t.stat.scale {
		row := w.RawRowView(j)
		for c := range row {
			row[c] /= s
		}
	}
	y := mat.NewDense(len(rows), d, nil)
	y.Mul(x, w)
	return y.RawMatrix().Data
}

func (p *prepared) subset(rows []int) *prepared {
	s := &prepared{n: len(rows), m: p.m, of: p.of, data: p.data, x: make([]float64, 0, len(rows)*p.m)}
	for _, r := range rows {
		s.x = append(s.x, p.x[r*p.m:(r+1)*p.m]...)
		if p.y != nil {
			s.y = append(s.y, p.y[r])
		}
		s.at = append(s.at, p.at[r])
	}
	return s
}

// maxValidated is the number of rows that cross-validation looks at; more cost
// time and change nothing.
const maxValidated = 1500

// folds deals rows to count folds: classes in sorted order, rows in their own;
// row j of class c goes to fold (j + rows of earlier classes) mod count. Classes
// with fewer rows than folds train in every fold (fold -1). Of more than limit rows
// it takes evenly spaced ones, stratified. Rounds after 0 deal the rows of each
// class in another order. fold is nil where fewer than 2 classes can be scored.
func folds(p *prepared, limit, count, round int) (pick, fold []int) {
	byClass := p.byClass()
	order := make([]int, 0, len(byClass))
	for c := range byClass {
		order = append(order, c)
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case p.of[a] < p.of[b]:
			return -1
		case p.of[a] > p.of[b]:
			return 1
		}
		return a - b
	})
	scored, earlier := 0, 0
	share := shares(p.n, limit)
	for _, c := range order {
		rows := byClass[c]
		rows = spaced(rows, max(min(count, len(rows)), share(len(rows))))
		if len(rows) >= count {
			scored++
		}
		if round > 0 {
			draw := rand.New(rand.NewPCG(uint64(round), uint64(earlier)))
			draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		}
		for j, r := range rows {
			pick = append(pick, r)
			if len(rows) < count {
				fold = append(fold, -1)
			} else {
				fold = append(fold, (j+earlier)%count)
			}
		}
		earlier += len(rows)
	}
	if scored < 2 {
		return nil, nil
	}
	sortByRow(pick, fold)
	return pick, fold
}

// heldOut are the rows that fold f trains on, and those that it holds out.
func heldOut(pick, fold []int, f int) (train, test []int) {
	for i, at := range pick {
		if fold[i] == f {
			test = append(test, at)
		} else {
			train = append(train, at)
		}
	}
	return train, test
}

// byClass is the rows of each class, in order.
func (p *prepared) byClass() map[int][]int {
	rows := map[int][]int{}
	for i, c := range p.y {
		rows[c] = append(rows[c], i)
	}
	return rows
}

// stratified is all rows, or of more than limit an even choice in each class,
// at least one, in row order.
func (p *prepared) stratified(limit int) []int {
	var pick []int
	byClass, share := p.byClass(), shares(p.n, limit)
	for c := range p.of {
		if rows := byClass[c]; len(rows) > 0 {
			pick = append(pick, spaced(rows, max(1, share(len(rows))))...)
		}
	}
	slices.Sort(pick)
	return pick
}

// shares deals limit places to groups of n rows in all, in proportion to their
// sizes, which are given one after the other; the shares add up to the limit.
func shares(n, limit int) func(size int) int {
	before := 0
	return func(size int) int {
		if n <= limit {
			return size
		}
		after := before + size
		k := limit*after/n - limit*before/n
		before = after
		return k
	}
}

// sortByRow puts pick in row order, so that ties between neighbours go to the
// earlier row.
func sortByRow(pick, fold []int) {
	at := make([]int, len(pick))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return pick[a] - pick[b] })
	p, f := slices.Clone(pick), slices.Clone(fold)
	for i, k := range at {
		pick[i], fold[i] = p[k], f[k]
	}
}

// spaced takes k of the rows at even distances.
func spaced(rows []int, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = rows[i*len(rows)/k]
	}
	return out
}
