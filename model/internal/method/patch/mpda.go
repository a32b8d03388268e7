package patch

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// mpda: max (blockdiag(S_b, 0), S + blockdiag(a_t I, a_v I)) over (t; v), the projection t and a tangent vector v_p for
// each patch. S is the tangent form of the within-class graph and f = X t, S_b the local between-class scatter of lfda.
// The classes are partitioned into patches that are nearly linear. v is free, so it is eliminated exactly:
//
//	S_b t = lambda (S0 + a_t I) t,  S0 = S1 - S2 (S3 + a_v I)^-1 S2'
//
// S3 is block diagonal over the classes. After Zhou and Sun 2017 and the authors'
// code, which decides what the text leaves open.
var MPDA = frame.Method{
	Name: "mpda", Title: "manifold partition discriminant analysis",
	Paper:      "Zhou and Sun, Manifold partition discriminant analysis, IEEE Trans. Cybernetics 47, 2017",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: append(mpdaParams(),
		frame.IntParam("patch_k", "6", "nearest rows in the graph that a class is partitioned by", 1),
		frame.IntParam("patch_size", "10", "a patch of at least this many rows is split", 4),
	),
	Ridge: &frame.RidgeRule{Scatter: frame.WithinScatter},
	Memory: func(e frame.Extent) int64 {
		return e.Affinities(e.Int("k", 0)) + e.Lists(e.Int("patch_k", 0)) + frame.Partitioned(e.Largest)
	},
	Fit:    fitMPDA(PartitionClasses),
	Nested: true,
}

// pmpda is mpda with a tangent space at every row: of the row and its nearest rows of the class.
var PMPDA = frame.Method{
	Name: "pmpda", Title: "pointwise manifold discriminant analysis",
	Paper:      MPDA.Paper,
	Supervised: true, Map: "linear", Streaming: "window",
	Params: mpdaParams(),
	Ridge:  &frame.RidgeRule{Scatter: frame.WithinScatter},
	Memory: func(e frame.Extent) int64 {
		coordinates := min(e.Rows, maxPointwise) * min(e.Features, e.Int("k", 0)+1)
		return e.Affinities(e.Int("k", 0)) + frame.Pairs(coordinates, 13)
	},
	Fit:    fitMPDA(capPointwise),
	Nested: true,
}

// maxPointwise is the number of rows that pmpda computes tangent spaces of: each adds its dimension to the order of S3.
const maxPointwise = 500

func mpdaParams() []frame.Param {
	return []frame.Param{
		frame.IntParam("k", "7", "nearest rows of the class: of the within-class graph, and the row whose distance is "+
			"the scale of lfda's scatter", 1).WithGrid("5", "7", "15"),
		frame.HeatParam("inf", "width of the within-class weights exp(-d^2/t): inf (weight 1, as in the authors' code), "+
			"auto (mean squared distance to the nearest row of the class), or a number"),
		frame.FloatParam("gamma", "1", "weight of tangent vectors being parallel", 0, 1e12).WithGrid("0", "1"),
		frame.FloatParam("energy", "0.95", "share of a patch's variance in its tangent space", 0, 1),
		frame.RidgeParam("0.1", "relative ridge of both blocks: a_v = ridge tr(S3)/dim v, a_t = ridge tr(S0)/columns; 0 "+
			"is a rank cut", false).WithGrid("0.1", "1", "10"),
		frame.FloatParam("alpha", "relative", "a_t = a_v, in place of the ridge; 1e-5 is the paper's", 1e-300, 1e12,
			"relative"),
	}
}

// negligible is the share of the largest eigenvalue below which a direction of mpda is dropped, as in the authors'
// code.
const negligible = 1e-10

// fitMPDA is the fit where choose gives the rows of the tangent form and their patches: nil for one around every row.
// S_b is of all rows.
func fitMPDA(choose func(context.Context, *frame.Task) (rows *frame.Task, patches [][]int)) func(
	context.Context, *frame.Task) *frame.Solution {
	solve := frame.Maximize(func(ctx context.Context, t *frame.Task) *frame.Ratio {
		n, _ := frame.LocalScatters(ctx, t, "k")
		t.ReportProgress("patches", 0)
		rows, patches := choose(ctx, t)
		d, width := mpdaDenominator(ctx, rows, patches)
		if trace := mat.Trace(d); t.Params["alpha"] != "relative" && trace > 0 {
			t.Ridge = t.Float("alpha") * float64(t.Columns) / trace
			t.Report.Ridge.Relative = t.Ridge
		}
		return &frame.Ratio{N: n, D: d, Used: map[string]float64{"t": width}}
	}, pencil.Max)
	return func(ctx context.Context, t *frame.Task) *frame.Solution {
		s := solve(ctx, t)
		for j, l := range s.Eigenvalues {
			if math.Abs(l) < negligible*math.Abs(s.Eigenvalues[0]) {
				panic(fail.With(&pencil.RankError{Asked: t.D, Max: j}))
			}
		}
		return s
	}
}

// mpdaDenominator is S0, and the width of its heat weights.
func mpdaDenominator(ctx context.Context, t *frame.Task, patches [][]int) (d *mat.SymDense, width float64) {
	own, _ := fail.Must2(graph.NearestByClass(ctx, t.X, t.Rows.Y, t.Int("k"), 0))
	width = frame.HeatWidth(t, own)
	w := fail.Must(own.Weights(graph.Union, graph.Heat(width)))
	tan := &tangent.Spaces{}
	if patches == nil {
		patches = own.Patches()
		tan.Patch = linalg.Range(t.Rows.N)
	} else {
		tan.Patch = tangent.PatchOf(patches, t.Rows.N)
	}
	tan.Spaces = fail.Must(graph.Tangents(ctx, t.X, patches, graph.EnergyDim(t.Float("energy"))))
	t.ReportProgress("tangent vectors", 0)
	form := tangent.New(ctx, t.X, w, tan, t.Float("gamma"))
	ridge := t.Float("alpha")
	if t.Params["alpha"] == "relative" {
		ridge = t.Ridge * form.Trace() / float64(max(form.Dim(), 1))
	}
	return form.EliminateLinear(ctx, t.X, form.Factor(ctx, ridge)), width
}

// capPointwise selects at most maxPointwise rows.
func capPointwise(_ context.Context, t *frame.Task) (*frame.Task, [][]int) {
	return t.Capped(maxPointwise), nil
}

// PartitionClasses divides the rows of each class into patches.
func PartitionClasses(ctx context.Context, t *frame.Task) (*frame.Task, [][]int) {
	k, size := t.Int("patch_k"), t.Int("patch_size")
	frame.NoteFewRows(t, "patch_k", k, func(rows int) int {
		if rows < size {
			return k // one patch, no graph
		}
		return rows - 1
	})
	byClass := t.Rows.ByClass()
	var patches [][]int
	for i, c := range t.Basis.Class {
		t.ReportProgress("patches", float64(i)/float64(t.Basis.Classes()))
		rows := byClass[c]
		for _, part := range fail.Must(graph.Partition(ctx, linalg.Pick(t.X, rows), k, size)) {
			for j, r := range part {
				part[j] = rows[r]
			}
			patches = append(patches, part)
		}
	}
	t.Report.Note(fmt.Sprintf("%d patches of %d rows", len(patches), t.Rows.N))
	return t, patches
}
