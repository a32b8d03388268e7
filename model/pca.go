package model

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// pca: the leading eigenvectors of S_t = (1/n) sum (x - mu)(x - mu)', A'A = I.
// Hotelling, J. Educ. Psychol. 24, 1933.
var pca = Method{
	Name: "pca", Title: "principal component analysis",
	Paper: "Hotelling, Analysis of a complex of statistical variables into principal components, J. Educ. Psychol. 24, 1933",
	Map:   "linear", Streaming: "moments",
	Params: []Param{choice("whiten", "false", "true: outputs have unit variance", "false", "true")},
	dim:    func(*task) int { return 2 },
	bound:  func(t *task) (int, string) { return t.columns, rankOfTotal },
	fit:    fitPCA,
}

const rankOfTotal = "rank %d of the total scatter"

func fitPCA(_ context.Context, t *task) (*solution, error) {
	s, err := pencil.Solve(t.stat.total, pencil.Identity(t.m), pencil.Max, t.d)
	if err != nil {
		return nil, err
	}
	if t.params["whiten"] == "true" {
		for j, l := range s.Values {
			scaleColumn(s.Vectors, j, 1/math.Sqrt(l))
		}
	}
	return t.solved(s, t.columns), nil
}

func scaleColumn(a *mat.Dense, j int, f float64) {
	m, _ := a.Dims()
	for i := range m {
		a.Set(i, j, f*a.At(i, j))
	}
}
