package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// lda: max (S_b, S_w + rho I), S_w = (1/n) sum_c sum_{i in c} (x_i - mu_c)(x_i - mu_c)',
// S_b = (1/n) sum_c n_c (mu_c - mu)(mu_c - mu)', columns orthonormal in the
// denominator. ridge=0 is the literal form: (S_b, S_t) with a rank cut, columns
// then rescaled to a'S_w a = 1. Fisher 1936; Rao 1948.
var lda = Method{
	Name: "lda", Title: "linear discriminant analysis",
	Paper:      "Fisher, The use of multiple measurements in taxonomic problems, Ann. Eugenics 7, 1936; Rao, J. R. Stat. Soc. B 10, 1948",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []Param{ridgeParam("auto", "relative ridge of the within-class scatter: auto (cross-validation), oas, or a number; 0 is the literal form", true)},
	dim:    classDirections,
	bound:  discriminantBound,
	ridge:  &ridgeRule{of: withinScatter, grid: []float64{oasRidge, 0.1, 1}},
	fit:    fitLDA,
}

// classDirections is min(C-1, m), the directions that class means span at most.
func classDirections(t *task) int { return min(t.stat.classes()-1, t.columns) }

func discriminantBound(t *task) (int, string) {
	if c := t.stat.classes() - 1; c <= t.columns {
		return c, fmt.Sprintf("the %%d discriminant directions of %d classes (C-1)", c+1)
	}
	return t.columns, rankOfTotal
}

func fitLDA(_ context.Context, t *task) (*solution, error) {
	g := t.stat.betweenFactor()
	if t.ridge == 0 {
		return fitLiteralLDA(t, g)
	}
	q, err := t.ridgeMetric(t.stat.within)
	if err != nil {
		return nil, err
	}
	s, err := pencil.SolveLow(g, nil, q, t.d)
	if err != nil {
		return nil, err
	}
	return t.solved(s, s.Rank), nil
}

// collapsed is the share of within-class variance at or below which a direction
// of unit total variance has none but rounding.
const collapsed = 1e-12

func fitLiteralLDA(t *task, g *mat.Dense) (*solution, error) {
	q, err := pencil.Cut(t.stat.total)
	if err != nil {
		return nil, err
	}
	s, err := pencil.SolveLow(g, nil, q, t.d)
	if err != nil {
		return nil, err
	}
	var sw mat.Dense
	sw.Mul(t.stat.within, s.Vectors)
	kept := 0
	for j := range t.d {
		if w := mat.Dot(s.Vectors.ColView(j), sw.ColView(j)); w > collapsed {
			scaleColumn(s.Vectors, j, 1/math.Sqrt(w))
		} else {
			kept++
		}
	}
	if kept > 0 {
		t.report.note(fmt.Sprintf("%d of %d directions have no within-class variance and keep the scale of the total scatter; a ridge above 0 weighs them", kept, t.d))
	}
	return t.solved(s, s.Rank), nil
}
