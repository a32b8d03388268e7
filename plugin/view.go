package plugin

import (
	"context"
	"errors"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin/window"
)

// view is a model as the references see it.
type view struct {
	model *model.Model
	seen  map[*window.Row][]float64 // outputs of references
	known known
	agree agreement
}

func newView(m *model.Model) *view { return &view{model: m, seen: map[*window.Row][]float64{}} }

// verdict is what a model says of some rows: how right it is about each, in [0, 1], and the class it takes them for.
type verdict struct {
	right []float64
	class []string  // nil without labels
	means []float64 // how right the nearest class mean is, in the same outputs
}

// judge says how right the model is about rows that it has not seen, which x holds side by side: whether the nearest
// reference has the label of the row, or, without labels, the share of the row's variance that the outputs keep. It is
// wrong about a row that it cannot project.
func (v *view) judge(ctx context.Context, refs *references, rows []window.Row, x []float64, labelled bool) verdict {
	out, err := v.judgeAll(ctx, refs, rows, x, labelled)
	if err == nil {
		return out
	}
	// One far row fails the others: each for itself.
	out = verdict{right: make([]float64, len(rows)), class: make([]string, len(rows)), means: make([]float64, len(rows))}
	m := v.model.M()
	for i := range rows {
		if one, err := v.judgeAll(ctx, refs, rows[i:i+1], x[i*m:(i+1)*m], labelled); err == nil {
			out.right[i], out.means[i] = one.right[0], one.means[0]
			if one.class != nil {
				out.class[i] = one.class[0]
			}
		}
	}
	return out
}

func (v *view) judgeAll(ctx context.Context, refs *references, rows []window.Row, x []float64,
	labelled bool) (verdict, error) {
	if !labelled {
		return v.kept(ctx, x, len(rows))
	}
	if v.model.Map() == "views" {
		return v.classified(ctx, x, rows)
	}
	y, err := outputsOf(ctx, v.model, x, len(rows))
	if err != nil {
		return verdict{}, err
	}
	k := v.refer(ctx, refs)
	if len(k.rows) == 0 {
		return verdict{}, errNoReference
	}
	nearest, err := score.Nearest(ctx, k.y, len(k.rows), y, len(rows), v.model.Dim())
	if err != nil {
		return verdict{}, err
	}
	out := verdict{right: make([]float64, len(rows)), class: make([]string, len(rows))}
	for i, at := range nearest {
		out.class[i] = k.rows[at].Label
		if out.class[i] == rows[i].Label {
			out.right[i] = 1
		}
	}
	out.means = k.nearestMeans(rows, y)
	return out, nil
}

// errNoReference is for a model that can project none of the references.
var errNoReference = errors.New("no reference can be projected")

// classified is the verdict of a map that takes rows for classes itself.
func (v *view) classified(ctx context.Context, x []float64, rows []window.Row) (verdict, error) {
	class := make([]int, len(rows))
	if err := v.model.ProjectClasses(ctx, make([]float32, len(rows)*v.model.Dim()), class,
		model.DenseRows(x, len(rows), v.model.M())); err != nil {
		return verdict{}, err
	}
	out := verdict{right: make([]float64, len(rows)), class: make([]string, len(rows))}
	names := v.model.Classes()
	for i, c := range class {
		out.class[i] = names[c]
		if names[c] == rows[i].Label {
			out.right[i] = 1
		}
	}
	out.means = out.right
	return out, nil
}

// kept is |y|^2 / |x|^2 of each row, x scaled: of orthonormal components the share of its variance that they keep.
func (v *view) kept(ctx context.Context, x []float64, n int) (verdict, error) {
	m, d := v.model.M(), v.model.Dim()
	y, err := outputsOf(ctx, v.model, x, n)
	if err != nil {
		return verdict{}, err
	}
	out, scaled := verdict{right: make([]float64, n)}, make([]float64, m)
	for i := range n {
		if err := v.model.ScaledTo(scaled, model.DenseRows(x[i*m:(i+1)*m], 1, m)); err != nil {
			return verdict{}, err
		}
		all, kept := squares(scaled), squares(y[i*d:(i+1)*d])
		out.right[i] = 1
		if all > 0 {
			out.right[i] = min(kept/all, 1)
		}
		if math.IsInf(all, 0) || math.IsNaN(out.right[i]) {
			return verdict{}, errFar
		}
	}
	out.means = out.right
	return out, nil
}

// errFar is for a row whose square leaves float64.
var errFar = errors.New("the square of a row leaves float64")

func squares(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// outputsOf are the outputs of n rows, as float64.
func outputsOf(ctx context.Context, m *model.Model, x []float64, n int) ([]float64, error) {
	y := make([]float32, n*m.Dim())
	if err := m.ProjectContext(ctx, y, model.DenseRows(x, n, m.M())); err != nil {
		return nil, err
	}
	out := make([]float64, len(y))
	for i, f := range y {
		out[i] = float64(f)
	}
	return out, nil
}
