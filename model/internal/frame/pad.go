package frame

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// pad widens a solution to the requested outputs with the directions of most variance among those whose outputs are
// uncorrelated with the criterion's: the leading v of max v'Tv, v'v = 1, W'Tv = 0, where T is the total scatter and W
// the columns so far, each scaled to v'Tv = 1. The criterion's own columns do not change.
func pad(t *Task, sol *Solution) {
	if t.padTo <= sol.Dim || sol.Mapping != nil {
		return
	}
	k := t.padTo - sol.Dim
	w := mat.NewDense(t.M, sol.Dim, sol.Components)
	var tw mat.Dense
	tw.Mul(t.Basis.Total, w)
	var qr mat.QR
	qr.Factorize(&tw)
	var q mat.Dense
	qr.QTo(&q)
	if t.M-sol.Dim < k {
		panic(fail.With(&model.DimError{Asked: t.padTo, Max: t.M, What: t.Explain(RankOfTotal, t.M)}))
	}
	free := q.Slice(0, t.M, sol.Dim, t.M).(*mat.Dense) // an orthonormal basis of the rest
	var eig mat.EigenSym
	if !eig.Factorize(linalg.Congruence(t.Basis.Total, free), true) {
		panic(fail.With(fmt.Errorf("padding to %d outputs: the eigenvectors of the total scatter did not converge", t.padTo)))
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	values := eig.Values(nil)
	wide := mat.NewDense(t.M, t.padTo, nil)
	wide.Slice(0, t.M, 0, sol.Dim).(*mat.Dense).Copy(w)
	for c := range k {
		from := len(values) - 1 - c
		if !(values[from] > 0) {
			panic(fail.With(&model.DimError{Asked: t.padTo, Max: sol.Dim + c, What: t.Explain(RankOfTotal, sol.Dim+c)}))
		}
		var v mat.VecDense
		v.MulVec(free, vectors.ColView(from))
		v.ScaleVec(1/math.Sqrt(values[from]), &v)
		wide.SetCol(sol.Dim+c, v.RawVector().Data)
	}
	t.Report.Note(fmt.Sprintf("the criterion has %d directions; %d more outputs are the directions of most variance",
		sol.Dim, k))
	if sol.features != nil {
		more := t.Expand(mat.DenseCopyOf(wide.Slice(0, t.M, sol.Dim, t.padTo)))
		all := new(mat.Dense)
		all.Augment(sol.ofFeatures(t), more)
		sol.features = all.RawMatrix().Data
	}
	sol.Components, sol.Dim = wide.RawMatrix().Data, t.padTo
	sol.Eigenvalues = slices.Concat(sol.Eigenvalues, make([]float64, k))
}

// fill adds outputs that are zero for every row.
func fill(t *Task, sol *Solution) {
	k := t.Outputs - sol.Dim
	if k <= 0 || !hasZeros(t) {
		return
	}
	if sol.Mapping == nil {
		sol.Components = widen(sol.Components, sol.Dim, t.Outputs)
		if sol.features != nil {
			sol.features = widen(sol.features, sol.Dim, t.Outputs)
		}
	} else if m, ok := sol.Mapping.(*mapping.KernelMap); ok {
		wide := *m
		wide.D, wide.Coefficients = t.Outputs, widen(m.Coefficients, m.D, t.Outputs)
		if m.Offset != nil {
			wide.Offset = widen(m.Offset, m.D, t.Outputs)
		}
		sol.Mapping = &wide
	} else {
		return
	}
	t.Report.Note(fmt.Sprintf("%d of %d outputs have a direction; the others are zero", sol.Dim, t.Outputs))
	sol.Dim = t.Outputs
	sol.Eigenvalues = slices.Concat(sol.Eigenvalues, make([]float64, k))
}

// hasZeros reports whether outputs of the method's map may be zero for every row.
func hasZeros(t *Task) bool {
	return t.Outputs > 0 && (t.Method.Map == "linear" || t.Method.Map == "kernel")
}

// widen adds columns of zeros to a row-major matrix of d columns.
func widen(a []float64, d, to int) []float64 {
	wide := make([]float64, len(a)/d*to)
	for i := 0; i*d < len(a); i++ {
		copy(wide[i*to:], a[i*d:(i+1)*d])
	}
	return wide
}
