package fit

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
)

// refined is how many of the best candidates are tried with other parameters.
const refined = 5

// best are so many entries, each the best of its method and view, that a blend may have. Behind landmarks they are of
// one width, that of the best one there: a row has one set of kernels this way.
func (a *selection) best(most int) []*entry {
	var out []*entry
	for _, e := range a.entries {
		if e.blendable() && !e.out {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(x, y *entry) int { return byScore(x.top(), y.top()) })
	if i := slices.IndexFunc(out, func(e *entry) bool { return e.view.landmarks > 0 }); i >= 0 {
		of := out[i].view
		out = slices.DeleteFunc(out, func(e *entry) bool { return e.view.landmarks > 0 && e.view != of })
	}
	type family struct {
		method string
		view   view
	}
	seen := map[family]bool{}
	out = slices.DeleteFunc(out, func(e *entry) bool {
		f := family{e.method.Name, e.view}
		again := seen[f]
		seen[f] = true
		return again
	})
	return out[:min(most, len(out))]
}

// blends tells whether the best candidates are to make one model.
func (a *selection) blends() bool { return a.c.Method == Auto && a.c.Blend != 1 }

// toldApart is by how many standard errors of the difference, on the same rows, a candidate must be worse than the best
// one to be left out of a blend. Some forty are compared with it: luck alone puts one of as many equals two behind, and
// hardly ever one three.
const toldApart = 3

// blend scores what the best make together: of each method and scale the best, as far as the rows do not tell it apart
// from the best of all. More members cost the model nothing, and each takes from the luck of the others.
func (a *selection) blend(ctx context.Context) error {
	most := a.c.Blend
	if most == 0 {
		most = len(a.entries)
	}
	best := a.best(most)
	if a.c.Blend == 0 && len(best) > 0 {
		top := best[0].rightAt(best[0].top().Dim, a.p.N)
		best = slices.DeleteFunc(best, func(e *entry) bool {
			behind, deviation := paired(top, e.rightAt(e.top().Dim, a.p.N))
			return behind > toldApart*deviation
		})
	}
	if len(best) < 2 {
		return nil
	}
	e := &entry{method: &blend, view: view{scale: a.scales[0]}, dims: a.dims}
	for _, one := range best {
		e.members = append(e.members, model.Member{Method: one.method.Name, Scale: one.view.scale,
			Landmarks: one.view.landmarks, Width: one.view.width, Dim: one.top().Dim, Params: one.tried})
	}
	e.params = map[string]string{"members": membersText(e.members)}
	e.begin(true)
	err := a.together(ctx, e, best, a.rounds())
	if err == nil && e.top().Scored == 0 {
		return nil
	}
	if err == nil {
		a.blended = e
		err = a.contributions(ctx, best)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // the candidates stand without it
		a.leaveOut(e, err)
		a.blended = nil
	}
	return nil
}

// together scores a blend of entries.
func (a *selection) together(ctx context.Context, e *entry, of []*entry, rounds int) error {
	for round := range rounds {
		pick, fold := frame.Folds(a.p, a.p.N, 3, round)
		for f := range 3 {
			train, test := frame.HeldOut(pick, fold, f)
			y, err := sideBySide(ctx, of, 3*round+f, e.dims[len(e.dims)-1])
			if err != nil {
				return err
			}
			if y == nil {
				continue // nothing varied there
			}
			for _, d := range e.dims {
				e.score[d].Scored += len(test)
				if err := a.judge(ctx, e, y, d, train, test); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// contributions finds what each member adds: the rows of one round that are right in the blend, less those that are
// right in the blend of the others.
func (a *selection) contributions(ctx context.Context, of []*entry) error {
	d := a.dims[0]
	if a.c.Dim <= 0 {
		d = a.blendedDim()
	}
	right := func(of []*entry) (int, error) {
		e := &entry{method: &blend, dims: []int{d}}
		e.begin(false)
		err := a.together(ctx, e, of, 1)
		return e.score[d].Correct, err
	}
	all, err := right(of)
	if err != nil {
		return err
	}
	for i := range of {
		others, err := right(slices.Concat(of[:i], of[i+1:]))
		if err != nil {
			return err
		}
		a.blended.members[i].Adds = all - others
	}
	return nil
}

// sideBySide are the d leading principal components of what the entries put out in a fold, as fitBlend makes them of
// directions; nil where none could be fitted.
func sideBySide(ctx context.Context, of []*entry, fold, d int) (*frame.OutputPair, error) {
	var side, query []*mat.Dense
	var kept []opinion
	width := 0
	for _, e := range of {
		dim := e.top().Dim
		y := e.outputs[fold][dim]
		if e.method.Nested {
			y = e.outputs[fold][e.dims[len(e.dims)-1]]
		}
		if y == nil {
			continue
		}
		dim = min(dim, y.D)
		train := mat.DenseCopyOf(mat.NewDense(len(y.Train)/y.D, y.D, y.Train).Slice(0, len(y.Train)/y.D, 0, dim))
		test := mat.DenseCopyOf(mat.NewDense(len(y.Test)/y.D, y.D, y.Test).Slice(0, len(y.Test)/y.D, 0, dim))
		n, _ := train.Dims()
		variance := 0.0
		for c := range dim {
			mean := mat.Sum(train.ColView(c)) / float64(n)
			for i := range n {
				v := train.At(i, c) - mean
				train.Set(i, c, v)
				variance += v * v / float64(n)
			}
			for i := range test.RawMatrix().Rows {
				test.Set(i, c, test.At(i, c)-mean)
			}
		}
		if !(variance > 0) {
			continue
		}
		train.Scale(1/math.Sqrt(variance), train)
		test.Scale(1/math.Sqrt(variance), test)
		side, query, width = append(side, train), append(query, test), width+dim
		kept = append(kept, opinion{e.method.Name, e.view.kind()})
	}
	if width == 0 {
		return nil, nil
	}
	for i, weight := range votes(kept) {
		side[i].Scale(weight, side[i])
		query[i].Scale(weight, query[i])
	}
	a, b := abreast(side, width), abreast(query, width)
	var products mat.Dense
	products.Mul(a.T(), a)
	components, err := principal(ctx, linalg.Symmetric(&products), d)
	if err != nil {
		return nil, err
	}
	var train, test mat.Dense
	train.Mul(a, components.Vectors)
	test.Mul(b, components.Vectors)
	return &frame.OutputPair{Train: train.RawMatrix().Data, Test: test.RawMatrix().Data,
		D: train.RawMatrix().Cols}, nil
}

// abreast is one matrix of several with as many rows.
func abreast(of []*mat.Dense, width int) *mat.Dense {
	n, _ := of[0].Dims()
	out, at := mat.NewDense(n, width, nil), 0
	for _, a := range of {
		_, d := a.Dims()
		out.Slice(0, n, at, at+d).(*mat.Dense).Copy(a)
		at += d
	}
	return out
}

// blendedDim is the dimension of a blend where none is asked for: 20, or C-1 where that is more, since it holds the
// directions of more than one method. Which one cross-validation has best is luck for the most part, and fewer lose; so
// others have to be better.
func (a *selection) blendedDim() int {
	e := a.blended
	full := e.dims[len(e.dims)-1]
	best, most := full, 0
	for _, d := range e.dims {
		right := 0
		for _, n := range e.uses(d, a.p.N) {
			right += n
		}
		if right >= most && a.better(e, d, e, full) {
			best, most = d, right
		}
	}
	if best < full || full < a.whole.Columns {
		return best
	}
	return a.least(e, full) // every column: nothing would be reduced
}
