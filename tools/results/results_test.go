package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
)

func TestSwaps(t *testing.T) {
	for _, c := range []struct {
		outputs []float64
		want    int
	}{
		{[]float64{1, 2, 3, 4}, 0},
		{[]float64{4, 3, 2, 1}, 0}, // the axis has no direction
		{[]float64{1, 3, 2, 4}, 1},
		{[]float64{4, 2, 3, 1}, 1},
		{[]float64{3, 4, 1, 2}, 2}, // 4 swaps in one direction, 2 in the other
		{[]float64{1, 1, 1}, 3},    // equal outputs have no order
	} {
		if got := swaps(c.outputs); got != c.want {
			t.Errorf("%v: %d swaps, want %d", c.outputs, got, c.want)
		}
	}
	for _, d := range []func() float64{
		func() float64 { c := cShape(); return c.X[0] - c.X[2*curveRows-2] },
		func() float64 { s := sShape(); return s.X[0] + s.X[2*curveRows-2] },
	} {
		if math.Abs(d()) > 1e-9 {
			t.Errorf("a curve is not as symmetric as its letter: %g", d())
		}
	}
	if s := sShape(); s.X[0] < 0.9 || s.X[1] < 0 {
		t.Errorf("an S starts at its upper right, not at (%g, %g)", s.X[0], s.X[1])
	}
}

// The counts of each dimension equal those computed for that dimension alone.
func TestWrongByDim(t *testing.T) {
	const n, width = 40, 6
	x, y := make([]float64, n*width), make([]int, n)
	for i := range x {
		x[i] = math.Round(3 * math.Sin(float64(7*i+i*i))) // with ties
	}
	for i := range y {
		y[i] = i * i % 3
	}
	alone := func(refs, queries []int, d int, same bool) (wrong int) {
		for _, q := range queries {
			best, nearest := math.Inf(1), -1
			for _, r := range refs {
				sum := 0.0
				for j := range d {
					sum += (x[q*width+j] - x[r*width+j]) * (x[q*width+j] - x[r*width+j])
				}
				if sum < best && !(same && r == q) {
					best, nearest = sum, r
				}
			}
			if y[nearest] != y[q] {
				wrong++
			}
		}
		return wrong
	}
	var first, second, all []int
	for i := range n {
		all = append(all, i)
		if i < n/2 {
			first = append(first, i)
		} else {
			second = append(second, i)
		}
	}
	got := wrongByDim(x[:n/2*width], y[:n/2], x[n/2*width:], y[n/2:], width)
	left := wrongLeftOut(x, y, width)
	for d := 1; d <= width; d++ {
		if want := alone(first, second, d, false); got[d-1] != want {
			t.Errorf("d = %d: %d wrong, want %d", d, got[d-1], want)
		}
		if want := alone(all, all, d, true); left[d-1] != want {
			t.Errorf("d = %d, leave-one-out: %d wrong, want %d", d, left[d-1], want)
		}
	}
	if least([]int{5, 3, 4, 3}) != 1 {
		t.Error("the best dimension is not the lowest of equals")
	}
}

func TestProductAndFold(t *testing.T) {
	all := product("a=1,2", "b=x,y")
	if len(all) != 4 || all[1]["a"] != "1" || all[1]["b"] != "y" || len(product()) != 1 {
		t.Errorf("combinations %v", all)
	}
	y := []int{0, 0, 0, 0, 1, 1, 1, 1, 0}
	held := []int{}
	for f := range 4 {
		in, out := fold(y, 4, f)
		held = append(held, out...)
		if len(in)+len(out) != len(y) {
			t.Errorf("fold %d: %v and %v", f, in, out)
		}
	}
	slices.Sort(held)
	if !slices.Equal(held, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("held out %v: each row once", held)
	}
}

func TestThreshold(t *testing.T) {
	if got := threshold([]float64{1, 2, 3, 9}, 1, []int{0, 0, 1, 1}); got != 1 {
		t.Errorf("classes apart: %g", got)
	}
	if got := threshold([]float64{3, 2, 1, 9}, 1, []int{0, 1, 1, 0}); got != 1 {
		t.Errorf("the other way round: %g", got)
	}
	if got := threshold([]float64{1, 2, 3, 4}, 1, []int{0, 1, 0, 1}); got != 0.75 {
		t.Errorf("mixed: %g", got)
	}
}

// The sheet explains itself, also rotated and stretched, and noise does not.
func TestExplained(t *testing.T) {
	_, place := roll(200, 1)
	turned := make([]float64, len(place))
	for i := 0; i < len(place); i += 2 {
		turned[i], turned[i+1] = place[i]-2*place[i+1]+5, 3*place[i]+place[i+1]
	}
	if share, err := explained(turned, 2, place); err != nil || math.Abs(share-1) > 1e-9 {
		t.Errorf("turned: %g, %v", share, err)
	}
	_, other := roll(200, 2)
	if share, err := explained(other, 2, place); err != nil || share > 0.1 {
		t.Errorf("another roll: %g, %v", share, err)
	}
}

// A table replaces the one with its header, in its section; text and other tables are unchanged.
func TestWithTables(t *testing.T) {
	page := "# Page\n\n## A\n\n| a |\n|---|\n| 0 |\n\n## B\n\nText.\n\n| a | b |\n|---|---|\n| paper | 0 |\n\n" +
		"| a |\n|---|\n| 1 |\n" +
		"\n| a |\n|---|\n| 2 |\n\nMore.\n"
	want := strings.Replace(strings.Replace(page, "| 1 |", "| 3 |", 1), "| 2 |", "| 4 |", 1)
	tables := "\n| a |\n|---|\n| 3 |\n\n| a |\n|---|\n| 4 |\n"
	if got, err := withTables(page, "B", tables); err != nil || got != want {
		t.Errorf("%v, the page is\n%s", err, got)
	}
	for title, want := range map[string]string{"C": `there is no section "C"`,
		"A": `section "A" has no further table with the header | a |`} {
		if _, err := withTables(page, title, tables); err == nil || err.Error() != want {
			t.Errorf("section %s: %v", title, err)
		}
	}
}

// textOf returns the text of a section of the page.
func textOf(t *testing.T, title string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/evidence/results.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _, err := sectionOf(string(page), title)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The command of a row prints what the page shows. Without EMBEDD_SOAK these are rows that take under a second; with
// it, twenty rows drawn from all tables whose data are there (EMBEDD_DATA is the folder of those that are not shipped).
func TestRowsPrintWhatThePageShows(t *testing.T) {
	type key struct{ section, cell string }
	keys := []key{{"dawge", "wine"}, {"halves", "sle"}}
	if testsize.Soak() {
		keys = nil
		for _, s := range sections {
			if s.varies {
				continue
			}
			for _, cell := range cellsOf(textOf(t, s.title)) {
				keys = append(keys, key{s.name, cell})
			}
		}
		rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)).Shuffle(len(keys), func(i, j int) {
			keys[i], keys[j] = keys[j], keys[i]
		})
		keys = keys[:min(20, len(keys))]
	}
	for _, k := range keys {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == k.section })
		want := rowsOf(textOf(t, sections[i].title), k.cell)
		b := &bench{data: os.Getenv("EMBEDD_DATA"), repeats: usualRepeats, row: k.cell,
			separateRows: sections[i].separateRows()}
		if missing := b.missing(sections[i].data); missing != "" {
			t.Logf("%s, %s: %s is missing", k.section, k.cell, missing)
			continue
		}
		var text bytes.Buffer
		if err := sections[i].run(t.Context(), b, &text); err != nil {
			t.Errorf("%s, %s: %v", k.section, k.cell, err)
			continue
		}
		if got := rowsOf(text.String(), k.cell); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s, %s: the page has\n%s\nthe command prints\n%s", k.section, k.cell, strings.Join(want, "\n"),
				strings.Join(got, "\n"))
		}
	}
}

// cellsOf returns the first cells of the rows of tables.
func cellsOf(text string) (cells []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
			continue // the header
		}
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| ") &&
			cell != "mean" && cell != "" {
			cells = append(cells, cell)
		}
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// With the defaults each output of the methods that embed rows shows most rows of each set that is shipped, or the
// report says that it does not. With heat weights, le shows outliers in place of most rows on many sets. With
// EMBEDD_SOAK it takes every set there is (EMBEDD_DATA is the folder of those that are not shipped), and lenews on all.
func TestOutputsShowMostRows(t *testing.T) {
	const slow = 300 // rows that lenews needs seconds for
	narrow := 0
	for _, name := range spreadSets {
		folder, long := "", testsize.Soak()
		if long {
			folder = os.Getenv("EMBEDD_DATA")
		}
		if _, found := fileOf(folder, name); !found {
			continue // usps and waveform are not shipped
		}
		d, err := readData(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		if d.N > 600 && !testsize.Long() {
			continue
		}
		for _, c := range []fit.Config{{Method: "le"}, {Method: "tsimr"}, {Method: "mp-tsimr"}, {Method: "lenews"},
			{Method: "le", Params: map[string]string{"t": "auto"}}} {
			if c.Method == "lenews" && d.N > slow && !long {
				continue
			}
			c.Dim = 2
			m, err := fit.Fit(t.Context(), d, c)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, c.Method, err)
			}
			shares, noted, err := covered(t.Context(), m, d)
			if err != nil {
				t.Fatal(err)
			}
			least := slices.Min(shares)
			if !(least >= 0.05) && !noted {
				t.Errorf("%s, %s %v: interquartile ranges %.3f of the largest value, notes %q", name, c.Method, c.Params, shares,
					m.Report().Notes)
			}
			if c.Method != "le" {
				continue
			}
			if least < 0.05 && c.Params != nil {
				narrow++
			}
			if !(least >= 0.05) && c.Params == nil {
				t.Errorf("%s, le: interquartile ranges %.3f of the largest value", name, shares)
			}
		}
	}
	if narrow < testsize.Of(3, 4) {
		t.Errorf("t=auto has narrow outputs on %d sets: a fit that ignores t would pass", narrow)
	}
}

// One split has a mean and no deviation.
func TestChoiceOfOneSplit(t *testing.T) {
	c := &autoResult{set: "some", splits: 1, raw: 90, found: map[string][]float64{}, slower: [2]float64{1.5, 3}}
	for _, way := range ways {
		for _, judge := range judges {
			c.found[way.name+judge] = []float64{95}
		}
	}
	var out bytes.Buffer
	writeChoice(&out, []*autoResult{c})
	want := "| some | 1 | 90.0 | 95.0 | - | 95.0 | - | 95.0 | - | +0.0 | 1.5 | 3.0 |\n"
	if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "NaN") {
		t.Errorf("want %s, got\n%s", want, got)
	}
}

// Each section is on the page, and the table of exhibits names sections that exist.
func TestPageNamesSections(t *testing.T) {
	for _, s := range sections {
		if text := textOf(t, s.title); !strings.Contains(text, " -only "+s.name+"`") {
			t.Errorf("section %q does not have its command", s.title)
		}
	}
	page, err := os.ReadFile("../../docs/evidence/results.md")
	if err != nil {
		t.Fatal(err)
	}
	_, exhibits, _ := strings.Cut(string(page), "| what | here | section |\n|---|---|---|---|---|\n")
	exhibits, _, _ = strings.Cut(exhibits, "\n\n")
	rows := strings.Split(exhibits, "\n")
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		for name := range strings.SplitSeq(cells[len(cells)-1], ", ") {
			if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
				t.Errorf("%s: no section %q", row, name)
			}
		}
	}
	if len(rows) < 10 {
		t.Errorf("%d exhibits", len(rows))
	}
}
