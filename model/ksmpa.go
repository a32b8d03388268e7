package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// ksmpa is lsmpa in the space of a kernel, K L_D K a = lambda K L_S K a, solved on
// the factor F of K = F F', F = U sqrt(Lambda): the criterion of lsmpa on the rows
// of F, with the ridge there, and a = U Lambda^-1/2 A. A ridge on K L_S K itself
// would weigh directions by their eigenvalue squared, which is another method.
// y(x) = sum_i a_i k(x, x_i).
var ksmpa = Method{
	Name: "ksmpa", Title: "kernel sub-manifold preserving analysis",
	Paper:      "Sub-manifold preserving analysis (SMPA) and its metric framework of dissimilarity and similarity, kernel form",
	Supervised: true, Map: "kernel", Streaming: "window",
	Params: append(smpaParams(),
		choice("kernel", "gauss", "gauss (bandwidth: the median squared distance of two rows), linear, polynomial (degree 2), cosine, or chi2 (for values >= 0: scale minmax)", kernelNames...),
		ridgeParam("auto", "relative ridge in the kernel's space: auto (cross-validation over 0.01, 0.1 and 1), or a number; 0 is the literal form", true)),
	dim: twoColumns,
	bound: func(t *task) (int, string) {
		return min(t.rows.n, smpaRows) - 1, "the %d directions of the rows that were looked at"
	},
	ridge:   &ridgeRule{of: withinScatter, grid: []float64{0.01, 0.1, 1}, without: 0.1},
	samples: true,
	fit:     fitKSMPA,
}

// kernelCut drops eigenvalues of the kernel below this share of the largest.
const kernelCut = 1e-10

func fitKSMPA(ctx context.Context, t *task) (*solution, error) {
	full := t
	t = t.capped(smpaRows)
	if full.kernelSpace == nil {
		space, err := t.newKernelSpace(ctx)
		if err != nil {
			return nil, err
		}
		full.kernelSpace = space
	}
	s := full.kernelSpace
	n := t.rows.n
	// The ridge is measured by all n columns, whatever the rank of the kernel.
	inner := &task{method: t.method, params: t.params, d: t.d, ridge: t.ridge, m: s.rank, columns: n, stat: t.stat, report: t.report}
	sol, err := inner.solveRatio(s.n, s.d, pencil.Max)
	if err != nil {
		return nil, err
	}
	coefficients := mat.NewDense(n, sol.d, nil)
	coefficients.Mul(s.back, mat.NewDense(s.rank, sol.d, sol.components))
	pencil.FixSigns(coefficients)
	sol.mapping = &kernelMap{d: sol.d, rows: s.rows, coefficients: coefficients.RawMatrix().Data, k: s.kernel}
	return sol, nil
}

// kernelSpace is what the fit of a kernel form needs and the ridge does not change.
type kernelSpace struct {
	kernel kernelFunction
	rows   []float64     // n x m, as the map sees them
	rank   int           // of the kernel
	back   *mat.Dense    // U Lambda^-1/2, n x rank
	n, d   *mat.SymDense // the two sides, in the coordinates of F
}

func (t *task) newKernelSpace(ctx context.Context) (*kernelSpace, error) {
	dissimilar, similar, err := t.smpaWeights(ctx)
	if err != nil {
		return nil, err
	}
	t.say("kernel", 0)
	s := &kernelSpace{rows: t.features(nil)}
	m := len(t.stat.mean)
	if s.kernel, err = newKernelFunction(t.params["kernel"], s.rows, m, t.origin()); err != nil {
		return nil, err
	}
	var e mat.EigenSym
	if !e.Factorize(s.kernel.gram(s.rows, m), true) {
		return nil, fmt.Errorf("the eigenproblem of the %s kernel of %d rows does not converge", s.kernel.name, t.rows.n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := e.Values(nil)
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	n := len(values)
	for s.rank < n && values[n-1-s.rank] > kernelCut*values[n-1] {
		s.rank++
	}
	if s.rank == 0 {
		return nil, fmt.Errorf("the %s kernel of %d rows is zero", s.kernel.name, n)
	}
	factor := mat.NewDense(n, s.rank, nil)
	s.back = mat.NewDense(n, s.rank, nil)
	for k := range s.rank {
		root := math.Sqrt(values[n-1-k])
		for i := range n {
			u := vectors.At(i, n-1-k)
			factor.Set(i, k, u*root)
			s.back.Set(i, k, u/root)
		}
	}
	s.n, s.d, err = graph.FromDS(factor, dissimilar, similar)
	return s, err
}
