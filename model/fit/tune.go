package fit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
)

// tuneFolds is the number of folds that tuning holds out, as in the comparisons
// of the MPDA paper.
const tuneFolds = 4

// Tuning is what cross-validation on the training rows of a split says of a
// method: for each dimension the combinations of its grids, best first.
type Tuning map[int][]map[string]string

// combinations of the method's grids, each a full set of parameters. What is given
// is fixed. The defaults come first, then the grids in their order, the last
// parameter fastest.
func combinations(m *frame.Method, given map[string]string) []map[string]string {
	first := make(map[string]string, len(m.Params))
	for _, p := range m.Params {
		first[p.Name] = p.Default
	}
	maps.Copy(first, given)
	all := []map[string]string{first}
	for _, p := range m.Params {
		if _, fixed := given[p.Name]; fixed || p.Grid == nil {
			continue
		}
		longer := make([]map[string]string, 0, len(all)*len(p.Grid))
		for _, c := range all {
			for _, v := range p.Grid {
				c = maps.Clone(c)
				c[p.Name] = v
				longer = append(longer, c)
			}
		}
		all = longer
	}
	at := slices.IndexFunc(all, func(c map[string]string) bool { return maps.Equal(c, first) })
	return slices.Insert(slices.Delete(all, at, at+1), 0, first)
}

// TunedName is a combination as results name it: "k=10 t=0.01", the parameters with a grid that were not given.
func TunedName(method string, c, given map[string]string) string {
	m, err := lookup(method)
	if err != nil {
		return ""
	}
	var parts []string
	for _, p := range m.Params {
		if _, fixed := given[p.Name]; !fixed && p.Grid != nil {
			parts = append(parts, p.Name+"="+c[p.Name])
		}
	}
	return strings.Join(parts, " ")
}

// affordable are the combinations of which a fit of all rows holds no more than it may; where there is none, the error says
// why.
func (c Config) affordable(train *model.Data, all []map[string]string, dim int) (some []map[string]string, err error) {
	for _, params := range all {
		of := c
		of.Params, of.Dim = params, dim
		if why := of.fits(train); why != nil {
			err = cmp.Or(err, why)
			continue
		}
		some = append(some, params)
	}
	if len(some) > 0 {
		return some, nil
	}
	return nil, err
}

// Tune ranks the combinations of the method's grids for each dimension by 4-fold
// cross-validation of a nearest-neighbour classifier on the training rows: the
// most rows right, ties to the defaults, then to the first. One that cannot be
// fitted in a fold is out, and one of which a fit would hold more than c.Memory.
// Scaling and everything learned are refitted in each fold. The defaults stand where no row can be held out, and where no
// combination is left. progress is told the share that is done.
func Tune(ctx context.Context, train *model.Data, c Config, dims []int, progress func(float64)) (Tuning, error) {
	ctx = parallel.Limit(ctx, c.Workers)
	m, err := c.method()
	if err != nil {
		return nil, err
	}
	all, err := c.affordable(train, combinations(m, c.Params), slices.Max(append([]int{c.Dim}, dims...)))
	if err != nil {
		return nil, err
	}
	chosen := Tuning{}
	for _, d := range dims {
		chosen[d] = all[:1]
	}
	if len(all) == 1 {
		return chosen, nil
	}
	p, err := frame.Prepare(ctx, train, true, c.Scale == model.ScaleUnit, &model.Report{})
	if err != nil {
		return nil, err
	}
	pick, fold := frame.Folds(p, frame.MaxValidated, tuneFolds, 0)
	if fold == nil {
		return chosen, nil
	}
	a := &selection{c: c, p: p}
	entries := make([]*entry, len(all))
	ascending := slices.Compact(slices.Sorted(slices.Values(dims)))
	for i, params := range all {
		entries[i] = &entry{method: m, params: foldParams(m, params), dims: ascending}
		entries[i].begin(false)
	}
	for f := range tuneFolds {
		in, held := frame.HeldOut(pick, fold, f)
		base := &frame.Task{Method: m, Params: all[0], Seed: c.Seed, Scaling: c.Scale, Report: &model.Report{}}
		if err := base.Load(ctx, p.Subset(in)); err != nil {
			return nil, err
		}
		if base.Columns == 0 {
			continue // nothing to tell the combinations apart by
		}
		for i, e := range entries {
			progress(float64(f*len(all)+i) / float64(tuneFolds*len(all)))
			if e.out {
				continue
			}
			err := a.score(ctx, e, &seen{base: base, rows: p}, f, in, held)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			e.out = err != nil
		}
	}
	for _, d := range dims {
		var ranked []int
		for i, e := range entries {
			if !e.out {
				ranked = append(ranked, i)
			}
		}
		slices.SortStableFunc(ranked, func(i, j int) int {
			return entries[j].score[d].Correct - entries[i].score[d].Correct
		})
		if len(ranked) > 0 {
			chosen[d] = nil
		}
		for _, i := range ranked {
			chosen[d] = append(chosen[d], all[i])
		}
	}
	return chosen, nil
}
