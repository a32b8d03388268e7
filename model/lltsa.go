package model

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// lltsa: max (X H X', X H B H X' + rho I), H the centring. B sums over patches of
// k rows, the row itself among them, what no affine map of the patch's tangent
// coordinates explains: I - [1/sqrt(k), V][1/sqrt(k), V]', V the leading right
// singular vectors of the centred patch, min(d, k-2, m-1, rank) of them. ridge=0
// is the paper's form, min (X H B H X', X H X') with a rank cut. Zhang, Yang,
// Zhao and Ge, Neurocomputing 70, 2007.
var lltsa = Method{
	Name: "lltsa", Title: "linear local tangent space alignment",
	Paper: "Zhang, Yang, Zhao and Ge, Linear local tangent space alignment and application to face recognition, Neurocomputing 70, 2007",
	Map:   "linear", Streaming: "window",
	Params: []Param{
		intParam("k", "auto", "rows of a patch, the row itself among them: auto (d+2, at least 12) or a number", 2, "auto").tried("auto", "10", "15", "20", "25", "30"),
		ridgeParam("oas", "relative ridge of X H B H X': oas (of the total scatter) or a number; 0 is the literal form", true),
	},
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     fitLLTSA,
}

// flat is the share of the variance below which what tangent spaces leave over is
// rounding.
const flat = 1e-9

func fitLLTSA(ctx context.Context, t *task) (*solution, error) {
	build := func(t *task) (*mat.SymDense, bool, error) { return alignmentForm(ctx, t) }
	d, explained, err := build(t)
	if err != nil {
		return nil, err
	}
	if explained {
		return nil, t.tooFlat(build)
	}
	return t.solveRatio(t.moment(), d, pencil.Min)
}

// alignmentForm is X H B H X', and whether the tangent spaces explain all of it.
func alignmentForm(ctx context.Context, t *task) (d *mat.SymDense, explained bool, err error) {
	k := t.patchSize()
	t.say("neighbours", 0)
	lists, err := graph.Nearest(ctx, t.x, k-1)
	if err != nil {
		return nil, false, err
	}
	t.say("tangents", 0)
	most := max(0, min(t.d, k-2, t.m-1))
	tangents, err := graph.Tangents(ctx, t.x, lists.Patches(), graph.FixedDim(most))
	if err != nil {
		return nil, false, err
	}
	b, err := graph.Align(t.rows.n, func(yield func(graph.Patch) bool) {
		for _, tangent := range tangents {
			if !yield(graph.Patch{Rows: tangent.Rows, L: graph.TangentPart(tangent)}) {
				return
			}
		}
	})
	if err != nil {
		return nil, false, err
	}
	if d, err = graph.WeightForm(t.x, b); err != nil {
		return nil, false, err
	}
	return d, mat.Trace(d) < flat*t.stat.n*mat.Trace(t.stat.total), nil
}

// tooFlat is the error of a denominator of tangent spaces that explain all: near
// each row the rows have t.d dimensions or fewer, and the criterion does not tell
// outputs apart. Its bound is the largest number of dimensions that leave
// something over. build makes the denominator, and says whether it is nothing.
func (t *task) tooFlat(build func(*task) (*mat.SymDense, bool, error)) error {
	for q := t.d - 1; q > 0; q-- {
		lower := *t
		lower.d, lower.report = q, &Report{}
		_, explained, err := build(&lower)
		if err != nil {
			return err
		}
		if !explained {
			return &DimError{Asked: t.d, Max: q, what: t.explain("%d: tangent spaces of more dimensions explain all there is, as the rows have no more near any of them", q)}
		}
	}
	return fmt.Errorf("tangent spaces of 1 dimension explain all there is (n=%g, m=%d): the rows lie on lines; a larger k reaches further", t.stat.n, len(t.stat.mean))
}

// patchSize is k, cut to the rows there are.
func (t *task) patchSize() int {
	if t.params["k"] == "auto" {
		return max(2, min(t.rows.n-1, max(12, t.d+2)))
	}
	k := t.int("k")
	if k > t.rows.n {
		t.report.note(fmt.Sprintf("k=%d was clamped to %d, all rows there are", k, t.rows.n))
		k = t.rows.n
	}
	return k
}
