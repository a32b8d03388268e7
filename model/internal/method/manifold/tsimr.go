package manifold

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method/patch"
	"github.com/embedd/embedd/model/internal/tangent"
	"github.com/embedd/embedd/model/pencil"
)

// tsimr: min over f and v of the tangent form with f'f = 1 and f orthogonal to the constant; W are weights of the
// k nearest rows, connected, and each row has a tangent space of d dimensions, of it and its nearest rows. With v
// eliminated f are the lowest eigenvectors of 2L - S2 S3^+ S2', n x n, sparse for gamma = 0. A new row is mapped to
// first order: f_j + v_j' T_j' (x - x_j) at the nearest row j, v = -S3^+ S2' f. After Sun 2013; the constraint is ours,
// the form that of Zhou and Sun 2017, and so are weights of 1 in place of heat weights (see frame.HeatDoc).
var TSIMR = frame.Method{
	Name: "tsimr", Title: "tangent space intrinsic manifold regularisation",
	Paper: "Sun, Tangent space intrinsic manifold regularization for data representation, IEEE ChinaSIP 2013",
	Map:   "extension", Streaming: "window",
	Params: tangentParams("inf", "0"),
	Bound:  frame.RowsLessOne,
	Memory: func(e frame.Extent) int64 { return eliminated(e, e.Int("k", 0)) },
	Fit:    fitTSIMR(PointTangents),
}

// mpTSIMR is tsimr with a tangent space for each patch of a partition.
var MPTSIMR = frame.Method{
	Name: "mp-tsimr", Title: "manifold partition TSIMR",
	Paper: patch.MPDA.Paper,
	Map:   "extension", Streaming: "window",
	Params: append(tangentParams("inf", "0"), partitionParams()...),
	Bound:  frame.RowsLessOne,
	Memory: func(e frame.Extent) int64 {
		return max(frame.Partitioned(e.Rows), eliminated(e, e.Int("patch_size", 0)))
	},
	Fit: fitTSIMR(PatchTangents),
}

// ltsimr is tsimr restricted to f = X a, with the symbols of docs/methods.md. It solves max (X H X', S_eff + rho I),
// where S_eff = 2 X L X' - S2 S3^+ S2' is what the tangent spaces do not explain. ridge=0 is the form of the paper,
// min (S_eff, X H X') with a rank cut; the maximum is ours. A tangent space has at most m - 1 dimensions: one of m
// would explain every linear f, so S_eff would be 0.
var LTSIMR = frame.Method{
	Name: "ltsimr", Title: "linear TSIMR",
	Paper: TSIMR.Paper,
	Map:   "linear", Streaming: "window",
	Params: append(tangentParams("auto", "1e9"), tangentRidge()),
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: func(e frame.Extent) int64 {
		return e.Lists(e.Int("k", 0)) + frame.Pairs(min(e.Rows*e.Dim, maxCoordinates), 18)
	},
	Fit: fitLTSIMR(PointTangents),
}

// mpLTSIMR is ltsimr with a tangent space for each patch of a partition.
var MPLTSIMR = frame.Method{
	Name: "mp-ltsimr", Title: "manifold partition linear TSIMR",
	Paper: patch.MPDA.Paper,
	Map:   "linear", Streaming: "window",
	Params: append(append(tangentParams("auto", "1e9"), partitionParams()...), tangentRidge()),
	Ridge:  &frame.RidgeRule{Scatter: frame.TotalScatter},
	Memory: func(e frame.Extent) int64 { return frame.Partitioned(e.Rows) + e.Lists(e.Int("k", 0)) },
	Fit:    fitLTSIMR(PatchTangents),
}

func tangentParams(heat, gamma string) []frame.Param {
	return []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is joined with", 1).WithGrid("5", "10", "20"),
		frame.HeatParam(heat, frame.HeatDoc),
		frame.FloatParam("gamma", gamma, "weight of tangent vectors being parallel; 0 decouples them", 0, 1e12),
		frame.ComponentsParam,
	}
}

// eliminated is the memory of the form without tangent vectors: it joins all rows that a tangent space touches, each
// of which has k neighbours.
func eliminated(e frame.Extent, space int) int64 {
	joined := min(e.Rows, space*e.Int("k", 0)*4/3)
	return e.Copies(4, 3000+160*joined) + e.Factor(joined)
}

func partitionParams() []frame.Param {
	return []frame.Param{
		frame.IntParam("patch_k", "31", "nearest rows in the graph that the rows are partitioned by", 1),
		frame.IntParam("patch_size", "48", "a patch of at least this many rows, or of all, is split", 4),
	}
}

func tangentRidge() frame.Param {
	return frame.RidgeParam("oas", "relative ridge of S_eff: oas (of the total scatter) or a number; 0 is the "+
		"literal form", true)
}

// Manifold is a graph of rows and its tangent spaces.
type Manifold struct {
	Rows     *frame.Task   // of fewer rows than the fit if those are too many
	W        *graph.Matrix // symmetric
	Tangents *tangent.Spaces
	Width    float64 // of the heat weights
}

// ManifoldTangents makes a manifold with tangent spaces of dim dimensions.
type ManifoldTangents func(ctx context.Context, t *frame.Task, dim int) *Manifold

// maxCoordinates is the largest order of S3 for which tangent vectors coupled by gamma are solved: 130 MB and 20 Gflop.
const maxCoordinates = 4000

// PointTangents have a tangent space at each row, of it and its nearest rows. If gamma couples them, S3 is dense, so
// their number is limited.
func PointTangents(ctx context.Context, t *frame.Task, dim int) *Manifold {
	if t.Float("gamma") > 0 {
		t = t.Capped(max(maxCoordinates/max(dim, 1), dim+1))
	}
	lists := frame.Nearest(ctx, t, "k")
	m := &Manifold{Rows: t, Width: frame.HeatWidth(t, lists)}
	m.W = frame.Connected(ctx, t, lists, graph.Heat(m.Width))
	m.Tangents = tangents(ctx, t, lists.Patches(), linalg.Range(t.Rows.N), dim)
	return m
}

// PatchTangents have a tangent space for each patch of the rows.
func PatchTangents(ctx context.Context, t *frame.Task, dim int) *Manifold {
	lists := frame.Nearest(ctx, t, "k")
	m := &Manifold{Rows: t, Width: frame.HeatWidth(t, lists)}
	m.W = frame.Connected(ctx, t, lists, graph.Heat(m.Width))
	t.ReportProgress("patches", 0)
	k, size := t.Int("patch_k"), min(t.Int("patch_size"), t.Rows.N)
	if n := t.Rows.N; k > n-1 {
		t.Report.Note(fmt.Sprintf("patch_k=%d was clamped to %d: there are no more rows", k, n-1))
	}
	patches := fail.Must(graph.Partition(ctx, t.X, k, size))
	t.Report.Note(fmt.Sprintf("%d patches of %d rows", len(patches), t.Rows.N))
	m.Tangents = tangents(ctx, t, patches, tangent.PatchOf(patches, t.Rows.N), dim)
	return m
}

// tangents are the tangent spaces of dim dimensions of patches of rows; of is the patch of each row.
func tangents(ctx context.Context, t *frame.Task, patches [][]int, of []int, dim int) *tangent.Spaces {
	spaces := fail.Must(graph.Tangents(ctx, t.X, patches, graph.FixedDim(dim)))
	low := 0
	for _, s := range spaces {
		if s.Dim() < dim {
			low++
		}
	}
	if low > 0 {
		t.Report.Note(fmt.Sprintf("%d of %d tangent spaces have fewer than %d dimensions: their rows span fewer", low,
			len(spaces), dim))
	}
	return &tangent.Spaces{Patch: of, Spaces: spaces}
}

func fitTSIMR(find ManifoldTangents) func(context.Context, *frame.Task) *frame.Solution {
	return func(ctx context.Context, t *frame.Task) *frame.Solution {
		manifold := find(ctx, t, t.D)
		rows, tan := manifold.Rows, manifold.Tangents
		form := tangent.New(ctx, rows.X, manifold.W, tan, t.Float("gamma"))
		t.ReportProgress("tangent vectors", 0)
		parts := form.Factor(ctx, 0)
		m := form.Eliminate(parts)
		t.ReportProgress("eigenvectors", 0)
		found := fail.Must(pencil.Partial(ctx, m, pencil.Min, t.D, linalg.Constant(rows.Rows.N)))
		t.Found(found)
		subtractMedians(found.Vectors)
		e := &mapping.Tangent{Training: rows.Training(nil, found.Vectors.RawMatrix().Data, t.D), Count: len(tan.Spaces)}
		for _, p := range tan.Patch {
			e.Patch = append(e.Patch, float64(p))
		}
		for p, v := range form.Vectors(parts, found.Vectors) {
			slope := mat.NewDense(t.M, t.D, nil)
			if v != nil {
				slope.Mul(tan.Spaces[p].Basis, v)
			}
			e.Slope = append(e.Slope, t.Expand(slope).RawMatrix().Data...)
		}
		return t.Mapped(e, found.Values, t.D).Use("t", manifold.Width)
	}
}

// subtractMedians moves the median of each column to 0. The form does not depend on a constant added to f, but outputs
// are float32: if a few outliers have most of the unit norm, the others differ by less than the digits of a float32
// that the constant would use up.
func subtractMedians(f *mat.Dense) {
	n, d := f.Dims()
	for c := range d {
		column := mat.Col(nil, c, f)
		slices.Sort(column)
		for i := range n {
			f.Set(i, c, f.At(i, c)-column[n/2])
		}
	}
}

func fitLTSIMR(find ManifoldTangents) func(context.Context, *frame.Task) *frame.Solution {
	return func(ctx context.Context, t *frame.Task) *frame.Solution {
		width := 0.0
		build := func(t *frame.Task) (d *mat.SymDense, explained bool) {
			manifold := find(ctx, t, min(t.D, t.M-1))
			width = manifold.Width
			return effectiveForm(ctx, t, manifold)
		}
		d, explained := build(t)
		if explained {
			panic(fail.With(frame.FlatError(t, build)))
		}
		return frame.SolveRatio(ctx, t, &frame.Ratio{N: frame.Moment(t), D: d, Used: map[string]float64{"t": width}},
			pencil.Min)
	}
}

// effectiveForm is S_eff, and whether the tangent spaces explain all of it.
func effectiveForm(ctx context.Context, t *frame.Task, m *Manifold) (d *mat.SymDense, explained bool) {
	rows := m.Rows
	form := tangent.New(ctx, rows.X, m.W, m.Tangents, t.Float("gamma"))
	t.ReportProgress("tangent vectors", 0)
	d = form.EliminateLinear(ctx, rows.X, form.Factor(ctx, 0))
	all := 0.0 // tr 2 X L X'
	for i := range rows.Rows.N {
		index, weight := m.W.Row(i)
		for e, j := range index {
			all += weight[e] * linalg.SquaredDistance(rows.X.RawRowView(i), rows.X.RawRowView(j))
		}
	}
	return d, mat.Trace(d) < frame.Flat*all
}
