package frame

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/pencil"
)

// RidgeRule is how a method chooses the relative ridge r of its denominator
// D + rho I, rho = r tr(D)/columns.
type RidgeRule struct {
	Scatter func(*scatters) *mat.SymDense // what the shrinkage is estimated on
	Grid    []float64                     // candidates of ridge=auto; nil: auto is oas
	Floor   func(d int) float64           // of oas at dimension d; nil: 0
	// without is the ridge of auto where no cross-validation is possible; 0: oas.
	Without float64
	Unused  func(*Task) bool // with these parameters the criterion has no denominator; nil: it always has one
}

func (r *RidgeRule) least(d int) float64 {
	if r.Floor == nil {
		return 0
	}
	return r.Floor(d)
}

// OASRidge stands for the shrinkage estimate in a grid.
const OASRidge = -1

func WithinScatter(s *scatters) *mat.SymDense { return s.Within }

func TotalScatter(s *scatters) *mat.SymDense { return s.Total }

// OAS is the oracle approximating shrinkage of a covariance S of n rows, in the
// form of scikit-learn (the formula printed in Chen, Wiesel, Eldar and Hero
// 2010, eq. 23, differs): s and the relative ridge r = s/(1-s) in [1e-6, 10].
func OAS(s *mat.SymDense, n float64, columns int) (shrinkage, r float64) {
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

// RidgeMetric factors D + rho I at the task's ridge.
func (t *Task) RidgeMetric(d *mat.SymDense) (*pencil.Metric, error) {
	if !(mat.Trace(d) > 0) {
		return nil, fmt.Errorf("no class has two different rows (n=%g, %d classes): the within-class scatter is zero; give more rows a class", t.Stat.N, t.Stat.Classes())
	}
	rho := pencil.Rho(t.Ridge, d, t.Columns)
	if t.Report.Ridge != nil {
		t.Report.Ridge.Absolute = rho
	}
	return t.Factor(d, rho)
}

// Factor is pencil.Ridge with the cure in its error.
func (t *Task) Factor(d *mat.SymDense, rho float64) (*pencil.Metric, error) {
	q, err := pencil.Ridge(d, rho)
	if errors.Is(err, pencil.ErrNotDefinite) {
		return nil, fmt.Errorf("%w; raise the ridge (%g)", err, t.Ridge)
	}
	return q, err
}

// SettleRidge sets t.ridge by the method's rule and reports it.
func (t *Task) SettleRidge(ctx context.Context) error {
	rule := t.Method.Ridge
	if rule == nil || rule.Unused != nil && rule.Unused(t) {
		return nil
	}
	shares := t.shares()
	t.Share = shares[0]
	word, ridges := t.Params["ridge"], []float64{OASRidge}
	if r, err := strconv.ParseFloat(word, 64); err == nil {
		t.Ridge, ridges = r, []float64{r}
		t.Report.Ridge = &model.Ridge{Relative: r, Columns: t.Columns, Rule: "fixed"}
	} else {
		s, r := OAS(rule.Scatter(t.Stat), t.Stat.N, t.Columns)
		t.Ridge = max(r, rule.least(t.D))
		t.Report.Ridge = &model.Ridge{Relative: t.Ridge, Columns: t.Columns, Rule: "oas", Shrinkage: &s}
	}
	if word == "auto" && rule.Grid != nil {
		ridges = rule.Grid
	}
	if t.Rows == nil || len(shares)*len(ridges) == 1 {
		return nil
	}
	defer t.Report.Phase("ridge")()
	scores, err := t.validateRidges(ctx, shares, ridges)
	if err != nil {
		return err
	}
	if scores == nil {
		if rule.Without > 0 && word == "auto" {
			t.Ridge = rule.Without
			t.Report.Ridge = &model.Ridge{Relative: t.Ridge, Columns: t.Columns, Rule: "fixed"}
		}
		t.Report.Note(fmt.Sprintf("ridge %.3g without cross-validation: fewer than 2 classes have the 3 rows that it needs, or no fold can be fitted", t.Ridge))
		return nil
	}
	// Ties go to the larger ridge.
	best := -1
	for i, c := range scores {
		if c.OAS {
			scores[i].Ridge = t.Ridge
		}
		if best < 0 || c.Correct > scores[best].Correct ||
			(c.Correct == scores[best].Correct && scores[i].Ridge > scores[best].Ridge) {
			best = i
		}
	}
	t.Ridge = scores[best].Ridge
	report := t.Report.Ridge
	report.Relative, report.Scores = t.Ridge, scores
	if len(ridges) > 1 {
		report.Rule = "cv"
	}
	if scores[best].Share > 0 {
		t.Share = scores[best].Share
		report.Share = t.Share
	}
	return nil
}
