package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

var learnedSets = []string{"iris", "wine", "sonar", "glass", "zoo"}

// maxLearned is the largest dimension of the table.
const maxLearned = 10

// leftOut is the best leave-one-out accuracy of a setting over the dimensions, in %.
type leftOut struct {
	accuracy float64
	dim      int
	params   map[string]string
}

// learned compares lenews with le, each at its defaults and at its best setting.
func learned(ctx context.Context, b *bench, out *bytes.Buffer) error {
	fmt.Fprint(out, `| data | features | le | best le | lenews | best lenews | as published | lenewks |
|---|---|---|---|---|---|---|---|
`)
	for _, name := range learnedSets {
		if !b.isRequested(name) {
			continue
		}
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		raw, err := rawLeftOut(d)
		if err != nil {
			return err
		}
		found := map[string]leftOut{}
		for _, c := range []struct {
			name, method string
			grid         []map[string]string
		}{
			{"le", "le", product()},
			{"best le", "le", product("k=5,10,15,20,25,30", "t=auto,inf,0.0001,0.01,0.25,1,100")},
			{"lenews", "lenews", product()},
			{"best lenews", "lenews", product("alpha=auto,1,10,100", "sigma=auto,0.005,0.02,0.1,0.2,0.4,0.8")},
			{"published", "lenews", product("alpha=1", "beta=1", "sigma=0.02")},
			{"lenewks", "lenewks", product()},
		} {
			if found[c.name], err = bestLeftOut(ctx, d, c.method, c.grid); err != nil {
				return fmt.Errorf("%s, %s: %w", name, c.name, err)
			}
			b.say("%s, %s: %s %v", name, c.name, found[c.name], found[c.name].params)
		}
		fmt.Fprintf(out, "| %s | %.1f | %s | %s, k %s, t %s | %s | %s, alpha %s, sigma %s | %s | %s |\n", name, raw,
			found["le"],
			found["best le"], found["best le"].params["k"], found["best le"].params["t"], found["lenews"],
			found["best lenews"], found["best lenews"].params["alpha"], found["best lenews"].params["sigma"],
			found["published"], found["lenewks"])
	}
	return nil
}

// bestLeftOut is the best of the settings that can be fitted, over the dimensions.
func bestLeftOut(ctx context.Context, d *model.Data, method string, grid []map[string]string) (best leftOut,
	err error) {
	var failed error
	for _, params := range grid {
		m, err := fit.Fit(ctx, d, fit.Config{Method: method, Dim: maxLearned, Scale: model.ScaleMinMax, Params: params})
		if ctx.Err() != nil {
			return best, ctx.Err()
		}
		if err != nil {
			failed = err
			continue
		}
		y, err := score.Outputs(ctx, m, d)
		if err != nil {
			return best, err
		}
		wrong := wrongLeftOut(y, d.Y, m.Dim())
		at := least(wrong)
		if a := 100 - 100*float64(wrong[at])/float64(d.N); a > best.accuracy {
			best = leftOut{a, at + 1, params}
		}
	}
	if best.dim == 0 {
		return best, failed
	}
	return best, nil
}

func (l leftOut) String() string { return fmt.Sprintf("%.1f (%d)", l.accuracy, l.dim) }

// rawLeftOut is the accuracy in the scaled features.
func rawLeftOut(d *model.Data) (float64, error) {
	low, high := append([]float64(nil), d.X[:d.M]...), append([]float64(nil), d.X[:d.M]...)
	for i, v := range d.X {
		low[i%d.M], high[i%d.M] = min(low[i%d.M], v), max(high[i%d.M], v)
	}
	x := make([]float64, len(d.X))
	for i, v := range d.X {
		if j := i % d.M; high[j] > low[j] {
			x[i] = (v - low[j]) / (high[j] - low[j])
		}
	}
	wrong := wrongLeftOut(x, d.Y, d.M)
	return 100 - 100*float64(wrong[d.M-1])/float64(d.N), nil
}
