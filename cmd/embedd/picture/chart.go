package picture

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is a title, two axes, and the area between them. It uses the canvases of gonum but not its package plot, which
// would add twelve fonts and a PDF writer, 4.7 MB, to the binary.
type chart struct {
	title  string
	x, y   axis
	canvas draw.Canvas // the data area
}

// axis is an axis of a chart: its name, the values at its ends, and the distance between two ticks. An axis without a
// name has no ticks.
type axis struct {
	name           string
	min, max, step float64
}

const (
	tickLength = 8
	chartSlack = 6 // between the data area and the axes, so that points do not cover an axis
)

var gridColor, inkColor = color.Gray{0xe8}, color.Gray{0x00}

// faces are the fonts.
var faces = sync.OnceValue(func() *font.Cache {
	parse := func(ttf []byte, weight xfont.Weight) font.Face {
		face, err := opentype.Parse(ttf)
		if err != nil {
			panic(err) // the bytes are compiled in
		}
		return font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Weight: weight}, Face: face}
	}
	return font.NewCache(font.Collection{parse(liberationsansregular.TTF, xfont.WeightNormal),
		parse(liberationsansbold.TTF, xfont.WeightBold)})
})

// face is the font in a size and weight.
func face(size vg.Length, weight xfont.Weight) font.Face {
	return faces().Lookup(font.Font{Typeface: "Liberation", Variant: "Sans", Weight: weight}, size)
}

// words is a text style with an alignment.
func words(size vg.Length, x draw.XAlignment, y draw.YAlignment) draw.TextStyle {
	return draw.TextStyle{Color: inkColor, Font: face(size, xfont.WeightNormal).Font, XAlign: x, YAlign: y,
		Handler: text.Plain{Fonts: faces()}}
}

// fillLevel draws a line of text whose letters are centred vertically at a point.
func fillLevel(c draw.Canvas, style draw.TextStyle, at vg.Point, line string) {
	c.FillText(style, at.Add(vg.Point{Y: style.FontExtents().Descent / 2}), line)
}

// newAxis spans the values. A single value is in the middle.
func newAxis(name string, values []float64) (axis, error) {
	a := axis{name: name, min: math.Inf(1), max: math.Inf(-1)}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return a, fmt.Errorf("a point at %g cannot be drawn", v)
		}
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
	size := max(math.Abs(a.min), math.Abs(a.max))
	const smallest = 0x1p-126                               // the smallest normal float32
	if d := a.max - a.min; d <= 1e-9*size || d < smallest { // ticks between them would have equal labels
		wide := max(size/1000, math.SmallestNonzeroFloat32)
		if size == 0 {
			wide = 1
		}
		a.min, a.max = a.min-wide, a.max+wide
	}
	if math.IsInf(a.max-a.min, 0) {
		return a, fmt.Errorf("points from %g to %g are too far apart to be drawn", a.min, a.max)
	}
	a.step = roundStep((a.max - a.min) / 7)
	return a, nil
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten that is at least atLeast.
func roundStep(atLeast float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(atLeast)))
	for _, times := range []float64{1, 2, 5} {
		if times*power >= atLeast {
			return times * power
		}
	}
	return 10 * power
}

// ticks are the round values between the ends of the axis.
func (a axis) ticks() (values []float64) {
	if a.name == "" {
		return nil
	}
	for i := math.Ceil(a.min / a.step); i*a.step <= a.max; i++ {
		values = append(values, i*a.step)
	}
	return values
}

// widen doubles the step until no two labels overlap within the given width.
func (a *axis) widen(room vg.Length, style draw.TextStyle) {
	const gap = 8
	for {
		ticks, widest := a.ticks(), vg.Length(0)
		for _, tick := range ticks {
			widest = max(widest, style.Width(a.label(tick)))
		}
		if len(ticks) < 2 || widest+gap <= room*vg.Length(a.step/(a.max-a.min)) {
			return
		}
		a.step = roundStep(2 * a.step * (1 - 1e-9))
	}
}

// label is a tick as text, with enough digits to differ from the next tick.
func (a axis) label(tick float64) string {
	size := max(math.Abs(a.min), math.Abs(a.max))
	first, last := math.Floor(math.Log10(size)), math.Floor(math.Log10(a.step)+1e-9)
	switch {
	case tick == 0:
		return "0"
	case first < 6 && last > -6:
		return strconv.FormatFloat(tick, 'f', int(max(0, -last)), 64)
	}
	return strconv.FormatFloat(tick, 'e', int(max(0, math.Floor(math.Log10(math.Abs(tick)))-last)), 64)
}

// place is the relative position of a value, from 0 to 1.
func (a axis) place(v float64) float64 { return (v - a.min) / (a.max - a.min) }

// at is the position of a point on the canvas.
func (c *chart) at(x, y float64) vg.Point {
	return vg.Point{X: c.canvas.X(c.x.place(x)), Y: c.canvas.Y(c.y.place(y))}
}

// frame draws the title, the grid and the axes into an area. The rest of the area is for the data.
func (c *chart) frame(area draw.Canvas) {
	title := words(15, draw.XCenter, draw.YTop)
	area.FillText(title, vg.Point{X: area.Center().X, Y: area.Max.Y}, c.title)
	area.Max.Y -= title.Height(c.title) + 8

	name := words(12, draw.XCenter, draw.YBottom)
	below, right := words(10, draw.XCenter, draw.YTop), words(10, draw.XRight, draw.YCenter)
	across := area.Min
	if ticks := c.y.ticks(); len(ticks) > 0 {
		for _, tick := range ticks {
			across.X = max(across.X, area.Min.X+right.Width(c.y.label(tick)))
		}
		across.X += name.Height(c.y.name) + tickLength + 6
	}
	across.Y += name.Height(c.x.name) + below.Height("0") + tickLength + 4

	c.canvas = draw.Canvas{Canvas: area.Canvas, Rectangle: vg.Rectangle{
		Min: across.Add(vg.Point{X: chartSlack, Y: chartSlack}), Max: area.Max.Sub(vg.Point{X: chartSlack, Y: chartSlack})}}
	grid, ink := draw.LineStyle{Color: gridColor, Width: 0.25}, draw.LineStyle{Color: inkColor, Width: 0.5}
	c.x.widen(c.canvas.Size().X, below)
	for _, tick := range c.x.ticks() {
		x := c.canvas.X(c.x.place(tick))
		area.StrokeLine2(grid, x, across.Y, x, area.Max.Y)
		area.StrokeLine2(ink, x, across.Y-tickLength, x, across.Y)
		area.FillText(below, vg.Point{X: x, Y: across.Y - tickLength - 2}, c.x.label(tick))
	}
	area.StrokeLine2(ink, c.canvas.Min.X, across.Y, c.canvas.Max.X, across.Y)
	area.FillText(name, vg.Point{X: c.canvas.Center().X, Y: area.Min.Y}, c.x.name)
	if c.y.name == "" {
		return
	}
	for _, tick := range c.y.ticks() {
		y := c.canvas.Y(c.y.place(tick))
		area.StrokeLine2(grid, across.X, y, area.Max.X, y)
		area.StrokeLine2(ink, across.X-tickLength, y, across.X, y)
		fillLevel(area, right, vg.Point{X: across.X - tickLength - 2, Y: y}, c.y.label(tick))
	}
	area.StrokeLine2(ink, across.X, c.canvas.Min.Y, across.X, c.canvas.Max.Y)
	name.Rotation, name.YAlign = math.Pi/2, draw.YTop
	area.FillText(name, vg.Point{X: area.Min.X, Y: c.canvas.Center().Y}, c.y.name)
}
