package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Modes of Align.
const (
	AlignNone  = "none"  // measure only
	AlignSign  = "sign"  // order and flip columns
	AlignBlock = "block" // sign, and rotate columns inside one eigenspace
	AlignRigid = "rigid" // rotate all columns together and shift them: orthogonal Procrustes
)

// Alignment measures how close an aligned candidate is to the live model on the anchor rows.
type Alignment struct {
	// Residual is |Y1 - Y0| / |Y0 - mean| over the columns that both models have, where Y1 are the aligned candidate's
	// outputs and Y0 the live ones.
	Residual float64 `json:"residual"`
	// Correlation of each column of the aligned candidate with the live one; 0 if one of the two does not vary, 1 if
	// neither does while others do.
	Correlation []float64 `json:"correlation"`
	// Comparable reports that the models have the same dimension and every correlation is at least 0.9: consumers need
	// not distinguish their outputs.
	Comparable bool `json:"comparable"`
}

// minCorrelation is the least correlation of comparable columns.
const minCorrelation = 0.9

// Align returns the candidate with its output columns aligned to those of the live model, judged by the outputs of
// both on the anchor rows: a new model with its own digest, or the candidate itself if nothing changes.
//
// Sign finds for each live column the candidate's column with the largest correlation, over all columns together, and
// flips those with a negative correlation; each column keeps its eigenvector. Block also rotates the columns within
// one eigenspace, which the criterion does not distinguish. With both, columns move only within the informative part,
// or within the rest, and the model keeps its mean. Rigid rotates all columns and shifts them; the shift of a linear
// map is the least change of the model's mean that does it. Distances between complete rows stay the same, columns lose
// their eigenvalues. A missing feature has the model's mean, so with a shifted linear map it is no longer that of the
// rows of the fit. No mode scales, because scaling would drift over many refits. If the dimensions differ, the columns
// that both models have are aligned. Maps that are neither linear nor a sum of kernels, and models of other features,
// are returned unchanged.
func Align(ctx context.Context, candidate, live *Model, anchors Rows, mode string) (_ *Model, _ Alignment, err error) {
	defer parallel.Recover(&err, "align")
	if !slices.Contains([]string{AlignNone, AlignSign, AlignBlock, AlignRigid}, mode) {
		return nil, Alignment{}, fmt.Errorf("align: unknown mode %q; give none, sign, block or rigid", mode)
	}
	if err := cmp.Or(candidate.exists("candidate"), live.exists("live")); err != nil {
		return nil, Alignment{}, fmt.Errorf("align: %w", err)
	}
	if candidate.digest() == live.digest() {
		a := Alignment{Comparable: true, Correlation: make([]float64, live.Dim())}
		for c := range a.Correlation {
			a.Correlation[c] = 1
		}
		return candidate, a, nil
	}
	if !candidate.rotates() || !live.rotates() || !slices.Equal(candidate.fitted.Features, live.fitted.Features) {
		return candidate, Alignment{}, nil
	}
	if anchors.N < 2 {
		return nil, Alignment{}, fmt.Errorf("align: %d anchor rows; give at least 2, better a few hundred", anchors.N)
	}
	d := min(candidate.Dim(), live.Dim())
	y1, err := outputs(ctx, candidate, anchors, d)
	if err != nil {
		return nil, Alignment{}, fmt.Errorf("align: candidate: %w", err)
	}
	y0, err := outputs(ctx, live, anchors, d)
	if err != nil {
		return nil, Alignment{}, fmt.Errorf("align: live: %w", err)
	}
	rotation, from := linalg.Identity(d), linalg.Range(d)
	switch mode {
	case AlignSign, AlignBlock:
		rotation, from = signRotation(correlations(y1, y0), min(candidate.fitted.InformativeRank, d))
		if mode == AlignBlock {
			rotateTies(rotation, from, candidate.fitted.Eigenvalues, y1, y0)
		}
	case AlignRigid:
		if err = rotateVarying(rotation, centred(y1), centred(y0)); err != nil {
			return nil, Alignment{}, err
		}
	}
	aligned, err := candidate.rotated(rotation, from, mode)
	if err != nil {
		return nil, Alignment{}, err
	}
	y1.Mul(mat.DenseCopyOf(y1), rotation)
	if mode == AlignRigid {
		if aligned, err = aligned.shifted(meanShift(y1, y0)); err != nil {
			return nil, Alignment{}, err
		}
		if y1, err = outputs(ctx, aligned, anchors, d); err != nil {
			return nil, Alignment{}, fmt.Errorf("align: %w", err)
		}
	}
	return aligned, measure(y1, y0, candidate.Dim() == live.Dim()), nil
}

// rotateVarying sets the rotation that takes the centred outputs y1 closest to y0. The last columns that vary in
// neither stay as they are.
func rotateVarying(rotation, y1, y0 *mat.Dense) error {
	n, d := y1.Dims()
	for d > 1 && !varies(y1, d-1) && !varies(y0, d-1) {
		d--
	}
	r, err := procrustes(y1.Slice(0, n, 0, d), y0.Slice(0, n, 0, d))
	if err == nil {
		rotation.Slice(0, d, 0, d).(*mat.Dense).Copy(r)
	}
	return err
}

// varies reports whether a centred column is not zero.
func varies(y *mat.Dense, column int) bool { return mat.Norm(y.ColView(column), math.Inf(1)) > 0 }

// rotates reports whether the outputs of the map can be rotated: they are sums weighted by its coefficients.
func (m *Model) rotates() bool {
	switch m.mapping.(type) {
	case *mapping.Linear, *mapping.KernelMap:
		return true
	}
	return false
}

// outputs are the first d columns of the outputs of a model, n x d. A model is made from them, so they come from
// products in a fixed order, or from kernels in float64.
func outputs(ctx context.Context, m *Model, rows Rows, d int) (*mat.Dense, error) {
	if err := rows.check(m); err != nil {
		return nil, err
	}
	k := m.projection
	if l, ok := m.mapping.(*mapping.Linear); ok {
		k = newProducts(m.fitted.Mean, m.fitted.Scale, m.fitted.Unit, m.fitted.Float64, l)
		k.fixOrder()
	}
	y := make([]float32, rows.N*m.Dim())
	if err := k.project(ctx, y, nil, rows); err != nil {
		return nil, err
	}
	out := mat.NewDense(rows.N, d, nil)
	for i := range rows.N {
		for c := range d {
			out.Set(i, c, float64(y[i*m.Dim()+c]))
		}
	}
	return out, nil
}

// rotated is the model with its first columns multiplied by rotation (k x k). from is the old column whose eigenvalue
// each new one has.
func (m *Model) rotated(rotation *mat.Dense, from []int, mode string) (*Model, error) {
	k, _ := rotation.Dims()
	if mat.Equal(rotation, linalg.Identity(k)) {
		return m, nil
	}
	c := *m
	switch l := m.mapping.(type) {
	case *mapping.Linear:
		c.mapping = &mapping.Linear{D: l.D, Components: rotateColumns(l.Components, l.D, rotation)}
	case *mapping.KernelMap:
		t := *l
		t.Coefficients = rotateColumns(l.Coefficients, l.D, rotation)
		if l.Offset != nil {
			t.Offset = rotateColumns(l.Offset, l.D, rotation)
		}
		c.mapping = &t
	}
	switch {
	case mode == AlignRigid:
		c.fitted.Eigenvalues = nil
	case len(m.fitted.Eigenvalues) >= k:
		c.fitted.Eigenvalues = slices.Clone(m.fitted.Eigenvalues)
		for to, old := range from {
			c.fitted.Eigenvalues[to] = m.fitted.Eigenvalues[old]
		}
	}
	return c.seal()
}

// rotateColumns is a matrix of d columns with the first ones multiplied by rotation (k x k).
func rotateColumns(data []float64, d int, rotation *mat.Dense) []float64 {
	k, _ := rotation.Dims()
	n := len(data) / d
	a := mat.NewDense(n, d, slices.Clone(data))
	var part mat.Dense
	part.Mul(a.Slice(0, n, 0, k), rotation)
	a.Slice(0, n, 0, k).(*mat.Dense).Copy(&part)
	return a.RawMatrix().Data
}

// meanShift is what to add to the rows of y1 so that their mean is that of y0.
func meanShift(y1, y0 *mat.Dense) []float64 {
	n, d := y1.Dims()
	shift := make([]float64, d)
	for c := range shift {
		shift[c] = (mat.Sum(y0.ColView(c)) - mat.Sum(y1.ColView(c))) / float64(n)
	}
	return shift
}

// shifted returns the model with shift added to its first len(shift) outputs; the others do not change. A kernel map
// gets another offset. A linear map gets another scaled mean, by the change of least norm:
// mean - scale * A (A'A)^-1 shift.
func (m *Model) shifted(shift []float64) (*Model, error) {
	if k, ok := m.mapping.(*mapping.KernelMap); ok {
		c, t := *m, *k
		t.Offset = make([]float64, k.D)
		copy(t.Offset, k.Offset)
		for i, v := range shift {
			t.Offset[i] += v
		}
		c.mapping = &t
		return c.seal()
	}
	l := m.mapping.(*mapping.Linear)
	full := mat.NewVecDense(l.D, nil)
	for c, v := range shift {
		full.SetVec(c, v)
	}
	a := mat.NewDense(m.M(), l.D, l.Components)
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		return nil, fmt.Errorf("align: the singular value decomposition of the components did not converge; use mode sign")
	}
	var delta mat.VecDense // A^T delta = shift
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	var inV mat.VecDense
	inV.MulVec(v.T(), full)
	for i, s := range svd.Values(nil) {
		if s > minSingular*svd.Values(nil)[0] {
			inV.SetVec(i, inV.AtVec(i)/s)
		} else {
			inV.SetVec(i, 0) // dependent columns cannot be shifted independently
		}
	}
	delta.MulVec(&u, &inV)
	c := *m
	c.fitted.Mean = slices.Clone(m.fitted.Mean)
	for j := range c.fitted.Mean {
		c.fitted.Mean[j] -= m.fitted.Scale[j] * delta.AtVec(j)
	}
	return c.seal()
}

// minSingular is the least singular value of the components, relative to the largest, along which they are shifted.
const minSingular = 1e-10

// signRotation orders and flips the columns. It returns a signed permutation, and the old column of each new one.
func signRotation(corr *mat.Dense, informative int) (*mat.Dense, []int) {
	d, _ := corr.Dims()
	rotation, from := mat.NewDense(d, d, nil), make([]int, d)
	for _, part := range [][2]int{{0, informative}, {informative, d}} {
		lo, n := part[0], part[1]-part[0]
		cost := make([][]float64, n) // live x candidate
		for i := range cost {
			cost[i] = make([]float64, n)
			for j := range cost[i] {
				cost[i][j] = -math.Abs(corr.At(lo+j, lo+i))
			}
			cost[i][i] -= 1e-9 // without a gain a column stays
		}
		for i, j := range assign(cost) {
			from[lo+i] = lo + j
			sign := 1.0
			if corr.At(lo+j, lo+i) < 0 {
				sign = -1
			}
			rotation.Set(lo+j, lo+i, sign)
		}
	}
	return rotation, from
}

// rotateTies replaces the part of rotation that belongs to one eigenspace by the rotation closest to the live columns.
func rotateTies(rotation *mat.Dense, from []int, eigenvalues []float64, y1, y0 *mat.Dense) {
	d := len(from)
	if len(eigenvalues) < d {
		return
	}
	c1, c0 := centred(y1), centred(y0)
	largest := max(slices.Max(eigenvalues[:d]), -slices.Min(eigenvalues[:d]))
	tied := func(a, b float64) bool { return linalg.Tied(a, b, d, largest) }
	for _, run := range linalg.Ties(eigenvalues[:d], d, tied) {
		var to []int // the new columns that come from this run
		for c, old := range from {
			if old >= run[0] && old < run[1] {
				to = append(to, c)
			}
		}
		if len(to) < 2 {
			continue
		}
		n, _ := y1.Dims()
		a, b := mat.NewDense(n, len(to), nil), mat.NewDense(n, len(to), nil)
		for k, c := range to {
			a.SetCol(k, mat.Col(nil, run[0]+k, c1))
			b.SetCol(k, mat.Col(nil, c, c0))
		}
		r, err := procrustes(a, b)
		if err != nil {
			continue // keep the signs
		}
		for k, c := range to {
			for old := range d {
				rotation.Set(old, c, 0)
			}
			for i := range to {
				rotation.Set(run[0]+i, c, r.At(i, k))
			}
		}
	}
}

// procrustes is the orthogonal R that minimises |A R - B|_F: U V' of the singular value decomposition of A'B
// (Schönemann 1966).
func procrustes(a, b mat.Matrix) (*mat.Dense, error) {
	var cross, r mat.Dense
	cross.Mul(a.T(), b)
	var svd mat.SVD
	if !svd.Factorize(&cross, mat.SVDFull) {
		return nil, fmt.Errorf("align: the singular value decomposition of the cross product did not converge; " +
			"use mode sign")
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	r.Mul(&u, v.T())
	return &r, nil
}

// correlations of the columns of y1 (rows of the result) with those of y0.
func correlations(y1, y0 *mat.Dense) *mat.Dense {
	a, b := centred(y1), centred(y0)
	_, d := a.Dims()
	for _, y := range []*mat.Dense{a, b} {
		for c := range d {
			col := mat.Col(nil, c, y)
			if norm := mat.Norm(mat.NewVecDense(len(col), col), 2); norm > 0 {
				for i, v := range col {
					y.Set(i, c, v/norm)
				}
			}
		}
	}
	var r mat.Dense
	r.Mul(a.T(), b)
	return &r
}

func centred(y *mat.Dense) *mat.Dense {
	n, d := y.Dims()
	c := mat.DenseCopyOf(y)
	for j := range d {
		mean := mat.Sum(y.ColView(j)) / float64(n)
		for i := range n {
			c.Set(i, j, y.At(i, j)-mean)
		}
	}
	return c
}

func measure(y1, y0 *mat.Dense, sameDim bool) Alignment {
	var diff mat.Dense
	diff.Sub(y1, y0)
	corr := correlations(y1, y0)
	d, _ := corr.Dims()
	a := Alignment{Comparable: sameDim, Correlation: make([]float64, d)}
	c1, c0 := centred(y1), centred(y0)
	spread := mat.Norm(c0, 2)
	if spread > 0 {
		a.Residual = mat.Norm(&diff, 2) / spread
	}
	for c := range d {
		a.Correlation[c] = min(max(corr.At(c, c), -1), 1)
		if spread > 0 && !varies(c1, c) && !varies(c0, c) {
			a.Correlation[c] = 1
		}
		a.Comparable = a.Comparable && a.Correlation[c] >= minCorrelation
	}
	return a
}

// assign is the assignment of rows to columns with the least total cost, by shortest augmenting paths (Kuhn 1955;
// Jonker and Volgenant 1987), O(n^3).
func assign(cost [][]float64) []int {
	n := len(cost)
	u, v := make([]float64, n+1), make([]float64, n+1)
	rowOf := make([]int, n+1) // of each column, 1-based; 0: free
	for row := 1; row <= n; row++ {
		rowOf[0] = row
		least, back, done := make([]float64, n+1), make([]int, n+1), make([]bool, n+1)
		for c := range least {
			least[c] = math.Inf(1)
		}
		at := 0
		for rowOf[at] != 0 {
			done[at] = true
			delta, next := math.Inf(1), 0
			for c := 1; c <= n; c++ {
				if done[c] {
					continue
				}
				if reduced := cost[rowOf[at]-1][c-1] - u[rowOf[at]] - v[c]; reduced < least[c] {
					least[c], back[c] = reduced, at
				}
				if least[c] < delta {
					delta, next = least[c], c
				}
			}
			for c := range n + 1 {
				if done[c] {
					u[rowOf[c]] += delta
					v[c] -= delta
				} else {
					least[c] -= delta
				}
			}
			at = next
		}
		for at != 0 {
			rowOf[at] = rowOf[back[at]]
			at = back[at]
		}
	}
	out := make([]int, n)
	for c := 1; c <= n; c++ {
		out[rowOf[c]-1] = c - 1
	}
	return out
}
