package model

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// tsimr: min over f and v of the tangent form with f'f = 1 and f orthogonal to
// the constant; W are heat weights of the k nearest rows, connected, and each row
// has a tangent space of d dimensions, of it and its nearest rows. With v
// eliminated f are the lowest eigenvectors of 2L - S2 S3^+ S2', n x n, sparse for
// gamma = 0. A new row goes to first order: f_j + v_j' T_j' (x - x_j) at the
// nearest row j, v = -S3^+ S2' f. After Sun 2013; the constraint is ours, the
// form that of Zhou and Sun 2017. Heat weights may leave a row all but alone, and
// an eigenvector then on it: t=inf does not.
var tsimr = Method{
	Name: "tsimr", Title: "tangent space intrinsic manifold regularisation",
	Paper: "Sun, Tangent space intrinsic manifold regularization for data representation, IEEE ChinaSIP 2013",
	Map:   "extension", Streaming: "window",
	Params:  tangentParams("0"),
	dim:     twoColumns,
	bound:   rowsLessOne,
	samples: true,
	fit:     fitTSIMR(pointTangents),
}

// mpTSIMR is tsimr with a tangent space for each patch of a partition.
var mpTSIMR = Method{
	Name: "mp-tsimr", Title: "manifold partition TSIMR",
	Paper: mpda.Paper,
	Map:   "extension", Streaming: "window",
	Params:  append(tangentParams("0"), partitionParams()...),
	dim:     twoColumns,
	bound:   rowsLessOne,
	samples: true,
	fit:     fitTSIMR(patchTangents),
}

// ltsimr is tsimr with f = X a: max (X H X', S_eff + rho I), S_eff = 2 X L X' -
// S2 S3^+ S2'. ridge=0 is the literal form, min (S_eff, X H X') with a rank cut.
// The numerator is ours. A tangent space is at most a hyperplane: one of all
// columns explains every linear f, and S_eff is zero.
var ltsimr = Method{
	Name: "ltsimr", Title: "linear TSIMR",
	Paper: tsimr.Paper,
	Map:   "linear", Streaming: "window",
	Params:  append(tangentParams("1e9"), tangentRidge()),
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     fitLTSIMR(pointTangents),
}

// mpLTSIMR is ltsimr with a tangent space for each patch of a partition.
var mpLTSIMR = Method{
	Name: "mp-ltsimr", Title: "manifold partition linear TSIMR",
	Paper: mpda.Paper,
	Map:   "linear", Streaming: "window",
	Params:  append(append(tangentParams("1e9"), partitionParams()...), tangentRidge()),
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: totalScatter},
	samples: true,
	fit:     fitLTSIMR(patchTangents),
}

func tangentParams(gamma string) []Param {
	return []Param{
		intParam("k", "10", "nearest rows that each row is joined with", 1).tried("5", "10", "20"),
		heatParam("auto", "width of the weights exp(-d^2/t): auto (mean squared distance to the nearest row), inf (weight 1), or a number"),
		floatParam("gamma", gamma, "weight of tangent vectors being parallel; 0 decouples them", 0, 1e12),
		componentsParam,
	}
}

func partitionParams() []Param {
	return []Param{
		intParam("patch_k", "31", "nearest rows in the graph that the rows are partitioned by", 1),
		intParam("patch_size", "48", "a patch of at least this many rows, or of all, is split", 4),
	}
}

func tangentRidge() Param {
	return ridgeParam("oas", "relative ridge of S_eff: oas (of the total scatter) or a number; 0 is the literal form", true)
}

// manifoldTangents gives the symmetric weights of a manifold and its tangent
// spaces of dim dimensions, and the rows that they are of where those are not all.
type manifoldTangents func(ctx context.Context, t *task, dim int) (*task, *graph.Matrix, *tangents, error)

// maxCoordinates is the order of S3 up to which tangent vectors that gamma
// couples are solved for: 130 MB and 20 Gflop.
const maxCoordinates = 4000

// pointTangents have a tangent space at each row, of it and its nearest rows.
// Where gamma couples them S3 is full, so that their number is bounded.
func pointTangents(ctx context.Context, t *task, dim int) (*task, *graph.Matrix, *tangents, error) {
	if t.float("gamma") > 0 {
		t = t.capped(max(maxCoordinates/max(dim, 1), dim+1))
	}
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := t.connected(ctx, lists, t.heat(lists))
	if err != nil {
		return nil, nil, nil, err
	}
	tan, err := t.tangents(ctx, lists.Patches(), everyRow(t.rows.n), dim)
	return t, w, tan, err
}

// patchTangents have a tangent space for each patch of the rows.
func patchTangents(ctx context.Context, t *task, dim int) (*task, *graph.Matrix, *tangents, error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := t.connected(ctx, lists, t.heat(lists))
	if err != nil {
		return nil, nil, nil, err
	}
	t.say("patches", 0)
	k, size := t.int("patch_k"), min(t.int("patch_size"), t.rows.n)
	if n := t.rows.n; k > n-1 {
		t.report.note(fmt.Sprintf("patch_k=%d was clamped to %d: there are no more other rows", k, n-1))
	}
	patches, err := graph.Partition(ctx, t.x, k, size)
	if err != nil {
		return nil, nil, nil, err
	}
	t.report.note(fmt.Sprintf("%d patches of %d rows", len(patches), t.rows.n))
	tan, err := t.tangents(ctx, patches, patchOf(patches, t.rows.n), dim)
	return t, w, tan, err
}

// connected is the weights of the lists, joined where the graph falls apart.
func (t *task) connected(ctx context.Context, lists *graph.Neighbors, weight graph.Weight) (*graph.Matrix, error) {
	w, err := lists.Weights(graph.Union, weight)
	if err != nil {
		return nil, err
	}
	w, added, err := w.Connect(ctx, t.x, graph.Repair(t.params["components"]), weight)
	t.noteEdges(added)
	return w, err
}

// tangents are the tangent spaces of dim dimensions of patches of rows; of is the
// patch of each row.
func (t *task) tangents(ctx context.Context, patches [][]int, of []int, dim int) (*tangents, error) {
	spaces, err := graph.Tangents(ctx, t.x, patches, graph.FixedDim(dim))
	if err != nil {
		return nil, err
	}
	low := 0
	for _, s := range spaces {
		if s.Dim() < dim {
			low++
		}
	}
	if low > 0 {
		t.report.note(fmt.Sprintf("%d of %d tangent spaces have fewer than %d dimensions: their rows span no more", low, len(spaces), dim))
	}
	return &tangents{of, spaces}, nil
}

func fitTSIMR(find manifoldTangents) func(context.Context, *task) (*solution, error) {
	return func(ctx context.Context, t *task) (*solution, error) {
		rows, w, tan, err := find(ctx, t, t.d)
		if err != nil {
			return nil, err
		}
		form, err := newTangentForm(ctx, rows.x, w, tan, t.float("gamma"))
		if err != nil {
			return nil, err
		}
		t.say("tangent vectors", 0)
		parts, err := form.factor(ctx, 0)
		if err != nil {
			return nil, err
		}
		m, err := form.eliminate(parts)
		if err != nil {
			return nil, err
		}
		t.say("eigenvectors", 0)
		ones := mat.NewDense(rows.rows.n, 1, nil)
		for i := range rows.rows.n {
			ones.Set(i, 0, 1)
		}
		found, err := pencil.Partial(ctx, m, pencil.Min, t.d, ones)
		if err != nil {
			return nil, err
		}
		t.found(found)
		settleConstant(found.Vectors)
		e := &tangent{training: rows.training(nil, found.Vectors.RawMatrix().Data, t.d), count: len(tan.spaces)}
		for _, p := range tan.of {
			e.patch = append(e.patch, float64(p))
		}
		for p, v := range form.vectors(parts, found.Vectors) {
			slope := mat.NewDense(t.m, t.d, nil)
			if v != nil {
				slope.Mul(tan.spaces[p].Basis, v)
			}
			e.slope = append(e.slope, t.expand(slope).RawMatrix().Data...)
		}
		return &solution{d: t.d, eigenvalues: found.Values, informative: t.d, mapping: e}, nil
	}
}

// settleConstant moves the median of each column to 0. The form does not see a
// constant added to f, but outputs are float32: where a few rows far off take
// most of the unit norm, the others differ by less than the digits of a float32
// that the constant would use up.
func settleConstant(f *mat.Dense) {
	n, d := f.Dims()
	for c := range d {
		column := mat.Col(nil, c, f)
		slices.Sort(column)
		for i := range n {
			f.Set(i, c, f.At(i, c)-column[n/2])
		}
	}
}

func fitLTSIMR(find manifoldTangents) func(context.Context, *task) (*solution, error) {
	return func(ctx context.Context, t *task) (*solution, error) {
		build := func(t *task) (*mat.SymDense, bool, error) { return effectiveForm(ctx, t, find) }
		d, explained, err := build(t)
		if err != nil {
			return nil, err
		}
		if explained {
			return nil, t.tooFlat(build)
		}
		return t.solveRatio(t.moment(), d, pencil.Min)
	}
}

// effectiveForm is S_eff, and whether the tangent spaces explain all of it.
func effectiveForm(ctx context.Context, t *task, find manifoldTangents) (d *mat.SymDense, explained bool, err error) {
	rows, w, tan, err := find(ctx, t, min(t.d, t.m-1))
	if err != nil {
		return nil, false, err
	}
	form, err := newTangentForm(ctx, rows.x, w, tan, t.float("gamma"))
	if err != nil {
		return nil, false, err
	}
	t.say("tangent vectors", 0)
	parts, err := form.factor(ctx, 0)
	if err != nil {
		return nil, false, err
	}
	if d, err = form.eliminateLinear(rows.x, parts); err != nil {
		return nil, false, err
	}
	all := 0.0 // tr 2 X L X'
	for i := range rows.rows.n {
		index, weight := w.Row(i)
		for e, j := range index {
			all += weight[e] * squaredDistance(rows.x.RawRowView(i), rows.x.RawRowView(j))
		}
	}
	return d, mat.Trace(d) < flat*all, nil
}
