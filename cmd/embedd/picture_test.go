package main

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

// clusters are n points a class around places on a circle.
func clusters(classes []string, n int) *picture {
	p := &picture{title: "clusters", subtitle: "on a circle", xLabel: "embedding_0", yLabel: "embedding_1",
		classes: classes}
	for c := range classes {
		angle := 2 * math.Pi * float64(c) / float64(len(classes))
		for i := range n {
			r := 0.3 * math.Sqrt(float64(i)/float64(n))
			turn := 2.399963 * float64(i)
			p.x = append(p.x, math.Cos(angle)+r*math.Cos(turn))
			p.y = append(p.y, math.Sin(angle)+r*math.Sin(turn))
			p.class = append(p.class, c)
		}
	}
	return p
}

// Each class shows in its own colour, in the points and in the legend.
func TestPictureColours(t *testing.T) {
	digits := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	words := []string{"setosa", "versicolor", "virginica"}
	for name, classes := range map[string][]string{"digits": digits, "words": words} {
		path := filepath.Join(t.TempDir(), name+".png")
		if err := clusters(classes, 60).save(&env{}, path); err != nil {
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
	if err := p.save(&env{}, svg); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(svg)
	if err != nil || !bytes.Contains(raw, []byte("<svg")) || !bytes.Contains(raw, []byte("clusters")) {
		t.Errorf("no SVG with the title: %v", err)
	}
	if err := p.save(&env{}, "p.jpeg"); err == nil {
		t.Error("a .jpeg was accepted")
	}
	if err := (&picture{}).save(&env{}, svg); err == nil {
		t.Error("a picture without points was drawn")
	}
	p.x[0] = math.NaN()
	if err := p.save(&env{}, svg); err == nil {
		t.Error("a point at NaN was drawn")
	}
}

// Three hundred classes: the legend names the ten largest, in the order of classes, and counts the others.
func TestPictureOfManyClasses(t *testing.T) {
	var classes []string
	for c := range 300 {
		classes = append(classes, fmt.Sprintf("class %03d", c))
	}
	p := clusters(classes, 2)
	for c := range 10 { // every thirtieth has more points
		for range 3 + c {
			p.x, p.y, p.class = append(p.x, 0), append(p.y, 0), append(p.class, 30*c+7)
		}
	}
	svg := filepath.Join(t.TempDir(), "p.svg")
	if err := p.save(&env{}, svg); err != nil {
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

// A name in the legend is as long as there is room for.
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
