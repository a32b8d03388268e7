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

// flat is the share of the total variance below which what the tangent spaces
// leave over is rounding.
const flat = 1e-9

func fitLLTSA(ctx context.Context, t *task) (*solution, error) {
	k := t.patchSize()
	t.say("neighbours", 0)
	lists, err := graph.Nearest(ctx, t.x, k-1)
	if err != nil {
		return nil, err
	}
	t.say("tangents", 0)
	most := max(0, min(t.d, k-2, t.m-1))
	tangents, err := graph.Tangents(ctx, t.x, lists.Patches(), graph.FixedDim(most))
	if err != nil {
		return nil, err
	}
	b, err := graph.Align(t.rows.n, func(yield func(graph.Patch) bool) {
		for _, tangent := range tangents {
			if !yield(graph.Patch{Rows: tangent.Rows, L: graph.TangentPart(tangent)}) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	d, err := graph.WeightForm(t.x, b)
	if err != nil {
		return nil, err
	}
	n := t.moment()
	if left := mat.Trace(d); left < flat*mat.Trace(n) {
		return nil, fmt.Errorf("every patch of %d rows is flat: %d tangent directions leave %.2g of the variance; ask for a lower dim (%d now) or a larger k", k, most, max(0, left)/mat.Trace(n), t.d)
	}
	return t.solveRatio(n, d, pencil.Min)
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
