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
	agree agreement
}

func newView(m *model.Model) *view { return &view{model: m, seen: map[*window.Row][]float64{}} }

// verdict is what a model says of some rows: how right it is about each, in [0, 1], and the class it takes them for.
type verdict struct {
	right []float64
	class []string  // nil without labels
	means []float64 // how right the nearest class mean is, in the same outputs
}

// judge says how right the model is about rows that it has not seen: whether the nearest reference has the label of
// the row, or, without labels, the share of the row's variance that the outputs keep. It is wrong about a row that it
// cannot project.
func (v *view) judge(ctx context.Context, refs *references, rows []window.Row, labelled bool) verdict {
	out, err := v.judgeAll(ctx, refs, rows, labelled)
	if err == nil {
		return out
	}
	// One far row fails the others: each for itself.
	out = verdict{right: make([]float64, len(rows)), class: make([]string, len(rows)), means: make([]float64, len(rows))}
	for i := range rows {
		if one, err := v.judgeAll(ctx, refs, rows[i:i+1], labelled); err == nil {
			out.right[i], out.means[i] = one.right[0], one.means[0]
			if one.class != nil {
				out.class[i] = one.class[0]
			}
		}
	}
	return out
}

func (v *view) judgeAll(ctx context.Context, refs *references, rows []window.Row, labelled bool) (verdict, error) {
	x := make([]float64, 0, len(rows)*v.model.M())
	for i := range rows {
		x = append(x, rows[i].X...)
	}
	if !labelled {
		return v.kept(x, len(rows))
	}
	if v.model.Map() == "views" {
		return v.classified(ctx, x, rows)
	}
	y, err := v.outputs(x, len(rows))
	if err != nil {
		return verdict{}, err
	}
	ref, known := v.referred(refs)
	if len(known) == 0 {
		return verdict{}, errNoReference
	}
	d := v.model.Dim()
	nearest, err := score.Nearest(ctx, ref, len(known), y, len(rows), d)
	if err != nil {
		return verdict{}, err
	}
	out := verdict{right: make([]float64, len(rows)), class: make([]string, len(rows))}
	for i, at := range nearest {
		out.class[i] = known[at].Label
		if out.class[i] == rows[i].Label {
			out.right[i] = 1
		}
	}
	out.means = nearestMeans(known, ref, rows, y, d)
	return out, nil
}

// errNoReference is for a model that can project none of the references.
var errNoReference = errors.New("no reference can be projected")

// nearestMeans tells which rows lie nearest to the mean of their class.
func nearestMeans(known []*window.Row, ref []float64, rows []window.Row, y []float64, d int) []float64 {
	mean, count, labels := map[string][]float64{}, map[string]float64{}, []string{}
	for i, r := range known {
		sum := mean[r.Label]
		if sum == nil {
			sum = make([]float64, d)
			mean[r.Label], labels = sum, append(labels, r.Label)
		}
		count[r.Label]++
		for c, v := range ref[i*d : (i+1)*d] {
			sum[c] += v
		}
	}
	for label, sum := range mean {
		for c := range sum {
			sum[c] /= count[label]
		}
	}
	right := make([]float64, len(rows))
	for i := range rows {
		best, class := math.Inf(1), ""
		for _, label := range labels {
			sum := 0.0
			for c, v := range mean[label] {
				sum += (y[i*d+c] - v) * (y[i*d+c] - v)
			}
			if sum < best {
				best, class = sum, label
			}
		}
		if class == rows[i].Label {
			right[i] = 1
		}
	}
	return right
}

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
func (v *view) kept(x []float64, n int) (verdict, error) {
	m, d := v.model.M(), v.model.Dim()
	scaled := make([]float64, len(x))
	if err := v.model.ScaledTo(scaled, model.DenseRows(x, n, m)); err != nil {
		return verdict{}, err
	}
	y, err := v.outputs(x, n)
	if err != nil {
		return verdict{}, err
	}
	out := verdict{right: make([]float64, n)}
	for i := range n {
		all, kept := squares(scaled[i*m:(i+1)*m]), squares(y[i*d:(i+1)*d])
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

// outputs are those of n rows, as float64.
func (v *view) outputs(x []float64, n int) ([]float64, error) {
	return outputsOf(v.model, x, n)
}

func outputsOf(m *model.Model, x []float64, n int) ([]float64, error) {
	y := make([]float32, n*m.Dim())
	if err := m.Project(y, model.DenseRows(x, n, m.M())); err != nil {
		return nil, err
	}
	out := make([]float64, len(y))
	for i, f := range y {
		out[i] = float64(f)
	}
	return out, nil
}

// referred are the references that the model can project, and their outputs; only those that are new are projected.
func (v *view) referred(refs *references) (ref []float64, known []*window.Row) {
	var x []float64
	var fresh []*window.Row
	for _, r := range refs.rows {
		if v.seen[r] == nil {
			x, fresh = append(x, r.X...), append(fresh, r)
		}
	}
	d := v.model.Dim()
	if len(fresh) > 0 {
		y, err := v.outputs(x, len(fresh))
		for i, r := range fresh {
			if err == nil {
				v.seen[r] = y[i*d : (i+1)*d : (i+1)*d]
			} else if v.seen[r], _ = v.outputs(r.X, 1); v.seen[r] == nil {
				v.seen[r] = []float64{} // too far away
			}
		}
	}
	for _, r := range refs.rows {
		if y := v.seen[r]; len(y) == d {
			ref, known = append(ref, y...), append(known, r)
		}
	}
	if len(v.seen) > 2*maxReferences {
		kept := make(map[*window.Row][]float64, len(refs.rows))
		for _, r := range refs.rows {
			kept[r] = v.seen[r]
		}
		v.seen = kept
	}
	return ref, known
}
