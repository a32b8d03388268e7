package frame

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// PCAParam is the share of the variance that a PCA in front of a method keeps. It is a parameter of methods whose
// first directions would otherwise have almost no variance.
var PCAParam = FloatParam("pca", "auto", fmt.Sprintf(
	"share of the variance that principal components in front keep: auto (of more than %d columns all or %g of it, "+
		"by cross-validation; of fewer all), or a number in (0, 1]",
	manyColumns, mostVariance), 1e-9, 1, "auto")

const (
	manyColumns  = 100  // up to so many columns all are kept
	mostVariance = 0.98 // of more columns the principal components with this share are tried too
)

// reduction is a task in its principal components.
type reduction struct {
	share float64
	task  *Task
	basis *mat.Dense // m x k
}

// WithPCA fits in the principal components that have the share t.VarianceShare of the variance, and in no fewer than
// there are outputs.
func WithPCA(ctx context.Context, t *Task, fit func(context.Context, *Task) *Solution) *Solution {
	if t.VarianceShare >= 1 {
		return fit(ctx, t)
	}
	f, ok := t.Cache.(*reduction)
	made := !ok || f.share != t.VarianceShare || f.task.M < t.D
	if made {
		f = newReduction(ctx, t)
		t.Cache = f
	}
	own := *f.task // other fits may use the same components concurrently
	own.D, own.Ridge, own.Report = t.D, t.Ridge, t.Report
	sol := fit(ctx, &own)
	if made { // otherwise other fits may be reading it
		f.task.ratio = own.ratio
	}
	var components mat.Dense
	components.Mul(f.basis, mat.NewDense(f.task.M, sol.Dim, sol.Components))
	sol.Components = components.RawMatrix().Data
	return sol
}

func newReduction(ctx context.Context, t *Task) *reduction {
	all := fail.Must(pencil.Solve(ctx, t.Basis.Total, pencil.Identity(t.M), pencil.Max, t.M))
	k, sum, enough := 0, 0.0, t.VarianceShare*mat.Trace(t.Basis.Total)
	for ; k < len(all.Values) && (k < t.D || sum < enough); k++ {
		sum += all.Values[k]
	}
	basis := mat.DenseCopyOf(all.Vectors.Slice(0, t.M, 0, k))
	sub, stat := *t, *t.Basis
	stat.Total, stat.Within = linalg.Congruence(stat.Total, basis), linalg.Congruence(stat.Within, basis)
	stat.Means = new(mat.Dense)
	stat.Means.Mul(t.Basis.Means, basis)
	sub.X = new(mat.Dense)
	sub.X.Mul(t.X, basis)
	sub.Basis, sub.axes, sub.M, sub.Columns, sub.ratio, sub.Cache = &stat, t.Expand(basis), k, k, nil, nil
	return &reduction{t.VarianceShare, &sub, basis}
}
