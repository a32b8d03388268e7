package fit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Tuning is what cross-validation on training rows found about a method: for each dimension the combinations of its
// grids, best first.
type Tuning map[int][]map[string]string

// combinations are all combinations of the method's grids, each a full set of parameters. Given parameters are fixed.
// The defaults come first, then the grids in their order, the last parameter fastest.
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

// TunedName is a combination as results show it, "k=10 t=0.01": the parameters with a grid that were not given.
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

// affordable are the combinations that a fit of all rows has the memory for. If there is none, the error says why.
func affordable(c Config, train *model.Data, all []map[string]string, dim int) (some []map[string]string, err error) {
	for _, params := range all {
		of := c
		of.Params, of.Dim = params, dim
		if why := of.checkMemory(train); why != nil {
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

// Tune ranks the combinations of the method's grids for each dimension, by 4-fold cross-validation of a
// nearest-neighbour classifier on the training rows: most correct rows first; ties go to the defaults, then to the
// earlier one. Combinations that cannot be fitted in a fold, or would hold more than c.Memory, are left out. Scaling
// and everything learned are refitted in each fold. The defaults are the result if no row can be held out, or if no
// combination is left. progress, if not nil, is called with the share that is done.
func Tune(ctx context.Context, train *model.Data, c Config, dims []int, progress func(float64)) (Tuning, error) {
	ctx = parallel.Limit(ctx, c.Workers)
	m, err := c.method()
	if err != nil {
		return nil, err
	}
	all, err := affordable(c, train, combinations(m, c.Params), slices.Max(append([]int{c.Dim}, dims...)))
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
	if progress == nil {
		progress = func(float64) {}
	}
	settings := choose.Settings{Method: m, All: all, Scale: c.Scale, Seed: c.Seed, Progress: progress}
	ranking, err := settings.Rank(ctx, p, dims)
	if err != nil {
		return nil, err
	}
	for d, ranked := range ranking {
		if len(ranked) > 0 {
			chosen[d] = nil
		}
		for _, i := range ranked {
			chosen[d] = append(chosen[d], all[i])
		}
	}
	return chosen, nil
}
