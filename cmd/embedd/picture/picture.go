// Package picture draws labelled points in the plane, as PNG or SVG.
package picture

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/image/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Scatter is a scatter plot of labelled points. Each class has a colour and a shape: its name if all names have at most
// two letters, such as digits, else a marker.
type Scatter struct {
	Title    string
	Subtitle string
	XLabel   string
	YLabel   string // empty: the axis has no quantity, see Spread
	X, Y     []float64
	Class    []int // index into Classes, -1 for none
	Classes  []string
}

const (
	pictureWidth   = 10 * vg.Inch
	pictureHeight  = 8 * vg.Inch
	pictureDPI     = 144
	legendWidth    = 1.6 * vg.Inch
	legendClasses  = 40 // if there are more, the legend names the largest
	largestClasses = 10
)

// palette holds colours that are distinct on white, the first eight for colour-blind readers too. They repeat with
// another marker.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x33, 0x33, 0x33, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x8b, 0x00, 0x00, 0xff}, {0x6a, 0x3d, 0x9a, 0xff},
	{0x7a, 0x8b, 0x00, 0xff},
	{0xb1, 0x59, 0x28, 0xff}, {0x00, 0xb3, 0xb3, 0xff}, {0xe3, 0x1a, 0x8c, 0xff},
}

var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.TriangleGlyph{},
	draw.SquareGlyph{}, draw.PlusGlyph{},
}

// letters draws a point as a short text.
type letters struct{ text string }

func (l letters) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	size := 2.8 * style.Radius
	bold := face(size, font.WeightBold)
	c.SetColor(style.Color)
	c.FillString(bold, vg.Point{X: at.X - bold.Width(l.text)/2, Y: at.Y - 0.35*size}, l.text)
}

// CheckName returns an error unless the suffix of a file name is one of a picture. The name - means PNG.
func CheckName(name string) error {
	_, err := newCanvas(name)
	return err
}

// Render draws the picture in the format of the suffix of name; the name - means PNG.
func (p *Scatter) Render(name string) (io.WriterTo, error) {
	canvas, err := newCanvas(name)
	if err != nil {
		return nil, err
	}
	if err := p.draw(draw.New(canvas)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return canvas, nil
}

func newCanvas(path string) (vg.CanvasWriterTo, error) {
	ending := strings.ToLower(filepath.Ext(path))
	if path == "-" {
		ending = ".png"
	}
	switch ending {
	case ".png":
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pictureWidth, pictureHeight), vgimg.UseDPI(pictureDPI),
			vgimg.UseBackgroundColor(color.White))}, nil
	case ".svg":
		return vgsvg.New(pictureWidth, pictureHeight), nil
	}
	return nil, fmt.Errorf("%s: the name of a picture ends in .png or .svg", path)
}

func (p *Scatter) draw(c draw.Canvas) error {
	if len(p.X) == 0 {
		return fmt.Errorf("there are no points to draw")
	}
	x, err := newAxis(p.XLabel, p.X)
	if err != nil {
		return err
	}
	y, err := newAxis(p.YLabel, p.Y)
	if err != nil {
		return err
	}
	ground := chart{title: strings.TrimSuffix(p.Title+"\n"+p.Subtitle, "\n"), x: x, y: y}
	const margin = 10
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	ground.frame(draw.Crop(c, margin, -legendWidth, margin, -margin))
	points := p.byClass()
	for _, class := range p.order() {
		style := p.style(class, len(p.X))
		for _, i := range points[class] {
			c.DrawGlyphNoClip(style, ground.at(p.X[i], p.Y[i]))
		}
	}
	p.legend(draw.Crop(c, c.Size().X-legendWidth+8, -4, margin, -48), points)
	return nil
}

// legend names the classes from top to bottom: all of them, or the largest if not all fit.
func (p *Scatter) legend(c draw.Canvas, points map[int][]int) {
	named := p.inLegend(points)
	shown := slices.DeleteFunc(p.order(), func(class int) bool {
		return len(points[class]) == 0 || class >= 0 && !named[class]
	})
	style := words(12, draw.XLeft, draw.YCenter)
	line := min(16, c.Size().Y/vg.Length(len(shown)+1))
	at := vg.Point{X: c.Min.X + 10, Y: c.Max.Y - line/2}
	room := c.Max.X - at.X - 14
	for _, class := range shown {
		glyph := p.style(class, len(p.X))
		glyph.Radius = 5
		c.DrawGlyphNoClip(glyph, at)
		fillLevel(c, style, vg.Point{X: at.X + 14, Y: at.Y}, cutTo(p.name(class), style, room))
		at.Y -= line
	}
	if more := len(p.Classes) - len(named); more > 0 {
		fillLevel(c, style, vg.Point{X: at.X + 14, Y: at.Y}, fmt.Sprintf("and %d more", more))
	}
}

// inLegend is the set of classes that the legend names.
func (p *Scatter) inLegend(points map[int][]int) map[int]bool {
	largest := make([]int, len(p.Classes))
	for i := range largest {
		largest[i] = i
	}
	if len(largest) > legendClasses {
		slices.SortStableFunc(largest, func(a, b int) int { return len(points[b]) - len(points[a]) })
		largest = largest[:largestClasses]
	}
	named := map[int]bool{}
	for _, class := range largest {
		named[class] = true
	}
	return named
}

// order is the drawing order: points without a class first, below the others.
func (p *Scatter) order() []int {
	order := []int{-1}
	for i := range p.Classes {
		order = append(order, i)
	}
	return order
}

// byClass maps each class, -1 for none, to the indices of its points.
func (p *Scatter) byClass() map[int][]int {
	points := map[int][]int{}
	for i := range p.X {
		class := -1
		if p.Class != nil {
			class = p.Class[i]
		}
		points[class] = append(points[class], i)
	}
	return points
}

func (p *Scatter) name(class int) string {
	if class < 0 {
		return "no label"
	}
	return p.Classes[class]
}

// cutTo shortens a line to a width.
func cutTo(line string, style draw.TextStyle, room vg.Length) string {
	if style.Width(line) <= room {
		return line
	}
	letters := []rune(line)
	most := sort.Search(len(letters), func(n int) bool { return style.Width(string(letters[:n+1])+"…") > room })
	return string(letters[:most]) + "…"
}

// style is the colour and shape of a class, in a plot of the given number of points.
func (p *Scatter) style(class, points int) draw.GlyphStyle {
	radius := vg.Length(3.4)
	if points > 5000 {
		radius = 2
	}
	if class < 0 {
		return draw.GlyphStyle{Color: color.Gray{0xb0}, Radius: radius * 0.7, Shape: draw.CircleGlyph{}}
	}
	style := draw.GlyphStyle{Color: palette[class%len(palette)], Radius: radius}
	if p.named() {
		style.Shape = letters{p.Classes[class]}
		return style
	}
	style.Shape = markers[(class+class/len(palette))%len(markers)]
	return style
}

// named reports whether the names of the classes are short enough to be drawn as the points.
func (p *Scatter) named() bool {
	return len(p.Classes) > 0 && !slices.ContainsFunc(p.Classes,
		func(s string) bool { return s == "" || utf8.RuneCountInString(s) > 2 })
}

// Spread returns heights for points of one dimension: a band for each class, and within it the values of a
// low-discrepancy sequence, so that the picture is reproducible.
func Spread(class []int, n int) []float64 {
	const golden = 0.6180339887498949
	y := make([]float64, n)
	for i := range y {
		if class != nil {
			y[i] = float64(class[i])
		}
		y[i] += 0.7 * (math.Mod(float64(i)*golden, 1) - 0.5)
	}
	return y
}
