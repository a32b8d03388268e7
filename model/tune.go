package model

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// The grids of the SLE paper: neighbour counts, and widths sigma of the heat
// kernel exp(-d^2/sigma^2) for features in [0, 1], here as t = sigma^2.
var (
	neighbourCounts = []string{"5", "10", "15", "20", "25", "30"}
	heatWidths      = []string{"auto", "0.0001", "0.01", "0.25", "1", "100"} // sigma 0.01, 0.1, 0.5, 1, 10
)

// tuneFolds is the number of folds that tuning holds out, as in the comparisons
// of the MPDA paper.
const tuneFolds = 4

// tuning is what cross-validation on the training rows of a split says of a
// method: for each dimension the combinations of its grids, best first.
type tuning map[int][]map[string]string

// combinations of the method's grids, each a full set of parameters. What is given
// is fixed. The defaults come first, then the grids in their order, the last
// parameter fastest.
func (m *Method) combinations(given map[string]string) []map[string]string {
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

// tuned is a combination as results name it: "k=10 t=0.01", the parameters with a
// grid that was tried.
func (m *Method) tuned(c, given map[string]string) string {
	var parts []string
	for _, p := range m.Params {
		if _, fixed := given[p.Name]; !fixed && p.Grid != nil {
			parts = append(parts, p.Name+"="+c[p.Name])
		}
	}
	return strings.Join(parts, " ")
}

// tune ranks the combinations of the method's grids for each dimension by 4-fold
// cross-validation of a nearest-neighbour classifier on the training rows: the
// most rows right, ties to the defaults, then to the first. One that cannot be
// fitted in a fold is out. Scaling and everything learned are refitted in each
// fold. The defaults stand where no row can be held out, and where no
// combination is left. progress is told the share that is done.
func (c EvalConfig) tune(ctx context.Context, train *Data, m *Method, progress func(float64)) (tuning, error) {
	given := c.paramsOf(m.Name)
	all := m.combinations(given)
	chosen := tuning{}
	for _, d := range c.Dims {
		chosen[d] = all[:1]
	}
	if len(all) == 1 {
		return chosen, nil
	}
	p, err := prepare(train, true, c.Scale == Unit, &Report{})
	if err != nil {
		return nil, err
	}
	pick, fold := folds(p, maxValidated, tuneFolds, 0)
	if fold == nil {
		return chosen, nil
	}
	a := &auction{c: Config{Method: m.Name, Scale: c.Scale, Seed: c.Seed}, p: p}
	scores := make([]map[int]*Score, len(all)) // nil: out
	for i := range all {
		scores[i] = map[int]*Score{}
		for _, d := range c.Dims {
			scores[i][d] = &Score{Method: m.Name, Dim: d}
		}
	}
	dims := slices.Compact(slices.Sorted(slices.Values(c.Dims)))
	for f := range tuneFolds {
		in, held := heldOut(pick, fold, f)
		base := &task{method: m, params: all[0], seed: c.Seed, scaling: c.Scale, report: &Report{}}
		if err := base.load(ctx, p.subset(in)); err != nil {
			return nil, err
		}
		if base.columns == 0 {
			continue // nothing to tell the combinations apart by
		}
		for i, params := range all {
			progress(float64(f*len(all)+i) / float64(tuneFolds*len(all)))
			if scores[i] == nil {
				continue
			}
			err := a.score(ctx, entry{m, m.foldParams(params), dims}, base, in, held, scores[i])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				scores[i] = nil
			}
		}
	}
	for _, d := range c.Dims {
		var ranked []int
		for i, s := range scores {
			if s != nil {
				ranked = append(ranked, i)
			}
		}
		slices.SortStableFunc(ranked, func(i, j int) int { return scores[j][d].Correct - scores[i][d].Correct })
		if len(ranked) > 0 {
			chosen[d] = nil
		}
		for _, i := range ranked {
			chosen[d] = append(chosen[d], all[i])
		}
	}
	return chosen, nil
}
