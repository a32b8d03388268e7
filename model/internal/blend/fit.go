package blend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// Name is the method of a model that blends several.
const Name = "blend"

// MinDim is the default number of outputs, unless there are more classes. It is larger than the default of most methods
// because a blend has more than one family of directions.
const MinDim = 20

// Method fits its members, divides the outputs of each by the square root of their total variance, so that no member
// outweighs the others by its units, and takes the principal components of all outputs side by side. Squared distances
// of outputs are then the mean of the members' squared distances, as far as the dimensions can represent them. Where
// all members are linear in the features, the model is one matrix and projects like any linear model.
//
// A method that is a member at three scales contributes nearly the same outputs three times. So each pair of method and
// kind of preprocessing has one vote, which its scales share. Otherwise the blend would lean towards methods whose
// scores do not depend on the scale.
//
// That an average of good candidates beats the best one is the lesson of stacking (Breiman, Stacked regressions,
// Machine Learning 24, 1996): the winner of a cross-validation on few rows owes part of its score to luck.
var Method = frame.Method{
	Name: Name, Title: "principal components of the outputs of several linear methods", Paper: "Breiman 1996",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{{Name: "members",
		Doc: "what is blended: method/scale/dim of each, and /name=value, separated by commas; " +
			"if all learn from moments at the scales standard or none, so does the blend",
		Check: func(s string) error {
			_, err := parse(s)
			return err
		}}},
	Dim:    func(t *frame.Task) int { return min(max(MinDim, t.Basis.Classes()-1), t.Columns) },
	Nested: true, NoSamples: true,
	Fit: fit,
}

// Of is Method for these parameters: it learns from moments if all members do.
func Of(params map[string]string) *frame.Method {
	m := Method
	if members, err := parse(params["members"]); err == nil && !slices.ContainsFunc(members, needsRows) {
		m.Streaming = "moments"
	}
	return &m
}

func fit(ctx context.Context, t *frame.Task) *frame.Solution {
	members := fail.Must(parse(t.Params["members"]))
	b := &fitter{t: t, rows: map[preprocess.Spec]*preprocess.Fitted{}}
	parts, errs := make([]*part, len(members)), make([]error, len(members))
	fitted := map[string]int{} // first index of equal members
	order := preprocess.BySpec(linalg.Range(len(members)), func(i int) preprocess.Spec { return specOf(members[i]) })
	for done, i := range order {
		t.ReportProgress("blend", float64(done)/float64(len(members)))
		key := format(members[i : i+1])
		if same, ok := fitted[key]; ok {
			parts[i], errs[i] = parts[same], errs[same]
			continue
		}
		fitted[key] = i
		parts[i], errs[i] = b.fit(ctx, members[i])
		fail.Check(ctx.Err())
	}
	for i, m := range members {
		if errs[i] == nil {
			b.parts = append(b.parts, *parts[i])
			b.width += parts[i].w.RawMatrix().Cols
		} else if fitted[format(members[i:i+1])] == i {
			t.Report.Note(fmt.Sprintf("%s at scale %s is not in the blend: %v", m.Method, m.Scale, errs[i]))
		}
	}
	if b.width == 0 {
		panic(fail.With(cmp.Or(errs...)))
	}
	b.weigh()
	s := principal(ctx, b.covariance(ctx), t.D)
	_, d := s.Vectors.Dims()
	if t.D > d {
		panic(fail.With(&model.DimError{Asked: t.D, Max: d,
			What: t.Explain("rank %d of the outputs of the blend's members", d)}))
	}
	sol := t.Solved(s, t.D)
	b.compose(sol, s.Vectors)
	return sol
}

// fitter fits one blend.
type fitter struct {
	t     *frame.Task
	rows  map[preprocess.Spec]*preprocess.Fitted
	parts []part
	width int // outputs of all parts

	scratch frame.Scratch
}

// part is a fitted member: directions among the columns of its preprocessed rows. The variances of its outputs sum to
// 1.
type part struct {
	method string
	spec   preprocess.Spec
	w      *mat.Dense
}

// weigh gives each vote the same weight.
func (b *fitter) weigh() {
	var votes []Vote
	for _, p := range b.parts {
		votes = append(votes, Vote{p.method, p.spec.Kind()})
	}
	for i, weight := range weights(votes) {
		var w mat.Dense // equal members share theirs
		w.Scale(weight, b.parts[i].w)
		b.parts[i].w = &w
	}
}

// fit fits a member.
func (b *fitter) fit(ctx context.Context, one model.Member) (_ *part, err error) {
	defer fail.Catch(&err)
	method, params := fail.Must2(resolve(one))
	spec := specOf(one)
	s := b.rows[spec]
	if s == nil {
		s = b.preprocess(ctx, spec)
		b.rows[spec] = s
		if spec.Landmarks > 0 {
			b.t.Report.Note(fmt.Sprintf("members with landmarks are fitted on their %d features", s.Rows.M))
		}
	}
	m := *s.Task
	m.Method, m.Params, m.DefaultDim, m.Report = method, params, true, &model.Report{}
	m.DesignEffect = b.t.DesignEffect
	bound, _ := method.MaxDim(&m)
	m.D = min(one.Dim, bound)
	frame.ChooseRidge(ctx, &m)
	sol := fail.Must(m.Solve(ctx))
	if !sol.IsConverged() {
		b.t.Report.Note(fmt.Sprintf("the search of %s at scale %s stopped before it converged", one.Method,
			one.Scale))
	}
	w := m.Directions(sol)
	variance := mat.Trace(linalg.Congruence(m.Basis.Total, m.Within(w)))
	if !(variance > 0) {
		panic(fail.With(fmt.Errorf("its outputs do not vary")))
	}
	w.Scale(1/math.Sqrt(variance), w)
	return &part{method.Name, spec, w}, nil
}

func (b *fitter) preprocess(ctx context.Context, s preprocess.Spec) *preprocess.Fitted {
	if b.t.Sums == nil {
		return fail.Must(s.Fit(ctx, preprocess.NewTraining(b.t.Rows, nil), b.t.Scaling, b.t.Seed, &b.scratch))
	}
	return fail.Must(s.FitMoments(ctx, b.t))
}

// isNonlinear reports whether the blend is not one matrix.
func (b *fitter) isNonlinear() bool {
	return slices.ContainsFunc(b.parts, func(p part) bool { return p.spec.Nonlinear() })
}

// directions returns the directions of all parts side by side, among the columns of the blend's task.
func (b *fitter) directions() *mat.Dense {
	var all []*mat.Dense
	for _, p := range b.parts {
		all = append(all, b.t.Within(p.w))
	}
	return sideBySide(all, b.width)
}

// maxBatch is the most rows whose outputs are held at once.
const maxBatch = 1024

// covariance is that of the outputs of all parts.
func (b *fitter) covariance(ctx context.Context) *mat.SymDense {
	if !b.isNonlinear() {
		return linalg.Congruence(b.t.Basis.Total, b.directions())
	}
	n := b.t.Rows.N
	products := mat.NewSymDense(b.width, nil)
	for from := 0; from < n; from += maxBatch {
		fail.Check(ctx.Err())
		to := min(from+maxBatch, n)
		var all []*mat.Dense
		for _, p := range b.parts {
			s := b.rows[p.spec]
			m := s.Rows.M
			x := mat.NewDense(to-from, m, slices.Clone(s.Rows.X[from*m:to*m]))
			for i := range to - from {
				floats.Sub(x.RawRowView(i), s.Task.Units.Mean)
			}
			var y mat.Dense
			y.Mul(x, p.w)
			all = append(all, &y)
		}
		y := sideBySide(all, b.width)
		products.SymRankK(products, 1/float64(n), y.T())
	}
	return products
}

// compose puts the map into the solution. Its outputs are the outputs of the parts times rotation: one matrix, or a sum
// with a term for each kind of preprocessing.
func (b *fitter) compose(sol *frame.Solution, rotation *mat.Dense) {
	_, d := rotation.Dims()
	if !b.isNonlinear() {
		var components mat.Dense
		components.Mul(b.directions(), rotation)
		sol.Components = components.RawMatrix().Data
		return
	}
	sum := &mapping.Sum{D: d, Offset: make([]float64, d)}
	at := 0
	for _, p := range b.parts {
		_, k := p.w.Dims()
		var w mat.Dense
		w.Mul(p.w, rotation.Slice(at, at+k, 0, d))
		at += k
		s := b.rows[p.spec]
		if p.spec.Nonlinear() {
			s.AddTo(sum, &w, s.Task.Units.Mean)
			continue
		}
		for j, scale := range b.t.Units.Scale {
			floats.Scale(scale, w.RawRowView(j))
		}
		sum.Linear = preprocess.Plus(sum.Linear, &w)
	}
	sol.Mapping = sum
}
