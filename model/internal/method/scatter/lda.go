package scatter

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// lda: max (S_b, S_w + rho I), S_w = (1/n) sum_c sum_{i in c} (x_i - mu_c)(x_i - mu_c)', S_b = (1/n) sum_c n_c (mu_c -
// mu)(mu_c - mu)', columns orthonormal in the denominator. ridge=0 is the literal form: (S_b, S_t) with a rank cut,
// columns then rescaled to a'S_w a = 1. Fisher 1936; Rao 1948.
var LDA = frame.Method{
	Name: "lda", Title: "linear discriminant analysis",
	Paper: "Fisher, The use of multiple measurements in taxonomic problems, Ann. Eugenics 7, 1936; Rao, J. R. " +
		"Stat. Soc. B 10, 1948",
	Supervised: true, Map: "linear", Streaming: "moments",
	Params: []frame.Param{frame.RidgeParam("auto",
		"relative ridge of the within-class scatter: auto (cross-validation), oas, or a number; 0 is the literal form",
		true)},
	Dim:    frame.ClassDirections,
	Bound:  frame.DiscriminantBound,
	Ridge:  &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.1, 1}},
	Fit:    fitLDA,
	Nested: true,
	Auto:   &frame.Candidate{Rank: 3, Landmarks: true},
}

func fitLDA(ctx context.Context, t *frame.Task) *frame.Solution {
	g := t.Basis.BetweenFactor()
	if t.Ridge == 0 {
		return fitLiteralLDA(ctx, t, g)
	}
	q := frame.RidgeMetric(t, t.Basis.Within)
	defer q.Release()
	s := fail.Must(pencil.SolveLow(ctx, g, nil, q, t.D))
	return t.Solved(s, s.Rank)
}

// collapsed is the share of within-class variance up to which a direction of unit total variance has nothing but
// rounding errors.
const collapsed = 1e-12

func fitLiteralLDA(ctx context.Context, t *frame.Task, g *mat.Dense) *frame.Solution {
	s := fail.Must(pencil.SolveLow(ctx, g, nil, fail.Must(pencil.Cut(t.Basis.Total)), t.D))
	var sw mat.Dense
	sw.Mul(t.Basis.Within, s.Vectors)
	kept := 0
	for j := range t.D {
		if w := mat.Dot(s.Vectors.ColView(j), sw.ColView(j)); w > collapsed {
			linalg.ScaleColumn(s.Vectors, j, 1/math.Sqrt(w))
		} else {
			kept++
		}
	}
	if kept > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d directions have no within-class variance and keep the scale of the total "+
			"scatter; use a ridge above 0 to weight them", kept, t.D))
	}
	return t.Solved(s, s.Rank)
}
