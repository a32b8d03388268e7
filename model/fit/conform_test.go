package fit_test

import (
	"context"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/modeltest"
)

// cheap are parameters with which an expensive method is fast on small rows.
var cheap = map[string]map[string]string{
	"lsdr":    {"starts": "1"},
	"lenews":  {"rows": "60", "iters": "30"},
	"lenewks": {"rows": "60", "iters": "30"},
	"lppnews": {"rows": "60", "iters": "30"},
	"ksmpa":   {"ridge": "0.1", "kernel": "gauss"},
}

// The methods of the table conform next to their formulas, in the packages of model/internal/method.
func TestAutoConforms(t *testing.T) { modeltest.Run(t, fit.Config{Method: fit.Auto}, nil) }

// A linear method passes with landmarks too.
func TestLinearMethodsConformBehindLandmarks(t *testing.T) {
	for _, m := range fit.Methods() {
		if m.Map == "linear" {
			t.Run(m.Name, func(t *testing.T) {
				modeltest.Run(t, fit.Config{Method: m.Name, Seed: 5, Params: cheap[m.Name], Landmarks: 9}, nil)
			})
		}
	}
}

func TestCriterionConforms(t *testing.T) {
	laplacian := func(ctx context.Context, x fit.BasisRows, _ []int) (n, d *mat.SymDense, err error) {
		nb, err := graph.Nearest(ctx, x.Dense, min(5, x.RawMatrix().Rows-1))
		if err != nil {
			return nil, nil, err
		}
		w, err := nb.Weights(graph.Union, graph.Heat(nb.MeanNearest()))
		if err != nil {
			return nil, nil, err
		}
		if n, err = graph.DegreeForm(t.Context(), x.Dense, w.Degrees()); err != nil {
			return nil, nil, err
		}
		d, err = graph.LaplacianForm(t.Context(), x.Dense, w)
		return n, d, err
	}
	for name, own := range map[string]fit.Criterion{
		"plain":       {InBasis: laplacian},
		"supervised":  {InBasis: laplacian, Supervised: true},
		"orthonormal": {InBasis: laplacian, Orthonormal: true},
	} {
		own.Name = name
		t.Run(name, func(t *testing.T) { modeltest.Run(t, fit.Config{Criterion: &own}, nil) })
	}
}
