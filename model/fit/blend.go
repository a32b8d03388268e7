package fit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// Blend is the method of a model that stands for several: what auto makes of the best candidates where more than one
// is to count. Its parameter members names them, so that other rows are fitted in the same way.
const Blend = "blend"

// blendDim is the least number of outputs of a blend where none is asked for: more than one family of directions is in
// it.
const blendDim = 20

// blend fits its members, divides the outputs of each by the root of their total variance, so that none outweighs the
// others by its units, and takes the principal components of all outputs side by side. All of it is linear, so it is
// one matrix in the end, and the outputs cost what those of any linear model cost.
//
// That the mean of good candidates is better than the best of them is the lesson of stacking (Breiman,
// Stacked regressions, Machine Learning 24, 1996): the best by cross-validation on few rows owes part of its score to luck.
var blend = frame.Method{
	Name: Blend, Title: "principal components of the outputs of several linear methods", Paper: "Breiman 1996",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{{Name: "members",
		Doc: "what is blended: method/scale/dim of each, and /name=value, with commas between them",
		Check: func(s string) error {
			_, err := parseMembers(s)
			return err
		}}},
	Dim:    func(t *frame.Task) int { return min(max(blendDim, t.Stat.Classes()-1), t.Columns) },
	Bound:  frame.EveryColumn,
	Nested: true,
	Fit:    fitBlend,
}

// membersText writes what is blended as the parameter of a blend.
func membersText(of []model.Member) string {
	var text []string
	for _, m := range of {
		one := fmt.Sprintf("%s/%s/%d", m.Method, m.Scale, m.Dim)
		for _, name := range slices.Sorted(maps.Keys(m.Params)) {
			one += "/" + name + "=" + m.Params[name]
		}
		text = append(text, one)
	}
	return strings.Join(text, ",")
}

func parseMembers(text string) (of []model.Member, err error) {
	for one := range strings.SplitSeq(text, ",") {
		m, err := parseMember(one)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", one, err)
		}
		of = append(of, m)
	}
	return of, nil
}

func parseMember(text string) (m model.Member, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 3 {
		return m, fmt.Errorf("give method/scale/dim, and parameters as /name=value")
	}
	m = model.Member{Method: parts[0], Scale: model.Scale(parts[1])}
	if m.Dim, err = strconv.Atoi(parts[2]); err != nil || m.Dim < 1 {
		return m, fmt.Errorf("dim %q; give at least 1", parts[2])
	}
	for _, p := range parts[3:] {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return m, fmt.Errorf("parameter %q; give name=value", p)
		}
		if m.Params == nil {
			m.Params = map[string]string{}
		}
		m.Params[name] = value
	}
	method, _, err := memberMethod(m)
	if err == nil && method.Map != "linear" {
		err = fmt.Errorf("%s is not linear", m.Method)
	}
	return m, err
}

// memberMethod is the method of a member with its parameters.
func memberMethod(m model.Member) (*frame.Method, map[string]string, error) {
	method, err := ofTable(m.Method)
	if err != nil {
		return nil, nil, err
	}
	if err := checkScale(m.Scale); err != nil {
		return nil, nil, err
	}
	params, err := method.Resolve(m.Params)
	return method, params, err
}

func fitBlend(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	of, err := parseMembers(t.Params["members"])
	if err != nil {
		return nil, err
	}
	bases := map[model.Scale]*frame.Task{}
	var outputs [][]float64 // directions among the columns of t
	var first error
	for i, m := range of {
		t.ReportProgress("blend", float64(i)/float64(len(of)))
		w, err := fitMember(ctx, t, m, bases)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			t.Report.Note(fmt.Sprintf("%s at scale %s is not in the blend: %v", m.Method, m.Scale, err))
			first = cmp.Or(first, err)
			continue
		}
		outputs = append(outputs, w...)
	}
	if len(outputs) == 0 {
		return nil, first
	}
	side := mat.NewDense(t.M, len(outputs), nil)
	for c, w := range outputs {
		side.SetCol(c, w)
	}
	s, err := principal(ctx, linalg.Congruence(t.Stat.Total, side), t.D)
	if err != nil {
		return nil, err
	}
	_, d := s.Vectors.Dims()
	if t.D > d {
		return nil, &model.DimError{Asked: t.D, Max: d,
			What: t.Explain("rank %d of what the blend's members put out", d)}
	}
	sol := t.Solved(s, t.D)
	var components mat.Dense
	components.Mul(side, s.Vectors)
	sol.Components = components.RawMatrix().Data
	return sol, nil
}

// principal are the leading d eigenvectors of a covariance, or as many as its rank.
func principal(ctx context.Context, covariance *mat.SymDense, d int) (*pencil.Solution, error) {
	rank, err := pencil.Rank(covariance)
	if err != nil {
		return nil, err
	}
	return pencil.Solve(ctx, covariance, pencil.Identity(covariance.SymmetricDim()), pencil.Max, min(d, rank))
}

// fitMember is the directions of a member among the columns of the blend's task, of which the outputs have a variance
// of 1 all together.
func fitMember(ctx context.Context, t *frame.Task, one model.Member,
	bases map[model.Scale]*frame.Task) ([][]float64, error) {
	method, params, err := memberMethod(one)
	if err != nil {
		return nil, err
	}
	base := bases[one.Scale]
	if base == nil {
		base = &frame.Task{Method: &scan, Scaling: one.Scale, Seed: t.Seed, Report: &model.Report{}}
		if err := base.Load(ctx, t.Rows); err != nil {
			return nil, err
		}
		bases[one.Scale] = base
	}
	m := *base
	m.Method, m.Params, m.Free, m.Report = method, params, true, &model.Report{}
	bound, _ := method.Bound(&m)
	m.D = min(one.Dim, bound)
	if err := m.SettleRidge(ctx); err != nil {
		return nil, err
	}
	sol, err := m.Solve(ctx)
	if err != nil {
		return nil, err
	}
	w := t.Within(m.Directions(sol))
	variance := mat.Trace(linalg.Congruence(t.Stat.Total, w))
	if !(variance > 0) {
		return nil, fmt.Errorf("its outputs do not vary")
	}
	w.Scale(1/math.Sqrt(variance), w)
	_, d := w.Dims()
	columns := make([][]float64, d)
	for c := range columns {
		columns[c] = mat.Col(nil, c, w)
	}
	return columns, nil
}
