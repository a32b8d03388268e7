package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	canvas "gonum.org/v1/plot/vg/draw"

	"github.com/embedd/embedd/tools/picture"
)

// dots draws the first two of width columns, with one of count colours for each class.
func dots(title string, rows []float64, width int, class []int, count int) (*plot.Plot, error) {
	p := picture.Panel(title, "", "")
	p.HideAxes()
	points := make([]plotter.XYs, count)
	for i, c := range class {
		points[c] = append(points[c], plotter.XY{X: rows[i*width], Y: rows[i*width+1]})
	}
	colors := palette.Rainbow(count, palette.Blue, palette.Red, 0.9, 0.85, 1).Colors()
	for c, of := range points {
		if len(of) == 0 {
			continue
		}
		s, err := plotter.NewScatter(of)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = canvas.GlyphStyle{Color: colors[c], Radius: 1.2, Shape: canvas.CircleGlyph{}}
		p.Add(s)
	}
	return p, nil
}
