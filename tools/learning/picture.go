package main

import (
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/embedd/embedd/tools/picture"
)

// draw draws the accuracy over the rows, a panel for each stream. Without streams there is no picture.
func draw(path string, all []*figures) error {
	if len(all) == 0 {
		return nil
	}
	var panels []*plot.Plot
	for _, f := range all {
		p := picture.Panel(f.stream.Title, "thousands of rows", "accuracy %")
		for _, line := range []struct {
			name  string
			of    func(checkpoint) figure
			color int
		}{{"frozen", frozen, 1}, {"oracle", best, 3}, {"embedd", live, 0}} {
			if err := picture.AddLine(p, line.name, f.course(line.of), line.color, false); err != nil {
				return err
			}
		}
		p.Legend.Left = true
		p.Y.Max = 100
		p.Y.Tick.Marker = plot.ConstantTicks(ticks(0, 20))
		if p.Y.Min = 0; f.least() > 0.5 {
			p.Y.Min = 50
			p.Y.Tick.Marker = plot.ConstantTicks(ticks(50, 10))
		}
		panels = append(panels, p)
	}
	return picture.Save(path, min(4, len(panels)), panels...)
}

// course is a figure over thousands of rows, the mean of the seeds in points, from where all of them have it.
func (f *figures) course(of func(checkpoint) figure) plotter.XYs {
	sum, count := map[int]figure{}, map[int]int{}
	for _, r := range f.Runs {
		for _, c := range r.Checkpoints {
			sum[c.Row] += of(c)
			count[c.Row]++
		}
	}
	var points plotter.XYs
	for _, c := range f.Runs[0].Checkpoints {
		if n := len(f.Runs); count[c.Row] == n {
			points = append(points, plotter.XY{X: float64(c.Row) / 1000, Y: 100 * float64(sum[c.Row]) / float64(n)})
		}
	}
	return points
}

// least is the least accuracy of any model at any checkpoint.
func (f *figures) least() figure {
	least := figure(1)
	for _, r := range f.Runs {
		for _, c := range r.Checkpoints {
			least = min(least, c.Live, c.Frozen, c.Oracle)
		}
	}
	return least
}

// ticks are those up to 100.
func ticks(from, step int) []plot.Tick {
	var all []plot.Tick
	for v := from; v <= 100; v += step {
		all = append(all, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
	}
	return all
}
