package main

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

// picture is a scatter of labelled points in the plane. A class differs from the others by its colour and by what its
// points are drawn as: its name where that is one or two letters, such as a digit, else a marker.
type picture struct {
	title    string
	subtitle string
	xLabel   string
	yLabel   string // none: heights carry no quantity
	x, y     []float64
	class    []int // index into classes, -1 for none
	classes  []string
}

const (
	pictureWidth   = 10 * vg.Inch
	pictureHeight  = 8 * vg.Inch
	pictureDPI     = 144
	legendWidth    = 1.6 * vg.Inch
	legendClasses  = 40 // more do not fit: then it names the largest
	largestClasses = 10
)

// palette holds colours that stay apart on white and, the first eight, for colour-blind eyes too. After the last class
// that has a colour of its own they repeat with another marker.
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

// letters draws each point as a short text.
type letters struct{ text string }

func (l letters) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	size := 2.8 * style.Radius
	bold := face(size, font.WeightBold)
	c.SetColor(style.Color)
	c.FillString(bold, vg.Point{X: at.X - bold.Width(l.text)/2, Y: at.Y - 0.35*size}, l.text)
}

// save writes the picture; the suffix of path, .png or .svg, chooses the format, and "-" is PNG on standard output.
func (p *picture) save(e *env, path string) error {
	canvas, err := newCanvas(path)
	if err != nil {
		return err
	}
	if err := p.draw(draw.New(canvas)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeOut(e, path, func(out io.Writer) error {
		_, err := canvas.WriteTo(out)
		return err
	})
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
	return nil, usagef("%s: a picture's name ends in .png or .svg", path)
}

func (p *picture) draw(c draw.Canvas) error {
	if len(p.x) == 0 {
		return fmt.Errorf("there is no point to draw")
	}
	x, err := newAxis(p.xLabel, p.x)
	if err != nil {
		return err
	}
	y, err := newAxis(p.yLabel, p.y)
	if err != nil {
		return err
	}
	ground := chart{title: strings.TrimSuffix(p.title+"\n"+p.subtitle, "\n"), x: x, y: y}
	const margin = 10
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	ground.frame(draw.Crop(c, margin, -legendWidth, margin, -margin))
	points := p.byClass()
	for _, class := range p.order() {
		style := p.style(class, len(p.x))
		for _, i := range points[class] {
			c.DrawGlyphNoClip(style, ground.at(p.x[i], p.y[i]))
		}
	}
	p.legend(draw.Crop(c, c.Size().X-legendWidth+8, -4, margin, -48), points)
	return nil
}

// legend names the classes from the top down: all, or where that are more than fit, the largest.
func (p *picture) legend(c draw.Canvas, points map[int][]int) {
	named := p.inLegend(points)
	shown := slices.DeleteFunc(p.order(), func(class int) bool {
		return len(points[class]) == 0 || class >= 0 && !named[class]
	})
	style := words(12, draw.XLeft, draw.YCenter)
	line := min(16, c.Size().Y/vg.Length(len(shown)+1))
	at := vg.Point{X: c.Min.X + 10, Y: c.Max.Y - line/2}
	room := c.Max.X - at.X - 14
	for _, class := range shown {
		glyph := p.style(class, len(p.x))
		glyph.Radius = 5
		c.DrawGlyphNoClip(glyph, at)
		fillLevel(c, style, vg.Point{X: at.X + 14, Y: at.Y}, cutTo(p.name(class), style, room))
		at.Y -= line
	}
	if more := len(p.classes) - len(named); more > 0 {
		fillLevel(c, style, vg.Point{X: at.X + 14, Y: at.Y}, fmt.Sprintf("and %d more", more))
	}
}

// inLegend is the classes that the legend names.
func (p *picture) inLegend(points map[int][]int) map[int]bool {
	largest := make([]int, len(p.classes))
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

// order draws the points without a class first, so that they lie under the others.
func (p *picture) order() []int {
	order := []int{-1}
	for i := range p.classes {
		order = append(order, i)
	}
	return order
}

// byClass is the numbers of the points of each class, -1 for none.
func (p *picture) byClass() map[int][]int {
	points := map[int][]int{}
	for i := range p.x {
		class := -1
		if p.class != nil {
			class = p.class[i]
		}
		points[class] = append(points[class], i)
	}
	return points
}

func (p *picture) name(class int) string {
	if class < 0 {
		return "no label"
	}
	return p.classes[class]
}

// cutTo cuts the end of a line that is wider than the room it has.
func cutTo(line string, style draw.TextStyle, room vg.Length) string {
	if style.Width(line) <= room {
		return line
	}
	letters := []rune(line)
	most := sort.Search(len(letters), func(n int) bool { return style.Width(string(letters[:n+1])+"…") > room })
	return string(letters[:most]) + "…"
}

// style is the colour and shape of a class among so many points.
func (p *picture) style(class, points int) draw.GlyphStyle {
	radius := vg.Length(3.4)
	if points > 5000 {
		radius = 2
	}
	if class < 0 {
		return draw.GlyphStyle{Color: color.Gray{0xb0}, Radius: radius * 0.7, Shape: draw.CircleGlyph{}}
	}
	style := draw.GlyphStyle{Color: palette[class%len(palette)], Radius: radius}
	if p.named() {
		style.Shape = letters{p.classes[class]}
		return style
	}
	style.Shape = markers[(class+class/len(palette))%len(markers)]
	return style
}

// named says that the classes' names are short enough to be the points.
func (p *picture) named() bool {
	return len(p.classes) > 0 && !slices.ContainsFunc(p.classes,
		func(s string) bool { return s == "" || utf8.RuneCountInString(s) > 2 })
}

// spread gives points of one dimension a height: a band for each class, and within it a place that a low-discrepancy
// sequence chooses, so that the picture is the same each time.
func spread(class []int, n int) []float64 {
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
