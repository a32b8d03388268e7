package frame

import (
	"context"
	"fmt"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"maps"
	"math"

	"github.com/embedd/embedd/model"
)

// OAS is the oracle approximating shrinkage s of a covariance S of n rows, in the form of scikit-learn (the formula
// printed in Chen, Wiesel, Eldar and Hero 2010, eq. 23, differs), and the relative ridge r = s/(1-s) in [1e-6, 10].
func OAS(s *mat.SymDense, n float64, columns int) (shrinkage, r float64) {
	p := float64(columns)
	trace, square, largest := 0.0, 0.0, 0.0
	for i := range s.SymmetricDim() {
		largest = max(largest, s.At(i, i))
	}
	_, exponent := math.Frexp(largest)
	unit := math.Ldexp(1, -max(exponent, -1000)) // squares then neither overflow nor underflow, and nothing is rounded
	for i, raw := 0, s.RawSymmetric(); i < raw.N; i++ {
		row := raw.Data[i*raw.Stride:][i:raw.N]
		d := unit * row[0]
		trace += d
		square += d * d
		for _, v := range row[1:] {
			v *= unit
			square += 2 * v * v
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

// ChooseRidge sets the ridge of a task by the method's rule and reports it.
func ChooseRidge(ctx context.Context, t *Task) {
	rule := t.Method.Ridge
	if rule == nil || rule.Unused != nil && rule.Unused(t) {
		return
	}
	variants := variants(t)
	variants[0].set(t)
	word := t.Params["ridge"]
	r, err := strconv.ParseFloat(word, 64)
	if err == nil {
		t.Ridge = r
		t.Report.Ridge = &model.Ridge{Relative: r, Columns: t.Columns, Rule: "fixed"}
	} else {
		s, r := OAS(rule.Scatter(t.Basis), independentRows(t), t.Columns)
		t.Ridge = max(r, rule.least(t.D))
		t.Report.Ridge = &model.Ridge{Relative: t.Ridge, Columns: t.Columns, Rule: "oas", Shrinkage: &s}
	}
	ridges := []model.RidgeScore{{Ridge: t.Ridge, OAS: err != nil}}
	if word == "auto" && rule.Grid != nil {
		if rule.Without > 0 {
			ridges = nil
		}
		for _, r := range rule.Grid {
			ridges = append(ridges, model.RidgeScore{Ridge: r})
		}
	}
	if t.Rows == nil || len(variants)*len(ridges) == 1 {
		return
	}
	defer t.Report.Phase("ridge")()
	scores := validateRidges(ctx, t, variants, ridges)
	if scores == nil {
		if rule.Without > 0 && word == "auto" {
			t.Ridge = rule.Without
			t.Report.Ridge = &model.Ridge{Relative: t.Ridge, Columns: t.Columns, Rule: "fixed"}
		}
		t.Report.Note(fmt.Sprintf("ridge %.3g without cross-validation: %s, or no fold can be fitted", t.Ridge,
			ExplainFolds(t.Rows)))
		return
	}
	best := bestRidge(scores)
	if variants[0].kernel != "" {
		best = simplest(scores, best, bestRidge(scores[:len(ridges)]))
	}
	t.Ridge = scores[best].Ridge
	report := t.Report.Ridge
	report.Relative, report.Scores = t.Ridge, scores
	if len(ridges) > 1 {
		report.Rule = "cv"
	}
	variants[best/len(ridges)].set(t)
	report.Share = scores[best].Share
}

// independentRows is how many independent rows those of a fit are worth.
func independentRows(t *Task) float64 { return t.Basis.N / max(t.DesignEffect, 1) }

// bestRidge is the index of the score with the most correct rows; ties go to the larger ridge.
func bestRidge(scores []model.RidgeScore) int {
	best := 0
	for i, c := range scores {
		if c.Correct > scores[best].Correct || c.Correct == scores[best].Correct && c.Ridge > scores[best].Ridge {
			best = i
		}
	}
	return best
}

// variant is what cross-validation chooses together with the ridge.
type variant struct {
	share  float64 // of the variance that PCA in front of the method keeps
	kernel string  // "": as the parameters say
}

// variants are those to choose from. The first is taken if no rows can be held out.
func variants(t *Task) []variant {
	if t.Params["kernel"] == "auto" {
		var all []variant
		for _, name := range t.Method.Ridge.Kernels(t) {
			all = append(all, variant{1, name})
		}
		return all
	}
	word, has := t.Params["pca"]
	if share, err := strconv.ParseFloat(word, 64); err == nil {
		return []variant{{share: share}}
	}
	if has && t.Columns > manyColumns {
		return []variant{{share: 1}, {share: mostVariance}}
	}
	return []variant{{share: 1}}
}

// set puts a variant into a task.
func (v variant) set(t *Task) {
	t.VarianceShare = v.share
	if v.kernel != "" {
		t.Params = maps.Clone(t.Params)
		t.Params["kernel"] = v.kernel
	}
}

// simplest is the index of first, the best score of the first variant, unless it is more than one standard error behind
// the best of all. Of few held-out rows a more flexible kernel is often ahead by luck (the one-standard-error rule of
// Breiman, Friedman, Olshen and Stone, Classification and Regression Trees, 1984).
func simplest(scores []model.RidgeScore, best, first int) int {
	correct, scored := float64(scores[best].Correct), float64(scores[best].Scored)
	if deviation := math.Sqrt(correct * (1 - correct/scored)); correct-float64(scores[first].Correct) > deviation {
		return best
	}
	return first
}
