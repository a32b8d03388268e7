package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// mpda: max (blockdiag(S_b, 0), S + blockdiag(a_t I, a_v I)) over (t; v), the
// projection t and a tangent vector v_p for each patch. S is the tangent form
// of the within-class graph and f = X t, S_b the local between-class scatter of
// lfda. The classes are partitioned into patches that are nearly linear. v is
// free, so it is eliminated exactly:
//
//	S_b t = lambda (S0 + a_t I) t,  S0 = S1 - S2 (S3 + a_v I)^-1 S2'
//
// S3 is block diagonal over the classes. After Zhou and Sun 2017 and the authors'
// code, which decides what the text leaves open.
var mpda = Method{
	Name: "mpda", Title: "manifold partition discriminant analysis",
	Paper:      "Zhou and Sun, Manifold partition discriminant analysis, IEEE Trans. Cybernetics 47, 2017",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: append(mpdaParams(),
		intParam("patch_k", "6", "nearest rows in the graph that a class is partitioned by", 1),
		intParam("patch_size", "10", "a patch of at least this many rows is split", 4),
	),
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: withinScatter},
	samples: true,
	fit:     fitMPDA((*task).partitionClasses),
}

// pmpda is mpda with a tangent space at every row: of the row and its nearest
// rows of the class.
var pmpda = Method{
	Name: "pmpda", Title: "pointwise manifold discriminant analysis",
	Paper:      mpda.Paper,
	Supervised: true, Map: "linear", Streaming: "window",
	Params:  mpdaParams(),
	dim:     twoColumns,
	bound:   everyColumn,
	ridge:   &ridgeRule{of: withinScatter},
	samples: true,
	fit:     fitMPDA((*task).capPointwise),
}

// maxPointwise is the number of rows that pmpda takes tangent spaces of: each
// adds its dimension to the order of S3.
const maxPointwise = 500

func mpdaParams() []Param {
	return []Param{
		intParam("k", "7", "nearest rows of the class: of the within-class graph, and the row whose distance is the scale of lfda's scatter", 1).tried("5", "7", "15"),
		heatParam("inf", "width of the within-class weights exp(-d^2/t): inf (weight 1, as in the authors' code), auto (mean squared distance to the nearest row), or a number"),
		floatParam("gamma", "1", "weight of tangent vectors being parallel", 0, 1e12).tried("0", "1"),
		floatParam("energy", "0.95", "share of a patch's variance in its tangent space", 0, 1),
		ridgeParam("0.1", "relative ridge of both blocks: a_v = ridge tr(S3)/dim v, a_t = ridge tr(S0)/columns; 0 is a rank cut", false).tried("0.1", "1", "10"),
		floatParam("alpha", "relative", "a_t = a_v, in place of the ridge; 1e-5 is the paper's", 1e-300, 1e12, "relative"),
	}
}

// negligible is the share of the largest eigenvalue below which a direction of
// mpda is dropped, as in the authors' code.
const negligible = 1e-10

// fitMPDA is the fit where choose gives the rows that the tangent form is of, and
// their patches: nil for one around every row. S_b is of all rows.
func fitMPDA(choose func(*task, context.Context) (rows *task, patches [][]int, err error)) func(context.Context, *task) (*solution, error) {
	solve := maximize(func(ctx context.Context, t *task) (n, d *mat.SymDense, err error) {
		if n, _, err = localScatters(ctx, t, "k"); err != nil {
			return nil, nil, err
		}
		t.say("patches", 0)
		rows, patches, err := choose(t, ctx)
		if err != nil {
			return nil, nil, err
		}
		if d, err = rows.mpdaDenominator(ctx, patches); err != nil {
			return nil, nil, err
		}
		if trace := mat.Trace(d); t.params["alpha"] != "relative" && trace > 0 {
			t.ridge = t.float("alpha") * float64(t.columns) / trace
			t.report.Ridge.Relative = t.ridge
		}
		return n, d, nil
	}, pencil.Max)
	return func(ctx context.Context, t *task) (*solution, error) {
		s, err := solve(ctx, t)
		if err != nil {
			return nil, err
		}
		for j, l := range s.eigenvalues {
			if math.Abs(l) < negligible*math.Abs(s.eigenvalues[0]) {
				return nil, &pencil.RankError{Asked: t.d, Max: j}
			}
		}
		return s, nil
	}
}

// mpdaDenominator is S0.
func (t *task) mpdaDenominator(ctx context.Context, patches [][]int) (*mat.SymDense, error) {
	own, _, err := graph.NearestByClass(ctx, t.x, t.rows.y, t.int("k"), 0)
	if err != nil {
		return nil, err
	}
	w, err := own.Weights(graph.Union, t.heat(own))
	if err != nil {
		return nil, err
	}
	tan := &tangents{}
	if patches == nil {
		patches = own.Patches()
		tan.of = everyRow(t.rows.n)
	} else {
		tan.of = patchOf(patches, t.rows.n)
	}
	if tan.spaces, err = graph.Tangents(ctx, t.x, patches, graph.EnergyDim(t.float("energy"))); err != nil {
		return nil, err
	}
	t.say("tangent vectors", 0)
	form, err := newTangentForm(ctx, t.x, w, tan, t.float("gamma"))
	if err != nil {
		return nil, err
	}
	ridge := t.float("alpha")
	if t.params["alpha"] == "relative" {
		ridge = t.ridge * form.trace() / float64(max(form.dim(), 1))
	}
	parts, err := form.factor(ctx, ridge)
	if err != nil {
		return nil, err
	}
	return form.eliminateLinear(t.x, parts)
}

// capPointwise takes the rows that pmpda can.
func (t *task) capPointwise(context.Context) (*task, [][]int, error) {
	return t.capped(maxPointwise), nil, nil
}

// partitionClasses divides the rows of each class into patches.
func (t *task) partitionClasses(ctx context.Context) (*task, [][]int, error) {
	k, size := t.int("patch_k"), t.int("patch_size")
	t.noteShort("patch_k", k, func(rows int) int {
		if rows < size {
			return k // one patch, no graph
		}
		return rows - 1
	})
	byClass := t.rows.byClass()
	var patches [][]int
	for i, c := range t.stat.class {
		t.say("patches", float64(i)/float64(t.stat.classes()))
		rows := byClass[c]
		x := mat.NewDense(len(rows), t.m, nil)
		for j, r := range rows {
			x.SetRow(j, t.x.RawRowView(r))
		}
		parts, err := graph.Partition(ctx, x, k, size)
		if err != nil {
			return nil, nil, err
		}
		for _, part := range parts {
			for j, r := range part {
				part[j] = rows[r]
			}
			patches = append(patches, part)
		}
	}
	t.report.note(fmt.Sprintf("%d patches of %d rows", len(patches), t.rows.n))
	return t, patches, nil
}
