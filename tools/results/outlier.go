package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/plot"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// helix returns n rows on a helix around a torus, in order.
func helix(n int) *model.Data {
	d := &model.Data{N: n, M: 3}
	for i := range n {
		a := 2 * math.Pi * float64(i) / float64(n)
		d.X = append(d.X, (2+math.Cos(8*a))*math.Cos(a), (2+math.Cos(8*a))*math.Sin(a), math.Sin(8*a))
	}
	return d
}

// peaks returns n rows of a sheet with two peaks.
func peaks(n int) *model.Data {
	r := rand.New(rand.NewPCG(1, 0))
	d := &model.Data{N: n, M: 3}
	for range n {
		u, v := 2*r.Float64()-1, 2*r.Float64()-1
		d.X = append(d.X, u, v, math.Sin(math.Pi*u)*math.Tanh(3*v))
	}
	return d
}

// placed returns the coordinates of n rows on the manifold, n x 2: on the circle of the helix, or on the sheet.
func placed(d *model.Data) []float64 {
	var place []float64
	for i := range d.N {
		place = append(place, d.X[3*i], d.X[3*i+1])
	}
	return place
}

// outlier adds one row far from a manifold and measures its effect on the map of the others.
func outlier(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const n = 800
	fmt.Fprint(out, `| manifold | method | R^2 without | R^2 with the outlier |
|---|---|---|---|
`)
	var panels []*plot.Plot
	for _, s := range []struct {
		name string
		rows *model.Data
	}{{"helix", helix(n)}, {"two peaks", peaks(n)}} {
		if !b.isRequested(s.name) {
			continue
		}
		place := placed(s.rows)
		with := &model.Data{N: n + 1, M: 3, X: slices.Concat(s.rows.X, []float64{6, 6, 6})}
		for _, method := range []string{"le", "lenews"} {
			var shares [2]float64
			for i, d := range []*model.Data{s.rows, with} {
				m, err := fit.Fit(ctx, d, fit.Config{Method: method, Dim: 2, Scale: model.ScaleMinMax})
				if err != nil {
					return fmt.Errorf("%s: %w", method, err)
				}
				y, err := score.Outputs(ctx, m, d)
				if err != nil {
					return err
				}
				if shares[i], err = explained(y[:2*n], 2, place); err != nil {
					return err
				}
				b.say("%s, %s, %d rows: R2 %.3f, %.1f s", s.name, method, d.N, shares[i], seconds(m))
				title := method
				if i == 1 {
					title += " with the outlier"
				}
				p, err := dots(title, y[:2*n], 2, bands(place, 2, 12), 12)
				if err != nil {
					return err
				}
				panels = append(panels, p)
			}
			fmt.Fprintf(out, "| %s | %s | %.3f | %.3f |\n", s.name, method, shares[0], shares[1])
		}
	}
	return b.save("outlier.png", 4, panels...)
}
