package scatter

import (
	"context"
	"math"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// pca: the leading eigenvectors of S_t = (1/n) sum (x - mu)(x - mu)', A'A = I. Hotelling, J. Educ. Psychol. 24, 1933.
var PCA = frame.Method{
	Name: "pca", Title: "principal component analysis",
	Paper: "Hotelling, Analysis of a complex of statistical variables into principal components, J. Educ. Psychol. " +
		"24, 1933",
	Map: "linear", Streaming: "moments",
	Params: []frame.Param{frame.Choice("whiten", "false", "true: outputs have unit variance", "false", "true")},
	Fit:    fitPCA,
	Nested: true,
	Auto:   &frame.Candidate{Rank: 6},
}

func fitPCA(ctx context.Context, t *frame.Task) *frame.Solution {
	s := fail.Must(pencil.Solve(ctx, t.Basis.Total, pencil.Identity(t.M), pencil.Max, t.D))
	if t.Params["whiten"] == "true" {
		for j, l := range s.Values {
			linalg.ScaleColumn(s.Vectors, j, 1/math.Sqrt(l))
		}
	}
	return t.Solved(s, t.Columns)
}
