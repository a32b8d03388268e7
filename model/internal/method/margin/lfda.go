package margin

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// lfda: max (S_b, S_w + rho I) of local scatters,
//
//	G_c = X_c (diag(A 1) - A) X_c',  A_ij = exp(-|x_i - x_j|^2/(sigma_i sigma_j))
//	S_w = sum_c G_c/n_c
//	S_b = sum_c (G_c/n + (1 - n_c/n) X_c X_c' + s_c s_c'/n) - S_w   about the mean
//
// sigma_i the distance to the kNN-th nearest row of the class, at least 1e-3 of the class's median, or to the 2 kNN-th
// and so on if that is 0, s_c the sum of class c. ridge=0 is the literal form, with a rank cut. Sugiyama, JMLR 8, 2007.
var LFDA = frame.Method{
	Name: "lfda", Title: "local Fisher discriminant analysis",
	Paper: "Sugiyama, Dimensionality reduction of multimodal labeled data by local Fisher discriminant analysis, " +
		"JMLR 8, 2007",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("kNN", "7", "nearest row of the class whose distance is a row's scale", 1).WithGrid("3",
			"7", "15"),
		frame.Choice("metric", "plain", "columns as solved (plain), times the root of their eigenvalues (weighted), or "+
			"made orthonormal (orthonormalized)", "plain", "weighted", "orthonormalized"),
		frame.RidgeParam("auto", "relative ridge of the local within-class scatter: auto (cross-validation), oas, or a "+
			"number; 0 is the literal form", true),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.1, 1}},
	Memory: func(e frame.Extent) int64 { return e.Affinities(e.Int("kNN", 0)) },
	Fit:    fitLFDA,
	Nested: true,
	Auto:   &frame.Candidate{Rank: 2},
}

var solveLFDA = frame.Maximize(func(ctx context.Context, t *frame.Task) *frame.Ratio {
	n, d := frame.LocalScatters(ctx, t, "kNN")
	return &frame.Ratio{N: n, D: d}
}, pencil.Max)

func fitLFDA(ctx context.Context, t *frame.Task) *frame.Solution {
	s := solveLFDA(ctx, t)
	a := mat.NewDense(t.M, s.Dim, s.Components)
	switch t.Params["metric"] {
	case "weighted":
		for j, l := range s.Eigenvalues {
			linalg.ScaleColumn(a, j, math.Sqrt(max(l, 0)))
		}
	case "orthonormalized":
		linalg.Orthonormalize(a)
	}
	return s
}
