package locality

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/pencil"
)

// lltsa: max (X H X', X H B H X' + rho I), H the centring. B sums over patches of k rows, including the row itself,
// what no affine map of the patch's tangent coordinates explains: I - [1/sqrt(k), V][1/sqrt(k), V]', V the leading
// right singular vectors of the centred patch, min(d, k-2, m-1, rank) of them. ridge=0 is the paper's form, min (X H B
// H X', X H X') with a rank cut. Zhang, Yang, Zhao and Ge, Neurocomputing 70, 2007.
var LLTSA = frame.Method{
	Name: "lltsa", Title: "linear local tangent space alignment",
	Paper: "Zhang, Yang, Zhao and Ge, Linear local tangent space alignment and application to face recognition, " +
		"Neurocomputing 70, 2007",
	Map: "linear", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "auto", "rows of a patch, the row itself among them: auto (d+2, at least 12) or a number",
			2, "auto").WithGrid("auto", "10", "15", "20", "25", "30"),
		frame.RidgeParam("oas", "relative ridge of X H B H X': oas (of the total scatter) or a number; 0 is the "+
			"literal form", true),
	},
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: func(e frame.Extent) int64 { return e.Alignment(e.Int("k", maxAutoPatch)) },
	Fit:    fitLLTSA,
}

func fitLLTSA(ctx context.Context, t *frame.Task) *frame.Solution {
	k := patchSize(t)
	build := func(t *frame.Task) (*mat.SymDense, bool) { return alignmentForm(ctx, t, k) }
	d, explained := build(t)
	if explained {
		panic(fail.With(frame.FlatError(t, build)))
	}
	return frame.SolveRatio(ctx, t, &frame.Ratio{N: frame.Moment(t), D: d, Used: map[string]float64{"k": float64(k)}},
		pencil.Min)
}

// alignmentForm is X H B H X' of patches of k rows, and whether the tangent spaces explain all of it.
func alignmentForm(ctx context.Context, t *frame.Task, k int) (d *mat.SymDense, explained bool) {
	t.ReportProgress("neighbours", 0)
	lists := fail.Must(graph.Nearest(ctx, t.X, k-1))
	t.ReportProgress("tangents", 0)
	most := max(0, min(t.D, k-2, t.M-1))
	tangents := fail.Must(graph.TangentCoordinates(ctx, t.X, lists.Patches(), graph.FixedDim(most)))
	b := fail.Must(graph.Align(t.Rows.N, func(yield func(graph.Patch) bool) {
		for _, tangent := range tangents {
			if !yield(graph.Patch{Rows: tangent.Rows, L: graph.TangentPart(tangent)}) {
				return
			}
		}
	}))
	d = fail.Must(graph.WeightForm(ctx, t.X, b))
	return d, mat.Trace(d) < frame.Flat*t.Basis.N*mat.Trace(t.Basis.Total)
}

// maxAutoPatch is the size of auto patches for few outputs.
const maxAutoPatch = 12

// patchSize is k, limited to the number of rows.
func patchSize(t *frame.Task) int {
	if t.Params["k"] == "auto" {
		return max(2, min(t.Rows.N-1, max(maxAutoPatch, t.D+2)))
	}
	k := t.Int("k")
	if k > t.Rows.N {
		t.Report.Note(fmt.Sprintf("k=%d was clamped to %d, the number of rows", k, t.Rows.N))
		k = t.Rows.N
	}
	return k
}
