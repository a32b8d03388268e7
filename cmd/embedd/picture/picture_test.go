package picture

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"gonum.org/v1/plot/vg/draw"
)

// clusters returns n points of each class, around positions on a circle.
func clusters(classes []string, n int) *Scatter {
	p := &Scatter{Title: "clusters", Subtitle: "on a circle", XLabel: "embedding_0", YLabel: "embedding_1",
		Classes: classes}
	for c := range classes {
		angle := 2 * math.Pi * float64(c) / float64(len(classes))
		for i := range n {
			r := 0.3 * math.Sqrt(float64(i)/float64(n))
			turn := 2.399963 * float64(i)
			p.X = append(p.X, math.Cos(angle)+r*math.Cos(turn))
			p.Y = append(p.Y, math.Sin(angle)+r*math.Sin(turn))
			p.Class = append(p.Class, c)
		}
	}
	return p
}

func save(p *Scatter, path string) error {
	drawn, err := p.Render(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := drawn.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// Each class has its colour, in the points and in the legend.
func TestPictureColours(t *testing.T) {
	digits := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	words := []string{"setosa", "versicolor", "virginica"}
	for name, classes := range map[string][]string{"digits": digits, "words": words} {
		path := filepath.Join(t.TempDir(), name+".png")
		if err := save(clusters(classes, 60), path); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		size := img.Bounds().Size()
		if size.X < 1000 || size.Y < 800 {
			t.Errorf("%s: %v pixels, want at least 1000 x 800", name, size)
		}
		for c := range classes {
			want := palette[c]
			chart, legend := 0, 0
			for y := range size.Y {
				for x := range size.X {
					r, g, b, _ := img.At(x, y).RGBA()
					if uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
						if x > size.X*84/100 {
							legend++
						} else {
							chart++
						}
					}
				}
			}
			if chart < 100 || legend < 10 {
				t.Errorf("%s: class %s has %d pixels in the chart and %d in the legend", name, classes[c],
					chart, legend)
			}
		}
	}
}

func TestPictureFormats(t *testing.T) {
	p := clusters([]string{"a", "b"}, 5)
	svg := filepath.Join(t.TempDir(), "p.svg")
	if err := save(p, svg); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(svg)
	if err != nil || !bytes.Contains(raw, []byte("<svg")) || !bytes.Contains(raw, []byte("clusters")) {
		t.Errorf("no SVG with the title: %v", err)
	}
	if err := save(p, "p.jpeg"); err == nil {
		t.Error("a .jpeg was accepted")
	}
	if err := save((&Scatter{}), svg); err == nil {
		t.Error("a picture without points was drawn")
	}
	p.X[0] = math.NaN()
	if err := save(p, svg); err == nil {
		t.Error("a point at NaN was drawn")
	}
}

// With three hundred classes the legend names the ten largest, in the order of classes, and counts the others.
func TestPictureOfManyClasses(t *testing.T) {
	var classes []string
	for c := range 300 {
		classes = append(classes, fmt.Sprintf("class %03d", c))
	}
	p := clusters(classes, 2)
	for c := range 10 { // every thirtieth has more points
		for range 3 + c {
			p.X, p.Y, p.Class = append(p.X, 0), append(p.Y, 0), append(p.Class, 30*c+7)
		}
	}
	svg := filepath.Join(t.TempDir(), "p.svg")
	if err := save(p, svg); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, found := range regexp.MustCompile(`>(class \d+|and \d+ more)<`).FindAllStringSubmatch(string(raw), -1) {
		named = append(named, found[1])
	}
	var want []string
	for c := range 10 {
		want = append(want, classes[30*c+7])
	}
	if want = append(want, "and 290 more"); !slices.Equal(named, want) {
		t.Errorf("the legend is %q, want %q", named, want)
	}
}

// A name in the legend is truncated to the available width.
func TestLegendNamesFit(t *testing.T) {
	style := words(12, draw.XLeft, draw.YCenter)
	const room = 79
	for _, name := range []string{"setosa", "breast carcinoma", "WWWWWWWWWWWWWWWW", "iiiiiiiiiiiiiiii", "乳がんの組織の標本と検査"} {
		got := cutTo(name, style, room)
		if style.Width(got) > room || got != name && style.Width(name) <= room || len(got) < 4 {
			t.Errorf("%q is %q, %v wide", name, got, style.Width(got))
		}
	}
}
