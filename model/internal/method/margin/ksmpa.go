package margin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/pencil"
)

// ksmpa is lsmpa in the space of a kernel, K L_D K a = lambda K L_S K a, solved on a factor F of K = F F': the
// criterion of lsmpa on the rows of F, with the ridge there, and F'a = A. Any factor gives the same outputs, because
// factors differ by a rotation. A ridge on K L_S K itself would weight directions by their squared eigenvalues, which
// is another method. y(x) = sum_i a_i k(x, x_i).
var KSMPA = frame.Method{
	Name: "ksmpa", Title: "kernel sub-manifold preserving analysis",
	Paper: "Sub-manifold preserving analysis (SMPA) and its metric framework of dissimilarity and similarity, " +
		"kernel form",
	Supervised: true, Map: "kernel", Streaming: "window",
	Params: append(smpaParams(),
		frame.Choice("kernel", "auto", "auto (by cross-validation gauss, if it is ahead of linear by a standard error), "+
			"gauss (bandwidth: the median squared distance of two rows), linear, polynomial (degree 2), cosine, or chi2 (for "+
			"values >= 0: scale minmax)", append([]string{"auto"}, mapping.KernelNames...)...),
		frame.RidgeParam("auto", "relative ridge in the kernel's space: auto (cross-validation over 0.01, 0.1 and 1), or "+
			"a number; 0 is the literal form, which rounding decides where the kernel has full rank", true)),
	Bound: func(t *frame.Task) (int, string) {
		return min(t.Rows.N, smpaRows) - 1, "the %d directions of the rows that were looked at"
	},
	Ridge: &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.01, 0.1, 1}, Without: 0.1,
		Kernels: smpaKernels},
	Memory:  func(e frame.Extent) int64 { return e.Lists(e.Int("k", 0)) + frame.Pairs(min(e.Rows, smpaRows), 72) },
	Fit:     fitKSMPA,
	Nested:  true,
	InFolds: map[string]string{"kernel": "gauss"},
	// for curved classes: other candidates are linear
	Auto: &frame.Candidate{Rank: 9, OneScale: true, Fixed: map[string]string{"kernel": "gauss"},
		Tried: func(_, classes int, few bool) bool { return classes == 2 && few }},
}

// smpaKernels are the kernels that kernel=auto chooses from, the simplest first. The linear one has no more outputs
// than there are columns.
func smpaKernels(t *frame.Task) []string {
	if t.D > t.Columns {
		return []string{"gauss"}
	}
	return []string{"linear", "gauss"}
}

// kernelCut is the share below which directions of the kernel are dropped: of its largest diagonal entry for the
// pivots of its factor and, without a ridge, of its largest eigenvalue.
const kernelCut = 1e-10

func fitKSMPA(ctx context.Context, t *frame.Task) *frame.Solution {
	full := t
	t = t.Capped(smpaRows)
	s, ok := full.Cache.(*kernelSpace)
	if !ok {
		s = newKernelSpace(ctx, t)
		full.Cache = s
	}
	_, rank := s.back.Dims()
	if s.kernel.Name == "gauss" && t.D >= rank { // one direction of the different rows is the same for all of them
		panic(fail.With(&pencil.RankError{Asked: t.D, Max: rank - 1}))
	}
	// The ridge is relative to all n columns, whatever the rank of the kernel. With the linear kernel, which has the
	// rank of the rows, it is that of lsmpa.
	columns := t.Rows.N
	if s.kernel.Name == "linear" {
		columns = t.Columns
	}
	inner := &frame.Task{Method: t.Method, Params: t.Params, D: t.D, Ridge: t.Ridge, M: rank, Columns: columns,
		Basis: t.Basis, Units: t.Units, Report: t.Report}
	sol := frame.SolveRatio(ctx, inner, &frame.Ratio{N: s.n, D: s.d}, pencil.Max)
	var coefficients mat.Dense
	coefficients.Mul(s.back, mat.NewDense(rank, sol.Dim, sol.Components))
	pencil.FixSigns(&coefficients)
	sol.Mapping = &mapping.KernelMap{D: sol.Dim, Rows: s.rows, Coefficients: coefficients.RawMatrix().Data, K: s.kernel}
	return sol
}

// kernelSpace is the part of a kernel fit that the ridge does not change.
type kernelSpace struct {
	kernel mapping.Kernel
	rows   []float64     // with coefficients, scaled as in the map
	back   *mat.Dense    // from columns in the coordinates of F to coefficients of those rows
	n, d   *mat.SymDense // the two sides, in the coordinates of F
}

func newKernelSpace(ctx context.Context, t *frame.Task) *kernelSpace {
	dissimilar, similar := smpaWeights(ctx, t)
	t.ReportProgress("kernel", 0)
	rows, m := t.Features(nil), len(t.Units.Mean)
	s := &kernelSpace{}
	s.kernel = fail.Must(mapping.NewKernel(ctx, t.Params["kernel"], rows, m, t.Origin()))
	factor, pivots, back := factorKernel(fail.Must(s.kernel.Gram(ctx, rows, m)))
	if factor == nil {
		panic(fail.With(fmt.Errorf("the %s kernel of %d rows is zero", s.kernel.Name, t.Rows.N)))
	}
	if t.Ridge == 0 {
		factor, back = cutKernel(factor, back)
	}
	s.back = back
	for _, i := range pivots {
		s.rows = append(s.rows, rows[i*m:(i+1)*m]...)
	}
	fail.Check(ctx.Err())
	t.ReportProgress("kernel", 0.5)
	s.n, s.d = fail.Must2(graph.FromDS(ctx, factor, dissimilar, similar))
	return s
}

// factorKernel is F, n x r, with K = F F' up to kernelCut, by a pivoted Cholesky factor. The rows of the pivots, in
// row order, determine all others: back maps A, r x d, to the coefficients a of these rows with F'a = A. It returns
// nil if K is zero.
func factorKernel(k *mat.SymDense) (factor *mat.Dense, pivots []int, back *mat.Dense) {
	factor, chol := linalg.PivotedFactor(k, kernelCut)
	if factor == nil {
		return nil, nil, nil
	}
	r, order, upper := chol.Rank(), chol.ColumnPivots(nil), chol.RawU()
	lead := mat.NewTriDense(r, mat.Upper, nil)
	for i := range r {
		for j := i; j < r; j++ {
			lead.SetTri(i, j, upper.At(i, j))
		}
	}
	var inverse mat.TriDense
	_ = inverse.InverseTri(lead) // the error reports the condition, which kernelCut bounds
	pivots = slices.Clone(order[:r])
	slices.Sort(pivots)
	at := make(map[int]int, r) // of a pivot, in row order
	for k, row := range pivots {
		at[row] = k
	}
	back = mat.NewDense(r, r, nil)
	for i, row := range order[:r] {
		for j := i; j < r; j++ {
			back.Set(at[row], j, inverse.At(i, j))
		}
	}
	return factor, pivots, back
}

// cutKernel rotates a factor to the eigenvectors of its kernel and drops those below kernelCut of the largest: without
// a ridge, rounding errors alone must not decide.
func cutKernel(factor, back *mat.Dense) (f, b *mat.Dense) {
	_, r := factor.Dims()
	var inner mat.SymDense
	inner.SymOuterK(1, factor.T())
	var e mat.EigenSym
	if !e.Factorize(&inner, true) {
		panic(fail.With(errors.New("the eigenproblem of the kernel does not converge")))
	}
	values := e.Values(nil)
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	from, _ := slices.BinarySearch(values, kernelCut*values[r-1])
	kept := vectors.Slice(0, r, from, r)
	f, b = &mat.Dense{}, &mat.Dense{}
	f.Mul(factor, kept)
	b.Mul(back, kept)
	return f, b
}
