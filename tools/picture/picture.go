// Package picture draws the pictures of generated pages: panels in a grid, as a PNG of few colours.
package picture

import (
	"bufio"
	"image"
	"image/color"
	palettes "image/color/palette"
	"image/draw"
	"image/png"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	canvas "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	panelWidth  = 3.2 * vg.Inch
	panelHeight = 2.9 * vg.Inch
)

// Panel is an empty plot.
func Panel(title, x, y string) *plot.Plot {
	p := plot.New()
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font, p.Legend.TextStyle.Font = sans, sans
	p.Title.TextStyle.Font.Size, p.Legend.TextStyle.Font.Size = 11, 8
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 9, 8
	}
	return p
}

// colors are distinguishable with colour blindness too.
var colors = []color.Color{
	color.NRGBA{0xd5, 0x5e, 0x00, 0xff}, color.NRGBA{0x33, 0x33, 0x33, 0xff}, color.NRGBA{0x00, 0x72, 0xb2, 0xff},
	color.NRGBA{0x00, 0x9e, 0x73, 0xff}, color.NRGBA{0xcc, 0x79, 0xa7, 0xff},
}

// AddLine adds a curve with its name in the legend, in one of five colours; with dots each point is marked.
func AddLine(p *plot.Plot, name string, points plotter.XYs, which int, dots bool) error {
	line, dot, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dot.Color = colors[which], colors[which]
	line.Width, dot.Radius, dot.Shape = 1.2, 1.6, canvas.CircleGlyph{}
	p.Add(line)
	marks := []plot.Thumbnailer{line}
	if dots {
		p.Add(dot)
		marks = append(marks, dot)
	}
	p.Legend.Add(name, marks...)
	return nil
}

// Save draws the panels, columns in each row of the grid, into a file.
func Save(path string, columns int, panels ...*plot.Plot) error {
	rows := (len(panels) + columns - 1) / columns
	grid := make([][]*plot.Plot, rows)
	for r := range grid {
		grid[r] = make([]*plot.Plot, columns)
		copy(grid[r], panels[r*columns:min(len(panels), (r+1)*columns)])
	}
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight), vgimg.UseDPI(96),
		vgimg.UseBackgroundColor(color.White))
	for r, of := range plot.Align(grid,
		canvas.Tiles{Rows: rows, Cols: columns, PadX: 6, PadY: 6, PadTop: 4, PadLeft: 4, PadRight: 6, PadBottom: 4},
		canvas.New(c)) {
		for k, tile := range of {
			if grid[r][k] != nil {
				grid[r][k].Draw(tile)
			}
		}
	}
	full := c.Image()
	small := image.NewPaletted(full.Bounds(), palettes.WebSafe)
	draw.Draw(small, small.Rect, full, full.Bounds().Min, draw.Src)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, small); err != nil {
		return err
	}
	return w.Flush()
}
