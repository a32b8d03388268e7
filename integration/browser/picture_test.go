package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// widths are those of the pictures, in pixels.
var widths = []int64{360, 1280, 1920}

// pictures are the states in the gallery, with a sentence about each.
var pictures = []struct{ name, about string }{
	{"waiting", "No model yet: the pipeline waits for labels"},
	{"states", "Pipelines that are halted, blocked, stale or wait come first; a fixed model is idle"},
	{"summary", "A healthy pipeline"},
	{"points", "The same rows under the previous and the live model, and what the window is made of"},
	{"many-classes", "A thousand classes, some with hostile names, in one output"},
	{"charts", "The newest two hours"},
	{"models", "Versions, two of them compared, and who did what"},
	{"dead-letters", "Dead letters of a halted pipeline"},
	{"replay-not-allowed", "With the printed permissions the daemon may not replay, and names what it lacks"},
	{"rollback", "What a rollback would do"},
	{"no-server", "The NATS server is gone"},
	{"log-in", "A daemon with a token or users asks for them"},
	{"read-only", "What a user sees while http.operate is false"},
	{"disconnected", "The daemon is gone: the last picture stays, with its age"},
}

// The bounds of a picture: the size of its palette, and its height in pixels.
const (
	maxColours = 16
	maxHeight  = 1400
)

// writePicture writes a screenshot with a palette, which a tenth of the bytes is enough for.
func writePicture(path string, data []byte) error {
	shot, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	counts := map[color.RGBA]int{}
	bounds := shot.Bounds()
	bounds.Max.Y = min(bounds.Max.Y, maxHeight)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(shot.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	order := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range order { // the most frequent ones that differ
		if len(palette) < maxColours && (len(palette) == 0 || distance(c, palette[palette.Index(c)].(color.RGBA)) > 700) {
			palette = append(palette, c)
		}
	}
	index := map[color.RGBA]uint8{}
	for c := range counts {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(f, out); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// distance is the squared distance of two colours.
func distance(a, b color.RGBA) int {
	r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + bl*bl
}

// TestGallery compares the page with the pictures, which it writes with the flag.
func TestGallery(t *testing.T) {
	const page = "../../docs/console/README.md"
	var b strings.Builder
	b.WriteString("# Pictures of the console\n\nEach state that [the console](../console.md) draws, light and dark, for " +
		"those who change the page or write\nabout it. `TestOperatorsSession` and `TestStates` take them with " +
		"`-screenshots`.\n")
	for _, p := range pictures {
		fmt.Fprintf(&b, "\n## %s\n\n| width | light | dark |\n|---|---|---|\n", p.about)
		for _, width := range widths {
			fmt.Fprintf(&b, "| %d |", width)
			for _, theme := range []string{"light", "dark"} {
				file := fmt.Sprintf("%s-%s-%d.png", p.name, theme, width)
				fmt.Fprintf(&b, " ![%s, %s, %d pixels](%s) |", p.about, theme, width, file)
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), file)); err != nil && *screenshots == "" {
					t.Error(err)
				}
			}
			b.WriteString("\n")
		}
	}
	if *screenshots != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, "README.md"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != b.String() {
		t.Errorf("%s is not that of the pictures (%v); run go test . -screenshots ../../docs/console", page, err)
	}
}
