package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/tools/picture"
)

// uciSet is a data set with the dimensions of its curves.
type uciSet struct {
	name string
	dims []int
}

var uciSets = []uciSet{
	{"breastcancer_wbc", []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
	{"musk", []int{1, 2, 3, 5, 8, 12, 20, 30, 50, 80}},
	{"waveform", []int{1, 2, 3, 5, 8, 12, 16, 21}},
	{"wine", []int{1, 2, 3, 4, 5, 6, 8, 10, 13}},
}

// uci draws the accuracy of sle and of the methods of its paper over d.
func uci(ctx context.Context, b *bench, out *bytes.Buffer) error {
	splits := min(10, b.repeats)
	fmt.Fprint(out, `| data | method | best d | accuracy % | +- | at d = 1 |
|---|---|---|---|---|---|
`)
	var panels []*plot.Plot
	claims := "\n| data | method | pca | lpp | mfa | dla |\n|---|---|---|---|---|---|\n"
	for _, set := range uciSets {
		if !b.isRequested(set.name) {
			continue
		}
		d, err := readData(b.data, set.name)
		if err != nil {
			return err
		}
		names := []string{"sle", "pca", "lpp", "mfa", "dla"}
		if len(d.Classes) > 2 {
			names[0] = "sle-ovr"
		}
		c := eval.Config{Data: set.name, Methods: names, Dims: set.dims, Scale: model.ScaleMinMax, Splits: splits,
			Seed: 1, Tune: true}
		curves := map[string][]eval.Result{}
		err = eval.Evaluate(ctx, d, c, func(r eval.Result) error {
			if r.Error == "" && r.DimUsed == r.Dim {
				curves[r.Method] = append(curves[r.Method], r)
			}
			b.say("%s, %s, d = %d: %.4f %v %s", set.name, r.Method, r.Dim, r.AccuracyMean, r.Tuned, r.Error)
			return nil
		})
		if err != nil {
			return err
		}
		p := picture.Panel(set.name, "d", "accuracy %")
		p.Legend.Top = false
		for i, name := range names {
			curve := curves[name]
			if len(curve) == 0 || curve[0].Dim != set.dims[0] {
				return fmt.Errorf("%s, %s: no accuracy at d = %d", set.name, name, set.dims[0])
			}
			best := slices.MaxFunc(curve, func(x,
				y eval.Result) int {
				return cmp.Compare(x.AccuracyMean, y.AccuracyMean)
			})
			fmt.Fprintf(out, "| %s | %s | %d | %.1f | %.1f | %.1f |\n", set.name, name, best.Dim, 100*best.AccuracyMean,
				100*best.AccuracySD, 100*curve[0].AccuracyMean)
			points := make(plotter.XYs, len(curve))
			for k, r := range curve {
				points[k] = plotter.XY{X: float64(r.Dim), Y: 100 * r.AccuracyMean}
			}
			if err := picture.AddLine(p, name, points, i, true); err != nil {
				return err
			}
		}
		panels = append(panels, p)
		claims += "| " + set.name + " | " + claim(curves, names) + "\n"
	}
	fmt.Fprint(out, claims)
	return b.save("uci.png", 2, panels...)
}

// claim returns cells of a row: the first method, and for each other one, at how many of the dimensions of both the
// first is at least as accurate.
func claim(curves map[string][]eval.Result, names []string) string {
	text := names[0] + " |"
	for _, other := range names[1:] {
		at, all := 0, 0
		for _, mine := range curves[names[0]] {
			for _, its := range curves[other] {
				if mine.Dim == its.Dim {
					all++
					if mine.AccuracyMean >= its.AccuracyMean {
						at++
					}
				}
			}
		}
		text += fmt.Sprintf(" %d of %d |", at, all)
	}
	return text
}
