package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/pencil"
)

// Blend is the method of a model that stands for several: what auto makes of the best candidates where more than one
// is to count. Its parameter members names them, so that other rows are fitted in the same way.
const Blend = "blend"

// blendDim is the least number of outputs of a blend where none is asked for: more than one family of directions is in
// it.
const blendDim = 20

// blend fits its members, divides the outputs of each by the root of their total variance, so that none outweighs the
// others by its units, and takes the principal components of all outputs side by side. Squared distances of outputs are
// then the mean of those of the members, as far as so many dimensions have them. All of it is linear, so it is
// one matrix in the end, and the outputs cost what those of any linear model cost.
//
// A method that is a member at three scales says nearly the same three times. So each method has one vote, which its
// scales share, of features, of normal scores and behind landmarks each: else the blend would lean to those methods whose
// scores do not depend on the scale.
//
// That the mean of good candidates is better than the best of them is the lesson of stacking (Breiman,
// Stacked regressions, Machine Learning 24, 1996): the best by cross-validation on few rows owes part of its score to luck.
var blend = frame.Method{
	Name: Blend, Title: "principal components of the outputs of several linear methods", Paper: "Breiman 1996",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: []frame.Param{{Name: "members",
		Doc: "what is blended: method/scale/dim of each, and /name=value, with commas between them; where all learn from moments at the scales standard or none, so does the blend",
		Check: func(s string) error {
			_, err := parseMembers(s)
			return err
		}}},
	Dim:    func(t *frame.Task) int { return min(max(blendDim, t.Stat.Classes()-1), t.Columns) },
	Bound:  frame.EveryColumn,
	Nested: true,
	Fit:    fitBlend,
}

// landmarksOf and widthOf name, among the parameters of a member, how many landmarks it stands behind, and how wide their
// kernels are.
const (
	landmarksOf = "landmarks"
	widthOf     = "width"
)

// membersText writes what is blended as the parameter of a blend.
func membersText(of []model.Member) string {
	var text []string
	for _, m := range of {
		one := fmt.Sprintf("%s/%s/%d", m.Method, m.Scale, m.Dim)
		if m.Landmarks > 0 {
			one += fmt.Sprintf("/%s=%d/%s=%g", landmarksOf, m.Landmarks, widthOf, viewOf(m).width)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Params)) {
			one += "/" + name + "=" + m.Params[name]
		}
		text = append(text, one)
	}
	return strings.Join(text, ",")
}

// parseMembers reads what is blended. A row has one set of kernels, so all members that stand behind landmarks stand
// behind the same ones.
func parseMembers(text string) (of []model.Member, err error) {
	var marks view
	for one := range strings.SplitSeq(text, ",") {
		m, err := parseMember(one)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", one, err)
		}
		if v := viewOf(m); v.landmarks > 0 {
			if marks.landmarks > 0 && (v.landmarks != marks.landmarks || v.width != marks.width) {
				return nil, fmt.Errorf("member %q: %d landmarks of width %g beside %d of width %g; give all members the same landmarks and width",
					one, v.landmarks, v.width, marks.landmarks, marks.width)
			}
			marks = v
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
		switch name {
		case landmarksOf:
			if m.Landmarks, err = strconv.Atoi(value); err != nil || m.Landmarks < 1 {
				return m, fmt.Errorf("landmarks %q; give at least 1", value)
			}
			continue
		case widthOf:
			if m.Width, err = strconv.ParseFloat(value, 64); err != nil || !(m.Width > 0) || math.IsInf(m.Width, 0) {
				return m, fmt.Errorf("width %q; give a number above 0", value)
			}
			continue
		}
		if m.Params == nil {
			m.Params = map[string]string{}
		}
		m.Params[name] = value
	}
	if m.Width > 0 && m.Landmarks == 0 {
		return m, fmt.Errorf("width %g is that of landmarks; give landmarks too", m.Width)
	}
	method, _, err := memberMethod(m)
	if err == nil && method.Map != "linear" {
		err = fmt.Errorf("%s is not linear", m.Method)
	}
	return m, err
}

// viewOf is what a member sees.
func viewOf(m model.Member) view {
	if m.Landmarks > 0 {
		return view{m.Scale, m.Landmarks, Config{Width: m.Width}.width()}
	}
	return view{scale: m.Scale}
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

// blendOf is the blend of such members. It learns from moments where all of them do: their directions and the total
// scatter are all that it is made of.
func blendOf(members string) *frame.Method {
	m := blend
	if of, err := parseMembers(members); err == nil && !slices.ContainsFunc(of, needsRows) {
		m.Streaming = "moments"
	}
	return &m
}

// needsRows tells whether the moments of rows are not enough for a member.
func needsRows(m model.Member) bool {
	method, _, err := memberMethod(m)
	return err != nil || method.Streaming != "moments" || m.Landmarks > 0 || ofRows(m.Scale)
}

// whoNeedsRows names the member of a blend that does, "" where the method is none.
func whoNeedsRows(m *frame.Method, params map[string]string) string {
	if m.Name != Blend {
		return ""
	}
	of, _ := parseMembers(params["members"]) // the configuration was checked
	at := slices.IndexFunc(of, needsRows)
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("member %s ", membersText(of[at:at+1]))
}

func fitBlend(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	of, err := parseMembers(t.Params["members"])
	if err != nil {
		return nil, err
	}
	b := &blending{t: t, views: map[view]*seen{}}
	var first error
	for i, m := range of {
		t.ReportProgress("blend", float64(i)/float64(len(of)))
		err := b.take(ctx, m)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			t.Report.Note(fmt.Sprintf("%s at scale %s is not in the blend: %v", m.Method, m.Scale, err))
			first = cmp.Or(first, err)
		}
	}
	if b.width == 0 {
		return nil, first
	}
	b.weigh()
	covariance, err := b.covariance(ctx)
	if err != nil {
		return nil, err
	}
	s, err := principal(ctx, covariance, t.D)
	if err != nil {
		return nil, err
	}
	_, d := s.Vectors.Dims()
	if t.D > d {
		return nil, &model.DimError{Asked: t.D, Max: d,
			What: t.Explain("rank %d of what the blend's members put out", d)}
	}
	sol := t.Solved(s, t.D)
	b.finish(sol, s.Vectors)
	return sol, nil
}

// blending is a blend in the making.
type blending struct {
	t     *frame.Task
	views map[view]*seen
	parts []part
	width int // outputs of all parts
}

// part is what a member brings: directions among the columns of its view, whose outputs have a variance of 1 together.
type part struct {
	method string
	view   view
	w      *mat.Dense
}

// opinion is what members have in common that say nearly the same.
type opinion struct{ method, kind string }

// votes are what outputs of variance 1 are multiplied by, so that those of one opinion have that variance together.
func votes(of []opinion) []float64 {
	count, weights := map[opinion]float64{}, make([]float64, len(of))
	for _, o := range of {
		count[o]++
	}
	for i, o := range of {
		weights[i] = 1 / math.Sqrt(count[o])
	}
	return weights
}

// weigh gives each opinion its vote.
func (b *blending) weigh() {
	var of []opinion
	for _, p := range b.parts {
		of = append(of, opinion{p.method, p.view.kind()})
	}
	for i, weight := range votes(of) {
		b.parts[i].w.Scale(weight, b.parts[i].w)
	}
}

// take fits a member.
func (b *blending) take(ctx context.Context, one model.Member) error {
	method, params, err := memberMethod(one)
	if err != nil {
		return err
	}
	v := viewOf(one)
	s := b.views[v]
	if s == nil {
		if s, err = b.look(ctx, v); err != nil {
			return err
		}
		b.views[v] = s
		if v.landmarks > 0 {
			b.t.Report.Note(fmt.Sprintf("members behind landmarks see %d features of theirs", s.rows.M))
		}
	}
	m := *s.base
	m.Method, m.Params, m.Free, m.Report = method, params, true, &model.Report{}
	bound, _ := method.Bound(&m)
	m.D = min(one.Dim, bound)
	if err := m.SettleRidge(ctx); err != nil {
		return err
	}
	sol, err := m.Solve(ctx)
	if err != nil {
		return err
	}
	w := m.Directions(sol)
	variance := mat.Trace(linalg.Congruence(m.Stat.Total, m.Within(w)))
	if !(variance > 0) {
		return fmt.Errorf("its outputs do not vary")
	}
	w.Scale(1/math.Sqrt(variance), w)
	b.parts = append(b.parts, part{method.Name, v, w})
	b.width += sol.Dim
	return nil
}

// look shows the rows of the blend, or their moments, as a view has them.
func (b *blending) look(ctx context.Context, v view) (*seen, error) {
	if b.t.Sums == nil {
		return v.look(ctx, b.t.Rows, nil, b.t.Scaling, b.t.Seed)
	}
	s := &seen{base: &frame.Task{Method: &scan, Scaling: v.scale, Seed: b.t.Seed, Report: &model.Report{}}}
	return s, s.base.LoadSums(ctx, b.t.Sums)
}

// curved tells whether the blend is no matrix.
func (b *blending) curved() bool {
	return slices.ContainsFunc(b.parts, func(p part) bool { return p.view.curved() })
}

// side is the directions of all parts side by side, among the columns of the blend's task.
func (b *blending) side() *mat.Dense {
	var all []*mat.Dense
	for _, p := range b.parts {
		all = append(all, b.t.Within(p.w))
	}
	return abreast(all, b.width)
}

// covariance is that of the outputs of all parts.
func (b *blending) covariance(ctx context.Context) (*mat.SymDense, error) {
	if !b.curved() {
		return linalg.Congruence(b.t.Stat.Total, b.side()), nil
	}
	n := b.t.Rows.N
	products := mat.NewSymDense(b.width, nil)
	for from := 0; from < n; from += blendRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := min(from+blendRows, n)
		var all []*mat.Dense
		for _, p := range b.parts {
			s := b.views[p.view]
			m := s.rows.M
			x := mat.NewDense(to-from, m, slices.Clone(s.rows.X[from*m:to*m]))
			for i := range to - from {
				floats.Sub(x.RawRowView(i), s.base.Stat.Mean)
			}
			var y mat.Dense
			y.Mul(x, p.w)
			all = append(all, &y)
		}
		y := abreast(all, b.width)
		products.SymRankK(products, 1/float64(n), y.T())
	}
	return products, nil
}

// blendRows is how many rows a blend looks at together.
const blendRows = 1024

// finish makes the map of a solution, whose outputs are those of the parts times turn: one matrix, or a sum of what each
// view makes of a row.
func (b *blending) finish(sol *frame.Solution, turn *mat.Dense) {
	_, d := turn.Dims()
	if !b.curved() {
		var components mat.Dense
		components.Mul(b.side(), turn)
		sol.Components = components.RawMatrix().Data
		return
	}
	sum := &mapping.Sum{D: d, Offset: make([]float64, d)}
	at := 0
	for _, p := range b.parts {
		_, k := p.w.Dims()
		var w mat.Dense
		w.Mul(p.w, turn.Slice(at, at+k, 0, d))
		at += k
		s := b.views[p.view]
		if p.view.curved() {
			s.add(sum, &w, s.base.Stat.Mean)
			continue
		}
		for j, scale := range b.t.Stat.Scale {
			floats.Scale(scale, w.RawRowView(j))
		}
		sum.Linear = plus(sum.Linear, &w)
	}
	sol.Mapping = sum
}

// principal are the leading d eigenvectors of a covariance, or as many as its rank: that of the correlations, or that of
// the covariance itself, which is less where a column outweighs others by more than numbers have digits.
func principal(ctx context.Context, covariance *mat.SymDense, d int) (*pencil.Solution, error) {
	rank, err := pencil.Rank(ctx, covariance)
	if err != nil {
		return nil, err
	}
	q := pencil.Identity(covariance.SymmetricDim())
	s, err := pencil.Solve(ctx, covariance, q, pencil.Max, min(d, rank))
	if fewer := (*pencil.RankError)(nil); errors.As(err, &fewer) && fewer.Max > 0 {
		return pencil.Solve(ctx, covariance, q, pencil.Max, fewer.Max)
	}
	return s, err
}
